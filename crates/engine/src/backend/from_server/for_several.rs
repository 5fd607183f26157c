//! A statement in flight with an answer that several clients get.

use crate::backend::InFlight;
use crate::client::Client;
use crate::ids::{ClientKey, Table};
use crate::scheduling::coalescing::group::CoalescedGroup;

impl InFlight {
    /// Returns the other clients that get the same answer, where the statement is not for its own client alone.
    pub(crate) fn group(&self) -> Option<&CoalescedGroup> {
        self.group.as_deref()
    }

    /// The statement is for its own client alone from now on. Returns the clients that would have got the same answer.
    pub(crate) fn leaves_group(&mut self) -> Option<Box<CoalescedGroup>> {
        self.group.take()
    }

    /// The statement's client is about to let go of it. Takes out the next one that gets the same answer, where one does.
    pub(crate) fn next_of_group(&mut self, clients: &Table<ClientKey, Client>) -> Option<ClientKey> {
        self.group.as_mut()?.next_follower(clients)
    }
}
