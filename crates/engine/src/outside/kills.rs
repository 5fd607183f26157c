//! KILLs that the server is asked for, on another backend of the victim's own user.

use seam::Instant;

use crate::backend::Summary;
use crate::client::ids::ClientIds;
use crate::client::{Client, Phase};
use crate::cluster::following::Following;
use crate::ids::{BackendKey, ClientKey, ClientRef, Table};
use crate::outside::kills_under_way::{BackendRef, UnderWay};
use crate::outside::orders::given::Orders;
use crate::outside::orders::to_be_ended::{KillReport, Kills, OutsideKill};
use crate::servers::Servers;
use crate::settings::Settings;
use crate::workers::letter::ServerKill;

/// ER_NO_SUCH_THREAD.
const NO_SUCH_THREAD: u16 = 1094;

impl Summary {
    /// Takes the error that the server has no such thread for success, since the statement has come to its end meanwhile, and the client with
    /// it. Returns true where the answer was that error.
    pub(crate) fn takes_no_such_thread_for_done(&mut self) -> bool {
        let is_done = self.error.as_ref().is_some_and(|error| error.code == NO_SUCH_THREAD);
        if is_done {
            self.error = None;
        }
        is_done
    }
}

/// The next step for a statement or connection that the server is to end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextOfKill {
    /// Nothing: it has ended by itself.
    Nothing,
    /// The server is asked on this backend to end what runs on the other one.
    Asks { carrier: BackendKey, runs_on: BackendKey },
    /// This backend is given up: another server has become the primary since, and the number means another thread there.
    GivesUp(BackendKey),
    /// The server cannot be reached: at least the client goes, where it was meant.
    TooLate,
    /// The KILL waits for a backend of the victim's user.
    Waits,
}

/// Clients of which the server is to end something, and the KILLs for that.
pub(crate) struct OutsideKills<'a> {
    pub(super) now: Instant,
    pub(super) settings: &'a Settings,
    pub(super) orders: &'a mut Orders,
    pub(super) ids: &'a ClientIds,
    pub(super) clients: &'a mut Table<ClientKey, Client>,
    pub(super) servers: &'a Servers,
    pub(super) following: &'a Following,
}

impl OutsideKills<'_> {
    /// The server is to end what runs of the client with this id, asked by its own user: who wants it has no connection here, or waits for that.
    pub(crate) fn order(&mut self, id: u32, query_only: bool, ending: ServerKill, told: Option<KillReport>) {
        let Some(key) = self.ids.client_with(id) else { return };
        let kill = OutsideKill::new(ClientRef { key, id }, ending, query_only, self.now);
        self.orders.kills.push(OutsideKill { told, ..kill });
    }

    /// The backend on which runs still what is to be ended: what has ended by itself is not, nor what its client has begun since.
    pub(crate) fn still_runs(&self, kill: &OutsideKill) -> Option<BackendKey> {
        let runs_thread = |backend: &BackendKey| {
            let backend = self.servers.get(*backend);
            backend.is_some_and(|backend| u64::from(backend.login.thread_id) == kill.ending.thread_id)
        };
        self.clients
            .find(kill.victim)
            .filter(|client| matches!(client.phase(), Phase::Preparing | Phase::Running(_)))
            .filter(|client| {
                !kill.query_only || client.activity.command_age(self.now) >= self.now.since(kill.since)
            })
            .and_then(|client| client.backend)
            .filter(runs_thread)
    }

    /// The next step for a statement or connection on `runs_on`. `carrier` is an idle backend to ask on. `None` for `runs_on`: the victim has
    /// ended.
    pub(crate) fn next(
        &mut self,
        kill: &OutsideKill,
        runs_on: Option<BackendKey>,
        carrier: Option<BackendKey>,
    ) -> NextOfKill {
        let Some(runs_on) = runs_on else { return NextOfKill::Nothing };
        if self.following.is_former(self.settings.cluster.several, self.servers[runs_on].place()) {
            self.clients[kill.victim.key].loss.killed |= !kill.query_only;
            return NextOfKill::GivesUp(runs_on);
        }
        match carrier {
            Some(carrier) => NextOfKill::Asks { carrier, runs_on },
            None if self.now.since(kill.since) >= self.settings.backend_connect_timeout => {
                NextOfKill::TooLate
            }
            None => NextOfKill::Waits,
        }
    }

    /// A KILL goes to the server, on this backend, for what runs on the other one.
    pub(crate) fn goes(
        &mut self,
        carrier: BackendKey,
        runs_on: BackendKey,
        client: ClientRef,
        told: Option<KillReport>,
    ) {
        let (carrier, victim) = (self.backend_ref(carrier), self.backend_ref(runs_on));
        self.orders.kills_under_way.push(UnderWay { carrier, victim, client, since: self.now, told });
    }

    fn backend_ref(&self, backend: BackendKey) -> BackendRef {
        BackendRef::new(backend, &self.servers[backend])
    }

    /// The client of this worker's that a client's KILL is to end.
    fn own_kill(&self, killer: ClientKey) -> Option<&OutsideKill> {
        match self.clients[killer].request.as_ref()?.kills.as_ref()? {
            Kills::Own(kill) => Some(kill),
            Kills::OfOtherWorker { .. } => None,
        }
    }

    /// A client's KILL has waited for a backend to ask on: says whether what it was to end has ended by itself, or runs on a server that is
    /// not asked any more. To the one of this choice its number means another thread.
    pub(crate) fn is_over(&self, killer: ClientKey, chosen: u32) -> bool {
        let several = self.settings.cluster.several;
        let is_former =
            |runs_on: BackendKey| self.following.is_former(several, self.servers[runs_on].place());
        match self.clients[killer].request.as_ref().and_then(|request| request.kills.as_ref()) {
            Some(Kills::Own(kill)) => self.still_runs(kill).is_none_or(is_former),
            Some(&Kills::OfOtherWorker { choice }) => choice != chosen,
            None => false,
        }
    }

    /// A client's urgent request goes to the server, which may be a KILL of another client of ours.
    pub(crate) fn note_own(&mut self, killer: ClientKey, carrier: BackendKey) {
        let Some(kill) = self.own_kill(killer) else { return };
        if let Some(runs_on) = self.still_runs(kill) {
            let victim = kill.victim;
            self.goes(carrier, runs_on, victim, None);
        }
    }

    /// Notes that nothing is in flight on this backend any more: its latest request is over, or never went out. Returns the KILL, if the request
    /// was one.
    pub(crate) fn answered(&mut self, carrier: BackendKey) -> Option<UnderWay> {
        if self.orders.kills_under_way.is_empty() {
            return None;
        }
        let carrier = self.backend_ref(carrier);
        self.orders.kills_under_way.answered(carrier)
    }

    /// Runs once per turn. Clients that wait for a KILL count as heard. Returns the KILLs that have taken too long. Their killers hear nothing
    /// then, except where the victim has lost its backend meanwhile, or where more stands behind the KILL in the same text: these go on.
    pub(crate) fn take_over(&mut self) -> Vec<UnderWay> {
        let mut over = self.orders.kills_under_way.take_over(self.now, self.servers);
        for kill in &mut over {
            let is_gone = !kill.victim.is_there(self.servers);
            kill.told = kill.told.take().filter(|(_, killed)| is_gone || killed.goes_on());
        }
        for client in self.orders.kills_under_way.clients() {
            if let Some(client) = self.clients.find_mut(client).filter(|client| !client.input.is_empty()) {
                client.activity.goes_on(self.now);
            }
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Running;
    use crate::client::commands::command::tests::{engine, open_backends};
    use crate::engine::Engine;
    use crate::ids::client_key;
    use crate::request::Request;

    const ENDING: ServerKill = ServerKill { thread_id: 42, query_only: true };

    /// A client that runs its statement on the thread that is meant, and the order to end it.
    fn running() -> (Engine, BackendKey, OutsideKill) {
        let mut engine = engine(1, Settings::default());
        let server = engine.servers.primary().key;
        let key = open_backends(&mut engine, &[server])[0];
        engine.servers[key].login.thread_id = 42;
        let client = client_key(0);
        engine.clients[client].backend = Some(key);
        engine.clients[client].set_phase(Phase::Running(Running::OnServer));
        let kill = OutsideKill::new(engine.clients.ref_to(client), ENDING, true, engine.now);
        (engine, key, kill)
    }

    #[test]
    fn what_is_to_be_ended_waits_for_a_way_to_the_server_as_long_as_a_connection_may_take() {
        let (mut engine, key, kill) = running();
        assert_eq!(engine.outside_kills().still_runs(&kill), Some(key));
        assert_eq!(
            engine.outside_kills().next(&kill, Some(key), Some(key)),
            NextOfKill::Asks { carrier: key, runs_on: key }
        );
        assert_eq!(engine.outside_kills().next(&kill, Some(key), None), NextOfKill::Waits);
        engine.now = engine.now + engine.settings.backend_connect_timeout;
        assert_eq!(engine.outside_kills().next(&kill, Some(key), None), NextOfKill::TooLate);
        engine.settings.cluster.several = true;
        assert_eq!(engine.outside_kills().next(&kill, Some(key), None), NextOfKill::GivesUp(key));
        assert_eq!(engine.outside_kills().next(&kill, None, None), NextOfKill::Nothing);
    }

    #[test]
    fn what_has_ended_by_itself_is_not_looked_for_on_its_backend() {
        let (mut engine, key, kill) = running();
        engine.servers[key].login.thread_id = 43;
        assert_eq!(engine.outside_kills().still_runs(&kill), None, "another thread");
        engine.servers[key].login.thread_id = 42;
        engine.clients[client_key(0)].set_phase(Phase::Idle);
        assert_eq!(engine.outside_kills().still_runs(&kill), None);
    }

    #[test]
    fn a_kill_that_has_waited_does_not_go_to_another_server() {
        let (mut engine, _, kill) = running();
        let chosen = |engine: &Engine| engine.pool.workers.chosen.get().number;
        let is_over = |engine: &mut Engine, kills| {
            let request = Request::query("KILL QUERY 42");
            engine.clients[client_key(0)].request = Some(Box::new(Request { kills: Some(kills), ..request }));
            let now = chosen(engine);
            engine.outside_kills().is_over(client_key(0), now)
        };
        let choice = chosen(&engine);
        assert!(!is_over(&mut engine, Kills::OfOtherWorker { choice }));
        engine.pool.workers.chosen.set(Some(1), true);
        assert!(is_over(&mut engine, Kills::OfOtherWorker { choice }));
        let own = |kill: &OutsideKill| {
            Kills::Own(Box::new(OutsideKill::new(kill.victim, ENDING, true, kill.since)))
        };
        assert!(!is_over(&mut engine, own(&kill)));
        engine.settings.cluster.several = true;
        assert!(is_over(&mut engine, own(&kill)), "its server is the former one");
    }

    #[test]
    fn a_client_waits_while_a_kill_of_what_ran_on_its_backend_is_under_way() {
        let (mut engine, key, kill) = running();
        let server = key.server();
        let carrier = *open_backends(&mut engine, &[server]).last().expect("it was opened");
        let holds_up = |engine: &Engine| {
            let client = &engine.clients[client_key(0)];
            engine.orders.kills_under_way.hold_up(client, &engine.servers)
        };
        assert!(!holds_up(&engine));
        engine.outside_kills().goes(carrier, key, kill.victim, None);
        assert!(holds_up(&engine));
        assert!(engine.outside_kills().answered(carrier).is_some());
        assert!(!holds_up(&engine));
    }
}
