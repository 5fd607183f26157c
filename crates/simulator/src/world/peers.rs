//! Whether Onramps in front of one server, or of a cluster, know of each other what is so, and how much they ask for that.

use std::collections::{BTreeMap, BTreeSet};

use super::World;
use super::driver::Life;
use super::kills::slot_of;
use super::onramps::{
    COUNTED, COUNTED_IN_CLUSTER, FREED, GONE, LETTERS, LOOK, MOST_CONNECTS, MOST_IDLE_QUESTIONS, MOST_LOGINS,
    MOST_QUESTIONS, NEW, Slot,
};
use crate::kills::Login;
use crate::server::SERVICE_USER;
use crate::server::locks::OF_PROGRAM;
use crate::subject::Subject;

impl<P: Subject> World<P> {
    /// The program at this place goes on after a while in which it did nothing.
    pub(super) fn begins_anew(&mut self, program: usize) {
        let now = self.now;
        if let Some(onramps) = &mut self.onramps {
            let of_it = onramps.slots.values_mut().filter(|held| held.program == program);
            of_it.for_each(|held| held.since = now);
        }
    }

    /// Notes who holds which slot.
    pub(super) fn look_at_slots(&mut self) {
        let now = self.now;
        let numbered = |name: &str, of: &str| name.strip_prefix(of)?.parse::<u32>().ok();
        let slot_in = |name: &str| numbered(name.strip_prefix(OF_PROGRAM)?, "slot.");
        let works_in = |name: &str| numbered(name.strip_prefix(OF_PROGRAM)?, "at_work.");
        let (mut held, mut former) = (BTreeMap::new(), Vec::new());
        for (place, server) in self.servers.iter_mut().enumerate() {
            let had = std::mem::take(&mut server.database.locks.former).into_iter();
            former.extend(had.filter_map(|(name, session)| Some((place, slot_in(&name)?, session))));
            let locks = &server.database.locks;
            let at_work: BTreeSet<_> =
                locks.held().filter_map(|(name, session)| Some((works_in(name)?, session))).collect();
            for (slot, session) in locks.held().filter_map(|(name, session)| Some((slot_in(name)?, session)))
            {
                let is_service = server.database.users.get(&session).is_some_and(|user| user == SERVICE_USER);
                let link = server.link_of(session).filter(|_| is_service);
                let way = link.and_then(|link| Some((link, self.ways.get(&link)?)));
                let Some((link, way)) = way else { continue };
                let at_work = (at_work.contains(&(slot, session)), now);
                let (program, server) = (way.origin.program, way.server);
                let of_it = Slot { program, server, link, since: now, at_work };
                held.insert((place, slot, session), of_it);
            }
        }
        let Some(onramps) = &mut self.onramps else { return };
        onramps.former.extend(former.into_iter().map(|key| (key, now)));
        onramps.slots.retain(|key, before| {
            let stays = held.get(key).is_some_and(|held| held.link == before.link);
            if !stays {
                onramps.former.insert(*key, now);
            }
            stays
        });
        for (key, held) in held {
            let slot = onramps.slots.entry(key).or_insert(held);
            if slot.at_work.0 != held.at_work.0 {
                slot.at_work = held.at_work;
            }
        }
    }

    /// Everybody who has had the time for it knows who is there, and nobody else.
    pub(super) fn check_peers(&mut self) {
        self.look_at_slots();
        self.check_questions();
        self.check_ids();
        let now = self.now;
        let Some(onramps) = self.onramps.as_ref().filter(|onramps| !onramps.ends) else { return };
        let mut wrong = Vec::new();
        let mut counted = 0;
        for (&(_, slot, _), &Slot { program, .. }) in &onramps.slots {
            if onramps.gone.get(&program).is_some_and(|&gone| gone + FREED + LOOK < now) {
                wrong.push(format!("slot {slot} is held still by Onramp {program}, which has gone"));
            }
        }
        for &program in &onramps.sites {
            let Some((slot, own)) = onramps.slot_of(program) else { continue };
            let driver = &self.drivers[program];
            if driver.life != Life::Runs || own.since + NEW > now || !self.is_steady_for(program, own.server)
            {
                continue;
            }
            let views = driver.program.peers();
            let seen = |slot: u32, thread_id: u32, is_own: bool| {
                views.iter().find(|view| {
                    view.slot == Some(slot) && view.connection == thread_id.into() && view.is_own == is_own
                })
            };
            for (&(_, held, thread_id), of_it) in &onramps.slots {
                let (since, (at_work, works_since)) = (of_it.since, of_it.at_work);
                if of_it.server != own.server || since + NEW > now {
                    continue;
                }
                let Some(view) = seen(held, thread_id, of_it.program == program) else {
                    wrong.push(format!("Onramp {program} does not see slot {held} of session {thread_id}, held since {since} us"));
                    continue;
                };
                if !view.is_own && view.at_work != at_work && works_since + NEW <= now {
                    wrong.push(format!(
                        "Onramp {program} takes slot {held} for at work: {}; it says so: {at_work}, since {works_since} us",
                        view.at_work
                    ));
                }
            }
            let others = views.iter().filter(|view| !view.is_own);
            counted +=
                usize::from(others.clone().count() + 1 == onramps.sites.len() && sees_own(&views, slot));
            for view in others {
                let (slot, session) = (view.slot.unwrap_or(0), u32::try_from(view.connection).unwrap_or(0));
                let key = (own.server, slot, session);
                let is_there = onramps.slots.contains_key(&key);
                if !is_there && onramps.former.get(&key).is_none_or(|until| until + GONE < now) {
                    wrong.push(format!(
                        "Onramp {program} sees slot {slot} of session {session}, which nobody has"
                    ));
                }
            }
        }
        let all = counted == onramps.sites.len();
        let counted_by =
            onramps.calm_since + if self.cluster.is_some() { COUNTED_IN_CLUSTER } else { COUNTED };
        if self.calm && !all && counted_by < now {
            let views: Vec<_> =
                onramps.sites.iter().map(|&it| (it, self.drivers[it].program.peers())).collect();
            let slots = &onramps.slots;
            wrong.push(format!("the Onramps do not count each other: {views:?}; on the server {slots:?}"));
        }
        if let Some(onramps) = &mut self.onramps {
            onramps.are_counted |= self.calm && all;
        }
        if let Some(text) = wrong.pop() {
            self.checkers.violation(text);
        }
    }

    /// Whether all count each other since the troubles have ended.
    pub(super) fn are_counted(&self) -> bool {
        self.onramps.as_ref().is_none_or(|onramps| onramps.are_counted)
    }

    /// Whoever has a slot gives out ids of it, which nobody else has.
    fn check_ids(&mut self) {
        let Some(kills) = self.checkers.kills() else { return };
        let unseen = std::mem::take(&mut kills.unseen).into_iter();
        let unseen: Vec<Login> = unseen.map(|place| kills.logins()[place].clone()).collect();
        let slots: Vec<Option<u32>> = unseen.iter().map(|login| self.known_slot_of(login)).collect();
        let Some(kills) = self.checkers.kills() else { return };
        let mut wrong = None;
        for (login, slot) in unseen.iter().zip(slots) {
            if let Some(slot) = slot.filter(|slot| *slot != slot_of(login.id)) {
                wrong = Some(format!(
                    "Onramp {} has slot {slot}, and gives out the id {}",
                    login.program, login.id
                ));
            }
            let mut others =
                kills.with_id(login.id).filter(|other| other.key != login.key && other.left.is_none());
            if let Some(other) = others.find(|_| login.left.is_none()) {
                wrong = Some(format!("{login:?} and {other:?} have the same id"));
            }
        }
        if let Some(text) = wrong {
            self.checkers.violation(text);
        }
    }

    /// The slot that its Onramp has had for a while as a client was greeted.
    fn known_slot_of(&self, login: &Login) -> Option<u32> {
        let (slot, held) = self.onramps.as_ref()?.slot_of(login.program)?;
        let is_steady = self.has_been_steady(login.program, held.server, login.given);
        (is_steady && held.since + NEW < login.given).then_some(slot)
    }

    /// Nobody asks more than what it takes.
    fn check_questions(&mut self) {
        let since = self.now.saturating_sub(LETTERS);
        let has_letters = self.checkers.kills().is_some_and(|kills| kills.was_said_since(since));
        let most = if has_letters { MOST_QUESTIONS } else { MOST_IDLE_QUESTIONS };
        for (program, count) in std::mem::take(&mut self.overheard.questions) {
            if count > most {
                self.checkers.violation(format!(
                    "Onramp {program} has asked {count} questions about locks in a quarter of a second"
                ));
            }
        }
        self.checkers.forget_connects();
        for (program, count) in std::mem::take(&mut self.overheard.connects) {
            if count > MOST_CONNECTS * u64::from(self.parameters.workers) {
                self.checkers.violation(format!(
                    "Onramp {program} has tried to connect {count} times in a quarter of a second"
                ));
            }
        }
        for (program, count) in std::mem::take(&mut self.overheard.logins) {
            if count > MOST_LOGINS * u64::from(self.parameters.workers) * self.servers.len() as u64 {
                let text = format!(
                    "the service account of Onramp {program} has logged in {count} times in a quarter of a second"
                );
                self.checkers.violation(text);
            }
        }
    }
}

fn sees_own(views: &[engine::PeerView], slot: u32) -> bool {
    views.iter().any(|view| view.is_own && view.slot == Some(slot))
}
