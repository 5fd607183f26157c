//! A reply in one form of the protocol, read by `ReplyReader`, must come out exactly as a server would have written it
//! in the client's form, however the bytes are cut on the way.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::{
    ClientMetadata, EofPacket, ErrPacket, Expect, OkPacket, ReplyEvent, ReplyOptions, ReplyReader, ReplySink,
    StatusFlags, put_message,
};

/// `SELECT 1`'s column.
const DEFINITION: &[u8] = b"\x03def\x00\x00\x00\x011\x00\x0c?\x00\x01\x00\x00\x00\x03\x81\x00\x00\x00\x00";

/// What a server has to say, free of any form.
#[derive(Clone, Debug)]
struct Reply {
    /// Before the last.
    results: Vec<Outcome>,
    last: Last,
}

#[derive(Clone, Debug)]
enum Outcome {
    Ok { affected_rows: u64, warnings: u16, info: Vec<u8>, changes: Vec<u8> },
    Rows { columns: usize, rows: Vec<Vec<u8>>, warnings: u16, changes: Vec<u8> },
}

#[derive(Clone, Debug)]
enum Last {
    Outcome(Outcome),
    Cursor { columns: usize },
    Err,
}

/// What a peer speaks.
#[derive(Clone, Copy, Debug)]
struct Form {
    deprecate_eof: bool,
    /// Changes of session state in OKs, and in the ends of rows.
    changes: bool,
    end_changes: bool,
    /// Results at the front that are not written.
    hidden: usize,
}

impl Reply {
    fn write(&self, form: Form) -> Vec<u8> {
        let mut writer = Writer { form, out: Vec::new(), sequence: 1 };
        for (i, result) in self.results.iter().enumerate() {
            writer.outcome(result, StatusFlags::MORE_RESULTS_EXISTS, i < form.hidden);
        }
        match &self.last {
            Last::Outcome(outcome) => writer.outcome(outcome, StatusFlags::NONE, false),
            Last::Cursor { columns } => {
                writer.definitions(*columns);
                writer.end(StatusFlags::AUTOCOMMIT | StatusFlags::CURSOR_EXISTS, 0, b"");
            }
            Last::Err => {
                let err = ErrPacket { code: 1064, sql_state: *b"42000", message: b"near 'x'" };
                writer.packet(|out| err.put(out));
            }
        }
        writer.out
    }
}

struct Writer {
    form: Form,
    out: Vec<u8>,
    sequence: u8,
}

impl Writer {
    fn packet(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let mut payload = Vec::new();
        put(&mut payload);
        put_message(&mut self.out, &mut self.sequence, &payload);
    }

    fn outcome(&mut self, outcome: &Outcome, more: StatusFlags, hidden: bool) {
        let status = StatusFlags::AUTOCOMMIT | more;
        match outcome {
            Outcome::Ok { .. } if hidden => {}
            Outcome::Ok { affected_rows, warnings, info, changes } => {
                let changes = if self.form.changes { &changes[..] } else { b"" };
                let ok = OkPacket {
                    affected_rows: *affected_rows,
                    warnings: *warnings,
                    info,
                    session_changes: changes,
                    ..OkPacket::plain(with_changes(status, changes))
                };
                self.packet(|out| ok.put(out, true));
            }
            Outcome::Rows { columns, rows, warnings, changes } => {
                self.definitions(*columns);
                if !self.form.deprecate_eof {
                    // Servers repeat the status there: whether more results follow, whether a transaction is open. Warnings come with
                    // the rows.
                    let warnings = if rows.is_empty() { *warnings } else { 0 };
                    self.packet(|out| EofPacket { warnings, status }.put(out));
                }
                for row in rows {
                    self.packet(|out| out.extend_from_slice(row));
                }
                self.end(status, *warnings, changes);
            }
        }
    }

    fn definitions(&mut self, columns: usize) {
        self.packet(|out| out.push(columns as u8));
        for _ in 0..columns {
            self.packet(|out| out.extend_from_slice(DEFINITION));
        }
    }

    fn end(&mut self, status: StatusFlags, warnings: u16, changes: &[u8]) {
        if !self.form.deprecate_eof {
            return self.packet(|out| EofPacket { warnings, status }.put(out));
        }
        let changes = if self.form.end_changes { changes } else { b"" };
        let ok = OkPacket {
            header: 0xfe,
            warnings,
            session_changes: changes,
            ..OkPacket::plain(with_changes(status, changes))
        };
        self.packet(|out| ok.put(out, true));
    }
}

fn with_changes(status: StatusFlags, changes: &[u8]) -> StatusFlags {
    if changes.is_empty() { status } else { status.with(StatusFlags::SESSION_STATE_CHANGED) }
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![ok(), rows()]
}

fn ok() -> impl Strategy<Value = Outcome> {
    (any::<u64>(), any::<u16>(), vec(any::<u8>(), 0..40), changes()).prop_map(
        |(affected_rows, warnings, info, changes)| Outcome::Ok { affected_rows, warnings, info, changes },
    )
}

fn rows() -> impl Strategy<Value = Outcome> {
    // A row starts with anything but the first bytes of ends: 0xfe only stands in front of 16 MiB.
    let row = (0_u8..0xfe, vec(any::<u8>(), 0..300)).prop_map(|(first, mut rest)| {
        rest.insert(0, first);
        rest
    });
    (1..4_usize, vec(row, 0..6), any::<u16>(), changes())
        .prop_map(|(columns, rows, warnings, changes)| Outcome::Rows { columns, rows, warnings, changes })
}

fn changes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(Vec::new()), vec(any::<u8>(), 1..300)]
}

fn reply() -> impl Strategy<Value = Reply> {
    let last = prop_oneof![
        4 => outcome().prop_map(Last::Outcome),
        1 => (1..4_usize).prop_map(|columns| Last::Cursor { columns }),
        1 => Just(Last::Err),
    ];
    (vec(outcome(), 0..4), last).prop_map(|(results, last)| Reply { results, last })
}

fn options() -> impl Strategy<Value = ReplyOptions> {
    any::<[bool; 5]>().prop_map(|[backend_eof, backend_track, compressed, client_eof, client_track]| {
        ReplyOptions {
            first_sequence: 1,
            backend_deprecate_eof: backend_eof,
            backend_session_track: backend_track,
            // The last result of a reply may be a cursor's.
            may_open_cursor: true,
            backend_compressed: compressed,
            client_deprecate_eof: client_eof,
            client_session_track: client_track,
            client_progress: false,
            client_metadata: ClientMetadata::Bare,
            skip_results: 0,
        }
    })
}

/// A reply as a backend sends it: one that compresses numbers packets as it likes.
fn numbered(mut reply: Vec<u8>, options: ReplyOptions) -> Vec<u8> {
    let (mut at, mut number) = (0, 1_u8);
    while options.backend_compressed && at < reply.len() {
        let length =
            usize::from(reply[at]) | usize::from(reply[at + 1]) << 8 | usize::from(reply[at + 2]) << 16;
        reply[at + 3] = number;
        // It stays, goes on and jumps.
        number = number.wrapping_mul(3).wrapping_add(length as u8 % 3);
        at += 4 + length;
    }
    reply
}

/// The forms in which a backend writes and a client reads, by these options.
fn forms(options: ReplyOptions) -> (Form, Form) {
    let backend = Form {
        deprecate_eof: options.backend_deprecate_eof,
        changes: options.backend_session_track,
        end_changes: options.backend_session_track,
        hidden: 0,
    };
    let changes = options.backend_session_track && options.client_session_track;
    let client = Form {
        deprecate_eof: options.client_deprecate_eof,
        changes,
        end_changes: changes && options.backend_deprecate_eof,
        hidden: usize::from(options.skip_results),
    };
    (backend, client)
}

#[derive(Default, Debug, PartialEq)]
struct Recorder {
    relayed: Vec<u8>,
    events: Vec<String>,
}

impl ReplySink for Recorder {
    fn relay(&mut self, bytes: &[u8]) {
        self.relayed.extend_from_slice(bytes);
    }

    fn event(&mut self, event: ReplyEvent<'_>) {
        self.events.push(format!("{event:?}"));
    }
}

/// Reads a whole reply in pieces of the given lengths, over and over.
fn read(options: ReplyOptions, input: &[u8], pieces: &[usize]) -> Recorder {
    let mut recorder = Recorder::default();
    let mut reader = ReplyReader::new(Expect::ResultSets, options);
    let mut rest = input;
    for length in pieces.iter().cycle() {
        let piece = &rest[..rest.len().min(*length)];
        let progress = reader.read(piece, &mut recorder).expect("a server's reply is read");
        assert_eq!(progress.consumed, piece.len());
        rest = &rest[piece.len()..];
        assert_eq!(progress.done, rest.is_empty(), "the reply ends with its last byte");
        if progress.done {
            break;
        }
    }
    recorder
}

proptest! {
    #[test]
    fn clients_get_what_a_server_would_have_written(reply in reply(), options in options()) {
        let (backend, client) = forms(options);
        // Where both sides have EOFs, the backend's own are kept; they are as our writer makes them.
        let recorder = read(options, &numbered(reply.write(backend), options), &[usize::MAX]);
        prop_assert_eq!(recorder.relayed, reply.write(client));
    }

    #[test]
    fn cuts_change_nothing(reply in reply(), options in options(), pieces in vec(1..50_usize, 1..20)) {
        let input = numbered(reply.write(forms(options).0), options);
        prop_assert_eq!(read(options, &input, &pieces), read(options, &input, &[usize::MAX]));
    }

    #[test]
    fn single_bytes_change_nothing(reply in reply(), options in options()) {
        let input = numbered(reply.write(forms(options).0), options);
        prop_assert_eq!(read(options, &input, &[1]), read(options, &input, &[usize::MAX]));
    }

    #[test]
    fn there_and_back_again(reply in reply(), to_new in any::<bool>()) {
        let form = Form { deprecate_eof: !to_new, changes: true, end_changes: false, hidden: 0 };
        let there = ReplyOptions {
            may_open_cursor: true,
            backend_deprecate_eof: !to_new,
            client_deprecate_eof: to_new,
            ..ReplyOptions::default()
        };
        let back = ReplyOptions {
            may_open_cursor: true,
            backend_deprecate_eof: to_new,
            client_deprecate_eof: !to_new,
            ..ReplyOptions::default()
        };
        let input = reply.write(form);
        let converted = read(there, &input, &[usize::MAX]).relayed;
        prop_assert_eq!(read(back, &converted, &[usize::MAX]).relayed, input);
    }

    #[test]
    fn preludes_stay_hidden(
        prelude in vec(ok(), 1..4),
        mut reply in reply(),
        mut options in options(),
        pieces in vec(1..50_usize, 1..20),
    ) {
        options.skip_results = prelude.len() as u8;
        reply.results.splice(0..0, prelude);
        let (backend, client) = forms(options);
        let recorder = read(options, &numbered(reply.write(backend), options), &pieces);
        prop_assert_eq!(recorder.relayed, reply.write(client));
        let preludes = recorder.events.iter().filter(|event| event.starts_with("PreludeOk")).count();
        prop_assert_eq!(preludes, usize::from(options.skip_results));
    }
}
