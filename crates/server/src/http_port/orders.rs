//! Orders by HTTP.

use std::time::Duration;

use web::{Answer, Request};

use crate::control::Control;

/// Ends the program as SIGTERM does, once: for those who cannot send a signal. A second order changes nothing.
pub(super) fn drain(control: &Control, request: &Request) -> Answer {
    if !control.end_once() {
        return Answer::line(202, "it is ending already");
    }
    tracing::info!("http: {} has ordered the end (/drain)", request.peer.ip());
    let wait = control.configuration().drain_wait;
    if wait > Duration::ZERO {
        let seconds = wait.as_secs_f64();
        return Answer::line(
            202,
            &format!(
                "not ready any more; no new clients in {seconds} s (drain_wait), and then open transactions have shutdown_timeout"
            ),
        );
    }
    Answer::line(202, "no new clients from now on; open transactions have shutdown_timeout")
}
