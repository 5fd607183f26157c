//! Replies of servers that compress, whose numbers say nothing.

use super::*;

/// Packets as a server numbers them that compresses: anyhow.
fn packets_anyhow(payloads: &[&[u8]]) -> Vec<u8> {
    let numbers = [1, 2, 2, 1, 9, 255, 0, 0, 1, 3];
    let numbered = payloads.iter().zip(numbers.into_iter().cycle());
    numbered.flat_map(|(payload, number)| packets_from(number, &[payload])).collect()
}

/// What the client gets of a reply whose packets are numbered anyhow, whole and byte by byte, and the events.
#[track_caller]
fn check_compressed(
    expect: Expect,
    options: ReplyOptions,
    backend: &[&[u8]],
    client: &[&[u8]],
) -> Vec<String> {
    let options = ReplyOptions { backend_compressed: true, ..options };
    let input = packets_anyhow(backend);
    let mut events = Vec::new();
    for size in [input.len(), 1] {
        let mut reader = ReplyReader::new(expect, options);
        let mut recorder = Recorder::default();
        let mut done = false;
        for piece in input.chunks(size) {
            assert!(!done);
            done = reader.read(piece, &mut recorder).unwrap().done;
        }
        assert!(done);
        assert_eq!(recorder.relayed, packets(client));
        events = recorder.events;
    }
    events
}

#[test]
fn numbers_of_servers_that_compress_are_made_anew() {
    let rows: [&[u8]; 6] = [b"\x01", DEFINITION, b"\x011", b"\x012", END_MORE, OK];
    let old: [&[u8]; 7] = [b"\x01", DEFINITION, EOF_MORE, b"\x011", b"\x012", EOF_MORE, OK];
    check_compressed(Expect::ResultSets, NEW, &rows, &rows);
    check_compressed(Expect::ResultSets, NEW_TO_OLD, &rows, &old);
    check_compressed(Expect::ResultSets, OLD_TO_NEW, &old, &rows);
    check_compressed(Expect::ResultSets, NEW, &[ERR], &[ERR]);
    let skips = ReplyOptions { skip_results: 2, ..NEW };
    check_compressed(Expect::ResultSets, skips, &[&[OK_MORE, OK_MORE], &rows[..]].concat(), &rows);
    let prepared: [&[u8]; 3] = [b"\x00\x07\0\0\0\x01\0\x01\0\0\0\0", DEFINITION, DEFINITION];
    check_compressed(Expect::Prepare, NEW, &prepared, &prepared);
    let with_eofs = [prepared[0], prepared[1], EOF, prepared[2], EOF];
    check_compressed(Expect::Prepare, NEW_TO_OLD, &prepared, &with_eofs);
    // Definitions that are held back.
    let announced: [&[u8]; 6] = [b"\x01\x01", DEFINITION, b"\x011", b"\x012", END_MORE, OK];
    let known = |digest| ReplyOptions { client_metadata: ClientMetadata::Known(digest), ..NEW };
    let told = ReplyOptions { client_metadata: ClientMetadata::Announced, ..NEW };
    check_compressed(Expect::ResultSets, told, &rows, &announced);
    let events = check_compressed(Expect::ResultSets, known(None), &rows, &announced);
    let digest = u64::from_str_radix(events[0].strip_prefix("metadata ").unwrap(), 16).unwrap();
    let left_out: [&[u8]; 5] = [b"\x01\x00", b"\x011", b"\x012", END_MORE, OK];
    check_compressed(Expect::ResultSets, known(Some(digest)), &rows, &left_out);
}

#[test]
fn rows_of_several_packets_are_numbered_on() {
    let long = vec![b'x'; MAX_PAYLOAD + 7];
    let row = |number| packets_from(number, &[&long]);
    let input = [packets_anyhow(&[b"\x01", DEFINITION]), row(7), packets_from(200, &[END])].concat();
    let options = ReplyOptions { backend_compressed: true, ..NEW };
    let mut recorder = Recorder::default();
    assert!(ReplyReader::new(Expect::ResultSets, options).read(&input, &mut recorder).unwrap().done);
    assert!(recorder.relayed == packets(&[b"\x01", DEFINITION, &long, END]));
}

#[test]
fn a_file_is_asked_for_by_a_server_that_compresses() {
    let options = ReplyOptions { backend_compressed: true, ..NEW };
    let mut reader = ReplyReader::new(Expect::ResultSets, options);
    let mut recorder = Recorder::default();
    let request = [packets_from(1, &[OK_MORE]), packets_from(77, &[b"\xfbfile"])].concat();
    assert!(!reader.read(&request, &mut recorder).unwrap().done);
    assert_eq!(recorder.events[1], "file 2");
    reader.local_infile_sent(6);
    assert!(reader.read(&packets_from(12, &[OK]), &mut recorder).unwrap().done);
    assert_eq!(recorder.relayed, [packets(&[OK_MORE, b"\xfbfile"]), packets_from(7, &[OK])].concat());
}

/// Where a replica acknowledges events, what follows one that it is to acknowledge has the number 1 again.
#[test]
fn events_of_servers_that_compress() {
    let plain: [&[u8]; 4] = [b"\x00\0\0\0\0rotate", b"\x00\xef\x01event", b"\x00", EOF];
    check_compressed(Expect::Events, NEW, &plain, &plain);
    let acknowledged: [&[u8]; 6] = [
        b"\x00\xef\0\0\0\0\0rotate",
        b"\x00\xef\x01one",
        b"\x00\xef\0two",
        b"\x00\xef\x01three",
        b"\x00\xef\0four",
        EOF,
    ];
    let options = ReplyOptions { backend_compressed: true, ..NEW };
    let input = packets_anyhow(&acknowledged);
    let expected =
        [packets(&acknowledged[..2]), packets(&acknowledged[2..4]), packets(&acknowledged[4..])].concat();
    for size in [input.len(), 1] {
        let mut reader = ReplyReader::new(Expect::Events, options);
        let mut recorder = Recorder::default();
        for piece in input.chunks(size) {
            reader.read(piece, &mut recorder).unwrap();
        }
        assert_eq!(recorder.relayed, expected);
    }
    // A large one is to be acknowledged as a whole.
    let large = [&b"\x00\xef\x01"[..], &vec![b'x'; MAX_PAYLOAD]].concat();
    let input = [packets_from(5, &[acknowledged[0]]), packets_from(9, &[&large, acknowledged[4]])].concat();
    let mut recorder = Recorder::default();
    ReplyReader::new(Expect::Events, options).read(&input, &mut recorder).unwrap();
    assert!(recorder.relayed == [packets(&[acknowledged[0], &large]), packets(&[acknowledged[4]])].concat());
}
