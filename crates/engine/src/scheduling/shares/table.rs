//! The statements that wait for a share, and how much each user or schema has had.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use seam::Instant;

use super::ages::{Ages, Times};
use super::crowding_state::{self, Crowding, LIGHT_WEIGHT};
use super::held_up::HeldUp;
use super::line::{Gate, Line, Stand, Way};
use super::queue::{Arrival, End, Parked, Queue, ShareTurn};
use super::settings::{FairShare, SharesSettings};
use crate::ids::{ClientKey, Key};
use crate::scheduling::scheduler::lane::{Class, Lane, Standing};
use crate::steps;

/// The name of a user or schema: bytes, which need not be UTF-8.
pub(crate) type Name = Rc<[u8]>;

/// The properties that tell clients apart here. A property that no setting depends on is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flow {
    pub(super) user: Name,
    pub(super) schema: Option<Name>,
    pub(super) address: Option<IpAddr>,
    /// The class of its statements. Those that wait for long ones to end are in the way of long ones alone.
    pub(super) class: Class,
}

/// A client's statement, from its arrival to its end.
struct Ticket {
    flow: Rc<Flow>,
    /// The setting as it was then: settings can change.
    fair_share: FairShare,
    state: State,
}

enum State {
    Parked { arrival: Arrival },
    Underway { progress: Progress, charged: u64, counted: Vec<Gate> },
}

/// How far a statement under way is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The statement waits with the scheduler, or runs and has not been reported.
    Queued,
    /// The statement waits with the scheduler, and takes up room there.
    TakesRoom,
    Started(Instant),
}

/// A user's or schema's consumption of the server.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Server time by weight: the user or schema with the least is next.
    had: u64,
    /// The average time of a statement, in microseconds: the next one is charged this until its time is known.
    average: u64,
    /// Statements parked or under way.
    active: u32,
}

/// A microsecond of the server at weight 1.
const MICROSECOND: u64 = 1_000;

/// The number of meters from which on unneeded ones are looked for, and again when they have doubled: the end of a statement costs the
/// same however many users there are.
const MANY_METERS: usize = 1_000;

/// See the module's documentation.
pub(crate) struct Shares {
    pub(super) flows: BTreeMap<Rc<Flow>, Queue>,
    /// The flows in the order of their turns.
    pub(super) line: Line,
    pub(super) ages: Ages,
    /// Gates that may be open, at which somebody may stand.
    pub(super) opened: BTreeSet<Gate>,
    /// Users or schemas that have their newest go first, and until when.
    newest: Times,
    /// The latest turn, by which all stand where they do.
    pub(super) turn: ShareTurn,
    /// True where the settings are others than at that turn.
    changed: bool,
    /// True while some flows that may go have not been looked at.
    pub(super) goes_on: bool,
    tickets: Vec<Option<Ticket>>,
    pub(super) meters: BTreeMap<Name, Meter>,
    /// The number of meters beyond which those go that nobody needs.
    most_meters: usize,
    /// How many statements of each flow take up room with the scheduler.
    handed_on: BTreeMap<Rc<Flow>, u32>,
    pub(super) underway: BTreeMap<Gate, u32>,
    /// Users with new work that waits until they use fewer backends.
    pub(super) held_up: HeldUp,
    pub(super) crowding: Crowding,
    /// How much the one that went last had had. A user who comes back after a pause begins here, and not with the time that he
    /// has saved up.
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
            ages: Ages::default(),
            opened: BTreeSet::new(),
            newest: Times::default(),
            turn: ShareTurn::default(),
            changed: false,
            goes_on: false,
            tickets: Vec::new(),
            meters: BTreeMap::new(),
            most_meters: MANY_METERS,
            handed_on: BTreeMap::new(),
            underway: BTreeMap::new(),
            held_up: HeldUp::default(),
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
        client: ClientKey,
        lane: Lane,
        standing: Standing,
    ) {
        self.arrivals += 1;
        let parked = Parked { client, lane, standing, since, number: self.arrivals };
        let flow = Rc::new(Flow { class: Class::of(lane), ..flow });
        self.waiting[flow.class as usize] += 1;
        self.admit(client, Ticket::new(settings, &flow, State::Parked { arrival: parked.arrival() }));
        self.flows.entry(Rc::clone(&flow)).or_default().insert(parked);
        self.line_up(&flow);
    }

    /// Takes up that something of a flow has come, gone or changed. A flow that was stopped stays so, unless the gate is open.
    fn line_up(&mut self, flow: &Rc<Flow>) {
        let stand = self.flows.get(flow).and_then(|queue| queue.stand.as_ref());
        let gate = stand.and_then(|stand| stand.gate.clone()).filter(|gate| !self.is_open(gate));
        self.stand(flow, gate);
    }

    /// Puts a flow where it stands now, at this gate or in the line, or nowhere where nothing of it is parked.
    pub(super) fn stand(&mut self, flow: &Rc<Flow>, gate: Option<Gate>) {
        let had = had_of(self.line.by, &self.meters, &self.line.name_of(flow));
        let Some(queue) = self.flows.get_mut(flow) else { return };
        let handed_on = self.handed_on.contains_key(flow);
        let way = if handed_on { Way::NeedsRoom(flow.class) } else { Way::Free };
        let to = queue.oldest().map(|oldest| Stand { gate, way, arrival: oldest.arrival() });
        let ends = queue.find_ends();
        let newest_until = to.as_ref().and_then(|_| queue.order.newest_until());
        self.newest.move_to(flow, std::mem::replace(&mut queue.newest_until, newest_until), newest_until);
        self.ages.move_to(flow, std::mem::replace(&mut queue.ends, ends), ends);
        let from = std::mem::replace(&mut queue.stand, to.clone());
        self.line.move_to(flow, had, from.as_ref(), to.as_ref());
        if to.is_none() {
            self.flows.remove(flow);
        }
        let in_line = |stand: &Stand| stand.gate.is_none().then_some(stand.way);
        let before = from.as_ref().and_then(in_line);
        if before.is_some() && before != to.as_ref().and_then(in_line) {
            self.open_gates_of(flow);
        }
    }

    /// Takes in new settings for the order of turns.
    pub(crate) fn settings_changed(&mut self) {
        self.changed = true;
    }

    /// Brings flows to where they stand by the settings and the time.
    fn follow(&mut self, settings: &SharesSettings, turn: &ShareTurn) {
        let before = std::mem::replace(&mut self.turn, *turn);
        if std::mem::take(&mut self.changed)
            || self.line.by != settings.fair_share
            || before.workers != turn.workers
            || before.overdue_after != turn.overdue_after
        {
            self.line = Line::by(settings.fair_share);
            let flows: Vec<_> = self.flows.keys().map(Rc::clone).collect();
            self.flows.values_mut().for_each(|queue| queue.stand = None);
            flows.iter().for_each(|flow| self.stand(flow, None));
        }
    }

    /// Returns the flow that has its turn, and how much its user or schema has had. Flows that are stopped stand apart from
    /// now on.
    fn first(&mut self, settings: &SharesSettings, turn: &ShareTurn) -> Option<(u64, Rc<Flow>)> {
        loop {
            self.let_through();
            let (place, flow) = self.line.first(turn.room)?;
            let (had, flow) = (place.had, Rc::clone(flow));
            let Some((gate, most)) = self.stops(settings, &flow) else { return Some((had, flow)) };
            self.stand(&flow, Some(gate.clone()));
            self.line.set_most_at(&gate, most);
        }
    }

    /// A statement that must not wait counts all the same.
    pub(crate) fn pass(&mut self, settings: &SharesSettings, flow: Flow, client: ClientKey) {
        let flow = Rc::new(flow);
        let counted = self.count(settings, &flow);
        let state = State::Underway { progress: Progress::Queued, charged: 0, counted };
        self.admit(client, Ticket::new(settings, &flow, state));
    }

    fn admit(&mut self, client: ClientKey, ticket: Ticket) {
        let clock = self.clock;
        if let Some(name) = ticket.fair_share.name_of(&ticket.flow) {
            let meter = self.meters.entry(name).or_default();
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
    pub(crate) fn hand_over(&mut self, client: ClientKey, to: ClientKey) {
        let Some(ticket) = self.tickets.get_mut(client.slot()).and_then(Option::take) else { return };
        debug_assert!(matches!(ticket.state, State::Underway { .. }), "what waits has a place of its own");
        *self.ticket_slot(to) = Some(ticket);
    }

    fn ticket_slot(&mut self, client: ClientKey) -> &mut Option<Ticket> {
        let slot = client.slot();
        if self.tickets.len() <= slot {
            self.tickets.resize_with(slot + 1, || None);
        }
        &mut self.tickets[slot]
    }

    /// Returns the statement that has its turn, of a flow that may have one more. There has to be room for one of its class, or none
    /// of its flow has been handed on: statements that were handed on may be waiting for a backend of their user's alone.
    pub(crate) fn next(&mut self, settings: &SharesSettings, turn: &ShareTurn) -> Option<Parked> {
        self.follow(settings, turn);
        let (had, flow) = self.first(settings, turn)?;
        let queue = self.flows.get_mut(&flow).expect("it stands in the line");
        let (end, &parked) = queue.next(turn).expect("something of it is parked");
        queue.remove(parked.arrival());
        let overdue = turn.is_overdue(&parked, &queue.order);
        queue.order.started(end == End::Oldest && overdue);
        self.waiting[flow.class as usize] -= 1;
        self.clock = self.clock.max(had);
        let counted = self.count(settings, &flow);
        let light = settings.fair_share == FairShare::Crowding && self.is_light_user(&flow.user);
        let ticket = self.tickets[parked.client.slot()].as_mut().expect("it is there");
        let meter = ticket
            .fair_share
            .name_of(&flow)
            .and_then(|name| Some((name.clone(), self.meters.get_mut(&name)?)));
        let charged = meter.map_or(0, |(name, meter)| {
            let charged = by_weight(settings, &name, meter.average, light);
            meter.had += charged;
            charged
        });
        *self.handed_on.entry(Rc::clone(&flow)).or_default() += 1;
        ticket.state = State::Underway { progress: Progress::TakesRoom, charged, counted };
        self.line_up(&flow);
        if charged > 0 {
            let name = self.line.name_of(&flow);
            self.line_up_all_of(&name, &flow);
        }
        self.open_gates_of(&flow);
        Some(parked)
    }

    /// The client's statement begins on the server.
    pub(crate) fn started(&mut self, client: ClientKey, now: Instant) {
        let ticket = self.tickets.get_mut(client.slot()).and_then(Option::as_mut);
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
                self.line_up(flow);
            }
        }
    }

    /// The client has hung up on its statement, which had waited here, or before it began, for so long.
    pub(crate) fn abandoned(&mut self, now: Instant, client: ClientKey, waited: Duration) {
        let ticket = self.tickets.get(client.slot()).and_then(Option::as_ref);
        let Some(flow) = ticket.map(|ticket| Rc::clone(&ticket.flow)) else { return };
        if let Some(queue) = self.flows.get_mut(&flow) {
            queue.order.abandoned(now, waited);
            self.line_up(&flow);
        }
    }

    /// Says whether any user's newest go first now.
    pub(crate) fn is_newest_first(&self, now: Instant) -> bool {
        self.newest.latest().is_some_and(|until| now < until)
    }

    /// The client's statement, if one counts here, has ended or will not run.
    pub(crate) fn ended(&mut self, settings: &SharesSettings, client: ClientKey, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(client.slot()).and_then(Option::take) else { return };
        match ticket.state {
            State::Parked { arrival } => {
                self.waiting[ticket.flow.class as usize] -= 1;
                if let Some(queue) = self.flows.get_mut(&ticket.flow) {
                    queue.remove(arrival);
                    self.line_up(&ticket.flow);
                }
                self.settle(settings, &ticket, None);
            }
            State::Underway { progress, charged, ref counted } => {
                let time = match progress {
                    Progress::Started(started) => Some(now.as_micros() - started.as_micros()),
                    Progress::Queued | Progress::TakesRoom => None,
                };
                self.settle(settings, &ticket, Some((time, charged)));
                self.leave_scheduler(&ticket.flow, progress);
                self.count_off(counted);
            }
        }
        self.forget_meters();
    }

    /// A user or schema has one statement less, which has used that much of the server where it was under way, and was charged that.
    fn settle(&mut self, settings: &SharesSettings, ticket: &Ticket, used: Option<(Option<u64>, u64)>) {
        let Some(name) = ticket.fair_share.name_of(&ticket.flow) else { return };
        let light = ticket.fair_share == FairShare::Crowding && self.is_light_user(&name);
        let Some(meter) = self.meters.get_mut(&name) else { return };
        meter.active = meter.active.saturating_sub(1);
        self.active = self.active.saturating_sub(1);
        if meter.active == 0 {
            self.active_users = self.active_users.saturating_sub(1);
        }
        if let Some((time, charged)) = used {
            meter.had = meter.had.saturating_sub(charged);
            if let Some(micros) = time {
                meter.had += by_weight(settings, &name, micros, light);
                // An eighth of the news, as round-trip times are smoothed (RFC 6298).
                meter.average = if meter.average == 0 { micros } else { (meter.average * 7 + micros) / 8 };
            }
            self.line_up_all_of(&name, &ticket.flow);
        }
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
    pub(crate) fn oldest(&self, class: Class) -> Option<(ClientKey, Instant)> {
        self.ages.oldest(class).map(|(arrival, client)| (client, arrival.since))
    }

    /// The time since which the longest-waiting parked statement of a class has waited. Statements that wait for backends of their user count,
    /// too.
    pub(crate) fn waits_since(&self, class: Class) -> Option<Instant> {
        self.ages.oldest_of_all(class).map(|(arrival, _)| arrival.since)
    }

    /// The statement that has waited longest for backends of its user, and since when.
    pub(super) fn oldest_held_up(&self) -> Option<(ClientKey, Instant)> {
        self.ages.oldest_held_up().map(|(arrival, client)| (client, arrival.since))
    }

    /// Says whether any statement is parked.
    pub(super) fn holds_any(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Says whether statements of a user are parked.
    pub(super) fn has_parked(&self, user: &[u8]) -> bool {
        self.ages.oldest_of(user).is_some()
    }

    /// The time since which the oldest parked statement of a user has waited.
    pub(super) fn oldest_of(&self, user: &[u8]) -> Option<Instant> {
        self.ages.oldest_of(user).map(|(arrival, _)| arrival.since)
    }

    /// The last of each flow, the latest of them first.
    pub(crate) fn latest(&self, class: Class) -> impl Iterator<Item = ClientKey> {
        self.ages.latest(class)
    }

    /// Returns the flow of a client's statement, where it counts here.
    pub(super) fn flow_of_ticket(&self, client: ClientKey) -> Option<&Flow> {
        self.tickets.get(client.slot()).and_then(Option::as_ref).map(|ticket| &*ticket.flow)
    }

    /// Says whether there is much less of this user's work than of others'.
    pub(super) fn is_light_user(&self, name: &[u8]) -> bool {
        let active = self.meters.get(name).map_or(0, |meter| u64::from(meter.active));
        crowding_state::is_light(active, self.active, self.active_users)
    }

    /// The number of parked statements in all queues.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.flows.values().map(|queue| queue.len()).sum()
    }
}

impl Ticket {
    fn new(settings: &SharesSettings, flow: &Rc<Flow>, state: State) -> Self {
        Self { flow: Rc::clone(flow), fair_share: settings.fair_share, state }
    }
}

/// Returns how much a user or schema has had, as far as the order of turns goes by that.
pub(super) fn had_of(by: FairShare, meters: &BTreeMap<Name, Meter>, name: &[u8]) -> u64 {
    match by {
        FairShare::Off => 0,
        FairShare::Crowding | FairShare::User | FairShare::Schema => {
            meters.get(name).map_or(0, |meter| meter.had)
        }
    }
}

/// Returns how much so many microseconds of the server count for a user or schema: at least one, so that nobody works for
/// nothing.
fn by_weight(settings: &SharesSettings, name: &[u8], micros: u64, light: bool) -> u64 {
    let weight = u64::from(settings.fair_weights.of_bytes(name).unwrap_or(1));
    micros.max(1) * MICROSECOND / (weight * if light { LIGHT_WEIGHT } else { 1 })
}

impl FairShare {
    pub(super) fn name_of(self, flow: &Flow) -> Option<Name> {
        match self {
            Self::Off => None,
            Self::User | Self::Crowding => Some(flow.user.clone()),
            Self::Schema => Some(flow.schema.clone().unwrap_or_default()),
        }
    }
}
