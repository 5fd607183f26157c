//! OK, ERR and EOF packets, changes of session state, and the packets of small result sets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{
    EofPacket, ErrPacket, OkPacket, StatusFlags, parse_column_count, parse_column_definition, parse_text_row,
    session_changes,
};

fuzz_target!(|input: (bool, &[u8])| {
    let (session_track, bytes) = input;
    let mut again = Vec::new();
    if let Ok(ok) = OkPacket::parse(bytes, session_track) {
        ok.put(&mut again, session_track);
        let status =
            if session_track { ok.status } else { ok.status.without(StatusFlags::SESSION_STATE_CHANGED) };
        assert_eq!(OkPacket::parse(&again, session_track), Ok(OkPacket { status, ..ok }));
        let changes: Vec<_> = session_changes(ok.session_changes).collect();
        assert!(changes.iter().rev().skip(1).all(Result::is_ok), "nothing follows an error");
    }
    again.clear();
    if let Ok(err) = ErrPacket::parse(bytes) {
        err.put(&mut again);
        assert_eq!(ErrPacket::parse(&again), Ok(err));
    }
    again.clear();
    if let Ok(eof) = EofPacket::parse(bytes) {
        eof.put(&mut again);
        assert_eq!(again, bytes);
    }
    let _ = parse_column_count(bytes);
    let _ = parse_column_definition(bytes);
    let _ = parse_text_row(bytes);
});
