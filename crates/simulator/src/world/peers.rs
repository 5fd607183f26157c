//! Whether Onramps in front of one server know of each other what is so, and how much they ask for that.

use super::World;
use super::driver::Life;
use super::kills::slot_of;
use super::onramps::{
    COUNTED, FREED, GONE, LETTERS, LOOK, MOST_CONNECTS, MOST_IDLE_QUESTIONS, MOST_LOGINS, MOST_QUESTIONS, NEW,
};
use crate::server::SERVICE_USER;
use crate::server::locks::OF_PROGRAM;
use crate::subject::Subject;

impl<P: Subject> World<P> {
    /// The program at this place goes on after a while in which it did nothing.
    pub(super) fn begins_anew(&mut self, program: usize) {
        let now = self.now;
        if let Some(onramps) = &mut self.onramps {
            let of_it = onramps.slots.values_mut().filter(|(holder, _)| *holder == program);
            of_it.for_each(|(_, since)| *since = now);
        }
    }

    /// Notes who holds which slot.
    pub(super) fn look_at_slots(&mut self) {
        let now = self.now;
        let slot_in = |name: &str| name.strip_prefix(OF_PROGRAM)?.strip_prefix("slot.")?.parse::<u32>().ok();
        let former = std::mem::take(&mut self.servers[0].database.locks.former);
        let server = &self.servers[0];
        let held = server.database.locks.held().filter_map(|(name, thread_id)| {
            let slot = slot_in(name)?;
            let is_service = server.database.users.get(&thread_id).is_some_and(|user| user == SERVICE_USER);
            let link = server.link_of(thread_id).filter(|_| is_service)?;
            Some(((slot, thread_id), self.ways.get(&link)?.origin.program))
        });
        let held: std::collections::BTreeMap<_, _> = held.collect();
        let Some(onramps) = &mut self.onramps else { return };
        let former = former.iter().filter_map(|(name, session)| Some((slot_in(name)?, *session)));
        onramps.former.extend(former.map(|key| (key, now)));
        onramps.slots.retain(|key, (program, _)| {
            let stays = held.get(key) == Some(program);
            if !stays {
                onramps.former.insert(*key, now);
            }
            stays
        });
        for (key, program) in held {
            onramps.slots.entry(key).or_insert((program, now));
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
        for (&(slot, _), &(program, _)) in &onramps.slots {
            if onramps.gone.get(&program).is_some_and(|&gone| gone + FREED + LOOK < now) {
                wrong.push(format!("slot {slot} is held still by Onramp {program}, which has gone"));
            }
        }
        for &program in &onramps.sites {
            let Some((slot, since)) = onramps.slot_of(program) else { continue };
            if self.drivers[program].life != Life::Runs || since + NEW > now {
                continue;
            }
            let views = self.drivers[program].program.peers();
            let sees = |slot: u32, thread_id: u32, is_own: bool| {
                views.iter().any(|view| {
                    view.slot == Some(slot) && view.connection == thread_id.into() && view.is_own == is_own
                })
            };
            for (&(held, thread_id), &(holder, since)) in &onramps.slots {
                if !sees(held, thread_id, holder == program) && since + NEW <= now {
                    wrong.push(format!("Onramp {program} does not see slot {held} of session {thread_id}, held since {since} us"));
                }
            }
            let others = views.iter().filter(|view| !view.is_own);
            counted +=
                usize::from(others.clone().count() + 1 == onramps.sites.len() && sees_own(&views, slot));
            for view in others {
                let key = (view.slot.unwrap_or(0), u32::try_from(view.connection).unwrap_or(0));
                let is_there = onramps.slots.contains_key(&key);
                if !is_there && onramps.former.get(&key).is_none_or(|until| until + GONE < now) {
                    wrong.push(format!(
                        "Onramp {program} sees slot {} of session {}, which nobody has",
                        key.0, key.1
                    ));
                }
            }
        }
        let all = counted == onramps.sites.len();
        if self.calm && !all && onramps.calm_since + COUNTED < now {
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
        let (Some(onramps), Some(kills)) = (&self.onramps, self.checkers.kills()) else { return };
        let mut wrong = None;
        for place in std::mem::take(&mut kills.unseen) {
            let login = &kills.logins()[place];
            let slot = onramps.slot_of(login.program).filter(|(_, since)| since + NEW < login.given);
            if let Some((slot, _)) = slot.filter(|(slot, _)| *slot != slot_of(login.id)) {
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
            if count > MOST_LOGINS * u64::from(self.parameters.workers) {
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
