//! Numbers of packets, both ways.

use super::*;

fn packet(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [&[length, 0, 0, number], content].concat()
}

/// What a peer sends as one compressed packet.
fn sent(number: u8, packets: &[Vec<u8>]) -> Vec<u8> {
    let (mut out, mut number) = (Vec::new(), number);
    Codec::new().put(Compression::Zlib, &mut number, &packets.concat(), &mut out);
    out
}

fn opened(stream: &mut Stream, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    stream.keep(bytes);
    stream.open(&mut Codec::new(), usize::MAX, &mut plain).unwrap();
    plain
}

#[test]
fn packets_get_the_numbers_that_they_would_have() {
    let mut stream = Stream::new(Compression::Zlib, CompressionSide::Server);
    assert_eq!(opened(&mut stream, &sent(0, &[packet(0, b"load")])), packet(0, b"load"));
    let (mut out, mut codec) = (Vec::new(), Codec::new());
    stream.put(&mut codec, &packet(1, b"which file"), &mut out);
    assert_eq!(Header::parse(&out).unwrap().number, 1);
    // Two in the first, of which the client knows one number only.
    let upload = sent(2, &[packet(2, b"a"), packet(3, b"b")]);
    assert_eq!(opened(&mut stream, &upload), [packet(2, b"a"), packet(3, b"b")].concat());
    assert_eq!(opened(&mut stream, &sent(3, &[packet(3, b"c")])), packet(4, b"c"));
    out.clear();
    stream.put(&mut codec, &packet(5, b"done"), &mut out);
    assert_eq!(Header::parse(&out).unwrap().number, 4);
    // The next command, and one that is sent ahead.
    let two = [sent(0, &[packet(0, b"x")]), sent(0, &[packet(0, b"y")])].concat();
    assert_eq!(opened(&mut stream, &two), [packet(0, b"x"), packet(0, b"y")].concat());
}

#[test]
fn long_uploads_go_round() {
    let mut stream = Stream::new(Compression::Zlib, CompressionSide::Server);
    opened(&mut stream, &sent(0, &[packet(0, b"load")]));
    stream.put(&mut Codec::new(), &packet(1, b"which file"), &mut Vec::new());
    for number in 2..1000_u16 {
        let number = number.to_le_bytes()[0];
        assert_eq!(opened(&mut stream, &sent(number, &[packet(9, b"more")])), packet(number, b"more"));
    }
}

#[test]
fn packets_go_whole() {
    let (mut stream, mut codec) = (Stream::new(Compression::Zlib, CompressionSide::Server), Codec::new());
    let large = [&[0x40, 0x42, 0x0f, 7][..], &[b'l'; 1_000_000]].concat();
    let all = [packet(6, b"small"), large, packet(8, b"last")].concat();
    let mut out = Vec::new();
    let mut before = 0;
    for piece in all.chunks(70_000) {
        stream.put(&mut codec, piece, &mut out);
        assert!(out.len() == before || Header::parse(&out[before..]).is_some());
        before = out.len();
    }
    let mut headers = Vec::new();
    let mut rest = &out[..];
    while let Some(header) = Header::parse(rest) {
        headers.push((header.number, header.original));
        rest = &rest[HEADER + header.length..];
    }
    // What was whole first, the large one with nothing of others, what came last.
    assert_eq!(headers, [(0, 0), (1, 1_000_004), (2, 0)]);
    assert!(stream.held.is_empty());
}

#[test]
fn cut_anywhere() {
    let all = [sent(0, &[packet(0, &[b'a'; 200])]), sent(1, &[packet(1, b"b")])].concat();
    for piece in 1..all.len() {
        let mut stream = Stream::new(Compression::Zlib, CompressionSide::Server);
        let plain: Vec<u8> = all.chunks(piece).flat_map(|bytes| opened(&mut stream, bytes)).collect();
        assert_eq!(plain, [packet(0, &[b'a'; 200]), packet(1, b"b")].concat());
    }
}

/// Puts packets for a server, and gives the numbers of the compressed ones.
fn put(stream: &mut Stream, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    stream.put(&mut Codec::new(), &packets.concat(), &mut out);
    let (mut numbers, mut rest) = (Vec::new(), &out[..]);
    while let Some(header) = Header::parse(rest) {
        numbers.push(header.number);
        rest = &rest[HEADER + header.length..];
    }
    assert!(rest.is_empty());
    numbers
}

#[test]
fn a_server_gets_each_command_by_itself() {
    let mut stream = Stream::new(Compression::Zlib, CompressionSide::Client);
    let commands = [packet(0, b"\x03one"), packet(0, b"\x19stmt"), packet(0, b"\x03two")];
    assert_eq!(put(&mut stream, &commands), [0, 0, 0]);
    // What it says keeps its numbers, whatever they are.
    let answers = [sent(1, &[packet(1, b"a"), packet(2, b"b")]), sent(2, &[packet(2, b"c")])].concat();
    assert_eq!(opened(&mut stream, &answers), [packet(1, b"a"), packet(2, b"b"), packet(2, b"c")].concat());
    assert_eq!(put(&mut stream, &commands[..1]), [0]);
}

#[test]
fn a_file_for_a_server_goes_on_behind_its_request() {
    let mut stream = Stream::new(Compression::Zlib, CompressionSide::Client);
    assert_eq!(put(&mut stream, &[packet(0, b"\x03LOAD")]), [0]);
    // Two results in front of it, in compressed packets of their own.
    for number in 1..4 {
        opened(&mut stream, &sent(number, &[packet(number, b"x")]));
    }
    assert_eq!(put(&mut stream, &[packet(2, b"x"), packet(3, b"y")]), [4]);
    // The numbers go round while it lasts.
    for number in 5..2000_u16 {
        let packet = packet(u8::try_from(number % 255).unwrap() + 1, b"more");
        assert_eq!(put(&mut stream, &[packet]), [number.to_le_bytes()[0]]);
    }
    assert_eq!(put(&mut stream, &[packet(1, b"")]), [2000_u16.to_le_bytes()[0]]);
    assert_eq!(
        opened(&mut stream, &sent(2001_u16.to_le_bytes()[0], &[packet(9, b"done")])),
        packet(9, b"done")
    );
    assert_eq!(put(&mut stream, &[packet(0, b"\x0e")]), [0]);
}

/// What is together on the way to a server is no more than its own clients put together.
#[test]
fn a_file_for_a_server_goes_in_small_packets() {
    let mut stream = Stream::new(Compression::Zlib, CompressionSide::Client);
    let lines = vec![packet(2, &[b'x'; 246]); 1000];
    assert_eq!(put(&mut stream, &lines).len(), 1000_usize.div_ceil(TOGETHER_FOR_SERVERS / 250));
}

#[test]
fn messages_of_several_packets_are_one_command() {
    let long = |number: u8| [&[0xff, 0xff, 0xff, number][..], &vec![b'x'; 0xff_ffff]].concat();
    let mut stream = Stream::new(Compression::Zlib, CompressionSide::Client);
    // The first fills one compressed packet but for its own header.
    assert_eq!(put(&mut stream, &[long(0), packet(1, b"rest"), packet(0, b"\x0e")]), [0, 1, 2, 0]);
    // Cut between them.
    assert_eq!(put(&mut stream, &[long(0)]), [0, 1]);
    assert_eq!(put(&mut stream, &[packet(1, b""), packet(0, b"\x0e")]), [2, 0]);
    // A part of a message is none of the next, whatever its number.
    let mut stream = Stream::new(Compression::Zlib, CompressionSide::Client);
    opened(&mut stream, &sent(6, &[packet(6, b"which file")]));
    assert_eq!(
        put(&mut stream, &[long(255), packet(0, b"rest"), packet(1, b"more"), packet(2, b"")]),
        [7, 8, 9, 10]
    );
}
