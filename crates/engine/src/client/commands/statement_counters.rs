//! The counts of a client's commands about prepared statements.

/// The commands that are counted, by the places of their names.
#[derive(Clone, Copy)]
pub(crate) enum Counter {
    Prepare,
    Execute,
    Close,
    Reset,
    SendLongData,
    Fetch,
}

const NAMES: [&[u8]; 6] = [b"prepare", b"execute", b"close", b"reset", b"send_long_data", b"fetch"];

/// One count for each command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters([u64; NAMES.len()]);

plain!(struct Counters { 0 });

impl Counters {
    pub(super) fn of(&mut self, counter: Counter) -> &mut u64 {
        &mut self.0[counter as usize]
    }

    /// Returns the count of the commands of this name.
    pub(super) fn by_name(&self, name: &[u8]) -> Option<u64> {
        NAMES.iter().position(|known| *known == name).map(|place| self.0[place])
    }
}
