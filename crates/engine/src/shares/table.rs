//! Who waits for a share, and what each has had.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use seam::Instant;

use super::backends::HeldUp;
use super::crowding::{self, Crowding, LIGHT_WEIGHT};
use super::line::{Line, Place};
use super::{FairShare, SharesSettings};
use crate::scheduler::{Class, Lane, Order, Standing};
use crate::steps;

/// What a user or schema is called: bytes, which need not be UTF-8.
pub(crate) type Name = Rc<[u8]>;

/// What tells clients apart here; what nothing depends on is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flow {
    pub(crate) user: Name,
    pub(crate) schema: Option<Name>,
    pub(crate) address: Option<IpAddr>,
}

/// A statement that is not in the scheduler's queues yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    pub(crate) client: u32,
    pub(crate) lane: Lane,
    pub(crate) standing: Standing,
    pub(crate) since: Instant,
    number: u64,
}

/// The parked statements of a flow, in the order in which they came. Some are there no more.
#[derive(Debug, Default)]
struct Queue {
    parked: VecDeque<Parked>,
    gone: usize,
    order: Order,
    /// Where its flow stands in the line.
    place: Option<Place>,
}

/// From which end of its queue a statement goes.
#[derive(Clone, Copy)]
enum End {
    Oldest,
    Newest,
}

/// What decides who goes next, beside what each has had.
pub(crate) struct Turn {
    pub(crate) now: Instant,
    /// So many have even shares of the limits.
    pub(crate) workers: u32,
    /// Whether there is room for one more short statement with the scheduler.
    pub(crate) room_for_short: bool,
    /// Where the newest may go first: after how long the oldest has to have its turn.
    pub(crate) overdue_after: Option<Duration>,
}

/// A client's statement, from its arrival to its end.
struct Ticket {
    flow: Rc<Flow>,
    /// As it was then: settings can change.
    fair_share: FairShare,
    state: State,
}

enum State {
    Parked { number: u64, class: Class },
    Underway { progress: Progress, charged: u64, counted: Vec<Limited> },
}

/// How far a statement under way is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It waits with the scheduler, or runs without having been said to.
    Queued,
    /// It waits there, and takes up room.
    TakesRoom,
    Started(Instant),
}

/// What a user or schema has had of the server.
#[derive(Debug, Default)]
struct Meter {
    /// Server time by weight: whoever has the least is next.
    had: u64,
    /// Of a statement, in microseconds: what the next one is charged until it is known.
    average: u64,
    /// Statements parked or under way.
    active: u32,
}

/// By what a limit counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Limited {
    User(Name),
    Schema(Name),
    Address(IpAddr),
}

/// One microsecond of the server at weight 1.
const MICROSECOND: u64 = 1_000;

/// More meters than this are looked through for those that nobody needs, and again when they have doubled: the end of a statement costs
/// the same however many users there are.
const MANY_METERS: usize = 1_000;

/// See the module's documentation.
pub(crate) struct Shares {
    flows: BTreeMap<Rc<Flow>, Queue>,
    /// These in the order of their turns.
    line: Line,
    tickets: Vec<Option<Ticket>>,
    meters: BTreeMap<Name, Meter>,
    /// With more of them than this, those go that nobody needs.
    most_meters: usize,
    /// How many statements of each flow take up room with the scheduler.
    handed_on: BTreeMap<Rc<Flow>, u32>,
    underway: BTreeMap<Limited, u32>,
    /// Users whose new work waits until they use fewer backends.
    pub(super) held_up: HeldUp,
    pub(super) crowding: Crowding,
    /// What the one that went last had had: who comes back after a pause begins here, and not with what it has saved up.
    clock: u64,
    /// Statements parked or under way of all users or schemas, and of how many these are.
    active: u64,
    active_users: u64,
    arrivals: u64,
    waiting: [usize; Class::ALL.len()],
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            flows: BTreeMap::new(),
            line: Line::default(),
            tickets: Vec::new(),
            meters: BTreeMap::new(),
            most_meters: MANY_METERS,
            handed_on: BTreeMap::new(),
            underway: BTreeMap::new(),
            held_up: HeldUp::new(),
            crowding: Crowding::default(),
            clock: 0,
            active: 0,
            active_users: 0,
            arrivals: 0,
            waiting: [0; Class::ALL.len()],
        }
    }
}

impl Shares {
    /// A statement, which has waited since then, waits for its turn: behind those of its flow that have waited longer.
    pub(crate) fn park(
        &mut self,
        settings: &SharesSettings,
        flow: Flow,
        since: Instant,
        client: u32,
        lane: Lane,
        standing: Standing,
    ) {
        self.arrivals += 1;
        let (number, class) = (self.arrivals, Class::of(lane));
        let flow = Rc::new(flow);
        self.waiting[class as usize] += 1;
        self.admit(client, Ticket::new(settings, &flow, State::Parked { number, class }));
        let queue = &mut self.flows.entry(Rc::clone(&flow)).or_default().parked;
        let place = queue.partition_point(|parked| parked.since <= since);
        queue.insert(place, Parked { client, lane, standing, since, number });
        self.line_up(&flow);
    }

    /// Puts a flow where it stands now, or out of the line where nothing of it is parked: its first statement or what its user has had
    /// is another one than before.
    fn line_up(&mut self, flow: &Rc<Flow>) {
        let Some(queue) = self.flows.get_mut(flow) else { return };
        queue.trim(|parked| is_there(&self.tickets, parked));
        let name = self.line.by.name_of(flow);
        let had = name.and_then(|name| self.meters.get(name)).map_or(0, |meter| meter.had);
        let place = queue.parked.front().map(|first| Place { had, since: first.since, number: first.number });
        let before = std::mem::replace(&mut queue.place, place);
        if before != place {
            self.line.move_to(flow, before, place);
        }
        if place.is_none() {
            self.flows.remove(flow);
        }
    }

    /// What a user or schema has had is another number than before.
    fn line_up_all_of(&mut self, name: &[u8]) {
        for flow in self.line.flows_of(name) {
            self.line_up(&flow);
        }
    }

    /// The time is shared out between others than before.
    fn line_up_by(&mut self, by: FairShare) {
        self.line = Line::by(by);
        let flows: Vec<_> = self.flows.keys().map(Rc::clone).collect();
        for queue in self.flows.values_mut() {
            queue.place = None;
        }
        for flow in flows {
            self.line_up(&flow);
        }
    }

    /// A statement that must not wait counts all the same.
    pub(crate) fn pass(&mut self, settings: &SharesSettings, flow: Flow, client: u32) {
        let flow = Rc::new(flow);
        let counted = self.count(settings, &flow);
        let state = State::Underway { progress: Progress::Queued, charged: 0, counted };
        self.admit(client, Ticket::new(settings, &flow, state));
    }

    fn admit(&mut self, client: u32, ticket: Ticket) {
        let clock = self.clock;
        if let Some(name) = ticket.fair_share.name_of(&ticket.flow) {
            let meter = self.meters.entry(name.into()).or_default();
            if meter.active == 0 {
                meter.had = meter.had.max(clock);
                self.active_users += 1;
            }
            meter.active += 1;
            self.active += 1;
        }
        let slot = self.ticket_slot(client);
        debug_assert!(slot.is_none(), "a client has one statement at a time");
        *slot = Some(ticket);
    }

    /// Another client's statement takes the place of this one's that is under way, where it counts here.
    pub(crate) fn hand_over(&mut self, client: u32, to: u32) {
        let Some(ticket) = self.tickets.get_mut(client as usize).and_then(Option::take) else { return };
        debug_assert!(matches!(ticket.state, State::Underway { .. }), "what waits has a place of its own");
        *self.ticket_slot(to) = Some(ticket);
    }

    fn ticket_slot(&mut self, client: u32) -> &mut Option<Ticket> {
        let slot = client as usize;
        if self.tickets.len() <= slot {
            self.tickets.resize_with(slot + 1, || None);
        }
        &mut self.tickets[slot]
    }

    /// The statement whose turn it is, of a flow that may have one more; short ones only where there is room for them, or
    /// where none of their flow has been handed on: those that have may be waiting for a backend of theirs alone.
    pub(crate) fn next(&mut self, settings: &SharesSettings, turn: &Turn) -> Option<Parked> {
        if self.line.by != settings.fair_share {
            self.line_up_by(settings.fair_share);
        }
        let (had, number, flow, end) = self.line.iter().find_map(|(place, flow)| {
            steps::add(1);
            if self.holds_up(&flow.user) {
                return None;
            }
            let (end, first) = self.flows.get(flow)?.first(turn, |parked| is_there(&self.tickets, parked))?;
            let fits = turn.room_for_short
                || Class::of(first.lane) == Class::Long
                || !self.handed_on.contains_key(flow);
            let goes = fits && self.may_have_one_more(settings, flow, turn.workers);
            goes.then(|| (place.had, first.number, Rc::clone(flow), end))
        })?;
        let queue = self.flows.get_mut(&flow).expect("it was found there");
        let parked = queue.take(end, number);
        let overdue = turn.is_overdue(&parked, &queue.order);
        queue.order.started(matches!(end, End::Oldest) && overdue);
        self.waiting[Class::of(parked.lane) as usize] -= 1;
        self.clock = self.clock.max(had);
        let counted = self.count(settings, &flow);
        let light = settings.fair_share == FairShare::Crowding && self.is_light_user(&flow.user);
        let ticket = self.tickets[parked.client as usize].as_mut().expect("it is there");
        let meter =
            ticket.fair_share.name_of(&flow).and_then(|name| Some((name, self.meters.get_mut(name)?)));
        let charged = meter.map_or(0, |(name, meter)| {
            let charged = by_weight(settings, name, meter.average, light);
            meter.had += charged;
            charged
        });
        let progress = match Class::of(parked.lane) {
            Class::Short => {
                *self.handed_on.entry(Rc::clone(&flow)).or_default() += 1;
                Progress::TakesRoom
            }
            Class::Long => Progress::Queued,
        };
        ticket.state = State::Underway { progress, charged, counted };
        self.line_up(&flow);
        if charged > 0
            && let Some(name) = settings.fair_share.name_of(&flow)
        {
            self.line_up_all_of(name);
        }
        Some(parked)
    }

    /// The client's statement begins on the server.
    pub(crate) fn started(&mut self, client: u32, now: Instant) {
        let ticket = self.tickets.get_mut(client as usize).and_then(Option::as_mut);
        if let Some(Ticket { flow, state: State::Underway { progress, .. }, .. }) = ticket {
            let before = std::mem::replace(progress, Progress::Started(now));
            let flow = Rc::clone(flow);
            self.leave_scheduler(&flow, before);
        }
    }

    /// A statement does not wait with the scheduler any more, where it did.
    fn leave_scheduler(&mut self, flow: &Rc<Flow>, progress: Progress) {
        if progress == Progress::TakesRoom
            && let Some(count) = self.handed_on.get_mut(flow)
        {
            *count -= 1;
            if *count == 0 {
                self.handed_on.remove(flow);
            }
        }
    }

    /// The client has hung up on its statement, which had waited here, or before it began, for so long.
    pub(crate) fn abandoned(&mut self, now: Instant, client: u32, waited: Duration) {
        let ticket = self.tickets.get(client as usize).and_then(Option::as_ref);
        if let Some(queue) = ticket.and_then(|ticket| self.flows.get_mut(&ticket.flow)) {
            queue.order.abandoned(now, waited);
        }
    }

    /// Whether any user's newest go first now.
    pub(crate) fn is_newest_first(&self, now: Instant) -> bool {
        self.flows.values().any(|queue| queue.order.is_newest_first(now))
    }

    /// The client's statement, if one counts here, has ended or will not run.
    pub(crate) fn ended(&mut self, settings: &SharesSettings, client: u32, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(client as usize).and_then(Option::take) else { return };
        let used = match ticket.state {
            State::Parked { class, .. } => {
                self.waiting[class as usize] -= 1;
                self.leave(&ticket.flow);
                None
            }
            State::Underway { progress, charged, counted } => {
                self.count_off(&counted);
                self.leave_scheduler(&ticket.flow, progress);
                let time = match progress {
                    Progress::Started(started) => Some(now.as_micros() - started.as_micros()),
                    Progress::Queued | Progress::TakesRoom => None,
                };
                Some((time, charged))
            }
        };
        let Some(name) = ticket.fair_share.name_of(&ticket.flow) else { return };
        let light = ticket.fair_share == FairShare::Crowding && self.is_light_user(name);
        let Some(meter) = self.meters.get_mut(name) else { return };
        meter.active = meter.active.saturating_sub(1);
        self.active = self.active.saturating_sub(1);
        if meter.active == 0 {
            self.active_users = self.active_users.saturating_sub(1);
        }
        if let Some((time, charged)) = used {
            meter.had = meter.had.saturating_sub(charged);
            if let Some(micros) = time {
                meter.had += by_weight(settings, name, micros, light);
                // An eighth of the news, as round-trip times are smoothed (RFC 6298).
                meter.average = if meter.average == 0 { micros } else { (meter.average * 7 + micros) / 8 };
            }
            self.line_up_all_of(name);
        }
        self.forget_meters();
    }

    fn forget_meters(&mut self) {
        if self.meters.len() > self.most_meters {
            steps::add(self.meters.len());
            let clock = self.clock;
            self.meters.retain(|_, meter| meter.active > 0 || meter.had > clock);
            self.most_meters = MANY_METERS.max(2 * self.meters.len());
        }
    }

    /// Parked statements of a class.
    pub(crate) fn waiting(&self, class: Class) -> usize {
        self.waiting[class as usize]
    }

    /// The parked statement of a class that has waited longest, and since when. Those aside that wait for backends of their user.
    pub(crate) fn oldest(&self, class: Class) -> Option<(u32, Instant)> {
        let there = |parked: &&Parked| Class::of(parked.lane) == class && self.is_there(parked);
        let flows = self.flows.iter().filter(|(flow, _)| !self.holds_up(&flow.user));
        let firsts = flows.filter_map(|(_, queue)| queue.parked.iter().find(there));
        let first = firsts.min_by_key(|parked| (parked.since, parked.number));
        first.map(|parked| (parked.client, parked.since))
    }

    /// Of those that wait for backends of their user the one that has waited longest for that, and since when.
    pub(super) fn oldest_held_up(&self) -> Option<(u32, Instant)> {
        if self.held_up.is_empty() {
            return None;
        }
        let held_up = |flow: &Flow| self.held_up.get(&flow.user).map(|&(_, since)| since);
        let flows = self.flows.iter().filter_map(|(flow, queue)| Some((held_up(flow)?, queue)));
        let firsts = flows.filter_map(|(since, queue)| {
            let first = queue.parked.iter().find(|parked| self.is_there(parked))?;
            Some((first.since.max(since), first.number, first.client))
        });
        firsts.min().map(|(since, _, client)| (client, since))
    }

    /// Whether any statement is parked.
    pub(super) fn holds_any(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Whether statements of a user are parked.
    pub(super) fn has_parked(&self, user: &[u8]) -> bool {
        self.firsts_of(user).next().is_some()
    }

    /// Since when the oldest parked statement of a user has waited.
    pub(super) fn oldest_of(&self, user: &[u8]) -> Option<Instant> {
        self.firsts_of(user).map(|parked| parked.since).min()
    }

    /// The oldest parked statement of each flow of a user.
    fn firsts_of(&self, user: &[u8]) -> impl Iterator<Item = &Parked> {
        let from = Flow { user: user.into(), ..Flow::default() };
        let flows = self.flows.range(from..).take_while(move |(flow, _)| *flow.user == *user);
        flows.filter_map(|(_, queue)| queue.parked.iter().find(|parked| self.is_there(parked)))
    }

    /// The last of each flow, the latest of them first.
    pub(crate) fn latest(&self, class: Class) -> impl Iterator<Item = u32> + use<> {
        let there = |parked: &&Parked| Class::of(parked.lane) == class && self.is_there(parked);
        let lasts = self.flows.values().filter_map(|queue| queue.parked.iter().rfind(there));
        let mut lasts: Vec<_> = lasts.map(|parked| (parked.since, parked.number, parked.client)).collect();
        lasts.sort_unstable();
        lasts.into_iter().rev().map(|(_, _, client)| client)
    }

    fn is_there(&self, parked: &Parked) -> bool {
        is_there(&self.tickets, parked)
    }

    /// One of a flow's parked statements is there no more. Its place is cleared with those of others, so that each costs
    /// little, and no more than half of the places are empty.
    fn leave(&mut self, flow: &Rc<Flow>) {
        let Some(queue) = self.flows.get_mut(flow) else { return };
        queue.gone += 1;
        if queue.gone * 2 > queue.parked.len() {
            queue.parked.retain(|parked| is_there(&self.tickets, parked));
            queue.gone = 0;
        }
        self.line_up(flow);
    }

    fn may_have_one_more(&self, settings: &SharesSettings, flow: &Flow, workers: u32) -> bool {
        settings.limits_of(flow).all(|(limited, limit)| {
            self.underway.get(&limited).copied().unwrap_or(0) < limit.div_ceil(workers)
        })
    }

    fn count(&mut self, settings: &SharesSettings, flow: &Flow) -> Vec<Limited> {
        let counted: Vec<_> = settings.limits_of(flow).map(|(limited, _)| limited).collect();
        for limited in &counted {
            *self.underway.entry(limited.clone()).or_default() += 1;
        }
        counted
    }

    fn count_off(&mut self, counted: &[Limited]) {
        for limited in counted {
            let underway = self.underway.get_mut(limited).expect("it was counted");
            *underway -= 1;
            if *underway == 0 {
                self.underway.remove(limited);
            }
        }
    }

    /// Whose statement a client's is, where it counts here.
    pub(super) fn flow_of_ticket(&self, client: u32) -> Option<&Flow> {
        self.tickets.get(client as usize).and_then(Option::as_ref).map(|ticket| &*ticket.flow)
    }

    /// Whether there is much less of this user's than of others'.
    pub(super) fn is_light_user(&self, name: &[u8]) -> bool {
        let active = self.meters.get(name).map_or(0, |meter| u64::from(meter.active));
        crowding::is_light(active, self.active, self.active_users)
    }

    /// Places in all queues, empty ones too.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.flows.values().map(|queue| queue.parked.len()).sum()
    }
}

impl Queue {
    /// Who of it goes next, and from which end.
    fn first(&self, turn: &Turn, is_there: impl Fn(&Parked) -> bool) -> Option<(End, &Parked)> {
        let oldest = self.parked.iter().find(|parked| is_there(parked))?;
        let newest_first = turn.overdue_after.is_some() && self.order.is_newest_first(turn.now);
        if !newest_first || (self.order.is_turn_of_oldest() && turn.is_overdue(oldest, &self.order)) {
            return Some((End::Oldest, oldest));
        }
        self.parked.iter().rfind(|parked| is_there(parked)).map(|newest| (End::Newest, newest))
    }

    /// Clears both ends of what is there no more, so that nobody looks through it again.
    fn trim(&mut self, is_there: impl Fn(&Parked) -> bool) {
        let before = self.parked.len();
        while self.parked.front().is_some_and(|parked| !is_there(parked)) {
            self.parked.pop_front();
        }
        while self.parked.back().is_some_and(|parked| !is_there(parked)) {
            self.parked.pop_back();
        }
        self.gone = self.gone.saturating_sub(before - self.parked.len());
    }

    /// Takes that one out; what lies beyond it, at its end, is there no more.
    fn take(&mut self, end: End, number: u64) -> Parked {
        loop {
            let next = match end {
                End::Oldest => self.parked.pop_front(),
                End::Newest => self.parked.pop_back(),
            };
            let parked = next.expect("one was found there");
            if parked.number == number {
                return parked;
            }
            self.gone = self.gone.saturating_sub(1);
        }
    }
}

/// Whether a statement still waits in that place.
fn is_there(tickets: &[Option<Ticket>], parked: &Parked) -> bool {
    let ticket = tickets.get(parked.client as usize).and_then(Option::as_ref);
    ticket
        .is_some_and(|ticket| matches!(ticket.state, State::Parked { number, .. } if number == parked.number))
}

impl Turn {
    fn is_overdue(&self, parked: &Parked, order: &Order) -> bool {
        let too_long = |kick_up| order.too_long(self.now, kick_up);
        self.overdue_after.is_some_and(|kick_up| parked.since + too_long(kick_up) <= self.now)
    }
}

impl Ticket {
    fn new(settings: &SharesSettings, flow: &Rc<Flow>, state: State) -> Self {
        Self { flow: Rc::clone(flow), fair_share: settings.fair_share, state }
    }
}

/// What so many microseconds of the server count for a user or schema: at least one, so that nobody works for nothing.
fn by_weight(settings: &SharesSettings, name: &[u8], micros: u64, light: bool) -> u64 {
    let weight = u64::from(settings.fair_weights.of_bytes(name).unwrap_or(1));
    micros.max(1) * MICROSECOND / (weight * if light { LIGHT_WEIGHT } else { 1 })
}

impl FairShare {
    pub(super) fn name_of(self, flow: &Flow) -> Option<&[u8]> {
        match self {
            Self::Off => None,
            Self::User | Self::Crowding => Some(&flow.user),
            Self::Schema => Some(flow.schema.as_deref().unwrap_or_default()),
        }
    }
}

impl SharesSettings {
    /// The limits that hold for a flow.
    fn limits_of(&self, flow: &Flow) -> impl Iterator<Item = (Limited, u32)> {
        let user =
            self.user_permits.of_bytes(&flow.user).map(|limit| (Limited::User(flow.user.clone()), limit));
        let schema = flow.schema.as_ref().and_then(|schema| {
            self.schema_permits.of_bytes(schema).map(|limit| (Limited::Schema(schema.clone()), limit))
        });
        let address = flow.address.and_then(|address| {
            let limit = self.address_permits.of(&address.to_string());
            limit.map(|limit| (Limited::Address(address), limit))
        });
        [user, schema, address].into_iter().flatten()
    }
}
