//! The loss of a client's backend. The fate of the client follows from what it had there.

use super::{Client, LossKind, Phase, Running};
use crate::request::RequestKind;

/// The message to a client that has lost the backend with its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hears {
    /// Nothing more: the client has heard a part of the answer, is sending a file, or takes no error. Its connection ends.
    Nothing,
    /// The client hears that it has been killed.
    Killed,
    /// The client hears that the server was lost, and perhaps a transaction with it. The connection ends where going on
    /// would run the rest of a transaction outside of it, or statements without the state that they count on.
    Loss { transaction: bool, ends: bool },
}

/// The state of a client that has lost its backend between two statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterLoss {
    /// The client was reading the binary log, which ends with the connection.
    Log,
    /// The client's statement is answered, and Onramp was asking for what follows from that.
    Answered,
    /// The client's next statement waits, and is answered with this loss.
    NextStatement(LossKind),
    /// The client hears of the loss with its next command, if there is one.
    Idle,
}

impl Client {
    /// Notes that the backend with the client's statement is lost. Nobody knows whether the statement ran, and how far, so it is not sent
    /// again. `begun` says whether a part of the answer has been heard. Returns the message to the client, and the number of its packet.
    pub(crate) fn lose_statement(&mut self, begun: bool) -> (Hears, u8) {
        let uploading = matches!(self.phase(), Phase::Running(Running::Uploading { .. }));
        // A transaction that was about to begin with it may have begun.
        let transaction = self.in_transaction() || self.session.unstarted().is_some();
        let pinned = !self.session.pins.is_empty();
        let request = self.request.as_deref();
        let login = request.is_some_and(|request| request.command == RequestKind::LoginSchema);
        let answer = request.map_or(1, |request| request.answer);
        self.backend = None;
        self.end_statement();
        let hears = if begun || uploading || self.loss.wants_end {
            Hears::Nothing
        } else if self.loss.killed {
            Hears::Killed
        } else {
            Hears::Loss { transaction, ends: transaction || pinned || login }
        };
        (hears, answer)
    }

    /// Notes that the client has lost its backend between two statements.
    pub(crate) fn lose_held_backend(&mut self) -> AfterLoss {
        self.backend = None;
        // The servers close the connection behind the end of the binary log (dispatch_command: COM_BINLOG_DUMP).
        if self.session.pins.replicates() {
            return AfterLoss::Log;
        }
        self.session.aftermath.insert_id_lost();
        // What was still to be asked for only this backend knew.
        let has_state_there = !self.session.pins.is_empty() || self.session.unreported.is_some();
        self.loss.kind = match (has_state_there, self.in_transaction()) {
            _ if self.loss.kind == Some(LossKind::Server) => self.loss.kind,
            (true, _) => Some(LossKind::PinnedState),
            (false, true) => Some(LossKind::Transaction),
            (false, false) => None,
        };
        match self.phase() {
            Phase::Settling => {
                // Its answer is not lost, and has told how many warnings there were.
                self.end_statement();
                self.session.aftermath.lose_texts();
                AfterLoss::Answered
            }
            Phase::Queued => AfterLoss::NextStatement(self.loss.kind.unwrap_or(LossKind::Transaction)),
            _ => AfterLoss::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::{Expect, StatusFlags};

    use super::*;
    use crate::client::commands::command::tests::engine;
    use crate::ids::client_key;
    use crate::request::Request;
    use crate::session::pins::Pins;
    use crate::settings::Settings;

    /// Returns the message to a client that has this, in the packet that the client expects.
    fn hears(has: impl FnOnce(&mut Client), begun: bool) -> Hears {
        let mut engine = engine(1, Settings::default());
        let client = &mut engine.clients[client_key(0)];
        client.set_phase(Phase::Running(Running::OnServer));
        let request = Request::plain(Vec::new(), Expect::Simple, RequestKind::Query);
        client.request = Some(Box::new(Request { answer: 3, ..request }));
        has(client);
        let (hears, sequence) = client.lose_statement(begun);
        assert_eq!(sequence, 3);
        assert!(matches!(client.phase(), Phase::Idle));
        hears
    }

    #[test]
    fn a_client_goes_on_that_had_nothing_there() {
        assert_eq!(hears(|_| {}, false), Hears::Loss { transaction: false, ends: false });
        assert_eq!(hears(|_| {}, true), Hears::Nothing, "half an answer cannot be made whole");
    }

    #[test]
    fn a_client_ends_with_what_cannot_be_had_again() {
        let pinned = |client: &mut Client| client.session.pins = Pins::STATE_CHANGE;
        assert_eq!(hears(pinned, false), Hears::Loss { transaction: false, ends: true });
        let begins = |client: &mut Client| client.session.status = StatusFlags::IN_TRANS;
        assert_eq!(hears(begins, false), Hears::Loss { transaction: true, ends: true });
        assert_eq!(hears(|client| client.loss.killed = true, false), Hears::Killed);
    }

    #[test]
    fn between_statements_the_loss_is_kept_for_the_next_one() {
        let mut engine = engine(1, Settings::default());
        let client = &mut engine.clients[client_key(0)];
        assert_eq!((client.lose_held_backend(), client.loss.kind), (AfterLoss::Idle, None));
        client.session.status = StatusFlags::IN_TRANS;
        assert_eq!(
            (client.lose_held_backend(), client.loss.kind),
            (AfterLoss::Idle, Some(LossKind::Transaction))
        );
        client.session.pins = Pins::STATE_CHANGE;
        client.set_phase(Phase::Queued);
        assert_eq!(client.lose_held_backend(), AfterLoss::NextStatement(LossKind::PinnedState));
        client.loss.kind = Some(LossKind::Server);
        client.set_phase(Phase::Settling);
        assert_eq!(
            (client.lose_held_backend(), client.loss.kind),
            (AfterLoss::Answered, Some(LossKind::Server))
        );
    }
}
