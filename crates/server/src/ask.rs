//! The admin port's questions to a worker, and how the worker answers: between its turns, a piece at a time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use drivers::Signaller;
use engine::{
    BackendView, ClientView, DigestCost, DigestView, DrainOrder, DrainOutcome, Engine, FailoverView, Holders,
    KilledAtPeer, Measures, Memory, MemoryParts, NotDrained, PeerView, Piece, PinReport, ReaderView,
    RoutedView, ServerView, Settings, SwitchStep, TalliesByName, Use, Waits, WorkerView,
};
use seam::{Address, Signal};

/// Slots of a table that are looked at in one turn. 4,096 clients take about 1.2 ms (measured by the engine's test
/// `a_thousand_looks`; 100,000 at once would take 40), which is less than a scheduling delay of a busy machine.
const SLOTS_PER_TURN: usize = 4096;

/// Something that a worker is asked.
pub(crate) enum Ask {
    /// How things stand.
    Look { what: Look, answer: Sender<Answer> },
    /// See [`Engine::kill`]. Answered with [`Sight::Done`] or [`Sight::NotHere`].
    Kill { id: u32, query_only: bool, answer: Sender<Answer> },
    /// See [`Engine::kill_for_operator_at_peer`]. Answered with [`Sight::Killed`] or [`Sight::NotHere`].
    KillAtPeer { id: u32, query_only: bool, answer: Sender<Answer> },
    /// See [`Engine::pause`] and [`Engine::resume`].
    Pause { on: bool, answer: Sender<Answer> },
    /// See [`Engine::switch_over`].
    Switch { step: SwitchStep, answer: Sender<Answer> },
    /// See [`Engine::drain_server`]. Answered with [`Sight::Drain`] or [`Sight::NotHere`].
    Drain { order: DrainOrder, answer: Sender<Answer> },
    /// See [`Engine::move_server`].
    MoveServer { place: usize, to: Address, answer: Sender<Answer> },
    /// See [`Engine::change_settings`].
    Change { settings: Arc<Settings>, answer: Sender<Answer> },
}

/// Which tables are looked at. The worker as a whole always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) clients: bool,
    /// Of the clients only those that want or hold something.
    pub(crate) busy_clients: bool,
    pub(crate) backends: bool,
    pub(crate) digests: bool,
    /// Where the statements of digests went.
    pub(crate) routing: bool,
    /// What digests have cost, without their texts.
    pub(crate) digest_costs: bool,
    pub(crate) waits: bool,
    pub(crate) memory: bool,
    pub(crate) pins: bool,
    pub(crate) measures: bool,
    pub(crate) servers: bool,
}

/// From which worker, and what.
pub(crate) type Answer = (usize, Sight);

/// A worker's answer.
pub(crate) enum Sight {
    Whole(Box<Whole>),
    Clients(Vec<ClientView>),
    Backends(Vec<BackendView>),
    Digests(Vec<DigestView>),
    Routing(Vec<RoutedView>),
    DigestCosts(Vec<DigestCost>),
    /// What an order to drain a server has come to, or why it could not be.
    Drain(Result<DrainOutcome, NotDrained>),
    /// What has become of a KILL of another Onramp's client.
    Killed(KilledAtPeer),
    /// The order has been carried out, or everything has been said.
    Done,
    /// The client is another worker's.
    NotHere,
}

/// A worker as a whole.
pub(crate) struct Whole {
    pub(crate) view: WorkerView,
    /// What all workers have in common, of each server where that is apart.
    pub(crate) shares: Vec<Use>,
    pub(crate) waits: Option<Waits>,
    pub(crate) memory: Option<Memory>,
    pub(crate) pins: Option<PinReport>,
    /// With who holds what.
    pub(crate) measures: Option<(Measures, Holders)>,
    /// The parts that are known at once.
    pub(crate) memory_parts: Option<MemoryParts>,
    /// By the names of users and schemas.
    pub(crate) tallies: Option<TalliesByName>,
    /// Where there may be several; of the first worker alone.
    pub(crate) servers: Vec<ServerView>,
    /// The servers that this worker may read from.
    pub(crate) readers: Vec<ReaderView>,
    pub(crate) failovers: Vec<FailoverView>,
    /// The Onramps in front of the server, of the first worker alone.
    pub(crate) peers: Vec<PeerView>,
}

/// A worker's end of the admin port.
pub(crate) struct Desk {
    number: usize,
    asks: Receiver<Ask>,
    /// To wake itself for the next piece.
    own: Signaller,
    looks: VecDeque<Looking>,
    /// Who waits for another Onramp, by the numbers of the orders.
    kills: BTreeMap<u64, Sender<Answer>>,
    /// Of the latest such order.
    order: u64,
}

/// A look that is under way.
struct Looking {
    answer: Sender<Answer>,
    left: Look,
    /// Where the next piece of its table begins; `None` before the first table.
    at: Option<usize>,
}

impl Desk {
    pub(crate) fn new(number: usize, asks: Receiver<Ask>, own: Signaller) -> Self {
        Self { number, asks, own, looks: VecDeque::new(), kills: BTreeMap::new(), order: 0 }
    }

    /// Does what has been asked since, and one piece of what takes several.
    pub(crate) fn attend(&mut self, engine: &mut Engine) {
        while let Ok(ask) = self.asks.try_recv() {
            self.take(engine, ask);
        }
        let Some(mut look) = self.looks.pop_front() else { return };
        let sight = look.next(engine);
        let ends = matches!(sight, Sight::Done);
        // The asker may have given up.
        let wanted = look.answer.send((self.number, sight)).is_ok();
        if wanted && !ends {
            self.looks.push_back(look);
        }
        if !self.looks.is_empty() {
            self.own.send(Signal::Wake);
        }
    }

    /// Tells who waits for it what other Onramps have done.
    pub(crate) fn tell_of_kills(&mut self, engine: &mut Engine) {
        while let Some((order, outcome)) = engine.poll_killed_at_peer() {
            if let Some(answer) = self.kills.remove(&order) {
                // The asker may have given up.
                let _ = answer.send((self.number, Sight::Killed(outcome)));
            }
        }
    }

    fn take(&mut self, engine: &mut Engine, ask: Ask) {
        let (answer, sight) = match ask {
            Ask::Look { what, answer } => {
                self.looks.push_back(Looking { answer, left: what, at: None });
                return;
            }
            Ask::Kill { id, query_only, answer } => {
                (answer, if engine.kill(id, query_only) { Sight::Done } else { Sight::NotHere })
            }
            Ask::KillAtPeer { id, query_only, answer } => {
                self.order += 1;
                if engine.kill_for_operator_at_peer(id, query_only, self.order) {
                    self.kills.insert(self.order, answer);
                    return;
                }
                (answer, Sight::NotHere)
            }
            Ask::Pause { on, answer } => {
                if on {
                    engine.pause();
                } else {
                    engine.resume();
                }
                (answer, Sight::Done)
            }
            Ask::Switch { step, answer } => {
                engine.switch_over(step);
                (answer, Sight::Done)
            }
            Ask::Drain { order, answer } => {
                (answer, engine.drain_server(order).map_or(Sight::NotHere, Sight::Drain))
            }
            Ask::MoveServer { place, to, answer } => {
                engine.move_server(place, &to);
                (answer, Sight::Done)
            }
            Ask::Change { settings, answer } => {
                engine.change_settings(&settings);
                (answer, Sight::Done)
            }
        };
        let _ = answer.send((self.number, sight));
    }
}

impl Looking {
    fn next(&mut self, engine: &Engine) -> Sight {
        let Some(from) = self.at else {
            self.at = Some(0);
            return Sight::Whole(Box::new(Whole {
                view: engine.figures().overview(),
                shares: engine.figures().shares(),
                waits: self.left.waits.then(|| engine.figures().waits()),
                memory: self.left.memory.then(|| engine.holders_of_memory().memory()),
                pins: self.left.pins.then(|| engine.figures().pin_report()),
                measures: self
                    .left
                    .measures
                    .then(|| (engine.figures().measures(), engine.figures().holders())),
                memory_parts: self.left.measures.then(|| engine.holders_of_memory().parts()),
                tallies: self.left.measures.then(|| engine.figures().tallies()),
                servers: if self.left.servers { engine.neighbours().servers() } else { Vec::new() },
                readers: if self.left.servers { engine.neighbours().reader_views() } else { Vec::new() },
                failovers: if self.left.servers { engine.neighbours().failovers() } else { Vec::new() },
                peers: if self.left.servers { engine.neighbours().peers() } else { Vec::new() },
            }));
        };
        if self.left.clients {
            let piece = engine.tables().clients_from(from, SLOTS_PER_TURN);
            let rows = Self::rows(&mut self.at, &mut self.left.clients, piece);
            Sight::Clients(rows)
        } else if self.left.busy_clients {
            let piece = engine.tables().busy_clients_from(from, SLOTS_PER_TURN);
            Sight::Clients(Self::rows(&mut self.at, &mut self.left.busy_clients, piece))
        } else if self.left.backends {
            let piece = engine.tables().backends_from(from, SLOTS_PER_TURN);
            Sight::Backends(Self::rows(&mut self.at, &mut self.left.backends, piece))
        } else if self.left.digests {
            let piece = engine.tables().digests_from(from, SLOTS_PER_TURN);
            Sight::Digests(Self::rows(&mut self.at, &mut self.left.digests, piece))
        } else if self.left.routing {
            let piece = engine.tables().routing_from(from, SLOTS_PER_TURN);
            Sight::Routing(Self::rows(&mut self.at, &mut self.left.routing, piece))
        } else if self.left.digest_costs {
            let piece = engine.tables().digest_costs_from(from, SLOTS_PER_TURN);
            Sight::DigestCosts(Self::rows(&mut self.at, &mut self.left.digest_costs, piece))
        } else {
            Sight::Done
        }
    }

    /// The rows of a piece; where it was the last, the next table begins.
    fn rows<T>(at: &mut Option<usize>, left: &mut bool, piece: Piece<T>) -> Vec<T> {
        *left = piece.next.is_some();
        *at = Some(piece.next.unwrap_or(0));
        piece.rows
    }
}
