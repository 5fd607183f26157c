//! Servers that an operator takes out of the choice (DRAIN) and puts back (UNDRAIN). Where that changes the primary, as among the nodes of a
//! Galera, it is a switchover without a command: new transactions wait, what is open ends, and statements go on at another server.

use std::time::{Duration, Instant};

use engine::{Behind, DrainOrder, DrainOutcome, ServerState, ServerView, SwitchStep, compare_positions};
use seam::Signal;

use super::Control;
use super::no_change::{NoChange, NotReady};
use super::switchover::{LOOK, none_has_moved, place_of, was_asked};
use crate::ask::{Ask, Sight};

/// So long behind `failover_hold`, after which the workers have closed what was left on the former primary, that is waited for.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// The times that bound it.
struct Times {
    wait: Duration,
    timeout: Duration,
    hold: Duration,
}

impl Control {
    /// Drains the server with this address, or ends that. Returns what there is to say of it.
    ///
    /// # Errors
    /// Why nothing has changed; or, where that was ordered, why no other server has become the primary yet.
    pub(crate) fn drain_server(&self, address: &str, drains: bool) -> Result<String, NoChange> {
        let _alone = self.alone()?;
        let servers = self.look_at_servers().servers;
        let place = place_of(&servers, address)?;
        let order = DrainOrder { place, drains, is_planned: false };
        let began = Instant::now();
        match self.order_drain(order)? {
            DrainOutcome::AlreadySo if drains => Ok(format!("{address} was drained already")),
            DrainOutcome::AlreadySo => Ok(format!("{address} was not drained")),
            DrainOutcome::Done if drains => Ok(format!("{address} is drained, and was not in use")),
            DrainOutcome::Done => Ok(format!("{address} is drained no more")),
            DrainOutcome::Moves { from, to } => {
                let outcome = self.move_primary(order, (from, to), &servers);
                let took = began.elapsed().as_millis();
                let what = if drains { "drain" } else { "end of the drain" };
                match &outcome {
                    Ok(said) => tracing::info!("{what} of {address} took {took} ms; {said}"),
                    Err(reason) => tracing::error!("{what} of {address} failed after {took} ms: {reason}"),
                }
                outcome
            }
        }
    }

    fn order_drain(&self, order: DrainOrder) -> Result<DrainOutcome, NoChange> {
        let mut answers = self.ask(Signal::Wake, |answer| Ask::Drain { order, answer });
        while let Some((_, sight)) = answers.next() {
            if let Sight::Drain(outcome) = sight {
                return Ok(outcome?);
            }
        }
        Err(NoChange::NoChecks)
    }

    /// From the first transaction that waits until nothing of a client is left on the former primary.
    fn move_primary(
        &self,
        order: DrainOrder,
        (from, to): (usize, usize),
        servers: &[ServerView],
    ) -> Result<String, NoChange> {
        let times = {
            let configuration = self.configuration();
            Times {
                wait: configuration.switchover_wait,
                timeout: configuration.switchover_timeout,
                hold: configuration.engine.cluster.hold,
            }
        };
        let [from_name, to_name] = [from, to].map(|place| servers[place].address.to_string());
        // Should this thread be held up, the workers go on by themselves, and nothing is drained.
        self.begin(to, times.wait + 2 * times.timeout)?;
        let ready = self.empty(&times, [(from, &from_name), (to, &to_name)]);
        let drained = ready.and_then(|()| {
            self.step(SwitchStep::EndTransactions)?;
            self.order_drain(DrainOrder { is_planned: true, ..order })
        });
        // Whatever has become of it, statements go on.
        self.step(SwitchStep::Over)?;
        drained?;
        self.see_it_through(&times, (from, &from_name), &to_name)
    }

    /// Waits until nothing of a client is on the present primary, and the next one has all that it has.
    fn empty(&self, times: &Times, names: [(usize, &str); 2]) -> Result<(), NoChange> {
        let [(from, _), (to, to_name)] = names;
        self.until_it_has_ended(Instant::now() + times.wait, |seen| seen.leaves_server)?;
        let ended = Instant::now();
        let last = ended + times.timeout;
        loop {
            let servers = self.look_at_servers().servers;
            none_has_moved(&servers, names)?;
            // Who waits is better off with whatever server there is by now.
            let is_away = |place: &&usize| servers.get(**place).is_some_and(|it| it.state != ServerState::Up);
            if let Some(&away) = [from, to].iter().find(is_away) {
                let ServerView { address, state, reason, .. } = &servers[away];
                let (server, reason) = (address.to_string(), reason.clone());
                return Err(NotReady::NotUp { server, state: *state, reason }.into());
            }
            let asked = |place: usize| servers.get(place).filter(|server| was_asked(server, ended.elapsed()));
            let behind =
                asked(from).zip(asked(to)).map(|(from, to)| compare_positions(&from.position, &to.position));
            match behind {
                Some(Behind::Nothing | Behind::Unknown) => return Ok(()),
                Some(Behind::Lacks(what)) if Instant::now() >= last => {
                    let (to, of) = (to_name.to_owned(), "the present primary".to_owned());
                    return Err(NotReady::Lacks { to, of, limit: "switchover_timeout", what }.into());
                }
                None if Instant::now() >= last => {
                    return Err(NotReady::Unknown { servers: "the servers".to_owned() }.into());
                }
                _ => std::thread::sleep(LOOK),
            }
        }
    }

    /// Waits until another server is the primary, and nothing of a client is left on the former one.
    fn see_it_through(
        &self,
        times: &Times,
        (from, from_name): (usize, &str),
        to_name: &str,
    ) -> Result<String, NoChange> {
        let deadline = Instant::now() + times.timeout;
        let primary = loop {
            let servers = self.look_at_servers().servers;
            if let Some(primary) =
                servers.iter().position(|server| server.is_primary).filter(|&it| it != from)
            {
                break servers[primary].address.to_string();
            }
            if Instant::now() >= deadline {
                return Err(NotReady::NotPrimary(to_name.to_owned()).into());
            }
            std::thread::sleep(LOOK);
        };
        let deadline = Instant::now() + times.hold + LAST_LOOK;
        while self.look_at_servers().leaves_server {
            if Instant::now() >= deadline {
                return Ok(format!(
                    "{primary} is the primary; statements of clients still run at {from_name}"
                ));
            }
            std::thread::sleep(LOOK);
        }
        Ok(format!("{primary} is the primary, and nothing of a client is left at {from_name}"))
    }
}
