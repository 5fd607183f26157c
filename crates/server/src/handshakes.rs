//! TLS whose handshakes with clients are carried out by the threads of [`crate::helpers`].

use seam::{Input, Instant, Output, Program, Signal};
use tls::Tls;

use crate::helpers::HandshakeDesk;

/// The layer with its desk.
pub(crate) struct Handshakes<P> {
    tls: Tls<P>,
    desk: HandshakeDesk,
}

impl<P: Program> Handshakes<P> {
    /// Around `tls`; the desk has to be of the same worker.
    pub(crate) fn new(tls: Tls<P>, desk: HandshakeDesk) -> Self {
        Self { tls, desk }
    }

    /// The layer.
    pub(crate) fn inner_mut(&mut self) -> &mut Tls<P> {
        &mut self.tls
    }
}

impl<P: Program> Program for Handshakes<P> {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        let turn_ends = matches!(input, Input::TurnEnd);
        if matches!(input, Input::Signal(Signal::Wake)) {
            while let Some(outcome) = self.desk.outcome() {
                self.tls.take_outcome(now, outcome);
            }
        }
        self.tls.handle(now, input);
        if turn_ends {
            while let Some(handshake) = self.tls.poll_handshake() {
                self.desk.give(handshake);
            }
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.tls.poll_output()
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.tls.next_timeout()
    }
}
