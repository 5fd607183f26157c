//! The first bytes that a stranger can send.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{LoginRequest, is_ssl_request, parse_attributes};

fuzz_target!(|bytes: &[u8]| {
    let Ok(login) = LoginRequest::parse(bytes) else { return };
    assert!(!is_ssl_request(bytes));
    let mut again = Vec::new();
    login.put(&mut again);
    // Writing brings the capabilities in line with the fields.
    let read_again = LoginRequest::parse(&again).expect("what was written can be read");
    assert_eq!(LoginRequest { capabilities: login.capabilities, ..read_again }, login);
    if let Ok(attributes) = parse_attributes(login.attributes) {
        let length: usize = attributes.map(|(key, value)| key.len() + value.len() + 2).sum();
        assert!(length <= login.attributes.len());
    }
});
