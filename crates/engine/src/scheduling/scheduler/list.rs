//! Queues that entries can leave from the middle in constant time.

use std::time::Duration;

use seam::Instant;

use crate::ids::{ClientKey, Key};

/// A waiting statement, named by its client's slot.
#[derive(Clone, Copy, Debug)]
struct Node {
    queue: u8,
    previous: ClientKey,
    next: ClientKey,
    arrival: u64,
    since: Instant,
}

const NOWHERE: ClientKey = ClientKey::NOBODY;

/// `QUEUES` first-in-first-out queues over one table of nodes. A client waits in one queue at most.
pub(super) struct Lists<const QUEUES: usize> {
    nodes: Vec<Option<Node>>,
    ends: [(ClientKey, ClientKey); QUEUES],
    lengths: [usize; QUEUES],
    /// The place of the latest late comer of each queue: the next one goes nearby, since they come in order.
    late: [ClientKey; QUEUES],
}

/// The first of a queue: when it came into it, in the order of all arrivals, and since when it waits in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) client: ClientKey,
    pub(super) arrival: u64,
    pub(super) since: Instant,
}

impl Head {
    /// The time at which the statement will have waited for `time`.
    pub(super) fn after(&self, time: Duration) -> Instant {
        self.since + time
    }
}

impl<const QUEUES: usize> Lists<QUEUES> {
    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            ends: [(NOWHERE, NOWHERE); QUEUES],
            lengths: [0; QUEUES],
            late: [NOWHERE; QUEUES],
        }
    }

    /// A place in the table of nodes, used or not.
    pub(super) const BYTES_PER_CLIENT: usize = size_of::<Option<Node>>();

    /// Bytes of the table of nodes.
    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * Self::BYTES_PER_CLIENT
    }

    /// Puts a client behind those that have arrived before it: at the end, but for late comers with an early place.
    pub(super) fn push(&mut self, queue: usize, client: ClientKey, arrival: u64, since: Instant) {
        let neighbours = self.neighbours(queue, arrival);
        if neighbours.1 != NOWHERE {
            self.late[queue] = client;
        }
        self.put_between(queue, client, arrival, since, neighbours);
    }

    /// Puts one back that stood in front of another.
    pub(super) fn push_before(
        &mut self,
        queue: usize,
        client: ClientKey,
        arrival: u64,
        since: Instant,
        next: ClientKey,
    ) {
        let neighbours = (self.node(next).previous, next);
        self.put_between(queue, client, arrival, since, neighbours);
    }

    fn put_between(
        &mut self,
        queue: usize,
        client: ClientKey,
        arrival: u64,
        since: Instant,
        (previous, next): (ClientKey, ClientKey),
    ) {
        let slot = client.slot();
        if self.nodes.len() <= slot {
            self.nodes.resize(slot + 1, None);
        }
        assert!(self.nodes[slot].is_none(), "a client has one statement at a time");
        let queue_number = u8::try_from(queue).expect("a handful of queues");
        self.nodes[slot] = Some(Node { queue: queue_number, previous, next, arrival, since });
        match previous {
            NOWHERE => self.ends[queue].0 = client,
            previous => self.node(previous).next = client,
        }
        match next {
            NOWHERE => self.ends[queue].1 = client,
            next => self.node(next).previous = client,
        }
        self.lengths[queue] += 1;
    }

    /// Returns the two statements between which one of this arrival belongs.
    fn neighbours(&mut self, queue: usize, arrival: u64) -> (ClientKey, ClientKey) {
        let (first, last) = self.ends[queue];
        if last == NOWHERE || self.node(last).arrival <= arrival {
            return (last, NOWHERE);
        }
        if self.node(first).arrival > arrival {
            return (NOWHERE, first);
        }
        let mut previous = if self.late[queue] == NOWHERE { last } else { self.late[queue] };
        while self.node(previous).arrival > arrival {
            previous = self.node(previous).previous;
        }
        let mut next = self.node(previous).next;
        while self.node(next).arrival <= arrival {
            (previous, next) = (next, self.node(next).next);
        }
        (previous, next)
    }

    /// Takes a client out, wherever it stands. Returns its queue, or `None` where it does not wait.
    pub(super) fn remove(&mut self, client: ClientKey) -> Option<(usize, Head)> {
        let node = self.nodes.get_mut(client.slot())?.take()?;
        let queue = usize::from(node.queue);
        if self.late[queue] == client {
            self.late[queue] = node.previous;
        }
        match node.previous {
            NOWHERE => self.ends[queue].0 = node.next,
            previous => self.node(previous).next = node.next,
        }
        match node.next {
            NOWHERE => self.ends[queue].1 = node.previous,
            next => self.node(next).previous = node.previous,
        }
        self.lengths[queue] -= 1;
        Some((queue, Head { client, arrival: node.arrival, since: node.since }))
    }

    pub(super) fn head(&self, queue: usize) -> Option<Head> {
        let client = self.ends[queue].0;
        let node = self.nodes.get(client.slot())?.as_ref().expect("a head waits");
        Some(Head { client, arrival: node.arrival, since: node.since })
    }

    /// The queue of a waiting client, and how it stands there.
    pub(super) fn place(&self, client: ClientKey) -> Option<(usize, Head)> {
        let node = self.nodes.get(client.slot())?.as_ref()?;
        Some((usize::from(node.queue), Head { client, arrival: node.arrival, since: node.since }))
    }

    /// The client behind a waiting client.
    pub(super) fn behind(&self, client: ClientKey) -> Option<ClientKey> {
        let next = self.nodes.get(client.slot())?.as_ref()?.next;
        (next != NOWHERE).then_some(next)
    }

    /// The first of a queue, in order.
    pub(super) fn first(&self, queue: usize, count: usize) -> impl Iterator<Item = ClientKey> {
        let follow = |&client: &ClientKey| {
            let next = self.nodes[client.slot()].as_ref().expect("neighbours wait too").next;
            (next != NOWHERE).then_some(next)
        };
        let head = self.head(queue).map(|head| head.client);
        std::iter::successors(head, follow).take(count)
    }

    /// The last of a queue, from its end on.
    pub(super) fn last(&self, queue: usize) -> impl Iterator<Item = Head> {
        let head = |client: ClientKey| {
            let node = self.nodes.get(client.slot())?.as_ref().expect("who is in a list waits");
            Some(Head { client, arrival: node.arrival, since: node.since })
        };
        let previous = move |last: &Head| {
            head(self.nodes[last.client.slot()].as_ref().expect("neighbours wait too").previous)
        };
        std::iter::successors(head(self.ends[queue].1), previous)
    }

    /// True where nobody waits in any queue.
    pub(super) fn is_empty(&self) -> bool {
        self.lengths.iter().all(|&length| length == 0)
    }

    pub(super) fn len(&self, queue: usize) -> usize {
        self.lengths[queue]
    }

    fn node(&mut self, client: ClientKey) -> &mut Node {
        self.nodes[client.slot()].as_mut().expect("neighbours wait too")
    }
}
