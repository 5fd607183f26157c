use super::*;

/// An UPDATE in a transaction: one row, status 0x4003, no info, 11 bytes of changes.
const OK_WITH_STATE: &[u8] = b"\x00\x01\x00\x03\x40\x00\x00\x00\x0b\x05\x09\x08T___W___";

#[test]
fn an_ok_with_changes_comes_apart_and_together() {
    let ok = OkPacket::parse(OK_WITH_STATE, true).unwrap();
    assert_eq!((ok.affected_rows, ok.last_insert_id, ok.warnings), (1, 0, 0));
    assert_eq!(ok.status, StatusFlags(0x4003));
    assert_eq!(ok.info, b"");
    let changes: Result<Vec<_>, _> = session_changes(ok.session_changes).collect();
    assert_eq!(changes.unwrap(), [SessionChange::TransactionState(b"T___W___")]);
    let mut out = Vec::new();
    ok.put(&mut out, true);
    assert_eq!(out, OK_WITH_STATE);
}

#[test]
fn changes_of_251_bytes_in_mysql_57_have_a_length_of_one_byte() {
    let changes = [&[0, 248, 245][..], &[b'x'; 245], &[1, b'1'], &[9]].concat();
    assert_eq!(changes.len(), 251);
    let ok = OkPacket { session_changes: &changes, ..OkPacket::plain(StatusFlags::SESSION_STATE_CHANGED) };
    let mut right = Vec::new();
    ok.put(&mut right, true);
    assert_eq!(OkPacket::parse(&right, true), Ok(ok));
    let length = right.len() - changes.len() - 3;
    assert_eq!(right[length..length + 3], [0xfc, 251, 0]);
    let wrong = [&right[..length], &[0xfc], &changes].concat();
    assert_eq!(OkPacket::parse(&wrong, true), Ok(ok));
    assert!(OkPacket::parse(&wrong[..wrong.len() - 1], true).is_err());
}

#[test]
fn without_session_track_the_changes_and_the_flag_are_left_out() {
    let ok = OkPacket::parse(OK_WITH_STATE, true).unwrap();
    let mut out = Vec::new();
    ok.put(&mut out, false);
    assert_eq!(out, b"\x00\x01\x00\x03\x00\x00\x00");
}

#[test]
fn info_is_read_in_both_forms() {
    let lenenc = b"\x00\x03\x00\x02\x00\x00\x00\x27Records: 3  Duplicates: 0  Warnings: 0.";
    for session_track in [true, false] {
        let ok = OkPacket::parse(lenenc, session_track).unwrap();
        assert_eq!(ok.info, b"Records: 3  Duplicates: 0  Warnings: 0.");
        let mut out = Vec::new();
        ok.put(&mut out, session_track);
        assert_eq!(out, lenenc);
    }
    let plain = b"\x00\x03\x00\x02\x00\x00\x00Rows matched";
    assert_eq!(OkPacket::parse(plain, false).unwrap().info, b"Rows matched");
    assert!(OkPacket::parse(plain, true).is_err());
}

#[test]
fn every_kind_of_change() {
    let raw = [
        b"\x00\x0f\x0aautocommit\x03OFF".as_slice(),
        b"\x01\x05\x04test",
        b"\x02\x011",
        b"\x03\x08\x00\x06uuid:1",
        b"\x04\x13\x12START TRANSACTION;",
        b"\x05\x09\x08T_______",
        b"\x0c\x01x",
    ]
    .concat();
    let changes: Result<Vec<_>, _> = session_changes(&raw).collect();
    assert_eq!(
        changes.unwrap(),
        [
            SessionChange::SystemVariable { name: b"autocommit", value: b"OFF" },
            SessionChange::Schema(b"test"),
            SessionChange::StateChange,
            SessionChange::Gtids(b"uuid:1"),
            SessionChange::TransactionCharacteristics(b"START TRANSACTION;"),
            SessionChange::TransactionState(b"T_______"),
            SessionChange::Other { kind: 12, data: b"x" },
        ]
    );
    let mut again = Vec::new();
    for change in session_changes(&raw).flatten() {
        put_session_change(&mut again, &change);
    }
    assert_eq!(again, raw);
}

#[test]
fn a_change_comes_with_its_bytes() {
    let (schema, state) = (b"\x01\x05\x04test".as_slice(), b"\x02\x011".as_slice());
    let raw = [schema, state, b"\x01\x05\x04te"].concat();
    let mut changes = session_changes(&raw);
    assert_eq!(changes.next_with_bytes(), Some(Ok((SessionChange::Schema(b"test"), schema))));
    assert_eq!(changes.next_with_bytes(), Some(Ok((SessionChange::StateChange, state))));
    assert!(matches!(changes.next_with_bytes(), Some(Err(WireError::Truncated { .. }))));
    assert_eq!(changes.next_with_bytes(), None);
}

#[test]
fn a_broken_change_is_reported_once() {
    let mut changes = session_changes(b"\x01\x05\x04te");
    assert!(matches!(changes.next(), Some(Err(WireError::Truncated { .. }))));
    assert_eq!(changes.next(), None);
}

#[test]
fn err_with_and_without_sqlstate() {
    let err = ErrPacket { code: 1146, sql_state: *b"42S02", message: b"Table 'test.t' doesn't exist" };
    let mut out = Vec::new();
    err.put(&mut out);
    assert_eq!(&out[..9], b"\xff\x7a\x04#42S02");
    assert_eq!(ErrPacket::parse(&out), Ok(err));

    let early = ErrPacket { code: 1040, sql_state: *b"HY000", message: b"Too many connections" };
    out.clear();
    early.put_early(&mut out);
    assert_eq!(out, b"\xff\x10\x04Too many connections");
    assert_eq!(ErrPacket::parse(&out), Ok(early));
    // A message that only looks like the start of a SQLSTATE is a message.
    assert_eq!(ErrPacket::parse(b"\xff\x10\x04#12").unwrap().message, b"#12");
    assert!(ErrPacket::parse(b"\xff\x10").is_err());
    assert!(ErrPacket::parse(b"\x00\x10\x04").is_err());
}

#[test]
fn eof_has_five_bytes() {
    let eof = EofPacket { warnings: 1, status: StatusFlags(0x0022) };
    let mut out = Vec::new();
    eof.put(&mut out);
    assert_eq!(out, [0xfe, 1, 0, 0x22, 0]);
    assert_eq!(EofPacket::parse(&out), Ok(eof));
    assert!(EofPacket::parse(&out[..4]).is_err());
    assert!(EofPacket::parse(&[0xfe, 0, 0, 2, 0, 0, 0]).is_err());
}

#[test]
fn other_packets_are_no_ok() {
    assert!(matches!(OkPacket::parse(&[0xff, 0, 0], false), Err(WireError::Malformed { .. })));
    assert!(matches!(OkPacket::parse(&[0, 0, 0, 2], false), Err(WireError::Truncated { .. })));
    assert!(OkPacket::parse(b"", true).is_err());
}
