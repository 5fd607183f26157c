//! Reads that one execution answers.

use std::collections::{BTreeMap, VecDeque};

use crate::ids::{ClientKey, ClientRef};
use crate::scheduling::scheduler::lane::Lane;

/// The groups of a worker that still wait.
#[derive(Default)]
pub(crate) struct Coalescer {
    /// Groups that wait, by the hash of the properties that their members share.
    pub(super) waiting: BTreeMap<u64, CoalescedGroup>,
    pub(super) last_number: u64,
}

/// Statements that one execution answers.
pub(crate) struct CoalescedGroup {
    /// Never used twice.
    pub(super) number: u64,
    /// The leader while the group waits. Later the statement in flight says who leads.
    pub(super) leader: ClientKey,
    pub(super) lane: Option<Lane>,
    pub(super) followers: VecDeque<ClientRef>,
    /// The part of the reply that has come.
    pub(crate) reply: Vec<u8>,
}

impl CoalescedGroup {
    /// Takes in a piece of the reply.
    pub(crate) fn collect(&mut self, bytes: &[u8]) {
        self.reply.extend_from_slice(bytes);
    }

    /// True where the reply is longer than so many bytes: it is for the leader alone then.
    pub(crate) fn outgrown(&self, reply_size: usize) -> bool {
        self.reply.len() > reply_size
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.followers.capacity() * size_of::<ClientRef>() + self.reply.capacity()
    }
}

impl Coalescer {
    /// The leader of the group with this number, where that still waits.
    pub(crate) fn leader_of(&self, number: u64) -> Option<ClientKey> {
        self.waiting.values().find(|group| group.number == number).map(|group| group.leader)
    }

    /// A group that nobody has joined is none for now. One that has gone still takes a place in it, which those who come later are to find
    /// taken.
    pub(crate) fn forget_empty(&mut self, hash: u64) {
        if self.waiting.get(&hash).is_some_and(|group| group.followers.is_empty()) {
            self.waiting.remove(&hash);
        }
    }

    /// Bytes of all waiting groups. The nodes of a B-tree are at least half full.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.values().map(|group| group.bytes() + size_of::<(u64, CoalescedGroup)>()).sum()
    }
}
