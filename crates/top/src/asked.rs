//! All admin ports that are asked, each by a thread and at a time of its own, so that none waits for another.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::connection::{Connection, Failure, Place};
use crate::poller::{self, Poller};
use crate::questions::Question;
use crate::snapshot::Snapshot;
use crate::terminal::has_ended;
use crate::together::{Answered, together};
use crate::trouble::Trouble;

/// How often a look's arrival and signals are looked for, while no key is pressed.
pub const TICK: Duration = Duration::from_millis(100);

/// All of them.
pub struct Asked {
    members: Vec<Member>,
    interval: Duration,
    /// What was asked for last.
    questions: Vec<Question>,
    /// Whether something has come since the last whole look.
    news: bool,
    /// When the last whole look was made that was to be recorded.
    recorded: Instant,
}

struct Member {
    place: Arc<Place>,
    poller: Poller,
    clock: Clock,
    /// The last look, or why there was none.
    look: Result<Snapshot, NoLook>,
    /// Whether it was said, without a screen, that it does not answer.
    told: bool,
}

/// Why there is no look at an Onramp.
enum NoLook {
    /// The admin port has not answered at all so far.
    NotYet,
    /// The admin port cannot be asked, or says no.
    Failed(Failure),
}

impl NoLook {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::NotYet => "it has not answered yet".into(),
            Self::Failed(failure) => failure.text().into(),
        }
    }
}

/// What has come.
pub enum News {
    /// A look, of one alone or of all together.
    Look(Box<Snapshot>),
    /// There is no look at the one that is asked.
    Failure(String),
}

impl Asked {
    /// Connects. Of several one has to answer; the others may later.
    ///
    /// # Errors
    /// None is reached.
    pub fn start(
        places: &[Arc<Place>],
        interval: Duration,
        questions: Vec<Question>,
        ends: &AtomicBool,
    ) -> Result<Self, Trouble> {
        let mut alone = match places {
            [one] => Some(Connection::open(one).map_err(Trouble::AdminPort)?),
            _ => None,
        };
        let member = |place: &Arc<Place>| Member {
            place: Arc::clone(place),
            poller: Poller::start(Arc::clone(place), alone.take()),
            clock: Clock::new(interval),
            look: Err(NoLook::NotYet),
            told: false,
        };
        let members = places.iter().map(member).collect();
        let mut asked = Self { members, interval, questions, news: false, recorded: Instant::now() };
        asked.first_answer(ends)?;
        Ok(asked)
    }

    /// Of several: waits until one has answered, or all have failed.
    fn first_answer(&mut self, ends: &AtomicBool) -> Result<(), Trouble> {
        while self.is_several() && !has_ended(ends) {
            self.ask();
            self.receive()?;
            if self.members.iter().any(|member| member.look.is_ok()) {
                return Ok(());
            }
            if self.members.iter().all(|member| member.failure().is_some()) {
                return Err(failures(self.members.iter().map(Member::seen)));
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    fn is_several(&self) -> bool {
        self.members.len() > 1
    }

    /// The places, in their order.
    pub fn places(&self) -> impl Iterator<Item = &Arc<Place>> {
        self.members.iter().map(|member| &member.place)
    }

    /// Asks those for whom it is time. What is wanted is what [`Self::want`] was told last.
    pub fn ask(&mut self) {
        let several = self.is_several();
        for member in &mut self.members {
            if member.clock.ask() {
                let questions = self.questions.iter();
                member.poller.ask(
                    questions.map(|question| question.of(several.then(|| member.place.name()))).collect(),
                );
            }
        }
    }

    /// Says what is wanted from now on.
    pub fn want(&mut self, questions: Vec<Question>) {
        self.questions = questions;
    }

    /// Has all be asked as soon as they have answered what they were asked before.
    pub fn at_once(&mut self) {
        self.members.iter_mut().for_each(|member| member.clock.at_once());
    }

    /// Takes what has come.
    ///
    /// # Errors
    /// A thread that asks has ended, by a panic.
    pub fn receive(&mut self) -> Result<Vec<News>, Trouble> {
        let several = self.is_several();
        let mut news = Vec::new();
        for member in &mut self.members {
            while let Some(look) = member.poller.look()? {
                match &look {
                    Err(Failure::Denied(_)) => member.clock.denied(),
                    look => member.clock.answered(look.is_ok()),
                }
                member.told &= look.is_err();
                self.news = true;
                if several {
                    member.look = look.map_err(NoLook::Failed);
                } else {
                    news.push(match look {
                        Ok(look) => News::Look(Box::new(look)),
                        Err(failure) => News::Failure(failure.text().to_owned()),
                    });
                }
            }
        }
        Ok(news)
    }

    /// All together, where there are several and something has come since. `None` where nothing has.
    pub fn whole(&mut self) -> Option<Snapshot> {
        (self.is_several() && std::mem::take(&mut self.news)).then(|| self.together())
    }

    /// All together for a recording: once all that were asked have answered, or behind an interval where one does not.
    pub fn whole_record(&mut self) -> Option<Snapshot> {
        let waits = self.members.iter().any(|member| member.clock.asked().is_some());
        if !self.is_several() || !self.news || (waits && self.recorded.elapsed() < self.interval) {
            return None;
        }
        self.recorded = Instant::now();
        self.news = false;
        Some(self.together())
    }

    fn together(&self) -> Snapshot {
        all_of(self.members.iter().map(Member::seen), &self.questions)
    }

    /// Of several those that do not answer, each once for each time that it does not.
    pub fn untold(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        for member in &mut self.members {
            if let (Some(failure), false) = (member.failure(), member.told) {
                failures.push(format!("{}: {}", member.place.target(), failure.text()));
                member.told = true;
            }
        }
        failures
    }

    /// How long it is until somebody is asked again.
    pub fn rest(&self) -> Duration {
        let rests = self.members.iter().filter(|member| member.clock.asked().is_none());
        rests.map(|member| member.clock.rest()).min().unwrap_or(TICK).min(TICK)
    }
}

impl Member {
    fn seen(&self) -> Seen<'_> {
        (&self.place, &self.look)
    }

    /// Why the admin port has not answered, where that is known.
    fn failure(&self) -> Option<&Failure> {
        match &self.look {
            Err(NoLook::Failed(failure)) => Some(failure),
            Ok(_) | Err(NoLook::NotYet) => None,
        }
    }
}

/// Looks at all of them once, at the same time: those that answer, and why others do not.
pub fn once(places: &[Arc<Place>], questions: &[Question]) -> Result<Snapshot, Trouble> {
    let several = places.len() > 1;
    let look = |place: &Arc<Place>| {
        let questions: Vec<_> =
            questions.iter().map(|question| question.of(several.then(|| place.name()))).collect();
        let place = Arc::clone(place);
        std::thread::spawn(move || poller::Asker::new(place, None).look(&questions))
    };
    let threads: Vec<_> = places.iter().map(look).collect();
    let ended = |thread: std::thread::JoinHandle<_>| {
        thread.join().unwrap_or_else(|_| Err(Failure::Lost(String::from("the thread that asks has ended"))))
    };
    let mut looks = threads.into_iter().map(ended);
    if !several {
        let look = looks.next().expect("the options name one at least");
        return look.map_err(Trouble::AdminPort);
    }
    let looks: Vec<Result<Snapshot, NoLook>> = looks.map(|look| look.map_err(NoLook::Failed)).collect();
    let seen = || places.iter().map(|place| &**place).zip(&looks);
    if looks.iter().all(Result::is_err) {
        return Err(failures(seen()));
    }
    Ok(all_of(seen(), questions))
}

/// An admin port, and what it said last, or why it did not.
type Seen<'m> = (&'m Place, &'m Result<Snapshot, NoLook>);

fn all_of<'m>(all: impl Iterator<Item = Seen<'m>>, questions: &[Question]) -> Snapshot {
    let answered = |(place, look): Seen<'m>| Answered {
        name: place.name(),
        target: place.target(),
        look: look.as_ref().map_err(NoLook::text),
    };
    together(&all.map(answered).collect::<Vec<_>>(), questions, poller::now())
}

fn failures<'m>(all: impl Iterator<Item = Seen<'m>>) -> Trouble {
    let failed = |(place, look): Seen<'m>| Some((place.target(), look.as_ref().err()?.text().into_owned()));
    Trouble::AllAdminPorts { failures: all.filter_map(failed).collect() }
}
