//! What clients of old protocols are told in the EOF before the rows, where the server sends none there.

use super::*;

/// What a server that speaks no DEPRECATE_EOF says before the rows: as behind them, but how long it took.
#[test]
fn eofs_of_our_own_say_what_the_end_says() {
    // A transaction was begun, no index was used, it was slow.
    let end = b"\xfe\x00\x00\x21\x08\x00\x00\x00";
    let new: &[&[u8]] = &[b"\x01", DEFINITION, b"\x011", b"\x012", end];
    let old: &[&[u8]] = &[b"\x01", DEFINITION, b"\xfe\x00\x00\x21\x00", b"\x011", b"\x012", &end[..5]];
    check(Expect::ResultSets, NEW_TO_OLD, new, old, &["rows 2", "ok 0821"]);
}

#[test]
fn eofs_before_many_rows_say_that_there_are_more_results() {
    let row = [&[0xfc, 0, 16][..], &[b'x'; 4096]].concat();
    let large = |middle: Option<&'static [u8]>, end: &'static [u8]| {
        let front = [&b"\x01"[..], DEFINITION].into_iter().chain(middle);
        front.chain([&row[..]; 4]).chain([end]).collect::<Vec<_>>()
    };
    // The first one has used no index.
    let backend =
        [large(None, b"\xfe\x00\x00\x2a\x00\x00\x00"), large(None, END_MORE), large(None, END)].concat();
    let client = [
        large(Some(EOF_MORE), b"\xfe\x00\x00\x2a\x00"),
        large(Some(EOF_MORE), EOF_MORE),
        large(Some(EOF), EOF),
    ];
    for size in [packets(&backend).len(), 1000, 1] {
        let mut recorder = Recorder::default();
        let mut reader = ReplyReader::new(Expect::ResultSets, NEW_TO_OLD).with_results(3);
        for piece in packets(&backend).chunks(size) {
            reader.read(piece, &mut recorder).unwrap();
        }
        assert_eq!(recorder.relayed, packets(&client.concat()));
    }
}

#[test]
fn eofs_before_many_rows_carry_the_status_before() {
    // The last row does not fit any more.
    let row = [&[0xfc, 0, 16][..], &[b'x'; 4096]].concat();
    let rows = [&row[..]; 4];
    let backend = [&[b"\x01", DEFINITION][..], &rows, &[END]].concat();
    for (before, said) in [(2, 2), (0, 1), (2, 10), (0, 0_u8)] {
        let eof = [0xfe, 0, 0, said, 2];
        let client = [&[b"\x01", DEFINITION, &eof][..], &rows, &[EOF]].concat();
        for size in [packets(&backend).len(), 1000, 1] {
            let mut recorder = Recorder::default();
            let status = StatusFlags(u16::from(before)) | StatusFlags::NO_BACKSLASH_ESCAPES;
            let foreseen = StatusFlags(u16::from(said - before));
            let mut reader =
                ReplyReader::new(Expect::ResultSets, NEW_TO_OLD).with_status(status).with_foreseen(foreseen);
            for piece in packets(&backend).chunks(size) {
                reader.read(piece, &mut recorder).unwrap();
            }
            assert_eq!(recorder.relayed, packets(&client));
        }
    }
    // An error behind rows ends the wait too.
    let new: &[&[u8]] = &[b"\x01", DEFINITION, b"\x011", ERR];
    check(Expect::ResultSets, NEW_TO_OLD, new, &[b"\x01", DEFINITION, EOF, b"\x011", ERR], &["err 1054"]);
}
