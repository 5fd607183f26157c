//! A command that waits as plain data ([`crate::frozen`]), and back.
//!
//! Few waiting commands cannot be frozen. Such a command is about to change the session's account or to end another client, has an answer
//! that will be held, has a text that another thread has read, or counts for the load by which readers are chosen.

use std::time::Duration;

use seam::Instant;
use sql::{Classification, ResourceChange, VariableUse};
use wire::Expect;

use super::{
    About, Action, QueryAttributes, Request, RequestBytes, RequestChanges, RequestKind, RequestRows,
    RequestTries, RequestTurn,
};
use crate::backend::to_server::prepared::frozen::FrozenServes;
use crate::client::commands::statements::ClientStatements;
use crate::client::memory::bytes_held::{BytesHeld, Counted};
use crate::client::session::priority::Priority;
use crate::frozen::{Distance, NotFrozen};
use crate::outside::waits::{FrozenArrival, Holdups};
use crate::scheduling::scheduler::lane::Lane;
use crate::server::stored_code::Hidden;
use crate::session::SessionTables;
use crate::session::frozen::FrozenTemplate;
use crate::session::known_answers::KnownQuestion;

/// A command that waits in a queue.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenRequest {
    raw: Box<[u8]>,
    growth: usize,
    /// Bytes of the request that count against `statement_memory`.
    counted: usize,
    expect: Expect,
    command: RequestKind,
    statement: Classification,
    answer: u8,
    changes: FrozenChanges,
    rows: RequestRows,
    turn: FrozenTurn,
    prepared: bool,
    tries: RequestTries,
    attributes: QueryAttributes,
    about: Option<FrozenAbout>,
    remember: Option<KnownQuestion>,
}

plain!(struct FrozenRequest {
    raw, growth, counted, expect, command, statement, answer, changes, rows, turn, prepared, tries, attributes, about,
    remember,
});
plain!(enum RequestKind {
    0 => Query, 1 => Prepare, 2 => LoginSchema, 3 => Execute, 4 => RegisterReplica, 5 => BinlogDump,
    6 => ResetConnection, 7 => ChangeUser, 8 => Other,
});
plain!(struct RequestRows { are_counted, found, inserts_selection, without_tables });
plain!(struct RequestTries { sent_before, prepares, came_back });
plain!(enum QueryAttributes { 0 => None, 1 => OfText(attributes), 2 => AmongValues });

/// See [`RequestChanges`].
#[derive(Debug, PartialEq)]
struct FrozenChanges {
    collation: Option<Box<[u8]>>,
    named_resource: Option<Box<ResourceChange>>,
    variables: Option<Box<VariableUse>>,
    priority: Option<Priority>,
    template: Option<FrozenTemplate>,
    globals: bool,
    hidden: Hidden,
}

plain!(struct FrozenChanges { collation, named_resource, variables, priority, template, globals, hidden });

/// See [`RequestTurn`]. Where it stands in its queue is the scheduler's affair.
#[derive(Debug, PartialEq)]
struct FrozenTurn {
    arrival: FrozenArrival,
    lane: Option<Lane>,
    waited: Duration,
    holds_locks: bool,
    contends: bool,
    started: bool,
    room_until: Option<Distance>,
}

plain!(struct FrozenTurn { arrival, lane, waited, holds_locks, contends, started, room_until });

/// See [`About`]. The definition is that of the client's statement.
#[derive(Debug, PartialEq)]
struct FrozenAbout {
    number: u32,
    serves: FrozenServes,
    stays: bool,
    action: Action,
}

plain!(struct FrozenAbout { number, serves, stays, action });
plain!(enum Action { 0 => Execute { cursor, long_data }, 1 => Fetch, 2 => Reset });

/// The parts that requests have in common with others, and the moment of freezing or thawing.
pub(crate) struct Common<'a> {
    pub(crate) now: Instant,
    pub(crate) sessions: &'a mut SessionTables,
    /// Bytes that count against `statement_memory`.
    pub(crate) memory: &'a mut BytesHeld,
    pub(crate) holdups: &'a Holdups,
}

impl Request {
    /// Checks that a request can be frozen. `statements`: those that its client has prepared.
    ///
    /// # Errors
    ///
    /// Where the request is more than plain data.
    pub(crate) fn can_be_frozen(&self, statements: Option<&ClientStatements>) -> Result<(), NotFrozen> {
        let Self { bytes, command, changes, turn, about, held_for, kills, .. } = self;
        let Self { found_ahead, counts_for_primary, at_start, .. } = self;
        let stands = |about: &About| {
            statements.is_some_and(|all| all.definition(about.number) == Some(about.definition))
        };
        let is_plain = bytes.on_its_way == 0
            && *command != RequestKind::LoginSchema
            && changes.becomes.is_none()
            && changes.template.as_ref().is_none_or(|template| template.large.is_none())
            && !turn.urgent
            && about.as_deref().is_none_or(stands)
            && (held_for.is_none() && kills.is_none() && found_ahead.is_none())
            && (counts_for_primary.is_none() && at_start.is_none());
        if is_plain { Ok(()) } else { Err(NotFrozen::Waits) }
    }

    /// Makes plain data of one that [can be frozen](Self::can_be_frozen), before the client's statements are.
    pub(crate) fn freeze(self, common: &mut Common<'_>) -> FrozenRequest {
        let Self {
            raw,
            bytes,
            expect,
            command,
            statement,
            answer,
            changes,
            rows,
            turn,
            prepared,
            tries,
            attributes,
            about,
            remember,
            held_for: _, // it is none of those that have one, as with the next ones
            kills: _,
            found_ahead: _,
            counts_for_primary: _,
            at_start: _,
        } = self;
        let RequestBytes { growth, on_its_way: _, mut counted } = bytes; // nothing is on its way
        let counted_bytes = counted.bytes();
        common.memory.give_back(&mut counted);
        FrozenRequest {
            raw: raw.into_boxed_slice(),
            growth,
            counted: counted_bytes,
            expect,
            command,
            statement,
            answer,
            changes: changes.freeze(),
            rows,
            turn: turn.freeze(common),
            prepared,
            tries,
            attributes,
            about: about.map(|about| about.freeze(common.sessions)),
            remember,
        }
    }
}

impl FrozenRequest {
    /// The request that it was, of a client that has prepared these.
    pub(crate) fn thaw(self, statements: Option<&ClientStatements>, common: &mut Common<'_>) -> Request {
        let Self {
            raw,
            growth,
            counted: counted_bytes,
            expect,
            command,
            statement,
            answer,
            changes,
            rows,
            turn,
            prepared,
            tries,
            attributes,
            about,
            remember,
        } = self;
        let mut counted = Counted::default();
        common.memory.add(&mut counted, counted_bytes);
        Request {
            raw: raw.into_vec(),
            bytes: RequestBytes { growth, on_its_way: 0, counted },
            expect,
            command,
            statement,
            answer,
            changes: changes.thaw(),
            rows,
            turn: turn.thaw(common),
            prepared,
            tries,
            attributes,
            about: about.map(|about| about.thaw(statements, common.sessions)),
            remember,
            held_for: None,
            kills: None,
            found_ahead: None,
            counts_for_primary: None,
            at_start: None,
        }
    }
}

impl RequestChanges {
    fn freeze(self) -> FrozenChanges {
        let Self {
            collation,
            named_resource,
            variables,
            priority,
            template,
            globals,
            hidden,
            library: _, // what is known of stored code has another number in each process: it is looked at again
            becomes: _, // it is none of those that have one
        } = self;
        let template = template.map(|template| FrozenTemplate::of(*template));
        FrozenChanges { collation, named_resource, variables, priority, template, globals, hidden }
    }
}

impl FrozenChanges {
    fn thaw(self) -> RequestChanges {
        let Self { collation, named_resource, variables, priority, template, globals, hidden } = self;
        let template = template.map(|template| Box::new(template.thaw_small()));
        RequestChanges {
            collation,
            named_resource,
            variables,
            priority,
            template,
            globals,
            hidden,
            library: None,
            becomes: None,
        }
    }
}

impl RequestTurn {
    fn freeze(self, common: &Common<'_>) -> FrozenTurn {
        let Self {
            urgent: _, // it is in a queue
            arrival,
            lane,
            waited,
            group: _, // the group that it leads is founded anew
            holds_locks,
            contends,
            started,
            room_until,
        } = self;
        let arrival = FrozenArrival::of(arrival, common.holdups, common.now);
        let room_until = room_until.map(|until| Distance::of(until, common.now));
        FrozenTurn { arrival, lane, waited, holds_locks, contends, started, room_until }
    }
}

impl FrozenTurn {
    fn thaw(self, common: &Common<'_>) -> RequestTurn {
        let Self { arrival, lane, waited, holds_locks, contends, started, room_until } = self;
        let arrival = arrival.thaw(common.holdups, common.now);
        let room_until = room_until.map(|until| until.from(common.now));
        RequestTurn {
            urgent: false,
            arrival,
            lane,
            waited,
            group: None,
            holds_locks,
            contends,
            started,
            room_until,
        }
    }
}

impl About {
    fn freeze(self, sessions: &SessionTables) -> FrozenAbout {
        let Self { number, definition, serves, stays, action } = self;
        FrozenAbout { number, serves: FrozenServes::of(serves, definition, sessions), stays, action }
    }
}

impl FrozenAbout {
    fn thaw(self, statements: Option<&ClientStatements>, sessions: &mut SessionTables) -> Box<About> {
        let Self { number, serves, stays, action } = self;
        let definition = statements.and_then(|statements| statements.definition(number));
        let definition = definition.expect("it was frozen with its client's statement");
        Box::new(About { number, definition, serves: serves.thaw(definition, sessions), stays, action })
    }
}
