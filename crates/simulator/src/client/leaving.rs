//! How a client ends a login, and comes back as another.

use super::{Action, Client, Phase};
use crate::protocol::{PacketBuffer, command, packet};

impl Client {
    /// Ends a login as programs end them.
    pub(super) fn quit(&mut self, now: u64) {
        match self.random.below(4) {
            0 => self.actions.push(Action::Close),
            1 => self.actions.push(Action::Reset),
            _ => {
                self.actions.push(Action::Send(packet(0, &[command::QUIT])));
                self.actions.push(Action::Close);
            }
        }
        self.go_away(now);
    }

    /// Goes while an answer is outstanding.
    pub(super) fn break_off(&mut self, now: u64) {
        self.actions.push(if self.random.percent(50) { Action::Close } else { Action::Reset });
        self.go_away(now);
    }

    /// Gives this login up.
    pub(super) fn leave(&mut self, now: u64) {
        self.actions.push(Action::Close);
        self.go_away(now);
    }

    /// Sends what no server can answer rightly.
    pub(super) fn send_nonsense(&mut self, now: u64) {
        let bytes = match self.random.below(5) {
            0 => packet(7, b"\x0e"),                  // a wrong sequence number
            1 => vec![0x40, 0, 0, 0, 3, b'S', b'E'],  // a packet cut short
            2 => packet(0, b""),                      // no command
            3 => packet(0, &[command::STMT_EXECUTE]), // no statement id
            _ => (0..self.random.between(1, 60)).map(|_| self.random.number().to_le_bytes()[0]).collect(),
        };
        self.actions.push(Action::Send(bytes));
        self.phase = Phase::Ruined;
        self.due = now + self.random.between(100, 200_000);
        self.actions.push(Action::WakeAfter(self.due - now));
    }

    pub(super) fn go_away(&mut self, now: u64) {
        self.phase = Phase::Away;
        self.key.incarnation += 1;
        self.input = PacketBuffer::default();
        self.tail.clear();
        let pause = 200_000;
        self.due = now + self.random.between(10, pause);
        self.actions.push(Action::WakeAfter(self.due - now));
    }
}
