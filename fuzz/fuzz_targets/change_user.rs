//! A login on an open connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Capabilities, ChangeUser};

fuzz_target!(|input: (u64, &[u8])| {
    let (capabilities, bytes) = (Capabilities(input.0), input.1);
    let Ok(change) = ChangeUser::parse(bytes, capabilities) else { return };
    // Without SECURE_CONNECTION the response may be longer than the form that is written holds, and without a plugin
    // attributes are not written.
    if change.auth_response.len() > 255 || change.auth_plugin.is_none() {
        return;
    }
    let mut again = Vec::new();
    change.put(&mut again);
    let all = Capabilities::SECURE_CONNECTION | Capabilities::PLUGIN_AUTH | Capabilities::CONNECT_ATTRS;
    let collation = change.collation.or(Some(0));
    assert_eq!(ChangeUser::parse(&again[1..], all), Ok(ChangeUser { collation, ..change }));
});
