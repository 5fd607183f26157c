//! What a client may ask for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Command, CommandKind};

fuzz_target!(|bytes: &[u8]| {
    match Command::parse(bytes) {
        Ok(Command::Unsupported(byte)) => assert_eq!(byte, bytes[0]),
        Ok(Command::Query(body)) => {
            // What is written of the attributes reads the same.
            if let Ok((Some(attributes), text)) = wire::split_query_attributes(body) {
                let again = [&attributes[..], text].concat();
                assert_eq!(wire::split_query_attributes(&again), Ok((Some(attributes), text)));
            }
        }
        Ok(Command::StmtExecute { body, .. }) => drop(wire::NamedValues::parse(body)),
        Ok(_) => assert!(CommandKind::from_byte(bytes[0]).is_some()),
        Err(_) => {}
    }
});
