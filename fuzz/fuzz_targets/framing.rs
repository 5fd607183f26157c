//! Messages: what is read can be written again, byte for byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{message_len_hint, put_message, read_message};

fuzz_target!(|input: (bool, u16, &[u8])| {
    let (guess, limit, bytes) = input;
    // The number in the header, or one that is mostly wrong.
    let sequence = bytes.get(3).copied().filter(|_| guess).unwrap_or(7);
    let limit = usize::from(limit);
    match read_message(bytes, sequence, limit) {
        Ok(Some(message)) => {
            assert!(message.payload.len() <= limit);
            assert_eq!(message_len_hint(bytes), Some(message.consumed));
            let (mut again, mut sequence) = (Vec::new(), sequence);
            put_message(&mut again, &mut sequence, &message.payload);
            assert_eq!(again, message.raw);
            assert_eq!(sequence, message.last_sequence.wrapping_add(1));
        }
        Ok(None) => assert!(message_len_hint(bytes).is_none_or(|length| length > bytes.len())),
        Err(_) => {}
    }
});
