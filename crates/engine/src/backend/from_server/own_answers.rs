//! Answers to questions of our own, kept whole: their packets and rows.

use wire::Capabilities;

/// The fields of a row; `None` stands for NULL.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// Returns the first field of the first row of a kept answer.
pub(crate) fn first_field(kept: &[u8]) -> Option<Vec<u8>> {
    rows_of(kept).first()?.first()?.clone()
}

/// Reads a field that is a number.
pub(crate) fn number(field: Option<&Option<Vec<u8>>>) -> Option<u64> {
    std::str::from_utf8(field?.as_deref()?).ok()?.parse().ok()
}

/// Returns the sum of the `wanted` counters in an answer to SHOW STATUS, as a number in digits; `None` where there are none.
pub(crate) fn sum_of_counters(rows: &[Row], wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let mut sum: Option<u64> = None;
    for row in rows {
        let [Some(name), Some(value)] = row.as_slice() else { return None };
        if wanted(name) {
            let value: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
            sum = Some(sum.unwrap_or_default().wrapping_add(value));
        }
    }
    sum.map(|sum| sum.to_string().into_bytes())
}

/// Returns the only field of an answer of one row and column, as its client reads it; `None` where the answer is another.
pub(crate) fn only_field(answer: &[u8], capabilities: Capabilities) -> Option<Option<Vec<u8>>> {
    let mut packets = Packets(answer);
    let mut head = packets.next()?;
    if capabilities.contains(Capabilities::CACHE_METADATA) {
        head = head.strip_suffix(&[wire::DEFINITIONS_FOLLOW])?;
    }
    if wire::parse_column_count(head).ok()? != 1 {
        return None;
    }
    let row = packets.nth(if capabilities.contains(Capabilities::DEPRECATE_EOF) { 1 } else { 2 })?;
    let fields = wire::parse_text_row(row).ok()?;
    fields.first().map(|field| field.map(<[u8]>::to_vec))
}

/// Returns the rows of a kept answer (with the short ends of result sets). Empty where it is no result set.
pub(crate) fn rows_of(kept: &[u8]) -> Vec<Row> {
    each_row_of(kept).collect()
}

/// Returns the rows of a kept answer one after the other.
pub(crate) fn each_row_of(kept: &[u8]) -> impl Iterator<Item = Row> {
    let mut packets = Packets(kept);
    let columns = packets.next().and_then(|payload| wire::parse_column_count(payload).ok()).unwrap_or(0);
    let behind_columns = packets.skip(usize::try_from(columns).unwrap_or(usize::MAX));
    let is_end = |payload: &[u8]| payload.first() == Some(&0xfe) && payload.len() < wire::MAX_PAYLOAD;
    behind_columns.take_while(move |payload| !is_end(payload)).map_while(|payload| {
        let fields = wire::parse_text_row(payload).ok()?;
        Some(fields.into_iter().map(|field| field.map(<[u8]>::to_vec)).collect())
    })
}

/// A kept answer by the names of its columns.
pub(crate) struct Named {
    columns: Vec<Vec<u8>>,
    rows: Vec<Row>,
}

impl Named {
    pub(crate) fn of(kept: &[u8]) -> Self {
        let mut packets = Packets(kept);
        let columns = packets.next().and_then(|payload| wire::parse_column_count(payload).ok()).unwrap_or(0);
        let definitions = packets.take(usize::try_from(columns).unwrap_or(usize::MAX));
        let name = |payload| wire::parse_column_definition(payload).map(|column| column.name.to_vec());
        let columns = definitions.map_while(|payload| name(payload).ok()).collect();
        Self { columns, rows: rows_of(kept) }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = NamedRow<'_>> {
        self.rows.iter().map(|fields| NamedRow { columns: &self.columns, fields })
    }
}

/// A row of a kept answer, with the names of its columns.
#[derive(Clone, Copy)]
pub(crate) struct NamedRow<'a> {
    columns: &'a [Vec<u8>],
    fields: &'a Row,
}

impl NamedRow<'_> {
    /// Returns the field of this name, whatever its case. A field that is NULL or not there is empty.
    pub(crate) fn text(self, name: &str) -> String {
        let place = self.columns.iter().position(|own| own.eq_ignore_ascii_case(name.as_bytes()));
        let field = place.and_then(|place| self.fields.get(place)?.as_deref());
        String::from_utf8_lossy(field.unwrap_or_default()).into_owned()
    }
}

/// The payloads of packets that are all there.
struct Packets<'a>(&'a [u8]);

impl<'a> Iterator for Packets<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let packet = first_packet(self.0)?;
        self.0 = &self.0[packet.len()..];
        Some(&packet[wire::HEADER_LEN..])
    }
}

/// Returns the first packet of some bytes, with its header; `None` where it is not all there.
pub(crate) fn first_packet(bytes: &[u8]) -> Option<&[u8]> {
    let &[a, b, c, _] = bytes.first_chunk::<{ wire::HEADER_LEN }>()?;
    let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
    bytes.get(..wire::HEADER_LEN + length)
}
