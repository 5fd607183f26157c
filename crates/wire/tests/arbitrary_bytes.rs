//! No bytes make a reader panic, and what a reader accepts it can write again.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::{
    AuthSwitch, Capabilities, ChangeUser, ClientMetadata, Command, EofPacket, ErrPacket, Expect, Greeting,
    LoginRequest, OkPacket, ReplyEvent, ReplyOptions, ReplyReader, ReplySink, StatusFlags, message_len_hint,
    parse_attributes, parse_column_count, parse_column_definition, parse_text_row, read_message,
    session_changes,
};

/// Arbitrary bytes, but often with the flags set that make a reader go on.
fn login_like() -> impl Strategy<Value = Vec<u8>> {
    (any::<u32>(), vec(any::<u8>(), 0..200)).prop_map(|(flags, mut rest)| {
        let flags = flags | 1 << 9; // PROTOCOL_41
        rest.splice(0..0, flags.to_le_bytes());
        rest
    })
}

fn client_metadata() -> impl Strategy<Value = ClientMetadata> {
    // The digest of no definitions at all, which an ERR in their place may leave.
    let known = Some(0xcbf2_9ce4_8422_2325);
    prop_oneof![
        Just(ClientMetadata::Bare),
        Just(ClientMetadata::Announced),
        Just(ClientMetadata::Known(None)),
        Just(ClientMetadata::Known(known)),
    ]
}

/// Arbitrary packets with correct headers, numbered from 1, each starting with a byte that means something.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let first =
        prop_oneof![Just(0_u8), Just(1), Just(2), Just(3), Just(0xfb), Just(0xfe), Just(0xff), any::<u8>(),];
    let payload = (first, vec(prop_oneof![Just(0_u8), any::<u8>()], 0..30));
    vec(payload, 0..12).prop_map(|payloads| {
        let (mut out, mut sequence) = (Vec::new(), 1);
        for (first, mut rest) in payloads {
            rest.insert(0, first);
            wire::put_message(&mut out, &mut sequence, &rest);
        }
        out
    })
}

fn expect() -> impl Strategy<Value = Expect> {
    prop_oneof![
        Just(Expect::Simple),
        Just(Expect::ResultSets),
        Just(Expect::Rows),
        Just(Expect::Events),
        Just(Expect::Prepare),
        Just(Expect::FieldList),
        Just(Expect::Statistics),
    ]
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

proptest! {
    #[test]
    fn messages(bytes in vec(any::<u8>(), 0..100), sequence in any::<u8>(), limit in 0..1000_usize) {
        if let Ok(Some(message)) = read_message(&bytes, sequence, limit) {
            prop_assert!(message.payload.len() <= limit && message.consumed <= bytes.len());
            let (mut again, mut sequence) = (Vec::new(), sequence);
            wire::put_message(&mut again, &mut sequence, &message.payload);
            prop_assert_eq!(again, message.raw);
            prop_assert_eq!(message_len_hint(&bytes), Some(message.consumed));
        }
    }

    #[test]
    fn greetings(mut bytes in vec(any::<u8>(), 0..120)) {
        if let Some(first) = bytes.first_mut() {
            *first = 10;
        }
        if let Ok(greeting) = Greeting::parse(&bytes) {
            let mut again = Vec::new();
            greeting.put(&mut again);
            prop_assert_eq!(Greeting::parse(&again), Ok(greeting));
        }
    }

    #[test]
    fn login_requests(bytes in login_like()) {
        wire::is_ssl_request(&bytes);
        if let Ok(login) = LoginRequest::parse(&bytes) {
            let mut again = Vec::new();
            login.put(&mut again);
            let read_again = LoginRequest::parse(&again).unwrap();
            // Writing brings the flags in line with the fields, and always names the newer form of the response.
            prop_assert_eq!(LoginRequest { capabilities: login.capabilities, ..read_again }, login);
            if let Ok(attributes) = parse_attributes(login.attributes) {
                attributes.count();
            }
        }
    }

    #[test]
    fn changes_of_user(bytes in vec(any::<u8>(), 0..120), flags in any::<u64>()) {
        if let Ok(change) = ChangeUser::parse(&bytes, Capabilities(flags)) {
            let mut again = Vec::new();
            if change.auth_response.len() < 256 && change.auth_plugin.is_some() {
                change.put(&mut again);
                let all = Capabilities::SECURE_CONNECTION | Capabilities::PLUGIN_AUTH | Capabilities::CONNECT_ATTRS;
                let collation = change.collation.or(Some(0));
                prop_assert_eq!(
                    ChangeUser::parse(&again[1..], all),
                    Ok(ChangeUser { collation, ..change })
                );
            }
        }
    }

    #[test]
    fn commands(bytes in vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(Command::parse(&bytes) == Err(wire::WireError::Malformed { what: "empty command" }), bytes.is_empty());
    }

    #[test]
    fn replies(mut bytes in vec(any::<u8>(), 1..80), header in any::<bool>(), session_track in any::<bool>()) {
        let _ = EofPacket::parse(&bytes);
        let _ = AuthSwitch::parse(&bytes).map(|switch| switch.scramble());
        let _ = parse_column_count(&bytes);
        let _ = parse_column_definition(&bytes);
        let _ = parse_text_row(&bytes);
        if let Ok(err) = ErrPacket::parse(&bytes) {
            let mut again = Vec::new();
            err.put(&mut again);
            prop_assert_eq!(ErrPacket::parse(&again), Ok(err));
        }
        bytes[0] = if header { 0x00 } else { 0xfe };
        if let Ok(ok) = OkPacket::parse(&bytes, session_track) {
            let mut again = Vec::new();
            ok.put(&mut again, session_track);
            let status =
                if session_track { ok.status } else { ok.status.without(StatusFlags::SESSION_STATE_CHANGED) };
            prop_assert_eq!(OkPacket::parse(&again, session_track), Ok(OkPacket { status, ..ok }));
        }
    }

    #[test]
    fn changes_of_session_state(bytes in vec(any::<u8>(), 0..80)) {
        let changes: Vec<_> = session_changes(&bytes).collect();
        prop_assert!(changes.iter().rev().skip(1).all(Result::is_ok), "nothing follows an error");
    }

    #[test]
    fn values_with_names(bytes in vec(prop_oneof![0..8_u8, any::<u8>()], 0..80), parameters in 0..20_usize) {
        if let Ok((attributes, text)) = wire::split_query_attributes(&bytes) {
            prop_assert!(bytes.ends_with(text));
            // What is written of it reads the same, and nothing else.
            if let Some(attributes) = attributes {
                let again = [&attributes[..], text].concat();
                prop_assert_eq!(wire::split_query_attributes(&again), Ok((Some(attributes), text)));
            }
        }
        let mut named = Vec::new();
        wire::put_named_values(&mut named, parameters, &bytes);
        if let Ok(values) = wire::NamedValues::parse(&named) {
            prop_assert_eq!((values.count, values.are_named()), (parameters, false));
        }
    }

    /// Whatever the bytes: the reader neither panics nor makes it matter how they are cut.
    #[test]
    fn whole_replies(
        bytes in prop_oneof![packets(), vec(any::<u8>(), 0..100)],
        expect in expect(),
        flags in any::<[bool; 7]>(),
        client_metadata in client_metadata(),
        skip_results in 0..3_u8,
        cut in 1..20_usize,
    ) {
        let options = ReplyOptions {
            first_sequence: 1,
            backend_deprecate_eof: flags[0],
            backend_session_track: flags[1],
            may_open_cursor: flags[6],
            backend_compressed: flags[5],
            client_deprecate_eof: flags[2],
            client_session_track: flags[3],
            client_progress: flags[4],
            client_metadata,
            skip_results,
        };
        let mut whole = Recorder::default();
        let result = ReplyReader::new(expect, options).read(&bytes, &mut whole);

        let mut cut_up = Recorder::default();
        let mut reader = ReplyReader::new(expect, options);
        let (mut consumed, mut cut_result) = (0, None);
        for piece in bytes.chunks(cut) {
            match reader.read(piece, &mut cut_up) {
                Ok(progress) => {
                    consumed += progress.consumed;
                    if progress.done {
                        break;
                    }
                }
                Err(error) => {
                    cut_result = Some(error);
                    break;
                }
            }
        }
        prop_assert_eq!(result.err(), cut_result);
        if let Ok(progress) = result {
            prop_assert_eq!(consumed, progress.consumed);
            prop_assert_eq!(whole, cut_up);
        }
    }
}
