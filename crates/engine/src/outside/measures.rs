//! Measurements for metrics: times and results of statements, of logins, of backends' openings and of turns. They are counted as these
//! happen.

use std::time::Duration;

use seam::Instant;

use crate::outside::enum_map::EnumMap;
use crate::outside::event::Event;
use crate::outside::histogram::Histogram;
use crate::outside::named::{ClosedFor, LoginStage, RefusedFor, named};
use crate::outside::turns::Turns;

named! {
    /// The command by which a statement came.
    Command {
        /// COM_QUERY.
        Query = "query",
        /// COM_STMT_PREPARE.
        Prepare = "prepare",
        /// COM_STMT_EXECUTE.
        Execute = "execute",
        /// Any other that the server has to answer.
        Other = "other",
    }
}

/// Errors of the server that are counted apart: those that say something of the server, of locks, of rights or of the data. Others
/// are many and rare, and a metric has few series.
pub const ERROR_CODES: [u16; 24] = [
    1040, 1044, 1045, 1046, 1048, 1054, 1062, 1064, 1142, 1146, 1205, 1213, 1226, 1264, 1290, 1292, 1317,
    1364, 1406, 1451, 1452, 1969, 3024, 4031,
];

/// Statements of one command that have ended.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Times that the server took for these statements, as seen from here.
    pub times: Histogram,
    /// Statements that the server answered with an error.
    pub errors: u64,
    /// Statements that were lost with their backend. They are not among the times.
    pub lost: u64,
}

impl std::ops::AddAssign<&Self> for Ended {
    /// Several workers together.
    fn add_assign(&mut self, other: &Self) {
        self.times += &other.times;
        self.errors += other.errors;
        self.lost += other.lost;
    }
}

/// The measurements of one worker: about 27 kB.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    statements: EnumMap<Command, Ended>,
    /// Errors in the order of [`ERROR_CODES`], and all others.
    errors: [u64; ERROR_CODES.len() + 1],
    /// Times from a client's connection to the end of its login, the client's own part included. COM_CHANGE_USER counts, too.
    pub logins: Histogram,
    login_stages: EnumMap<LoginStage, Histogram>,
    /// Times from a backend's connection to where it serves.
    pub backend_connects: Histogram,
    /// Attempts to reach the server, or to log in there, that failed.
    pub connect_failures: u64,
    /// A worker's turns, without the waiting in between.
    pub turns: Histogram,
    /// Closed clients.
    closed: EnumMap<ClosedFor, u64>,
    /// Refused logins.
    refused: EnumMap<RefusedFor, u64>,
    /// The turn that is under way, and the longest one of late.
    pub(crate) turn: Turns,
    /// Clients that have logged in.
    pub logged_in: u32,
}

impl Measures {
    /// Statements by this command.
    pub fn ended(&self, command: Command) -> &Ended {
        &self.statements[command]
    }

    /// How many errors the server has answered with, by code; `None` for the rest.
    pub fn errors(&self) -> impl Iterator<Item = (Option<u16>, u64)> {
        let codes = ERROR_CODES.into_iter().map(Some).chain([None]);
        codes.zip(self.errors)
    }

    /// How many clients were closed, by what for.
    pub fn closed(&self) -> impl Iterator<Item = (ClosedFor, u64)> {
        self.closed.iter().map(|(closed_for, &count)| (closed_for, count))
    }

    /// How many logins were refused, by what for.
    pub fn refused(&self) -> impl Iterator<Item = (RefusedFor, u64)> {
        self.refused.iter().map(|(refused_for, &count)| (refused_for, count))
    }

    /// Counts what is an event anyway.
    pub(crate) fn count(&mut self, event: &Event) {
        match event {
            Event::ClientClosed { closed_for, .. } => self.closed[*closed_for] += 1,
            Event::LoginRefused { refused_for, .. } => self.refused[*refused_for] += 1,
            _ => {}
        }
    }

    /// How long a stage of logins has taken.
    pub fn login_stage(&self, stage: LoginStage) -> &Histogram {
        &self.login_stages[stage]
    }

    /// A stage of a login is over.
    pub(crate) fn note_login_stage(&mut self, stage: LoginStage, took: Duration) {
        self.login_stages[stage].record(took);
    }

    /// A client's statement was answered, or with an error of this code.
    pub(crate) fn note_ended(&mut self, command: Command, error: Option<u16>, took: Duration) {
        let ended = &mut self.statements[command];
        ended.times.record(took);
        if let Some(error) = error {
            ended.errors += 1;
            let place = ERROR_CODES.iter().position(|&code| code == error);
            self.errors[place.unwrap_or(ERROR_CODES.len())] += 1;
        }
    }

    /// A client's statement went with its backend.
    pub(crate) fn note_lost(&mut self, command: Command) {
        self.statements[command].lost += 1;
    }

    /// A turn has taken so long.
    pub(crate) fn note_turn(&mut self, now: Instant, took: Duration) {
        self.turn.note(now, took);
        self.turns.record(took);
    }
}

impl std::ops::AddAssign<&Self> for Measures {
    /// Several workers together.
    fn add_assign(&mut self, other: &Self) {
        self.statements += &other.statements;
        for (errors, more) in self.errors.iter_mut().zip(other.errors) {
            *errors += more;
        }
        self.closed += &other.closed;
        self.refused += &other.refused;
        self.logins += &other.logins;
        self.login_stages += &other.login_stages;
        self.backend_connects += &other.backend_connects;
        self.connect_failures += other.connect_failures;
        self.turns += &other.turns;
        self.logged_in += other.logged_in;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_together_are_as_one() {
        let mut one = Measures::default();
        one.logins.record(Duration::from_millis(3));
        one.note_login_stage(LoginStage::Password, Duration::from_millis(2));
        one.connect_failures = 2;
        one.errors[ERROR_CODES.len()] = 1;
        one.errors[0] = 4;
        one.statements[Command::Execute].lost = 5;
        let mut both = one.clone();
        both += &one;
        assert_eq!((both.logins.count(), both.connect_failures), (2, 4));
        assert_eq!(both.login_stage(LoginStage::Password).count(), 2);
        assert_eq!(both.login_stage(LoginStage::Tls).count(), 0);
        let errors: Vec<_> = both.errors().filter(|(_, count)| *count > 0).collect();
        assert_eq!(errors, [(Some(1040), 8), (None, 2)]);
        assert_eq!(both.ended(Command::Execute).lost, 10);
    }

    #[test]
    fn error_codes_are_in_order_and_there_once() {
        assert!(ERROR_CODES.windows(2).all(|two| two[0] < two[1]));
    }
}
