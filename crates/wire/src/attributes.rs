//! Query attributes: named values that come along with a statement (MySQL 8.0.23, [`crate::Capabilities::QUERY_ATTRIBUTES`]).
//!
//! Where both sides have the capability, each COM_QUERY begins with them, and each COM_STMT_EXECUTE of a statement with
//! parameters, or with the flag [`crate::PARAMETER_COUNT_AVAILABLE`], counts its values, names them, and may have more than
//! there are parameters.
//!
//! Source: `parse_query_bind_params` in MySQL `sql/protocol_classic.cc`.

use crate::codec::{put_lenenc_bytes, put_lenenc_int};
use crate::{Reader, WireError};

/// The bytes in front of the text of a COM_QUERY without attributes: none of them, in one set.
pub const NO_QUERY_ATTRIBUTES: [u8; 2] = [0, 1];

/// The server takes no more values than this.
const MOST_VALUES: u64 = 65_535;

/// The attributes in front of the text of a COM_QUERY, and the text. `body` is what follows the command's byte.
///
/// The attributes are written anew from what was read, so that the server cannot find the text's beginning elsewhere;
/// `None` where there are none.
///
/// # Errors
///
/// A malformed packet, as the server calls it, is an error here: another number of sets than one, values without types, or too
/// little. So are values of types that clients have no use for, and lengths of which the server reads only the lower half.
pub fn split_query_attributes(body: &[u8]) -> Result<(Option<Vec<u8>>, &[u8]), WireError> {
    let mut reader = Reader::of("query attributes", body);
    let count = value_count(&mut reader)?;
    if reader.lenenc_int()? != 1 {
        return Err(WireError::Malformed { what: "number of sets of query attributes" });
    }
    if count == 0 {
        return Ok((None, reader.rest()));
    }
    let mut read = NamedValues::read(count, &mut reader)?;
    let Some(kinds) = read.types.take() else {
        return Err(WireError::Malformed { what: "query attributes without types" });
    };
    let mut attributes = Vec::with_capacity(body.len() - reader.remaining());
    put_lenenc_int(&mut attributes, count as u64);
    put_lenenc_int(&mut attributes, 1);
    attributes.extend_from_slice(read.nulls);
    attributes.push(1); // types follow
    for (kind, name) in kinds.chunks_exact(2).zip(&read.names) {
        attributes.extend_from_slice(kind);
        put_lenenc_bytes(&mut attributes, name);
    }
    for (place, kind) in kinds.chunks_exact(2).enumerate() {
        if read.nulls[place / 8] & (1 << (place % 8)) == 0 {
            put_value([kind[0], kind[1]], &mut reader, &mut attributes)?;
        }
    }
    Ok((Some(attributes), reader.rest()))
}

/// The values of a COM_STMT_EXECUTE between sides that have the capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedValues<'a> {
    /// How many there are: the statement's parameters, and attributes behind them.
    pub count: usize,
    /// A bit for each that is NULL.
    pub nulls: &'a [u8],
    /// Two bytes for each, where they are said.
    pub types: Option<Vec<u8>>,
    /// Their names, where types are said.
    names: Vec<&'a [u8]>,
    /// The values, one after the other.
    pub values: &'a [u8],
}

impl<'a> NamedValues<'a> {
    /// Reads what follows the iteration count. The values themselves are not looked at.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::of("values of an execution", body);
        let count = value_count(&mut reader)?;
        if count == 0 {
            return Ok(Self { count, nulls: &[], types: None, names: Vec::new(), values: reader.rest() });
        }
        let mut read = Self::read(count, &mut reader)?;
        read.values = reader.rest();
        Ok(read)
    }

    /// Says whether any attribute has a name.
    pub fn are_named(&self) -> bool {
        self.names.iter().any(|name| !name.is_empty())
    }

    /// Reads the part between the count and the values.
    fn read(count: usize, reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let nulls = reader.bytes(count.div_ceil(8))?;
        let (mut types, mut names) = (None, Vec::new());
        if reader.u8()? != 0 {
            let mut said = Vec::with_capacity(2 * count.min(reader.remaining()));
            for _ in 0..count {
                said.extend_from_slice(reader.bytes(2)?);
                names.push(reader.lenenc_bytes()?);
            }
            types = Some(said);
        }
        Ok(Self { count, nulls, types, names, values: &[] })
    }
}

/// Appends what follows the iteration count of a COM_STMT_EXECUTE for a server with the capability, from what follows it
/// for one without: the values are counted, and have empty names.
pub fn put_named_values(out: &mut Vec<u8>, parameters: usize, plain: &[u8]) {
    put_lenenc_int(out, parameters as u64);
    let bound = parameters.div_ceil(8) + 1;
    let says_types = plain.get(bound - 1).is_some_and(|&says| says != 0);
    let types = plain.get(bound..bound + 2 * parameters).filter(|_| says_types);
    let Some(types) = types else {
        // None are said. Where too little is there for them, too little is there for the server, too.
        return out.extend_from_slice(plain);
    };
    out.extend_from_slice(&plain[..bound]);
    for kind in types.chunks_exact(2) {
        out.extend_from_slice(kind);
        put_lenenc_bytes(out, b"");
    }
    out.extend_from_slice(&plain[bound + 2 * parameters..]);
}

fn value_count(reader: &mut Reader<'_>) -> Result<usize, WireError> {
    match reader.lenenc_int()? {
        #[expect(clippy::cast_possible_truncation, reason = "at most 65,535")]
        count @ 0..=MOST_VALUES => Ok(count as usize),
        _ => Err(WireError::Malformed { what: "number of values" }),
    }
}

/// Takes over a value (`get_ps_param_len`): of a fixed length by its type, or behind its length.
fn put_value(kind: [u8; 2], reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), WireError> {
    const UNKNOWN: WireError = WireError::Malformed { what: "type of a query attribute" };
    // A type has 15 bits for the server, and the highest says that it is unsigned.
    if kind[1] & 0x7f != 0 {
        return Err(UNKNOWN);
    }
    let length = match kind[0] {
        1 => 1,     // TINY
        2 => 2,     // SHORT
        3 | 4 => 4, // LONG, FLOAT
        5 | 8 => 8, // DOUBLE, LONGLONG
        // DECIMAL, TIMESTAMP, DATE, TIME, DATETIME, VARCHAR, BIT, and from JSON to GEOMETRY all that are strings
        0 | 7 | 10..=12 | 15 | 16 | 245..=255 => {
            let Ok(length) = u32::try_from(reader.lenenc_int()?) else {
                return Err(WireError::Malformed { what: "length of a query attribute" });
            };
            // A string that is cut off ends with its packet.
            let length = usize::try_from(length).unwrap_or(usize::MAX).min(reader.remaining());
            put_lenenc_bytes(out, reader.bytes(length)?);
            return Ok(());
        }
        // The server reads a length and a value of others, of NULL too.
        _ => return Err(UNKNOWN),
    };
    out.extend_from_slice(reader.bytes(length)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attribute `n` of 5 (TINY), one without a value, and `ab` (STRING) without a name.
    const ATTRIBUTES: &[u8] = b"\x03\x01\x02\x01\x01\x00\x01n\xfe\x00\x01o\xfe\x00\x00\x05\x02ab";

    #[test]
    fn attributes_and_text_come_apart() {
        let text = b"SELECT 1";
        let body = [ATTRIBUTES, text].concat();
        assert_eq!(split_query_attributes(&body), Ok((Some(ATTRIBUTES.to_vec()), &text[..])));
        assert_eq!(split_query_attributes(b"\x00\x01SELECT 1"), Ok((None, &text[..])));
        assert_eq!(split_query_attributes(b"\x00\x01"), Ok((None, &b""[..])));
        let strings_length = ATTRIBUTES.len() - 3;
        for cut in 0..=strings_length {
            assert!(split_query_attributes(&ATTRIBUTES[..cut]).is_err(), "{cut}");
        }
        let cut = [&ATTRIBUTES[..strings_length], b"\x01a"].concat();
        let read = split_query_attributes(&ATTRIBUTES[..strings_length + 2]);
        assert_eq!(read, Ok((Some(cut), &b""[..])), "a string that is cut off");
        for wrong in [&b"\x00\x02SELECT 1"[..], b"\x01\x01\x00\x00SELECT 1", b"\xfd\x00\x00\x01\x01SELECT 1"]
        {
            assert!(split_query_attributes(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn attributes_are_written_in_one_way() {
        let text = b"SELECT 1";
        let longer = b"\xfc\x01\x00\xfd\x01\x00\x00\x00\x05\xfd\x80\xfc\x01\x00n\xfe\x02\0\0\0\0\0\0\0ab";
        let short = b"\x01\x01\x00\x01\xfd\x80\x01n\x02ab";
        assert_eq!(
            split_query_attributes(&[&longer[..], text].concat()),
            Ok((Some(short.to_vec()), &text[..]))
        );
        assert_eq!(
            split_query_attributes(&[&short[..], text].concat()),
            Ok((Some(short.to_vec()), &text[..]))
        );
        for wrong in [
            &b"\x01\x01\x00\x01\x06\x00\x01n"[..], // NULL without its bit
            b"\x01\x01\x00\x01\x09\x00\x01n",      // INT24
            b"\x01\x01\x00\x01\x01\x01\x01n",      // type 257
            b"\x01\x01\x00\x01\xfe\x00\x01n\xfe\x03\0\0\0\x01\0\0\0abc", // of 2^32 + 3 bytes
        ] {
            assert!(split_query_attributes(&[wrong, text].concat()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn values_are_counted_and_named() {
        let plain = b"\x00\x01\x03\x00\xfe\x00\x07\x00\x00\x00\x02ab";
        let mut named = Vec::new();
        put_named_values(&mut named, 2, plain);
        assert_eq!(named, b"\x02\x00\x01\x03\x00\x00\xfe\x00\x00\x07\x00\x00\x00\x02ab");
        let read = NamedValues::parse(&named).unwrap();
        assert_eq!((read.count, read.nulls, read.are_named()), (2, &b"\x00"[..], false));
        assert_eq!(read.types.as_deref(), Some(&b"\x03\x00\xfe\x00"[..]));
        assert_eq!(read.values, b"\x07\x00\x00\x00\x02ab");
        let known = b"\x00\x00\x07\x00\x00\x00";
        named.clear();
        put_named_values(&mut named, 1, known);
        assert_eq!(named, b"\x01\x00\x00\x07\x00\x00\x00");
        assert_eq!(NamedValues::parse(&named).unwrap().types, None);
        assert_eq!(NamedValues::parse(b"\x00").unwrap().count, 0);
        for short in [&b""[..], b"\x00", b"\x00\x01\x03"] {
            named.clear();
            put_named_values(&mut named, 1, short);
            assert!(NamedValues::parse(&named).is_err(), "{short:?}");
        }
    }
}
