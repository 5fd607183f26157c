//! How a server's stored code is read.

use std::borrow::Cow;
use std::time::Duration;

use seam::Instant;
use sql::CodeEffects;

use super::schemas::Schemas;
use super::{Reading, Watch};
use crate::accounts::task::{Asker, Work};
use crate::backend::Afterwards;
use crate::backend::from_server::own_answers::{Row, rows_of};
use crate::ids::BackendKey;
use crate::io::Io;
use crate::outside::event::Event;
use crate::outside::views::Views;
use crate::pool::Pool;
use crate::request::Request;
use crate::server::Server;
use crate::server::control::answer::{MOST_CODE, NoAnswer};
use crate::server::stored_code::Known;
use crate::server::stored_code::questions::{self, CodeAnswers, CodeQuestion, ReadCode, Rights};
use crate::settings::Settings;

/// Reading may take a twentieth of the service account's time, and of what the server does for it.
const PAUSE: u32 = 20;

/// The pause after which the server is asked again, where it does not tell how many definitions there have been.
const PAUSE_OF_REFUSAL: Duration = Duration::from_secs(60);

impl Server {
    pub(crate) fn code_text(&self, question: CodeQuestion) -> Cow<'static, str> {
        let facts = self.facts.as_ref().expect("asked for once the server is known");
        let schemas = self.control.code.reading.as_ref().map(|reading| reading.schemas.asked());
        question.text(facts.is_mariadb(), facts.version.major(), schemas.unwrap_or_default())
    }

    /// Says whether code with these effects leaves the session with another role, which no reset undoes: in MariaDB the role goes
    /// with the code.
    pub(crate) fn takes_roles(&self, effects: CodeEffects) -> bool {
        effects.contains(CodeEffects::ROLE) && self.facts.as_ref().is_some_and(|facts| !facts.is_mariadb())
    }
}

/// The parts that reading a server's code uses beside the server.
pub(crate) struct AtHand<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) pool: &'a Pool,
    pub(crate) io: &'a mut Io,
    pub(crate) views: &'a mut Views,
}

impl Server {
    /// Returns the question to ask it of its stored code now; one worker asks for all.
    pub(crate) fn next_code_question(&self, now: Instant, pool: &Pool) -> Option<CodeQuestion> {
        if pool.worker != 0 {
            return None;
        }
        let watch = &self.control.code;
        match &watch.reading {
            Some(reading) => reading.task.is_none().then_some(reading.question),
            None => (watch.next <= now).then_some(CodeQuestion::Counts),
        }
    }

    /// The time at which there will be something to ask.
    pub(crate) fn next_code_turn(&self, now: Instant, pool: &Pool) -> Option<Instant> {
        if pool.worker != 0 {
            return None;
        }
        let watch = &self.control.code;
        match &watch.reading {
            Some(reading) => reading.task.is_none().then_some(now),
            None => Some(watch.next),
        }
    }

    /// Takes the server's answer, or its refusal. Returns true where the service account may see more than its connection shows: it is
    /// to log in anew, and the code is read then. Nothing is wrong with the server in that case.
    pub(crate) fn code_answered(
        &mut self,
        at_hand: &mut AtHand<'_>,
        question: CodeQuestion,
        answer: Vec<u8>,
        refusal: Option<String>,
    ) -> bool {
        if question == CodeQuestion::Counts {
            self.take_code_counts(at_hand, &rows_of(&answer), refusal);
            return false;
        }
        let took = self.control.since_asked(at_hand.now);
        let facts = self.facts.as_ref().expect("known since the login");
        let by_schema = question.is_by_schema(facts.is_mariadb(), facts.version.major());
        let watch = &mut self.control.code;
        let Some(reading) = watch.reading.as_mut() else { return false };
        match question {
            CodeQuestion::Rights => {
                reading.rights = Rights::of_rows(&rows_of(&answer));
                if reading.rights.are_more_than(*watch.rights.get_or_insert(reading.rights)) {
                    watch.reading = None;
                    return true;
                }
            }
            CodeQuestion::Schemas => {
                let names = rows_of(&answer).into_iter().filter_map(|row| row.into_iter().next().flatten());
                reading.schemas = Schemas::new(names.collect());
            }
            _ => {}
        }
        reading.bytes += answer.len();
        let refusal = refusal.or_else(|| (reading.bytes > MOST_CODE).then(|| NoAnswer::TooLong.to_string()));
        let all = refusal.is_none();
        reading.refusal = reading.refusal.take().or(refusal);
        reading.answers.push((question, answer));
        if by_schema && all {
            reading.schemas.answered(took);
            if !reading.schemas.asked().is_empty() {
                return false;
            }
        }
        question.note_known(&mut reading.known, all);
        self.go_on_reading(at_hand.io, question);
        false
    }

    /// The server has not answered a question about its code for as long as it may take to connect.
    pub(crate) fn code_takes_too_long(&mut self, now: Instant, pool: &Pool, views: &mut Views) {
        let watch = &mut self.control.code;
        if watch.reading.take().is_some() {
            watch.leave_alone(now);
            pool.workers.stored_code.forget();
            let reason = "it gave no answer within backend_connect_timeout, and is not asked again for five minutes, nor soon after another silence";
            watch.say_what_is_missing(views, vec!["code"], Some(String::from(reason)));
        }
    }

    fn take_code_counts(&mut self, at_hand: &mut AtHand<'_>, rows: &[Row], refusal: Option<String>) {
        let (now, stored_code) = (at_hand.now, &at_hand.pool.workers.stored_code);
        let is_mariadb = self.is_mariadb();
        let watch = &mut self.control.code;
        let Some(counts) = questions::counts(rows, is_mariadb) else {
            watch.next = now + PAUSE_OF_REFUSAL;
            watch.counts = None;
            watch.say_what_is_missing(at_hand.views, vec!["counts of definitions"], refusal);
            return stored_code.forget();
        };
        watch.next = now + at_hand.settings.accounts_refresh;
        watch.take_counts(now, counts, stored_code.is_wanted());
        if watch.is_due(now) {
            watch.due = None;
            watch.reading = Some(Reading {
                began: now,
                question: CodeQuestion::Rights,
                rights: Rights::default(),
                known: Known::default(),
                schemas: Schemas::new(Vec::new()),
                answers: Vec::new(),
                bytes: 0,
                task: None,
                covered: stored_code.begin_reading(),
                refusal: None,
            });
        }
    }

    /// Goes on behind an answer: with the next question that has an answer, or to the end.
    fn go_on_reading(&mut self, io: &mut Io, answered: CodeQuestion) {
        let facts = self.facts.as_ref().expect("known since the login");
        let (is_mariadb, version) = (facts.is_mariadb(), facts.version.major());
        let Some(reading) = self.control.code.reading.as_mut() else { return };
        reading.bytes = 0;
        reading.schemas.begin_again();
        let mut next = answered.next();
        while let Some(question) = next {
            // Each server has schemas of its own: without any, they are hidden.
            let hidden = question.is_by_schema(is_mariadb, version) && reading.schemas.asked().is_empty();
            if hidden || !reading.rights.allow(question, is_mariadb, version) {
                question.note_known(&mut reading.known, false);
            } else if !question.exists(is_mariadb, version) {
                question.note_known(&mut reading.known, true);
            } else {
                reading.question = question;
                return;
            }
            next = question.next();
        }
        // It has said all. Of tens of thousands of pieces a look at that would make a worker's turn long.
        let (answers, mode) = (std::mem::take(&mut reading.answers), facts.lex_mode);
        let work = Work::ReadCode(CodeAnswers { answers, mode });
        reading.task = Some(io.tasks.give(Asker::StoredCode(self.key), work, None));
    }

    /// The answers have been looked through, or that met a defect. Since then the service account may have logged in anew. True where
    /// code is known now of which backends that are there may have run some.
    pub(crate) fn code_is_read(
        &mut self,
        at_hand: &mut AtHand<'_>,
        task: u64,
        read: Option<ReadCode>,
    ) -> bool {
        let (now, stored_code) = (at_hand.now, &at_hand.pool.workers.stored_code);
        let watch = &mut self.control.code;
        let Some(reading) = watch.reading.take_if(|reading| reading.task == Some(task)) else { return false };
        watch.not_before = now + PAUSE * now.since(reading.began);
        let Some(ReadCode(base)) = read else {
            // It is read again with the next look at the counts.
            watch.counts = None;
            stored_code.forget();
            return false;
        };
        watch.readings += 1;
        let Known { routines, triggers, views, columns } = reading.known;
        let all = routines && triggers && views && columns;
        if !all {
            let missing = [
                (routines, "routines"),
                (triggers, "triggers"),
                (views, "views"),
                (columns, "columns' defaults"),
            ];
            let missing = missing.iter().filter(|(known, _)| !known).map(|&(_, name)| name).collect();
            watch.say_what_is_missing(at_hand.views, missing, reading.refusal);
        }
        stored_code.take(base, reading.known, &reading.covered)
    }

    /// The end of a statement: what code has become known while it ran may have run in it. Which of it, its text would tell, which is gone.
    /// To pin its client for what most likely has not run would hold the backends of all who are served when a server is first read,
    /// so the backend is reset behind it: what such code has set is lost to the client then, and reaches nobody else. A text of several
    /// statements that defines code itself (`defines`) may well go on to run it, and pins.
    pub(crate) fn note_hidden_code_at_end(
        &mut self,
        pool: &Pool,
        key: BackendKey,
        request: &mut Request,
        defines: bool,
    ) {
        let stored_code = &pool.workers.stored_code;
        let Some(version) = request.changes.library.filter(|&version| version != stored_code.version())
        else {
            return;
        };
        let (latest, library, beyond) = stored_code.library();
        let more = if version + 1 == latest { beyond } else { library.any() };
        request.changes.hidden.certain = false;
        if defines && request.statement.several {
            request.changes.hidden.effects |= more;
        } else if more.contains(CodeEffects::SILENT) {
            let clean = if self.takes_roles(more) { Afterwards::Close } else { Afterwards::Reset };
            let backend = &mut self.backends[key];
            backend.clean_afterwards(clean);
        }
    }
}

impl Watch {
    /// Says once which kinds of code cannot be read.
    fn say_what_is_missing(&mut self, views: &mut Views, missing: Vec<&'static str>, reason: Option<String>) {
        if !std::mem::replace(&mut self.said, true) {
            views.event(Event::StoredCodeHidden { missing, reason });
        }
    }
}
