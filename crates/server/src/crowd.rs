//! Finds out that a crowd of clients has gone, and left memory behind that nobody uses.

use std::time::Duration;

use seam::Instant;

/// Fewer clients leave nothing that is worth looking for: some 300 bytes of each remain in pieces of pages, less than a MiB.
const CROWD: usize = 1024;
/// The worker waits while its memory is looked through, so that this is seldom done where crowds come and go.
const PAUSE: Duration = Duration::from_secs(2);

/// Watches how many clients a worker has.
#[derive(Default)]
pub(crate) struct Crowd {
    /// The most there were since memory was last given back, as far as it was looked at.
    most: usize,
    /// How many there were at the last look.
    last: usize,
    next_look: Instant,
}

impl Crowd {
    /// Takes in how many clients there are, once in a while. Says, once, that half of a crowd or more has gone, and no more
    /// are going.
    pub(crate) fn has_left(&mut self, now: Instant, clients: usize) -> bool {
        self.most = self.most.max(clients);
        if now < self.next_look {
            return false;
        }
        self.next_look = now + PAUSE;
        let are_going = clients < self.last;
        self.last = clients;
        let left = !are_going && self.most - clients >= CROWD.max(self.most / 2);
        if left {
            self.most = clients;
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of these numbers of clients, a look apart.
    fn looks(clients: &[usize]) -> Vec<bool> {
        let mut crowd = Crowd::default();
        (0_u32..)
            .zip(clients)
            .map(|(look, clients)| crowd.has_left(Instant::START + PAUSE * look, *clients))
            .collect()
    }

    #[test]
    fn a_crowd_that_has_left_is_said_once() {
        assert_eq!(looks(&[10, 5000, 10, 10, 10]), [false, false, false, true, false]);
        assert_eq!(looks(&[10, 5000, 10, 10, 5000, 10, 10]), [false, false, false, true, false, false, true]);
    }

    #[test]
    fn nobody_waits_for_those_who_stay() {
        assert_eq!(looks(&[5000, 2000, 2000, 2000]), [false, false, true, false]);
        assert_eq!(looks(&[5000, 3000, 3000, 2000, 2000]), [false, false, false, false, true]);
    }

    #[test]
    fn some_that_leave_are_no_crowd() {
        assert_eq!(looks(&[1000, 0, 0]), [false; 3]);
        assert_eq!(looks(&[90_000, 60_000, 60_000]), [false; 3]);
    }

    #[test]
    fn crowds_between_two_looks_count() {
        let mut crowd = Crowd::default();
        assert!(!crowd.has_left(Instant::START, 10));
        assert!(!crowd.has_left(Instant::START + PAUSE / 2, 5000));
        assert!(crowd.has_left(Instant::START + PAUSE, 10));
    }
}
