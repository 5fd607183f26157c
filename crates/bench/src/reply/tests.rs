use super::*;

/// One packet with its header.
fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sequence = sequence;
    wire::put_message(&mut out, &mut sequence, payload);
    out
}

fn reply(payloads: &[&[u8]]) -> Vec<u8> {
    payloads.iter().enumerate().flat_map(|(index, payload)| packet(index as u8 + 1, payload)).collect()
}

const OK: &[u8] = &[0, 1, 0, 0x03, 0x00, 0, 0];
const OK_AS_EOF: &[u8] = &[0xfe, 0, 0, 0x22, 0x00, 0, 0];
const EOF: &[u8] = &[0xfe, 0, 0, 0x22, 0x00];
const COLUMN: &[u8] = b"\x03def\x00\x00\x00\x01t\x00\x0c\x2d\x00\x0b\0\0\0\xfd\0\0\0\0\0";

fn long_row() -> Vec<u8> {
    let mut row = vec![119];
    row.extend((0..119).map(|digit| b'0' + digit % 10));
    row
}

/// Reads the reply whole and cut into pieces of every size; all must agree.
fn read(deprecate_eof: bool, expect: Expect, bytes: &[u8]) -> ReplyReader {
    for size in 1..bytes.len() {
        let mut reader = ReplyReader::new(deprecate_eof);
        reader.start(expect);
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let last = index == pieces.len() - 1;
            let progress = reader.read(piece).unwrap();
            assert_eq!(progress, last.then_some(piece.len()), "pieces of {size}");
        }
        let mut whole = ReplyReader::new(deprecate_eof);
        whole.start(expect);
        whole.read(bytes).unwrap();
        assert_eq!(reader.rows(), whole.rows());
        assert_eq!(reader.first_row(), whole.first_row());
        assert_eq!(reader.status(), whole.status());
        assert_eq!(reader.ending(), whole.ending());
    }
    let mut reader = ReplyReader::new(deprecate_eof);
    reader.start(expect);
    let mut with_more = bytes.to_vec();
    with_more.push(0xaa);
    assert_eq!(reader.read(&with_more).unwrap(), Some(bytes.len()), "what follows is not taken");
    reader
}

#[test]
fn an_ok_packet() {
    let reader = read(true, Expect::Results, &reply(&[OK]));
    assert_eq!(reader.ending(), Ending::Ok);
    assert!(reader.status().contains(StatusFlags::IN_TRANS));
    assert_eq!(reader.rows(), 0);
}

#[test]
fn an_error_keeps_code_and_text() {
    let reader =
        read(true, Expect::Results, &reply(&[b"\xff\x7a\x04#42S02Table 'sbtest.sbtest1' doesn't exist"]));
    let Ending::Error(error) = reader.ending() else { panic!("no error") };
    assert_eq!(error.code, 1146);
    assert_eq!(error.message, b"Table 'sbtest.sbtest1' doesn't exist");
}

#[test]
fn rows_in_both_protocols() {
    let row = long_row();
    let new = reply(&[&[1], COLUMN, &row, b"\x01x", OK_AS_EOF]);
    let old = reply(&[&[1], COLUMN, EOF, &row, b"\x01x", EOF]);
    for (deprecate_eof, bytes) in [(true, new), (false, old)] {
        let reader = read(deprecate_eof, Expect::FirstRow, &bytes);
        assert_eq!(reader.rows(), 2);
        assert_eq!(reader.first_row(), &row[..KEPT]);
        assert_eq!(reader.status(), StatusFlags(0x22));
        let reader = read(deprecate_eof, Expect::Results, &bytes);
        assert_eq!((reader.rows(), reader.first_row()), (2, &[] as &[u8]), "nobody asked for it");
    }
}

#[test]
fn a_complete_reply_holds_no_memory() {
    let reader = read(true, Expect::Results, &reply(&[&[1], COLUMN, &long_row(), OK_AS_EOF]));
    assert!(reader.begun.is_none() && matches!(reader.kept, Kept::Nothing));
    assert!(size_of::<ReplyReader>() <= 56, "{}", size_of::<ReplyReader>());
}

#[test]
fn an_error_among_the_rows() {
    let bytes = reply(&[&[1], COLUMN, b"\x01x", b"\xff\x25\x05#70100Query execution was interrupted"]);
    let reader = read(true, Expect::Results, &bytes);
    assert!(matches!(reader.ending(), Ending::Error(ErrPacket { code: 1317, .. })));
}

#[test]
fn several_results() {
    let more: &[u8] = &[0, 0, 0, 0x0a, 0x00, 0, 0];
    let reader = read(true, Expect::Results, &reply(&[more, &[1], COLUMN, b"\x01x", OK_AS_EOF]));
    assert_eq!(reader.rows(), 1);
}

#[test]
fn prepare_replies() {
    let first = |columns: u8, parameters: u8| [0, 9, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0];
    let with = |payloads: &[&[u8]]| reply(payloads);
    let both = first(1, 2);
    assert_eq!(read(true, Expect::Prepare, &with(&[&both, COLUMN, COLUMN, COLUMN])).prepared(), 9);
    read(false, Expect::Prepare, &with(&[&both, COLUMN, COLUMN, EOF, COLUMN, EOF]));
    read(true, Expect::Prepare, &with(&[&first(0, 0)]));
    read(true, Expect::Prepare, &with(&[&first(2, 0), COLUMN, COLUMN]));
    read(false, Expect::Prepare, &with(&[&first(0, 1), COLUMN, EOF]));
}

#[test]
fn wrong_sequence_and_nonsense_are_errors() {
    for bytes in [
        packet(2, OK),
        packet(1, b""),
        packet(1, b"\0"),
        packet(1, b"\xfbfile"),
        reply(&[&[1], COLUMN, b"", OK_AS_EOF]),
        vec![0xff, 0xff, 0xff, 1],
    ] {
        let mut reader = ReplyReader::new(true);
        reader.start(Expect::Results);
        assert!(reader.read(&bytes).is_err(), "{bytes:02x?}");
    }
}

#[test]
fn a_reader_serves_again_after_an_error() {
    let mut reader = ReplyReader::new(true);
    reader.start(Expect::Results);
    reader.read(&reply(&[b"\xff\x7a\x04#42S02no"])).unwrap();
    reader.start(Expect::Results);
    assert!(reader.read(&reply(&[OK])).unwrap().is_some());
    assert_eq!(reader.ending(), Ending::Ok);
}

#[test]
fn arbitrary_bytes_never_panic() {
    let mut random = crate::distribution::Random::new(11);
    for _ in 0..20_000 {
        let mut reader = ReplyReader::new(random.below(2) == 0);
        reader.start(if random.below(2) == 0 { Expect::Results } else { Expect::Prepare });
        let mut sequence = 1;
        for _ in 0..random.below(6) {
            let payload: Vec<u8> = (0..random.below(20)).map(|_| random.next() as u8).collect();
            let mut bytes = Vec::new();
            wire::put_message(&mut bytes, &mut sequence, &payload);
            let cut = random.below(bytes.len() as u32 + 1) as usize;
            if reader.read(&bytes[..cut]).and_then(|_| reader.read(&bytes[cut..])).is_err() {
                break;
            }
        }
    }
}
