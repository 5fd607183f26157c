//! The screens of running Onramps, and recordings of them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::asked::{Asked, News, TICK};
use crate::connection::{Connection, Place};
use crate::options::Options;
use crate::poller;
use crate::questions::Question;
use crate::recording::{BadRecording, Recorder};
use crate::snapshot::Snapshot;
use crate::tabs::Tab;
use crate::terminal::{Done, Screen, ending, has_ended};
use crate::trouble::Trouble;
use crate::view::{Action, Kill, Source, View};

/// One MiB.
const MIB: u64 = 1 << 20;

/// All tables, as they are ordered at first.
pub fn all_questions(rows: u32) -> Vec<Question> {
    let asked = Tab::ALL.into_iter().filter(|tab| tab.is_asked());
    asked.map(|tab| Question::usual(tab, rows)).collect()
}

/// Shows them until the user has enough.
///
/// # Errors
/// None can be reached at first, or the terminal or the recording fails.
pub fn show(options: &Options, places: &[Arc<Place>], recorder: Option<Recorder>) -> Result<(), Trouble> {
    let ends = ending()?;
    let recording = options.record.as_ref().map(|path| path.display().to_string());
    let target = if let [one] = places { one.target() } else { String::new() };
    let view = View::new(Source::Live { target, recording }, crate::colours());
    let questions = questions(&view, options.rows, recorder.is_some());
    let asked = Asked::start(places, options.interval, questions, &ends)?;
    let (outcomes, killed) = channel();
    let mut session = Session { view, asked, recorder, rows: options.rows, outcomes, killed };
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
                Action::Ask => session.asked.at_once(),
                Action::Kill(kill) => session.kill(kill),
                Action::Step(_) => session.view.message = Some(String::from("this is no recording")),
                Action::None => {}
            }
        }
    }
    Ok(())
}

/// The tab that is shown as it is ordered and filtered, so that the rows that come are those that it shows; a recording has all.
fn questions(view: &View, rows: u32, all: bool) -> Vec<Question> {
    if all {
        return all_questions(rows);
    }
    if !view.tab.is_asked() {
        return Vec::new();
    }
    vec![Question { tab: view.tab, order: view.order().clone(), filter: view.filter.clone(), rows }]
}

struct Session {
    view: View,
    asked: Asked,
    recorder: Option<Recorder>,
    rows: u32,
    outcomes: Sender<String>,
    killed: Receiver<String>,
}

impl Session {
    /// Takes what has come, and asks where it is time.
    fn turn(&mut self) -> Result<(), Trouble> {
        for news in self.asked.receive()? {
            match news {
                News::Look(look) => {
                    self.record(&look);
                    if !self.view.paused {
                        self.view.take(*look);
                    }
                }
                News::Failure(reason) => self.view.fail(reason),
            }
        }
        // A recording has whole rounds; the screen has what there is.
        let whole = if self.recorder.is_some() { self.asked.whole_record() } else { self.asked.whole() };
        if let Some(look) = whole {
            self.record(&look);
            if !self.view.paused {
                self.view.take(look);
            }
        }
        while let Ok(outcome) = self.killed.try_recv() {
            self.view.message = Some(outcome);
            self.asked.at_once();
        }
        // Where nobody sees a look and nothing is recorded, none is asked for.
        if !self.view.paused || self.recorder.is_some() {
            self.asked.want(questions(&self.view, self.rows, self.recorder.is_some()));
            self.asked.ask();
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

    /// Over a connection of its own, so that it waits for no look; to the Onramp whose client it is.
    fn kill(&mut self, kill: Kill) {
        let place = match &kill.onramp {
            Some(name) => self.asked.places().find(|place| place.name() == name),
            None => self.asked.places().next(),
        };
        let Some(place) = place.map(Arc::clone) else {
            self.view.message = Some(format!("{}: there is no such Onramp; nothing was killed", kill.text()));
            return;
        };
        let outcomes = self.outcomes.clone();
        std::thread::spawn(move || {
            let done = Connection::open(&place).and_then(|mut connection| connection.query(&kill.to_sql()));
            let outcome = match done {
                Ok(_) => format!("{}: done", kill.text()),
                Err(failure) => format!("{}: {}", kill.text(), failure.text()),
            };
            // Nobody waits for it where the program has ended.
            let _ = outcomes.send(outcome);
        });
    }
}

/// Writes looks to the recording until a signal ends it.
///
/// # Errors
/// None can be reached at first, or the recording fails.
pub fn record(options: &Options, places: &[Arc<Place>], recorder: &mut Recorder) -> Result<(), Trouble> {
    let ends = ending()?;
    let mut asked = Asked::start(places, options.interval, all_questions(options.rows), &ends)?;
    let mut told = false;
    while !has_ended(&ends) {
        asked.ask();
        for news in asked.receive()? {
            match news {
                News::Look(look) => {
                    recorder.write(&look)?;
                    told = false;
                }
                // Once for each time that it does not answer: it may do so for a night.
                News::Failure(reason) if !told => {
                    say(&reason);
                    told = true;
                }
                News::Failure(_) => {}
            }
        }
        if places.len() > 1 {
            asked.untold().iter().for_each(|reason| say(reason));
        }
        if let Some(look) = asked.whole_record() {
            recorder.write(&look)?;
        }
        std::thread::sleep(asked.rest());
    }
    Ok(())
}

fn say(reason: &str) {
    eprintln!("onramp top: {}; it is tried again", crate::format::clean(reason));
}

/// A recorder, where one is wanted.
///
/// # Errors
/// Where it cannot be written.
pub fn recorder(options: &Options) -> Result<Option<Recorder>, BadRecording> {
    let open = |path: &std::path::PathBuf| Recorder::open(path, options.record_size.saturating_mul(MIB));
    options.record.as_ref().map(open).transpose()
}
