//! What may differ between a connection of one's own and one through Onramp: a short list, each with its reason. How often
//! each was needed is counted, so that a line that is no longer needed is seen.

use std::collections::{BTreeMap, BTreeSet};

use wire::{Capabilities, StatusFlags, parse_column_definition, parse_text_row};

use crate::connection::{Packet, Reply, Role};
use crate::errors::{
    cells_name_statement, is_not_in_information_schema, names_statement, quotes_text,
    refused_before_its_values, tells_of_no_table,
};
use crate::flags::without_flags_of_sql_mode;
use crate::step::{Step, escape};

/// Why two packets may differ. The entries named are those of docs/DIFFERENCES.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// Each greeting gives its own id, and CONNECTION_ID() is that: entry "CONNECTION_ID()".
    OwnId,
    /// The server numbers prepared statements per connection; a client sends back what it was given.
    StatementId,
    /// Entry "Types and names of replaced calls".
    ReplacedByValue,
    /// Entry "Prepared statements that read ROW_COUNT(), FOUND_ROWS() ...": one that asks for a cursor gets its rows at once.
    RowsAtOnce,
    /// Entry "The collation number in column definitions of results".
    CollationOfConnection,
    /// Servers list variables in an order that hangs on addresses in memory, and announce changes in an EOF, which has no room for
    /// them.
    OrderOfChanges,
    /// Entry "Changes of a statement that fails after them".
    ChangesToldLater,
    /// Entry "The EOF packet between columns and rows (clients without CLIENT_DEPRECATE_EOF)".
    KnownAtTheEnd,
    /// Uptime and counters are the server's, not the client's.
    Statistics,
    /// Entry "The column length (MySQL: and type) of a user variable that was never set".
    NeverSet,
    /// COM_FIELD_LIST without a default schema: whether it is an error, MariaDB sees from the statement before
    /// (sql_lex.cc, copy_db_to: `with_cte_resolution`).
    FieldsOfNoSchema,
    /// Entry "Executions that fail (wrong values ...)".
    RefusedBeforeItsValues,
    /// Entry "The status flags for ANSI_QUOTES ...": whether they are as `sql_mode` is, is asked then, since they tell
    /// clients how to quote.
    FlagsOfSqlMode,
    /// The server counts in a login's answer what an earlier user of its thread left.
    WarningsOfLogin,
    /// MySQL has two errors for a table that is not in information_schema, and chooses by what its caches hold.
    WordsForNoTable,
    /// The entries about numbers of warnings, and the entry "SET SESSION TRANSACTION, and START TRANSACTION READ ONLY".
    OtherWarnings,
}

/// How often each reason was needed.
pub(crate) type Tally = BTreeMap<Reason, u64>;

/// What is known about the two connections of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) direct_id: u32,
    pub(crate) through_id: u32,
    pub(crate) capabilities: Capabilities,
}

/// Functions and variables that Onramp replaces by their value where the client has not its own backend.
const REPLACED: [&str; 7] = [
    "CONNECTION_ID()",
    "ROW_COUNT()",
    "FOUND_ROWS()",
    "@@WARNING_COUNT",
    "@@ERROR_COUNT",
    "COUNT(*) WARNINGS",
    "COUNT(*) ERRORS",
];

/// What belongs to the OUT parameters of a CALL.
const OF_PARAMETERS: StatusFlags =
    StatusFlags(StatusFlags::PS_OUT_PARAMS.0 | StatusFlags::MORE_RESULTS_EXISTS.0);

/// The first difference between the replies to a step that no reason explains, in words; the reasons used are counted.
pub(crate) fn unexplained(
    step: &Step,
    ends: Ends,
    direct: &[Reply],
    through: &[Reply],
    tally: &mut Tally,
) -> Option<String> {
    if let (Step::FieldList(..), [one], [two]) = (step, direct, through)
        && one != two
        && knows_no_schema(one)
        && knows_no_schema(two)
    {
        *tally.entry(Reason::FieldsOfNoSchema).or_default() += 1;
        return None;
    }
    for (number, (one, two)) in direct.iter().zip(through).enumerate() {
        for (place, pair) in one.packets.iter().zip(&two.packets).enumerate() {
            if pair.0 == pair.1 {
                continue;
            }
            match reason(step, ends, pair.0, pair.1) {
                Some(reason) => *tally.entry(reason).or_default() += 1,
                None => {
                    return Some(format!(
                        "reply {number}, packet {place}\n    direct:  {}\n    through: {}",
                        show(pair.0),
                        show(pair.1)
                    ));
                }
            }
        }
        if one.packets.len() != two.packets.len() || one.broken != two.broken {
            let end = |reply: &Reply| {
                let last = reply.packets.last().map_or_else(|| String::from("nothing"), show);
                let broken =
                    reply.broken.as_deref().map(|broken| format!(", then {broken}")).unwrap_or_default();
                format!("{} packets, at last {last}{broken}", reply.packets.len())
            };
            return Some(format!(
                "reply {number} ends\n    direct:  {}\n    through: {}",
                end(one),
                end(two)
            ));
        }
    }
    (direct.len() != through.len()).then(|| format!("{} and {} replies", direct.len(), through.len()))
}

fn reason(step: &Step, ends: Ends, direct: &Packet, through: &Packet) -> Option<Reason> {
    if direct.role != through.role || direct.sequence != through.sequence {
        return None;
    }
    let (one, two) = (&direct.payload[..], &through.payload[..]);
    match direct.role {
        Role::TextRow if own_ids(ends, one, two) => Some(Reason::OwnId),
        Role::TextRow if tells_of_no_table(one) && tells_of_no_table(two) => Some(Reason::WordsForNoTable),
        Role::TextRow => cells_name_statement(one, two).then_some(Reason::StatementId),
        Role::Prepared => (one[5..] == two[5..]).then_some(Reason::StatementId),
        Role::Column if ends.capabilities.contains(Capabilities::EXTENDED_METADATA) => {
            let (one, two) = (without_extension(one)?, without_extension(two)?);
            (one.1 == two.1).then(|| column(step, ends, &one.0, &two.0)).flatten()
        }
        Role::Column => column(step, ends, one, two),
        Role::Ok if *step == Step::Reconnect && of_login(one) == of_login(two) => {
            Some(Reason::WarningsOfLogin)
        }
        Role::Ok | Role::EndOfRows if counts_other_warnings(step, ends, one, two) => {
            Some(Reason::OtherWarnings)
        }
        Role::Ok | Role::EndOfRows | Role::EndOfColumns => {
            let (one, two) = (without_flags_of_sql_mode(one), without_flags_of_sql_mode(two));
            if one == two { Some(Reason::FlagsOfSqlMode) } else { end(step, ends, direct.role, &one, &two) }
        }
        Role::Text => (*step == Step::Statistics
            && [one, two].iter().all(|text| text.starts_with(b"Uptime: ")))
        .then_some(Reason::Statistics),
        Role::Err if says(step, &REPLACED) && quotes_text(one) && quotes_text(two) => {
            Some(Reason::ReplacedByValue)
        }
        Role::Err if refused_before_its_values(step, one, two) => Some(Reason::RefusedBeforeItsValues),
        Role::Err if is_not_in_information_schema(one) && is_not_in_information_schema(two) => {
            Some(Reason::WordsForNoTable)
        }
        Role::Err => names_statement(one, two).then_some(Reason::StatementId),
        Role::ColumnCount | Role::BinaryRow | Role::LocalInfile => None,
    }
}

/// The answer to COM_FIELD_LIST without a default schema: ER_NO_DB_ERROR, or OK.
fn knows_no_schema(reply: &Reply) -> bool {
    let [Packet { role, payload, .. }] = &reply.packets[..] else { return false };
    *role == Role::Ok || wire::ErrPacket::parse(payload).is_ok_and(|error| error.code == 1046)
}

/// Whether ends differ in nothing but their warnings: of the statement before, a replaced function, a level without snapshots, or
/// what is prepared again.
fn counts_other_warnings(step: &Step, ends: Ends, direct: &[u8], through: &[u8]) -> bool {
    let of_before = is_mysql(ends)
        && matches!(step, Step::Ping | Step::InitDb(_) | Step::SetOption(_) | Step::ResetStatement(_));
    let without = |payload: &[u8]| match *payload {
        // An EOF: the warnings come first, then the status.
        [0xfe, one, two, three, four] => Some((u16::from_le_bytes([one, two]), vec![three, four])),
        _ => {
            let mut ok = wire::OkPacket::parse(payload, true).ok()?;
            if tracks(ends) {
                ok.session_changes = &[];
                ok.status = ok.status.without(StatusFlags::SESSION_STATE_CHANGED);
            }
            let mut rest = Vec::new();
            wire::OkPacket { warnings: 0, ..ok }.put(&mut rest, true);
            Some((ok.warnings, rest))
        }
    };
    let (Some(one), Some(two)) = (without(direct), without(through)) else { return false };
    let more = says(step, &["CONSISTENT SNAPSHOT"]) || (one.0 > two.0 && says(step, &["FOUND_ROWS"]));
    // No statement with rows takes two values: what the second leaves of the first is no number.
    let no_number = is_mysql(ends) && direct[0] == 0xfe && [[1, 2], [2, 1]].contains(&[one.0, two.0]);
    let no_number = no_number && matches!(step, Step::Execute { values, .. } if values.len() == 2);
    // A bulk execution that the server prepares again by itself counts what it has warned of before.
    let again = !is_mysql(ends) && matches!(step, Step::Bulk { .. });
    one.1 == two.1 && one.0 != two.0 && (of_before || more || no_number || again)
}

fn own_ids(ends: Ends, direct: &[u8], through: &[u8]) -> bool {
    let (Ok(one), Ok(two)) = (parse_text_row(direct), parse_text_row(through)) else { return false };
    let (own_direct, own_through) = (ends.direct_id.to_string(), ends.through_id.to_string());
    let is_own = |direct: Option<&[u8]>, through: Option<&[u8]>| {
        direct == Some(own_direct.as_bytes()) && through == Some(own_through.as_bytes())
    };
    one.len() == two.len() && one.iter().zip(&two).all(|(one, two)| one == two || is_own(*one, *two))
}

/// A column definition without what MariaDB's extended metadata say in it, and that: a string between the names and the rest.
fn without_extension(definition: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    /// The catalog, the schema, two names of the table and two of the column.
    const NAMES: usize = 6;
    let mut reader = wire::Reader::of("column definition", definition);
    for _ in 0..NAMES {
        reader.lenenc_bytes().ok()?;
    }
    let names = definition.len() - reader.remaining();
    let extension = reader.lenenc_bytes().ok()?.to_vec();
    Some(([&definition[..names], reader.rest()].concat(), extension))
}

fn column(step: &Step, ends: Ends, direct: &[u8], through: &[u8]) -> Option<Reason> {
    let (one, two) = (parse_column_definition(direct).ok()?, parse_column_definition(through).ok()?);
    // The rows of a cursor come from a table without a name, whose columns have theirs from the statement.
    let of_cursor = matches!(step, Step::Execute { cursor: true, .. }) && one.original_name == one.name;
    let is_expression =
        one.table.is_empty() && (one.original_name.is_empty() || of_cursor) && two.table.is_empty();
    if is_expression && of_cursor && one.name == two.name {
        return Some(Reason::RowsAtOnce);
    }
    let names = |column: &wire::ColumnDefinition<'_>| {
        [column.schema, column.table, column.original_table, column.name, column.original_name]
            .map(<[u8]>::to_vec)
    };
    if names(&one) != names(&two) {
        return None;
    }
    let rest = |column: &wire::ColumnDefinition<'_>| {
        // BINARY_FLAG is about the collation.
        (column.length, column.kind, column.flags & !0x80, column.decimals)
    };
    let length_aside = |column: &wire::ColumnDefinition<'_>| (column.flags, column.decimals);
    // A LONG_BLOB, or what functions make of it, and what was made NULL again; or a SET of it was prepared, elsewhere.
    let null = [one.length, two.length] == [16_777_216, 16_777_215]
        && (one.kind == two.kind || [one.kind, two.kind] == [251, 250]);
    let prepared = [one.length, two.length] == [16_777_215, 16_777_216] && one.kind == two.kind;
    let of_null = null || prepared;
    // MySQL: VAR_STRING, what it makes of a LONG_BLOB, and LONGLONG and DOUBLE for sums.
    let of_mysql = is_mysql(ends)
        && says(step, &["@"])
        && [[253, 250], [253, 251], [250, 251], [8, 5]].contains(&[one.kind, two.kind]);
    if is_expression && (of_mysql || of_null && length_aside(&one) == length_aside(&two)) {
        return Some(Reason::NeverSet);
    }
    (rest(&one) == rest(&two) && character_set(one.collation) == character_set(two.collation))
        .then_some(Reason::CollationOfConnection)
}

/// Whether a text of the step holds one of these words, which are in capitals.
fn says(step: &Step, words: &[&str]) -> bool {
    let in_text = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).to_uppercase();
        words.iter().any(|word| text.contains(word))
    };
    match step {
        Step::Query(text) | Step::Prepare(text) => in_text(text),
        Step::Burst(texts) => texts.iter().any(|text| in_text(text)),
        _ => false,
    }
}

/// The default collation of a collation's character set, for the sets that programs use.
fn character_set(collation: u16) -> u16 {
    match collation {
        45 | 46 | 224..=247 | 255..=323 => 45, // utf8mb4
        33 | 76 | 83 | 192..=215 | 223 => 33,  // utf8mb3
        5 | 8 | 15 | 31 | 47..=49 | 94 => 8,   // latin1
        other => other,
    }
}

fn end(step: &Step, ends: Ends, role: Role, direct: &[u8], through: &[u8]) -> Option<Reason> {
    let is_eof = |payload: &[u8]| payload.first() == Some(&0xfe) && payload.len() == 5;
    if is_eof(direct) && is_eof(through) {
        let status = |payload: &[u8]| StatusFlags(u16::from_le_bytes([payload[3], payload[4]]));
        let differ = StatusFlags(status(direct).0 ^ status(through).0);
        let warnings_same = direct[1..3] == through[1..3];
        return match role {
            // Warnings are counted there too; of those before the rows nobody tells. MariaDB leaves the flag of an earlier change there.
            Role::EndOfColumns
                if (differ.without(StatusFlags::SESSION_STATE_CHANGED) == StatusFlags::NONE
                    || is_taken_back(step, differ.without(StatusFlags::SESSION_STATE_CHANGED)))
                    && (warnings_same || through[1..3] == [0, 0]) =>
            {
                Some(Reason::KnownAtTheEnd)
            }
            // MySQL says them in front of the rows alone then (protocol_classic.cc: `Protocol_classic::send_parameters`).
            Role::EndOfRows
                if warnings_same && differ == OF_PARAMETERS && status(through).contains(OF_PARAMETERS) =>
            {
                Some(Reason::KnownAtTheEnd)
            }
            // MariaDB clears the flag in an OK to who did not ask for it, but not in an EOF.
            _ if warnings_same && differ == StatusFlags::SESSION_STATE_CHANGED => {
                Some(Reason::OrderOfChanges)
            }
            _ => None,
        };
    }
    let one = wire::OkPacket::parse(direct, true).ok()?;
    let two = wire::OkPacket::parse(through, true).ok()?;
    let without = |ok: wire::OkPacket<'_>| {
        let status = ok.status.without(StatusFlags::SESSION_STATE_CHANGED);
        format!("{:?}", wire::OkPacket { session_changes: &[], status, ..ok })
    };
    if !tracks(ends) || without(one) != without(two) {
        return None;
    }
    let (direct, through) = (changes_of(one), changes_of(two));
    if direct == through {
        return Some(Reason::OrderOfChanges);
    }
    let differ = direct.symmetric_difference(&through);
    differ.into_iter().all(|change| may_be_told_later(step, change)).then_some(Reason::ChangesToldLater)
}

/// Whether these flags are others at the end of a statement than before its rows: those of `sql_mode`, which MariaDB's SET STATEMENT
/// changes, what SHOW STATUS takes back so that it is not logged as slow (`execute_show_status`), and the transaction that CHECKSUM TABLE
/// begins without autocommit, behind its columns (`mysql_checksum_table`). An execution does not say of what it is.
fn is_taken_back(step: &Step, flags: StatusFlags) -> bool {
    const OF_SQL_MODE: StatusFlags = StatusFlags(StatusFlags::NO_BACKSLASH_ESCAPES.0 | 1 << 15);
    let may_be = |words: &[&str]| matches!(step, Step::Execute { .. }) || says(step, words);
    (OF_SQL_MODE.contains(flags) && may_be(&["STATEMENT"]))
        || (flags == StatusFlags::NO_INDEX_USED && may_be(&["STATUS"]))
        || (flags == StatusFlags::IN_TRANS && may_be(&["CHECKSUM TABLE"]))
}

/// Changes of session state, in an order of ours.
fn changes_of(ok: wire::OkPacket<'_>) -> BTreeSet<Vec<u8>> {
    let mut items = wire::session_changes(ok.session_changes);
    let mut changes = BTreeSet::new();
    while let Some(Ok((_, bytes))) = items.next_with_bytes() {
        changes.insert(bytes.to_vec());
    }
    changes
}

/// Whether an answer need not tell of a change: it belongs to an earlier statement.
fn may_be_told_later(step: &Step, change: &[u8]) -> bool {
    let alone = matches!(step, Step::Query(_)) && !says(step, &["STATEMENT", ";"]);
    match wire::session_changes(change).next() {
        _ if !alone => true,
        Some(Ok(wire::SessionChange::SystemVariable { name, .. })) if name.starts_with(b"character_set") => {
            !says(step, &["NAMES", "CHAR"])
        }
        Some(Ok(wire::SessionChange::SystemVariable { name, value })) => {
            let [name, value] = [name, value].map(|text| String::from_utf8_lossy(text).to_uppercase());
            // MariaDB tells of `SET @@name = value` only where SET STATEMENT has left something to tell of that name.
            !says(step, &[&name]) || (says(step, &[&format!("@@{name}")]) && says(step, &[&value]))
        }
        Some(Ok(wire::SessionChange::Schema(_))) => !says(step, &["USE "]),
        // Row "The state of transactions behind a statement that failed": no program asks for it.
        Some(Ok(wire::SessionChange::TransactionState(_))) => true,
        _ => false,
    }
}

/// A login's answer without its warnings, and without the changes that are told to whoever asks for them.
fn of_login(payload: &[u8]) -> Option<wire::OkPacket<'_>> {
    let ok = wire::OkPacket::parse(payload, true).ok()?;
    let status = ok.status.without(StatusFlags::SESSION_STATE_CHANGED);
    Some(wire::OkPacket { warnings: 0, session_changes: &[], status, ..ok })
}

/// MariaDB's greeting lacks this flag, which it calls CLIENT_MYSQL.
fn is_mysql(ends: Ends) -> bool {
    ends.capabilities.contains(Capabilities::LONG_PASSWORD)
}

fn tracks(ends: Ends) -> bool {
    ends.capabilities.contains(Capabilities::SESSION_TRACK)
}

/// A packet for people: decoded where that is possible, its bytes where not.
pub(crate) fn show(packet: &Packet) -> String {
    let payload = &packet.payload;
    let decoded = match packet.role {
        Role::Ok | Role::EndOfRows if payload.len() != 5 => {
            wire::OkPacket::parse(payload, true).ok().map(|ok| {
                format!(
                    "affected {}, insert id {}, {:?}, {} warnings, info {:?}, changes {:?}",
                    ok.affected_rows,
                    ok.last_insert_id,
                    ok.status,
                    ok.warnings,
                    escape(ok.info),
                    escape(ok.session_changes)
                )
            })
        }
        Role::EndOfRows | Role::EndOfColumns => {
            wire::EofPacket::parse(payload).ok().map(|eof| format!("{eof:?}"))
        }
        Role::Err => wire::ErrPacket::parse(payload)
            .ok()
            .map(|error| format!("{} ({}) {}", error.code, escape(&error.sql_state), escape(error.message))),
        Role::Column => parse_column_definition(payload).ok().map(|column| {
            format!(
                "{:?} ({}.{}.{}), type {}, collation {}, length {}, flags {:#x}, decimals {}, {} bytes",
                escape(column.name),
                escape(column.schema),
                escape(column.table),
                escape(column.original_name),
                column.kind,
                column.collation,
                column.length,
                column.flags,
                column.decimals,
                payload.len()
            )
        }),
        Role::TextRow => parse_text_row(payload).ok().map(|values| {
            let values: Vec<String> = values
                .iter()
                .map(|value| {
                    value.map_or_else(|| String::from("NULL"), |value| format!("'{}'", escape(value)))
                })
                .collect();
            values.join(", ")
        }),
        _ => None,
    };
    format!(
        "{:?} (sequence {}): {}",
        packet.role,
        packet.sequence,
        decoded.unwrap_or_else(|| escape(payload))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends =
        Ends { direct_id: 7, through_id: 1_073_741_825, capabilities: Capabilities::SESSION_TRACK };

    fn packet(role: Role, payload: &[u8]) -> Packet {
        Packet { role, sequence: 1, payload: payload.to_vec() }
    }

    fn unexplained_packets(direct: Packet, through: Packet) -> Option<String> {
        let reply = |packet| [Reply { packets: vec![packet], broken: None }];
        unexplained(&Step::Ping, ENDS, &reply(direct), &reply(through), &mut Tally::new())
    }

    #[test]
    fn ones_own_id_is_one_and_other_numbers_are_not() {
        let row = |value: &str| {
            let mut payload = Vec::new();
            wire::put_lenenc_bytes(&mut payload, value.as_bytes());
            packet(Role::TextRow, &payload)
        };
        assert_eq!(unexplained_packets(row("7"), row("1073741825")), None);
        assert!(unexplained_packets(row("7"), row("8")).is_some());
        assert!(unexplained_packets(row("6"), row("1073741825")).is_some());
    }

    #[test]
    fn changes_of_session_state_may_come_in_another_order() {
        let ok = |status: u16, changes: &'static [u8]| {
            let mut payload = Vec::new();
            wire::OkPacket { session_changes: changes, ..wire::OkPacket::plain(StatusFlags(status)) }
                .put(&mut payload, true);
            packet(Role::Ok, &payload)
        };
        let (both, turned) = (b"\x02\x011\x01\x03\x02ab", b"\x01\x03\x02ab\x02\x011");
        assert_eq!(unexplained_packets(ok(0x4002, both), ok(0x4002, turned)), None);
        assert!(unexplained_packets(ok(0x4003, both), ok(0x4002, turned)).is_some());
        let of = |text: &str, direct, through| {
            let reply = |packet| [Reply { packets: vec![packet], broken: None }];
            let step = Step::Query(text.as_bytes().to_vec());
            unexplained(&step, ENDS, &reply(direct), &reply(through), &mut Tally::new())
        };
        let zone = b"\x00\x0b\x09time_zone\x00";
        assert_eq!(of("DO 1", ok(2, &[]), ok(0x4002, zone)), None, "it may be told sooner or later");
        assert!(of("SET time_zone = ''", ok(0x4002, zone), ok(2, &[])).is_some());
        let zone = |text| of(text, ok(2, &[]), ok(0x4002, b"\x00\x11\x09time_zone\x06-08:00"));
        assert_eq!(zone("SET @@time_zone = '-08:00'"), None, "SET STATEMENT has left it");
        assert!(zone("SET @@time_zone = '-07:00'").is_some() && zone("SET time_zone = '-08:00'").is_some());
        assert!(of("USE ab", ok(0x4002, turned), ok(0x4002, b"\x02\x011")).is_some());
        assert!(of("DO 1", ok(0x4002, turned), ok(0x4002, b"\x01\x03\x02ab")).is_some());
    }

    #[test]
    fn what_extends_a_definition_is_compared_by_itself() {
        let definition = |extension: &[u8]| {
            let mut payload = Vec::new();
            for name in
                [&b"def"[..], b"", b"", b"", b"c", b"", extension, b"\x21\0\x15\0\0\0\x08\x81\0\0\0\0"]
            {
                wire::put_lenenc_bytes(&mut payload, name);
            }
            payload
        };
        let (plain, extension) = without_extension(&definition(b"\0\x04json")).unwrap();
        assert_eq!(extension, b"\0\x04json");
        assert_eq!(parse_column_definition(&plain).unwrap().collation, 33);
        assert_eq!(without_extension(b"\x03def"), None);
    }

    #[test]
    fn flags_of_sql_mode_may_differ_and_their_neighbours_not() {
        let ok = |status: u16| {
            let mut payload = Vec::new();
            wire::OkPacket { affected_rows: 300, ..wire::OkPacket::plain(StatusFlags(status)) }
                .put(&mut payload, false);
            packet(Role::Ok, &payload)
        };
        assert_eq!(unexplained_packets(ok(0x8002), ok(0x0202)), None);
        assert!(unexplained_packets(ok(0x0402), ok(2)).is_some());
        let eof = |upper| packet(Role::EndOfRows, &[0xfe, 0, 0, 2, upper]);
        assert_eq!(unexplained_packets(eof(0x80), eof(0x02)), None);
        assert!(unexplained_packets(eof(0x04), eof(0)).is_some());
    }

    #[test]
    fn a_missing_packet_and_another_number_are_seen() {
        let error = packet(Role::Err, b"\xff\x01\x04#HY000no");
        assert!(unexplained_packets(error.clone(), Packet { sequence: 2, ..error.clone() }).is_some());
        let one = Reply { packets: vec![error.clone()], broken: None };
        let two = Reply { packets: vec![error.clone(), error], broken: None };
        let seen = unexplained(&Step::Ping, ENDS, std::slice::from_ref(&one), &[two], &mut Tally::new());
        assert!(seen.is_some_and(|words| words.contains("ends")));
        assert!(unexplained(&Step::Ping, ENDS, &[one], &[], &mut Tally::new()).is_some());
    }
}
