//! Status flags that repeat what `sql_mode` says. Behind routines MariaDB leaves them as those had them, until the next SET.

use wire::{StatusFlags, parse_text_row};

use crate::connection::{Reply, Role};

/// The flags that say what `sql_mode` is; the second one is SERVER_STATUS_ANSI_QUOTES, MariaDB's alone.
const FLAGS_OF_SQL_MODE: StatusFlags = StatusFlags(StatusFlags::NO_BACKSLASH_ESCAPES.0 | 1 << 15);

/// An OK or EOF packet without these flags.
pub(crate) fn without_flags_of_sql_mode(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let place = if packet.len() == 5 {
        Some(3)
    } else {
        let mut reader = wire::Reader::of("OK packet", packet.get(1..).unwrap_or_default());
        let counts = reader.lenenc_int().and_then(|_| reader.lenenc_int());
        counts.is_ok().then(|| packet.len() - reader.remaining())
    };
    if let Some([low, high]) = place.and_then(|place| packet.get_mut(place..)?.first_chunk_mut()) {
        let status = StatusFlags(u16::from_le_bytes([*low, *high])).without(FLAGS_OF_SQL_MODE);
        [*low, *high] = status.0.to_le_bytes();
    }
    packet
}

/// Whether the answer to `SELECT @@sql_mode` ends with the flags of what it shows.
pub(crate) fn has_flags_of_its_sql_mode(reply: &Reply) -> bool {
    let row = reply.packets.iter().find(|packet| packet.role == Role::TextRow);
    let modes = row.and_then(|row| parse_text_row(&row.payload).ok()?.first()?.map(<[u8]>::to_vec));
    let end = reply.packets.last().and_then(|packet| match packet.payload[..] {
        [0xfe, _, _, low, high] => Some(StatusFlags(u16::from_le_bytes([low, high]))),
        _ => wire::OkPacket::parse(&packet.payload, true).ok().map(|ok| ok.status),
    });
    let (Some(modes), Some(status)) = (modes, end) else { return false };
    let has = |name: &[u8]| modes.split(|&byte| byte == b',').any(|mode| mode == name);
    let flags = [
        (&b"NO_BACKSLASH_ESCAPES"[..], StatusFlags::NO_BACKSLASH_ESCAPES),
        (b"ANSI_QUOTES", StatusFlags(1 << 15)),
    ];
    flags.into_iter().all(|(name, flag)| has(name) == status.contains(flag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Packet;

    #[test]
    fn flags_belong_to_their_sql_mode() {
        let packet = |role, payload: &[u8]| Packet { role, sequence: 1, payload: payload.to_vec() };
        let answer = |modes: &str, upper| {
            let mut row = Vec::new();
            wire::put_lenenc_bytes(&mut row, modes.as_bytes());
            let packets = vec![packet(Role::TextRow, &row), packet(Role::EndOfRows, &[0xfe, 0, 0, 2, upper])];
            has_flags_of_its_sql_mode(&Reply { packets, broken: None })
        };
        assert!(answer("ANSI_QUOTES,NO_BACKSLASH_ESCAPES", 0x82) && answer("", 0x40));
        assert!(!answer("ANSI_QUOTES", 0x82) && !answer("NO_BACKSLASH_ESCAPES", 0) && !answer("", 0x80));
        assert!(!has_flags_of_its_sql_mode(&Reply::default()));
    }
}
