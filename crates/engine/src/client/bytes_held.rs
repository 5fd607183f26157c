//! Bytes that many hold together, counted with each of them.

/// What all holders have together.
#[derive(Debug, Default)]
pub(crate) struct BytesHeld(usize);

/// What one holder has of a [`BytesHeld`], in bytes. It is given back before its holder goes: [`crate::invariants`] looks for what is left behind.
#[derive(Debug, Default)]
pub(crate) struct Counted(u32);

impl Counted {
    pub(crate) fn bytes(&self) -> usize {
        self.0 as usize
    }
}

impl BytesHeld {
    pub(crate) fn bytes(&self) -> usize {
        self.0
    }

    /// The holder has so many now, whatever it had before. Beyond 4 GiB no more are counted: a command has 1 GiB at most.
    pub(crate) fn set(&mut self, counted: &mut Counted, bytes: usize) {
        self.give_back(counted);
        counted.0 = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.0 += counted.bytes();
    }

    pub(crate) fn add(&mut self, counted: &mut Counted, bytes: usize) {
        self.set(counted, counted.bytes() + bytes);
    }

    /// The holder has none any more.
    pub(crate) fn give_back(&mut self, counted: &mut Counted) {
        self.0 -= std::mem::take(counted).bytes();
    }
}
