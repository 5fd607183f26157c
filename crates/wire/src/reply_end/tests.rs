use super::*;

mod compressed;
mod eofs;

/// A column definition, as MariaDB sends it for `SELECT 1`.
const DEFINITION: &[u8] = b"\x03def\x00\x00\x00\x011\x00\x0c?\x00\x01\x00\x00\x00\x03\x81\x00\x00\x00\x00";

const NEW: ReplyOptions = ReplyOptions {
    first_sequence: 1,
    backend_deprecate_eof: true,
    backend_session_track: true,
    may_open_cursor: false,
    backend_compressed: false,
    client_deprecate_eof: true,
    client_session_track: true,
    client_progress: false,
    client_metadata: ClientMetadata::Bare,
    skip_results: 0,
};
const OLD: ReplyOptions = ReplyOptions { backend_deprecate_eof: false, client_deprecate_eof: false, ..NEW };
const NEW_TO_OLD: ReplyOptions = ReplyOptions { client_deprecate_eof: false, ..NEW };
const OLD_TO_NEW: ReplyOptions = ReplyOptions { backend_deprecate_eof: false, ..NEW };

#[derive(Default)]
struct Recorder {
    relayed: Vec<u8>,
    pieces: usize,
    events: Vec<String>,
}

impl ReplySink for Recorder {
    fn relay(&mut self, bytes: &[u8]) {
        assert!(!bytes.is_empty(), "an empty piece is a wasted call");
        self.relayed.extend_from_slice(bytes);
        self.pieces += 1;
    }

    fn event(&mut self, event: ReplyEvent<'_>) {
        let text = match event {
            ReplyEvent::Ok(ok) => format!("ok {:04x}", ok.status.0),
            ReplyEvent::Eof(eof) => format!("eof {:04x}", eof.status.0),
            ReplyEvent::Err(err) => format!("err {}", err.code),
            ReplyEvent::PreludeOk(ok) => format!("prelude ok {:04x}", ok.status.0),
            ReplyEvent::PreludeErr(err) => format!("prelude err {}", err.code),
            ReplyEvent::LocalInfile { sequence } => format!("file {sequence}"),
            ReplyEvent::LogBegins => "log".to_owned(),
            ReplyEvent::ResultSetEnd { rows } => format!("rows {rows}"),
            ReplyEvent::Metadata(digest) => format!("metadata {digest:x}"),
            ReplyEvent::Prepared { statement, columns, parameters } => {
                format!("prepared {statement} {columns} {parameters}")
            }
        };
        self.events.push(text);
    }
}

/// Packets numbered from 1.
fn packets(payloads: &[&[u8]]) -> Vec<u8> {
    packets_from(1, payloads)
}

fn packets_from(mut sequence: u8, payloads: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for payload in payloads {
        crate::put_message(&mut out, &mut sequence, payload);
    }
    out
}

/// Reads a whole reply, checks that it ends with the last byte and what the client gets.
#[track_caller]
fn check(
    expect: Expect,
    options: ReplyOptions,
    backend: &[&[u8]],
    client: &[&[u8]],
    events: &[&str],
) -> usize {
    let input = packets(backend);
    let mut recorder = Recorder::default();
    let progress = ReplyReader::new(expect, options).read(&input, &mut recorder).unwrap();
    assert_eq!(progress, Progress { consumed: input.len(), done: true });
    assert_eq!(recorder.relayed, packets(client));
    assert_eq!(recorder.events, events);
    recorder.pieces
}

#[track_caller]
fn error(expect: Expect, options: ReplyOptions, backend: &[&[u8]]) -> WireError {
    let mut recorder = Recorder::default();
    ReplyReader::new(expect, options).read(&packets(backend), &mut recorder).unwrap_err()
}

const OK: &[u8] = b"\x00\x00\x00\x02\x00\x00\x00";
const OK_MORE: &[u8] = b"\x00\x00\x00\x0a\x00\x00\x00";
const END: &[u8] = b"\xfe\x00\x00\x02\x00\x00\x00";
const END_MORE: &[u8] = b"\xfe\x00\x00\x0a\x00\x00\x00";
const EOF: &[u8] = b"\xfe\x00\x00\x02\x00";
const EOF_MORE: &[u8] = b"\xfe\x00\x00\x0a\x00";
const ERR: &[u8] = b"\xff\x1e\x04#42S22Unknown column 'nope' in 'SELECT'";

#[test]
fn simple_replies() {
    check(Expect::Simple, NEW, &[OK], &[OK], &["ok 0002"]);
    check(Expect::Simple, NEW, &[ERR], &[ERR], &["err 1054"]);
    // set_option and debug end like rows do.
    check(Expect::Simple, NEW, &[END], &[END], &["ok 0002"]);
    check(Expect::Simple, OLD, &[EOF], &[EOF], &["eof 0002"]);
    check(Expect::Simple, NEW_TO_OLD, &[END], &[EOF], &["ok 0002"]);
    check(Expect::Simple, OLD_TO_NEW, &[EOF], &[END], &["eof 0002"]);
    check(Expect::Statistics, NEW, &[b"Uptime: 17"], &[b"Uptime: 17"], &[]);
}

#[test]
fn events_of_the_binary_log() {
    let events: [&[u8]; 4] = [b"\x00event", b"\x00\xfe\x00", b"\x00", EOF];
    for options in [NEW, OLD, NEW_TO_OLD, OLD_TO_NEW] {
        check(Expect::Events, options, &events, &events, &["log", "eof 0002"]);
        check(Expect::Events, options, &[events[0], ERR], &[events[0], ERR], &["log", "err 1054"]);
        check(Expect::Events, options, &[ERR], &[ERR], &["err 1054"]);
        let other = packets(&[b"\x01event"]);
        assert!(ReplyReader::new(Expect::Events, options).read(&other, &mut Recorder::default()).is_err());
        let counted_anew = [packets(&events[..2]), packets(&events[..])].concat();
        let mut recorder = Recorder::default();
        let progress = ReplyReader::new(Expect::Events, options).read(&counted_anew, &mut recorder).unwrap();
        assert!(progress.done && recorder.relayed == counted_anew);
    }
}

#[test]
fn progress_reports_end_nothing_and_are_for_those_who_asked() {
    const REPORT: &[u8] = b"\xff\xff\xff\x01\x01\x02\x00\x00\x00\x04copy";
    let asked = ReplyOptions { client_progress: true, ..NEW };
    let reply = [REPORT, REPORT, OK_MORE, REPORT, ERR];
    let events = ["ok 000a", "err 1054"];
    check(Expect::ResultSets, asked, &reply, &reply, &events);
    check(Expect::ResultSets, NEW, &reply, &[OK_MORE, ERR], &events);
    // Behind a prelude, and between rows.
    let skips = ReplyOptions { skip_results: 1, ..NEW };
    check(Expect::ResultSets, skips, &[REPORT, OK_MORE, REPORT, OK], &[OK], &["prelude ok 000a", "ok 0002"]);
    let rows = [b"\x01", DEFINITION, b"\x011", REPORT, b"\x012", END];
    let client = [b"\x01", DEFINITION, b"\x011", b"\x012", END];
    check(Expect::ResultSets, NEW, &rows, &client, &["rows 2", "ok 0002"]);
}

/// What a client with CACHE_METADATA gets, in every way that bytes can be cut, and the events.
#[track_caller]
fn check_metadata(options: ReplyOptions, backend: &[&[u8]], client: &[&[u8]]) -> Vec<String> {
    let input = packets(backend);
    let mut events = Vec::new();
    for cut in 1..=input.len() {
        let mut recorder = Recorder::default();
        let mut reader = ReplyReader::new(Expect::ResultSets, options);
        for piece in input.chunks(cut) {
            reader.read(piece, &mut recorder).unwrap();
        }
        assert_eq!(recorder.relayed, packets(client), "cut {cut}");
        events = recorder.events;
    }
    events
}

#[test]
fn definitions_that_a_client_has_are_left_out() {
    let known = |digest| ReplyOptions { client_metadata: ClientMetadata::Known(digest), ..NEW };
    let reply: [&[u8]; 5] = [b"\x02", DEFINITION, DEFINITION, b"\x011\x012", END];
    let whole: [&[u8]; 5] = [b"\x02\x01", DEFINITION, DEFINITION, b"\x011\x012", END];
    let short: [&[u8]; 3] = [b"\x02\x00", b"\x011\x012", END];
    let announced = ReplyOptions { client_metadata: ClientMetadata::Announced, ..NEW };
    assert_eq!(check_metadata(announced, &reply, &whole), ["rows 1", "ok 0002"]);
    let events = check_metadata(known(None), &reply, &whole);
    let digest = u64::from_str_radix(events[0].strip_prefix("metadata ").unwrap(), 16).unwrap();
    assert_eq!(check_metadata(known(Some(digest)), &reply, &short), ["rows 1", "ok 0002"]);
    assert_eq!(check_metadata(known(Some(digest ^ 1)), &reply, &whole), events);
    // The answer to preparing the statement says the same of its columns.
    let head = b"\x00\x01\x00\x00\x00\x02\x00\x01\x00\x00\x00\x00";
    let parameter = b"\x03def\x00\x00\x00\x01?\x00\x0c?\x00\x00\x00\x00\x00\x06\x80\x00\x00\x00\x00";
    for prepared in [
        &[&head[..], parameter, DEFINITION, DEFINITION][..],
        &[head, parameter, EOF, DEFINITION, DEFINITION, EOF],
    ] {
        assert_eq!(digest_of_prepared(&packets(prepared)), Some(digest));
    }
    assert_eq!(digest_of_prepared(&packets(&[b"\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"])), None);
    // Clients of the old form, whose EOF behind the definitions stays.
    let old = ReplyOptions { client_deprecate_eof: false, ..known(Some(digest)) };
    check_metadata(old, &reply, &[b"\x02\x00", EOF, b"\x011\x012", EOF]);
    // A cursor's only end.
    let cursor = b"\xfe\x00\x00\x42\x00\x00\x00";
    let old = ReplyOptions { may_open_cursor: true, ..old };
    check_metadata(old, &[b"\x02", DEFINITION, DEFINITION, cursor], &[b"\x02\x00", b"\xfe\x00\x00\x42\x00"]);
    check_metadata(known(Some(digest)), &reply[..3], &short[..1]);
    // Behind a first result nothing is left out: the client has heard of other columns meanwhile.
    let more: [&[u8]; 8] =
        [b"\x02", DEFINITION, DEFINITION, b"\x011\x012", END_MORE, b"\x01", DEFINITION, END];
    let told: [&[u8]; 6] = [b"\x02\x00", b"\x011\x012", END_MORE, b"\x01\x01", DEFINITION, END];
    assert_eq!(check_metadata(known(Some(digest)), &more, &told).len(), 5);
    let twice: [&[u8]; 10] = [
        b"\x02",
        DEFINITION,
        DEFINITION,
        b"\x011\x012",
        END_MORE,
        b"\x02",
        DEFINITION,
        DEFINITION,
        b"\x011\x012",
        END,
    ];
    let told: [&[u8]; 8] =
        [b"\x02\x00", b"\x011\x012", END_MORE, b"\x02\x01", DEFINITION, DEFINITION, b"\x011\x012", END];
    assert_eq!(check_metadata(known(Some(digest)), &twice, &told).len(), 5);
    // An error in the place of a definition.
    let events = check_metadata(known(None), &[b"\x02", DEFINITION, ERR], &[b"\x02\x01", DEFINITION, ERR]);
    assert_eq!(events, ["err 1054"]);
}

#[test]
fn a_result_set_in_every_direction() {
    let new: &[&[u8]] = &[b"\x01", DEFINITION, b"\x011", b"\xfb", END];
    let old: &[&[u8]] = &[b"\x01", DEFINITION, EOF, b"\x011", b"\xfb", EOF];
    let (new_events, old_events) = (["rows 2", "ok 0002"], ["rows 2", "eof 0002"]);
    assert_eq!(check(Expect::ResultSets, NEW, new, new, &new_events), 1, "one piece");
    assert_eq!(check(Expect::ResultSets, OLD, old, old, &old_events), 1, "one piece");
    check(Expect::ResultSets, NEW_TO_OLD, new, old, &new_events);
    check(Expect::ResultSets, OLD_TO_NEW, old, new, &old_events);
}

#[test]
fn an_empty_result_set_has_both_eofs_for_old_clients() {
    let new: &[&[u8]] = &[b"\x01", DEFINITION, b"\xfe\x00\x00\x22\x00\x01\x00"];
    let eof = b"\xfe\x01\x00\x22\x00";
    check(Expect::ResultSets, NEW_TO_OLD, new, &[b"\x01", DEFINITION, eof, eof], &["rows 0", "ok 0022"]);
}

#[test]
fn several_results_end_with_the_last() {
    let new: &[&[u8]] =
        &[OK_MORE, b"\x01", DEFINITION, b"\x011", END_MORE, OK_MORE, b"\x01", DEFINITION, b"\x012", END];
    let old: &[&[u8]] = &[
        OK_MORE, b"\x01", DEFINITION, EOF_MORE, b"\x011", EOF_MORE, OK_MORE, b"\x01", DEFINITION, EOF,
        b"\x012", EOF,
    ];
    let events = ["ok 000a", "rows 1", "ok 000a", "ok 000a", "rows 1", "ok 0002"];
    check(Expect::ResultSets, NEW, new, new, &events);
    check(Expect::ResultSets, NEW_TO_OLD, new, old, &events);
    let failed: &[&[u8]] = &[b"\x01", DEFINITION, b"\x011", END_MORE, ERR];
    check(Expect::ResultSets, NEW, failed, failed, &["rows 1", "ok 000a", "err 1054"]);
}

/// MariaDB 10.11 for an execute with `CURSOR_TYPE_READ_ONLY`: one end packet in both forms.
#[test]
fn a_cursor_has_one_end_packet() {
    let new: &[&[u8]] = &[b"\x01", DEFINITION, b"\xfe\x00\x00\x62\x00\x00\x00"];
    let old: &[&[u8]] = &[b"\x01", DEFINITION, b"\xfe\x00\x00\x62\x00"];
    let asked = |options| ReplyOptions { may_open_cursor: true, ..options };
    check(Expect::ResultSets, asked(NEW), new, new, &["rows 0", "ok 0062"]);
    check(Expect::ResultSets, asked(NEW_TO_OLD), new, old, &["rows 0", "ok 0062"]);
    check(Expect::ResultSets, asked(OLD), old, old, &["rows 0", "eof 0062"]);
    check(Expect::ResultSets, asked(OLD_TO_NEW), old, new, &["rows 0", "eof 0062"]);
}

/// MySQL 9.7 for a SELECT without rows that calls a function with a cursor: the flag is left over.
#[test]
fn a_flag_that_nobody_asked_for_opens_no_cursor() {
    let new: &[&[u8]] = &[b"\x01", DEFINITION, b"\xfe\x00\x00\x62\x00\x00\x00"];
    let eof = b"\xfe\x00\x00\x62\x00";
    let plain = b"\xfe\x00\x00\x22\x00";
    check(Expect::ResultSets, NEW_TO_OLD, new, &[b"\x01", DEFINITION, plain, eof], &["rows 0", "ok 0062"]);
    let old: &[&[u8]] = &[b"\x01", DEFINITION, EOF, eof];
    check(Expect::ResultSets, OLD, old, old, &["rows 0", "eof 0062"]);
}

/// MariaDB 10.11 for a procedure that opens a cursor, then selects a row, then none.
#[test]
fn a_cursor_inside_a_procedure_hides_no_rows() {
    let eof = b"\xfe\x00\x00\x6a\x00";
    let end = b"\xfe\x00\x00\x6a\x00\x00\x00";
    let last = b"\x00\x00\x00\x22\x00\x00\x00";
    let old: &[&[u8]] = &[b"\x01", DEFINITION, eof, b"\x011", eof, b"\x01", DEFINITION, eof, eof, last];
    let new: &[&[u8]] = &[b"\x01", DEFINITION, b"\x011", end, b"\x01", DEFINITION, end, last];
    check(Expect::ResultSets, OLD, old, old, &["rows 1", "eof 006a", "rows 0", "eof 006a", "ok 0022"]);
    check(Expect::ResultSets, OLD_TO_NEW, old, new, &["rows 1", "eof 006a", "rows 0", "eof 006a", "ok 0022"]);
    check(Expect::ResultSets, NEW, new, new, &["rows 1", "ok 006a", "rows 0", "ok 006a", "ok 0022"]);
    check(Expect::ResultSets, NEW_TO_OLD, new, old, &["rows 1", "ok 006a", "rows 0", "ok 006a", "ok 0022"]);
}

#[test]
fn out_parameters_stay_marked() {
    let (more, out_params) = (b"\xfe\x00\x00\x0a\x10", b"\xfe\x00\x00\x0a\x10\x00\x00");
    let row = b"\x00\x00\x03\x00\x00\x00";
    // As servers before MySQL 5.7: only the first EOF says so.
    check(
        Expect::ResultSets,
        OLD_TO_NEW,
        &[b"\x01", DEFINITION, more, row, EOF_MORE, OK],
        &[b"\x01", DEFINITION, row, out_params, OK],
        &["rows 1", "eof 100a", "ok 0002"],
    );
}

#[test]
fn fetched_rows() {
    let row = b"\x00\x00\x01\x00\x00\x00";
    let (end, eof) = (b"\xfe\x00\x00\x42\x00\x00\x00", b"\xfe\x00\x00\x42\x00");
    check(Expect::Rows, NEW, &[row, end], &[row, end], &["rows 1", "ok 0042"]);
    check(Expect::Rows, OLD, &[row, eof], &[row, eof], &["rows 1", "eof 0042"]);
    check(Expect::Rows, NEW_TO_OLD, &[row, end], &[row, eof], &["rows 1", "ok 0042"]);
    check(Expect::Rows, OLD_TO_NEW, &[row, eof], &[row, end], &["rows 1", "eof 0042"]);
    check(Expect::Rows, NEW, &[ERR], &[ERR], &["err 1054"]);
}

#[test]
fn prepared_statements() {
    let head = b"\x00\x02\x00\x00\x00\x02\x00\x01\x00\x00\x00\x00";
    let new: &[&[u8]] = &[head, DEFINITION, DEFINITION, DEFINITION];
    let old: &[&[u8]] = &[head, DEFINITION, EOF, DEFINITION, DEFINITION, EOF];
    let events = ["prepared 2 2 1"];
    assert_eq!(check(Expect::Prepare, NEW, new, new, &events), 1, "one piece");
    check(Expect::Prepare, OLD, old, old, &events);
    check(Expect::Prepare, NEW_TO_OLD, new, old, &events);
    check(Expect::Prepare, OLD_TO_NEW, old, new, &events);

    let nothing = b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    check(Expect::Prepare, NEW_TO_OLD, &[nothing], &[nothing], &["prepared 1 0 0"]);
    let parameter = b"\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00";
    check(
        Expect::Prepare,
        NEW_TO_OLD,
        &[parameter, DEFINITION],
        &[parameter, DEFINITION, EOF],
        &["prepared 1 0 1"],
    );
    let column = b"\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00";
    check(
        Expect::Prepare,
        OLD_TO_NEW,
        &[column, DEFINITION, EOF],
        &[column, DEFINITION],
        &["prepared 1 1 0"],
    );
    check(Expect::Prepare, NEW, &[ERR], &[ERR], &["err 1054"]);
    let no_statement = b"\x00\x00\x00\x02\x00\x00\x00";
    check(Expect::Prepare, NEW, &[no_statement], &[no_statement], &["ok 0002"]);
    let with_state = b"\x00\x00\x00\x02\x40\x00\x00\x00\x03\x02\x01\x31";
    check(Expect::Prepare, NEW, &[with_state], &[with_state], &["ok 4002"]);
    let with_variable = b"\x00\x00\x00\x02\x40\x00\x00\x00\x06\x00\x04\x01\x61\x01\x62";
    check(Expect::Prepare, NEW, &[with_variable], &[with_variable], &["ok 4002"]);
}

#[test]
fn field_lists() {
    let definition = [DEFINITION, b"\xfb"].concat();
    let new: &[&[u8]] = &[&definition, &definition, END];
    let old: &[&[u8]] = &[&definition, &definition, EOF];
    check(Expect::FieldList, NEW, new, new, &["ok 0002"]);
    check(Expect::FieldList, NEW_TO_OLD, new, old, &["ok 0002"]);
    check(Expect::FieldList, OLD_TO_NEW, old, new, &["eof 0002"]);
    check(Expect::FieldList, NEW, &[ERR], &[ERR], &["err 1054"]);
    check(Expect::FieldList, NEW, &[OK], &[OK], &["ok 0002"]);
    check(Expect::FieldList, NEW_TO_OLD, &[OK], &[OK], &["ok 0002"]);
}

#[test]
fn session_changes_are_cut_out_for_clients_that_did_not_ask() {
    let changed = b"\x00\x01\x00\x03\x40\x00\x00\x00\x0b\x05\x09\x08T___W___";
    let plain = b"\x00\x01\x00\x03\x00\x00\x00";
    let untracked = ReplyOptions { client_session_track: false, ..NEW };
    check(Expect::ResultSets, NEW, &[changed], &[changed], &["ok 4003"]);
    check(Expect::ResultSets, untracked, &[changed], &[plain], &["ok 4003"]);

    let end = b"\xfe\x00\x00\x02\x40\x00\x00\x00\x03\x02\x011";
    let set: &[&[u8]] = &[b"\x01", DEFINITION, b"\x011", end];
    check(Expect::ResultSets, untracked, set, &[b"\x01", DEFINITION, b"\x011", END], &["rows 1", "ok 4002"]);
    check(
        Expect::ResultSets,
        NEW_TO_OLD,
        set,
        &[b"\x01", DEFINITION, EOF, b"\x011", EOF],
        &["rows 1", "ok 4002"],
    );
}

/// Hears the same of all changes.
struct Listener {
    relayed: Vec<u8>,
    hears: &'static [u8],
}

impl ReplySink for Listener {
    fn relay(&mut self, bytes: &[u8]) {
        self.relayed.extend_from_slice(bytes);
    }

    fn told<'c>(&mut self, _: &'c [u8]) -> Cow<'c, [u8]> {
        Cow::Borrowed(self.hears)
    }

    fn event(&mut self, _: ReplyEvent<'_>) {}
}

#[test]
fn of_changes_a_client_hears_what_its_sink_tells() {
    let heard = |options, hears, backend: &[u8]| {
        let mut listener = Listener { relayed: Vec::new(), hears };
        let reply = packets(&[backend]);
        assert!(ReplyReader::new(Expect::Simple, options).read(&reply, &mut listener).unwrap().done);
        listener.relayed
    };
    let changed = b"\x00\x01\x00\x02\x40\x00\x00\x00\x08\x01\x03\x02ab\x02\x011".as_slice();
    let (plain, state) = (b"\x00\x01\x00\x02\x00\x00\x00", b"\x00\x01\x00\x02\x40\x00\x00\x00\x03\x02\x011");
    assert_eq!(heard(NEW, b"\x02\x011", changed), packets(&[state]));
    assert_eq!(heard(NEW, b"", changed), packets(&[plain]));
    assert_eq!(heard(NEW, b"\x02\x011", plain), packets(&[state]), "something is told that was put off");
    assert_eq!(heard(NEW, b"", plain), packets(&[plain]));
    // An end of rows likewise, and words stay.
    let end = b"\xfe\x00\x00\x02\x40\x00\x00\x03abc\x08\x01\x03\x02ab\x02\x011".as_slice();
    let mut reader = ReplyReader::new(Expect::Rows, NEW);
    let mut listener = Listener { relayed: Vec::new(), hears: b"" };
    assert!(reader.read(&packets(&[end]), &mut listener).unwrap().done);
    assert_eq!(listener.relayed, packets(&[b"\xfe\x00\x00\x02\x00\x00\x00\x03abc"]));
    let untracked = ReplyOptions { client_session_track: false, ..NEW };
    assert_eq!(heard(untracked, b"\x02\x011", plain), packets(&[plain]), "nobody is asked");
}

#[test]
fn a_prelude_is_hidden() {
    let options = ReplyOptions { skip_results: 2, ..NEW };
    check(
        Expect::ResultSets,
        options,
        &[OK_MORE, OK_MORE, b"\x01", DEFINITION, b"\x011", END],
        &[b"\x01", DEFINITION, b"\x011", END],
        &["prelude ok 000a", "prelude ok 000a", "rows 1", "ok 0002"],
    );
    check(
        Expect::ResultSets,
        ReplyOptions { skip_results: 2, ..NEW_TO_OLD },
        &[OK_MORE, OK_MORE, b"\x01", DEFINITION, b"\x011", END],
        &[b"\x01", DEFINITION, EOF, b"\x011", EOF],
        &["prelude ok 000a", "prelude ok 000a", "rows 1", "ok 0002"],
    );
    check(Expect::ResultSets, options, &[OK_MORE, ERR], &[], &["prelude ok 000a", "prelude err 1054"]);
    check(
        Expect::ResultSets,
        options,
        &[OK_MORE, OK_MORE, ERR],
        &[ERR],
        &["prelude ok 000a", "prelude ok 000a", "err 1054"],
    );
    assert_eq!(
        error(Expect::ResultSets, options, &[OK_MORE, OK]),
        WireError::Malformed { what: "reply ends with its prelude" }
    );
    assert_eq!(
        error(Expect::ResultSets, options, &[b"\x01"]),
        WireError::Malformed { what: "result set in a prelude" }
    );
}

#[test]
fn the_reader_waits_for_a_file() {
    let options = ReplyOptions { skip_results: 1, ..NEW };
    let mut reader = ReplyReader::new(Expect::ResultSets, options);
    let mut recorder = Recorder::default();
    let request = packets(&[OK_MORE, b"\xfbdata.csv"]);
    let progress = reader.read(&request, &mut recorder).unwrap();
    assert_eq!(progress, Progress { consumed: request.len(), done: false });
    assert_eq!(reader.read(&[], &mut recorder), Ok(Progress { consumed: 0, done: false }));
    assert_eq!(recorder.events, ["prelude ok 000a", "file 2"]);
    assert_eq!(recorder.relayed, packets(&[b"\xfbdata.csv"]));

    // The client, which counts one less, has sent its packets 2 to 4.
    assert_eq!(reader.sequence_shift_to_backend(), 1);
    reader.local_infile_sent(5);
    let progress = reader.read(&packets_from(6, &[OK]), &mut recorder).unwrap();
    assert!(progress.done);
    assert_eq!(recorder.events[2..], ["ok 0002"]);
    assert_eq!(recorder.relayed[packets(&[b"\xfbdata.csv"]).len()..], packets_from(5, &[OK]));
}

#[test]
fn what_follows_belongs_to_the_next_reply() {
    let input = [packets(&[OK]), packets(&[OK])].concat();
    let mut recorder = Recorder::default();
    let mut reader = ReplyReader::new(Expect::Simple, NEW);
    let done = Progress { consumed: input.len() / 2, done: true };
    assert_eq!(reader.read(&input, &mut recorder), Ok(done));
    assert_eq!(recorder.relayed, packets(&[OK]));
    // A reader that is done takes nothing more.
    assert_eq!(reader.read(&input, &mut recorder), Ok(Progress { consumed: 0, done: true }));
}

#[test]
fn sequence_numbers_wrap() {
    let rows = vec![&b"\x011"[..]; 600];
    let new = [&[&b"\x01"[..], DEFINITION][..], &rows, &[END]].concat();
    let old = [&[&b"\x01"[..], DEFINITION, EOF][..], &rows, &[EOF]].concat();
    check(Expect::ResultSets, NEW_TO_OLD, &new, &old, &["rows 600", "ok 0002"]);
    check(Expect::ResultSets, OLD_TO_NEW, &old, &new, &["rows 600", "eof 0002"]);
}

/// A continuation is not looked into, whatever its first byte, and rows of 16 MiB may start with 0xfe.
#[test]
fn long_rows_are_not_taken_for_ends() {
    // A value of 2^24 bytes: 0xfe and eight bytes of length. The second packet starts with what looks like an ERR.
    let mut row = vec![0xfe, 0, 0, 0, 1, 0, 0, 0, 0];
    row.resize(9 + (1 << 24), 0xff);
    // A row that fills its packet: an empty one follows.
    let mut full = vec![0xfd, 0xfb, 0xff, 0xff];
    full.resize(MAX_PAYLOAD, b'x');
    let payloads: &[&[u8]] = &[b"\x01", DEFINITION, &row, &full, END];
    let input = packets(payloads);
    for options in [NEW, NEW_TO_OLD] {
        let mut recorder = Recorder::default();
        let mut reader = ReplyReader::new(Expect::ResultSets, options);
        let mut done = false;
        // 1 MiB at a time and one byte more, so that cuts fall on different places of packets.
        for piece in input.chunks((1 << 20) + 1) {
            done = reader.read(piece, &mut recorder).unwrap().done;
            assert!(reader.carry.len() < 32, "rows are not held back");
        }
        assert!(done);
        assert_eq!(recorder.events, ["rows 2", "ok 0002"]);
        if options == NEW {
            assert!(recorder.relayed == input);
        } else {
            assert!(recorder.relayed == packets(&[b"\x01", DEFINITION, EOF, &row, &full, EOF]));
        }
    }
    // Without DEPRECATE_EOF an end has fewer than 9 bytes.
    let row: &[u8] = &[0xfe, 0, 0, 0, 1, 0, 0, 0, 0];
    check(Expect::Rows, OLD, &[row, EOF], &[row, EOF], &["rows 1", "eof 0002"]);
}

#[test]
fn what_no_server_sends_is_an_error() {
    let malformed = |expect, options, backend: &[&[u8]]| {
        let error = error(expect, options, backend);
        assert!(matches!(error, WireError::Malformed { .. }), "{error}");
    };
    malformed(Expect::Simple, NEW, &[b"\x01"]);
    malformed(Expect::Simple, NEW, &[b""]);
    malformed(Expect::Prepare, NEW, &[END]);
    malformed(Expect::ResultSets, NEW, &[b"\xfe\x00\x00\x02\x00\x00\x00\x01\x41"]);
    malformed(Expect::ResultSets, NEW, &[b"\x01\x00"]);
    malformed(Expect::ResultSets, NEW, &[b"\x02", DEFINITION, END]);
    malformed(Expect::ResultSets, OLD, &[b"\x01", DEFINITION, b"\x011"]);
    malformed(Expect::ResultSets, NEW, &[b"\x01", DEFINITION, b""]);
    assert!(matches!(error(Expect::ResultSets, NEW, &[b"\x00\x00"]), WireError::Truncated { .. }));
    assert!(matches!(error(Expect::Prepare, NEW, &[b"\x00\x01\x00"]), WireError::Truncated { .. }));

    let mut recorder = Recorder::default();
    let wrong = WireError::WrongSequence { expected: 1, found: 2 };
    assert_eq!(
        ReplyReader::new(Expect::Simple, NEW).read(&packets_from(2, &[OK]), &mut recorder),
        Err(wrong)
    );
    let large = WireError::TooLarge { limit: MAX_PAYLOAD - 1 };
    let head = [0xff, 0xff, 0xff, 1, 0xff];
    assert_eq!(ReplyReader::new(Expect::Simple, NEW).read(&head, &mut recorder), Err(large));
    assert!(recorder.relayed.is_empty() && recorder.events.is_empty());
}

#[test]
fn an_err_in_place_of_rows() {
    check(
        Expect::ResultSets,
        NEW_TO_OLD,
        &[b"\x01", DEFINITION, ERR],
        &[b"\x01", DEFINITION, EOF, ERR],
        &["err 1054"],
    );
    check(
        Expect::ResultSets,
        OLD_TO_NEW,
        &[b"\x01", DEFINITION, EOF, b"\x011", ERR],
        &[b"\x01", DEFINITION, b"\x011", ERR],
        &["err 1054"],
    );
}
