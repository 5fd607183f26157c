//! The screens of a running Onramp, and recordings of it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::connection::{Connection, Place};
use crate::options::Options;
use crate::poller::{self, Asker, Poller};
use crate::questions::Question;
use crate::recording::Recorder;
use crate::snapshot::Snapshot;
use crate::tabs::Tab;
use crate::terminal::{Done, Screen, ending, has_ended};
use crate::view::{Action, Kill, Source, View};

/// How often a look's arrival and signals are looked for, while no key is pressed.
const TICK: Duration = Duration::from_millis(100);

/// A look that took long is followed by so many times its time without one, so that the workers answer for a fifth of the time at most.
const REST: u32 = 4;

/// One MiB.
const MIB: u64 = 1 << 20;

/// All tables, as they are ordered at first.
pub fn all_questions(rows: u32) -> Vec<Question> {
    Tab::ALL.into_iter().map(|tab| Question::usual(tab, rows)).collect()
}

/// When the next look is due, and whether one is under way.
struct Clock {
    interval: Duration,
    due: Instant,
    /// Since when an answer is waited for.
    asked: Option<Instant>,
    /// Whether something else is wanted than was asked for last.
    hurries: bool,
}

impl Clock {
    fn new(interval: Duration) -> Self {
        Self { interval, due: Instant::now(), asked: None, hurries: false }
    }

    /// Whether to ask now; then it counts as asked.
    fn ask(&mut self) -> bool {
        let now = Instant::now();
        let asks = self.asked.is_none() && (self.hurries || now >= self.due);
        if asks {
            self.asked = Some(now);
            self.hurries = false;
        }
        asks
    }

    /// The answer has come. Who did not answer did no work either, and is asked again soon.
    fn answered(&mut self, is_look: bool) {
        if let Some(asked) = self.asked.take() {
            let took = asked.elapsed();
            self.due = if is_look { next(asked, took, self.interval) } else { asked + took + self.interval };
        }
    }

    /// As soon as no answer is waited for.
    fn at_once(&mut self) {
        self.hurries = true;
    }
}

/// When to look again after a look that was asked for then and took so long.
fn next(asked: Instant, took: Duration, interval: Duration) -> Instant {
    asked + interval.max(took.saturating_mul(REST + 1))
}

/// Shows it until the user has enough.
///
/// # Errors
/// A sentence for the user: it cannot be reached at first, or the terminal or the recording fails.
pub fn show(options: &Options, place: Arc<Place>, recorder: Option<Recorder>) -> Result<(), String> {
    let ends = ending()?;
    let connection = Connection::open(&place).map_err(|failure| failure.text().to_owned())?;
    let recording = options.record.as_ref().map(|path| path.display().to_string());
    let view = View::new(Source::Live { target: options.target(), recording }, crate::colours());
    let poller = Poller::start(Arc::clone(&place), connection);
    let (outcomes, killed) = channel();
    let mut session = Session {
        view,
        poller,
        recorder,
        clock: Clock::new(options.interval),
        rows: options.rows,
        place,
        outcomes,
        killed,
    };
    let mut screen = Screen::take()?;
    while !has_ended(&ends) {
        #[cfg(debug_assertions)]
        crate::injected::panic_in("screen");
        session.turn()?;
        screen.draw(&mut session.view, poller::now())?;
        let Some(done) = screen.wait(TICK)? else { continue };
        if let Done::Key(key) = done {
            match session.view.press(key) {
                Action::Quit => return Ok(()),
                Action::Ask => session.clock.at_once(),
                Action::Kill(kill) => session.kill(kill),
                Action::Step(_) => session.view.message = Some(String::from("this is no recording")),
                Action::None => {}
            }
        }
    }
    Ok(())
}

struct Session {
    view: View,
    poller: Poller,
    recorder: Option<Recorder>,
    clock: Clock,
    rows: u32,
    place: Arc<Place>,
    outcomes: Sender<String>,
    killed: Receiver<String>,
}

impl Session {
    /// Takes what has come, and asks where it is time.
    fn turn(&mut self) -> Result<(), String> {
        while let Some(look) = self.poller.look()? {
            self.clock.answered(look.is_ok());
            match look {
                Ok(look) => {
                    self.record(&look);
                    if !self.view.paused {
                        self.view.take(look);
                    }
                }
                Err(reason) => self.view.fail(reason),
            }
        }
        while let Ok(outcome) = self.killed.try_recv() {
            self.view.message = Some(outcome);
            self.clock.at_once();
        }
        // Where nobody sees a look and nothing is recorded, none is asked for.
        if (!self.view.paused || self.recorder.is_some()) && self.clock.ask() {
            self.poller.ask(self.questions());
        }
        Ok(())
    }

    /// Where that fails, the screens go on without.
    fn record(&mut self, look: &Snapshot) {
        let Some(recorder) = &mut self.recorder else { return };
        if let Err(reason) = recorder.write(look) {
            self.recorder = None;
            if let Source::Live { recording, .. } = &mut self.view.source {
                *recording = None;
            }
            self.view.message = Some(format!("nothing is recorded any more: {reason}"));
        }
    }

    /// The tab that is shown as it is ordered and filtered, so that the rows that come are those that it shows; a recording has all.
    fn questions(&self) -> Vec<Question> {
        if self.recorder.is_some() {
            return all_questions(self.rows);
        }
        let order = self.view.order();
        vec![Question {
            tab: self.view.tab,
            sort: order.sort,
            descending: order.descending,
            filter: self.view.filter.clone(),
            rows: self.rows,
        }]
    }

    /// Over a connection of its own, so that it waits for no look.
    fn kill(&self, kill: Kill) {
        let (place, outcomes) = (Arc::clone(&self.place), self.outcomes.clone());
        std::thread::spawn(move || {
            let done = Connection::open(&place).and_then(|mut connection| connection.query(&kill.to_sql()));
            let outcome = match done {
                Ok(_) => format!("{}: done", kill.to_sql()),
                Err(failure) => format!("{}: {}", kill.to_sql(), failure.text()),
            };
            // Nobody waits for it where the program has ended.
            let _ = outcomes.send(outcome);
        });
    }
}

/// Writes looks to the recording until a signal ends it.
///
/// # Errors
/// A sentence for the user: it cannot be reached at first, or the recording fails.
pub fn record(options: &Options, place: Arc<Place>, recorder: &mut Recorder) -> Result<(), String> {
    let ends = ending()?;
    let connection = Connection::open(&place).map_err(|failure| failure.text().to_owned())?;
    let mut asker = Asker::new(place, Some(connection));
    let mut clock = Clock::new(options.interval);
    let mut told = false;
    while !has_ended(&ends) {
        if !clock.ask() {
            std::thread::sleep(TICK.min(clock.due.saturating_duration_since(Instant::now())));
            continue;
        }
        let look = asker.look(&all_questions(options.rows));
        clock.answered(look.is_ok());
        match look {
            Ok(look) => {
                recorder.write(&look)?;
                told = false;
            }
            // Once for each time that it does not answer: it may do so for a night.
            Err(reason) if !told => {
                eprintln!("onramp top: {reason}; it is tried again");
                told = true;
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// A recorder, where one is wanted.
///
/// # Errors
/// A sentence for the user.
pub fn recorder(options: &Options) -> Result<Option<Recorder>, String> {
    let open = |path: &std::path::PathBuf| Recorder::open(path, options.record_size.saturating_mul(MIB));
    options.record.as_ref().map(open).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_look_is_followed_by_a_rest() {
        let (asked, interval) = (Instant::now(), Duration::from_secs(1));
        let after = |took: u64| next(asked, Duration::from_millis(took), interval) - asked;
        assert_eq!(after(10), Duration::from_secs(1));
        assert_eq!(after(2_000), Duration::from_secs(10));
    }

    #[test]
    fn one_look_at_a_time() {
        let mut clock = Clock::new(Duration::from_secs(3600));
        assert!(clock.ask() && !clock.ask());
        clock.answered(true);
        assert!(!clock.ask());
        clock.at_once();
        assert!(clock.ask());
        // What is wanted while an answer is waited for, is asked for behind it.
        clock.at_once();
        assert!(!clock.ask());
        clock.answered(true);
        assert!(clock.ask());
        clock.answered(true);
        assert!(!clock.ask());
    }
}
