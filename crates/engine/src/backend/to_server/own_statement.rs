//! Statements of our own between those of clients.

use std::time::Duration;

use seam::Instant;
use wire::{Capabilities, CommandKind, Expect, ReplyReader};

use crate::backend::to_server::message::reply_options;
use crate::backend::{Ends, InFlight, Owner, PreludeEffects, Summary};
use crate::ids::BackendKey;
use crate::request::QueryAttributes;
use crate::server::Server;

/// Turns the trackers on, which every backend needs and a reset undoes. One statement, so that it fails or works as a whole.
pub(in crate::backend) const TRACKERS_ON: &str = "SET @@session.session_track_system_variables='*',\
    @@session.session_track_schema=1,@@session.session_track_state_change=1";

/// A command for a backend that no client has asked for.
pub(crate) struct OwnStatement<'a> {
    pub(super) owner: Owner,
    pub(super) command: CommandKind,
    pub(super) argument: &'a [u8],
    /// The way in which its answer ends.
    pub(super) expect: Expect,
    /// Number of its results that come before the one that counts.
    pub(super) skip_results: u8,
    /// Capabilities by which its answer is kept.
    pub(super) form: Capabilities,
}

impl OwnStatement<'_> {
    /// Makes a COM_PING.
    pub(crate) fn ping(owner: Owner) -> Self {
        Self {
            owner,
            command: CommandKind::Ping,
            argument: b"",
            expect: Expect::Simple,
            skip_results: 0,
            form: Capabilities::DEPRECATE_EOF,
        }
    }
}

impl Server {
    /// Puts a statement of our own in flight on a backend.
    pub(crate) fn send_own(&mut self, now: Instant, key: BackendKey, own: &OwnStatement<'_>) {
        let backend = &mut self.backends[key];
        let start = wire::begin_packet(&mut backend.out);
        backend.out.push(own.command as u8);
        if own.command == CommandKind::Query {
            backend.put_attributes(&QueryAttributes::None);
        }
        backend.out.extend_from_slice(own.argument);
        // Texts to prepare may take several packets.
        let mut sequence = 0;
        wire::end_packet(&mut backend.out, start, &mut sequence);
        let options = reply_options(backend.login.capabilities, own.form, own.skip_results, sequence);
        backend.put_in_flight(
            now,
            InFlight {
                owner: own.owner,
                reader: ReplyReader::new(own.expect, options),
                summary: Summary::default(),
                preludes: own.skip_results,
                fingerprint: 0,
                waited: Duration::ZERO,
                shared: false,
                brings: None,
                prelude_effects: PreludeEffects::default(),
                group: None,
                chooses_schema: false,
                ends: Ends::ByItself,
                library: None,
                code_change: None,
            },
        );
        self.mark_dirty(key);
    }
}
