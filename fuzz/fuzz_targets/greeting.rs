//! What a server says first, and its wish for another authentication method.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{AuthSwitch, Greeting};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(greeting) = Greeting::parse(bytes) {
        let mut again = Vec::new();
        greeting.put(&mut again);
        assert_eq!(Greeting::parse(&again), Ok(greeting));
    }
    if let Ok(switch) = AuthSwitch::parse(bytes) {
        let mut again = Vec::new();
        switch.put(&mut again);
        let again = AuthSwitch::parse(&again).expect("what was written can be read");
        assert_eq!((again.plugin, again.scramble()), (switch.plugin, switch.scramble()));
    }
});
