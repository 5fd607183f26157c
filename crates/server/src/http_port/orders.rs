//! Orders by HTTP.

use web::{Answer, Request};

use crate::control::Control;

/// Ends the program as SIGTERM does, once: for those who cannot send a signal. A second order changes nothing.
pub(super) fn drain(control: &Control, request: &Request) -> Answer {
    if !control.end_once() {
        return Answer::line(202, "it is ending already");
    }
    tracing::info!("http: {} has ordered the end (/drain)", request.peer.ip());
    Answer::line(202, "no new clients from now on; open transactions have shutdown_timeout")
}
