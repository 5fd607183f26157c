//! Whole replies: where they are cut must not matter, and what is relayed must be packets numbered one by one.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use wire::{
    ClientMetadata, Expect, HEADER_LEN, ReplyEvent, ReplyOptions, ReplyReader, ReplySink, WireError,
    put_message,
};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    expect: u8,
    first_sequence: u8,
    backend_deprecate_eof: bool,
    backend_session_track: bool,
    may_open_cursor: bool,
    backend_compressed: bool,
    client_deprecate_eof: bool,
    client_session_track: bool,
    client_progress: bool,
    client_metadata: u8,
    known_metadata: Option<u64>,
    skip_results: u8,
    /// Lengths of the pieces, used over and over.
    cuts: [u8; 4],
    /// Given correct headers, so that the fuzzer need not find them.
    payloads: Vec<&'a [u8]>,
    /// Not given any.
    tail: &'a [u8],
}

#[derive(Debug, Default, PartialEq)]
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

fuzz_target!(|input: Input<'_>| {
    let (expect, options) = (expect(&input), options(&input));
    let (mut bytes, mut sequence) = (Vec::new(), input.first_sequence);
    for payload in &input.payloads {
        put_message(&mut bytes, &mut sequence, payload);
    }
    bytes.extend_from_slice(input.tail);

    let mut whole = Recorder::default();
    let result = ReplyReader::new(expect, options).read(&bytes, &mut whole);
    let mut pieces = Recorder::default();
    let pieces_result = read_in_pieces(expect, options, &bytes, &input.cuts, &mut pieces);
    match result {
        Ok(progress) => {
            assert_eq!(pieces_result, Ok(progress.consumed));
            assert_eq!(whole, pieces);
            // Events are numbered as the server likes.
            if expect != Expect::Events {
                assert_numbered(&whole.relayed, input.first_sequence);
            }
        }
        Err(error) => assert_eq!(pieces_result, Err(error)),
    }
});

fn expect(input: &Input<'_>) -> Expect {
    const ALL: [Expect; 7] = [
        Expect::ResultSets,
        Expect::Simple,
        Expect::Rows,
        Expect::Events,
        Expect::Prepare,
        Expect::FieldList,
        Expect::Statistics,
    ];
    ALL[usize::from(input.expect) % ALL.len()]
}

fn options(input: &Input<'_>) -> ReplyOptions {
    ReplyOptions {
        first_sequence: input.first_sequence,
        backend_deprecate_eof: input.backend_deprecate_eof,
        backend_session_track: input.backend_session_track,
        may_open_cursor: input.may_open_cursor,
        backend_compressed: input.backend_compressed,
        client_deprecate_eof: input.client_deprecate_eof,
        client_session_track: input.client_session_track,
        client_progress: input.client_progress,
        client_metadata: match input.client_metadata % 3 {
            0 => ClientMetadata::Bare,
            1 => ClientMetadata::Announced,
            _ => ClientMetadata::Known(input.known_metadata),
        },
        skip_results: input.skip_results % 4,
    }
}

/// How many bytes the reply took.
fn read_in_pieces(
    expect: Expect,
    options: ReplyOptions,
    bytes: &[u8],
    cuts: &[u8],
    recorder: &mut Recorder,
) -> Result<usize, WireError> {
    let mut reader = ReplyReader::new(expect, options);
    let (mut consumed, mut at) = (0, 0);
    for cut in cuts.iter().cycle() {
        let end = bytes.len().min(at + usize::from(*cut).max(1));
        let progress = reader.read(&bytes[at..end], recorder)?;
        consumed += progress.consumed;
        at = end;
        if progress.done || at == bytes.len() {
            break;
        }
    }
    Ok(consumed)
}

/// The headers of complete packets count up from `sequence`. The last packet may be incomplete.
fn assert_numbered(mut bytes: &[u8], mut sequence: u8) {
    while bytes.len() >= HEADER_LEN {
        assert_eq!(bytes[3], sequence);
        let length = usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16;
        bytes = bytes.get(HEADER_LEN + length..).unwrap_or_default();
        sequence = sequence.wrapping_add(1);
    }
}
