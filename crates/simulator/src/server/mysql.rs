//! What only a MySQL is asked, and how it replicates: by sets of GTIDs, of which a replica may have parts before others.
//!
//! The forms are those that an 8.0.31 and a 9.7 have given: sets of several servers are on several lines, a number alone is no range, tags stand
//! behind the numbers without one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;

use super::database::Database;
use super::member::{Committed, Gtid, Member, Replication, ServerNumber};
use super::reply::{Answer, Value};
use crate::protocol::stored_text;
use crate::random::Random;

/// The tag of transactions that have one (`gtid_next = 'AUTOMATIC:night'`, since 8.3).
const TAG: &str = "night";

/// A server's `server_uuid`.
pub(super) fn uuid(server: ServerNumber) -> String {
    format!("3e11fa47-71ca-11e1-9e33-c80aa94295{server:02}")
}

/// `gtid_executed` of who has these.
pub(super) fn set_of(has: &BTreeSet<Gtid>) -> String {
    let mut sets: BTreeMap<(ServerNumber, bool), Vec<(u64, u64)>> = BTreeMap::new();
    let mut numbers: Vec<_> = has.iter().map(|gtid| (gtid.server, gtid.is_tagged, gtid.of_server)).collect();
    numbers.sort_unstable();
    for (server, is_tagged, number) in numbers {
        let set = sets.entry((server, is_tagged)).or_default();
        match set.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => set.push((number, number)),
        }
    }
    let mut out = String::new();
    let mut before = None;
    for ((server, is_tagged), ranges) in sets {
        if before != Some(server) {
            out.push_str(if before.is_some() { ",\n" } else { "" });
            out.push_str(&uuid(server));
        }
        before = Some(server);
        if is_tagged {
            let _ = write!(out, ":{TAG}");
        }
        for (first, last) in ranges {
            let _ = if first == last { write!(out, ":{first}") } else { write!(out, ":{first}-{last}") };
        }
    }
    out
}

/// What a replica carries out next of what it has got, where it does not keep the order of its source (`replica_preserve_commit_order = OFF`):
/// some of it, none before an earlier one that has changed the same row.
pub fn in_any_order(mut got: Vec<Rc<Committed>>, random: &mut Random) -> Vec<Rc<Committed>> {
    let mut next = Vec::new();
    let most = random.between(1, got.len() as u64);
    for _ in 0..most {
        let mut place = random.index(got.len());
        while let Some(earlier) = (0..place).find(|&earlier| got[earlier].shares_rows_with(&got[place])) {
            place = earlier;
        }
        next.push(got.remove(place));
    }
    next
}

impl Member {
    /// The next of what it lacks of its source, so many at most (`SOURCE_AUTO_POSITION = 1`). What it has beside that is nobody's affair, unless the
    /// source itself has written that.
    pub(super) fn next_by_sets(
        &self,
        source: &Self,
        most: usize,
    ) -> Result<Vec<Rc<Committed>>, &'static str> {
        let is_unknown = |gtid: &Gtid| gtid.server == source.number && !source.has(*gtid);
        if self.log().iter().any(|committed| is_unknown(&committed.gtid)) {
            return Err(
                "Got fatal error 1236 from source when reading data from binary log: 'Replica has more \
                GTIDs than the source has, using the source's SERVER_UUID.'",
            );
        }
        Ok(self.next_of_log(source.log(), most))
    }

    /// The next of what it lacks of these.
    pub fn next_of_log(&self, log: &[Rc<Committed>], most: usize) -> Vec<Rc<Committed>> {
        log.iter().filter(|committed| !self.has(committed.gtid)).take(most).cloned().collect()
    }

    /// `SHOW REPLICA STATUS`.
    pub(super) fn replica_status(&self) -> Answer {
        let names = [
            "Source_Host",
            "Source_Port",
            "Replica_IO_Running",
            "Replica_SQL_Running",
            "Seconds_Behind_Source",
            "Last_IO_Error",
            "Last_SQL_Error",
            "Retrieved_Gtid_Set",
            "Executed_Gtid_Set",
            "Auto_Position",
        ];
        let (receives, applies, error) = match self.replication {
            Replication::Runs | Replication::Starved => ("Yes", "Yes", ""),
            Replication::Stopped => ("No", "No", ""),
            // It carries out what it has got before.
            Replication::Failed(why) => ("No", "Yes", why),
        };
        let row = |source: ServerNumber| -> Vec<Value> {
            let lag = (receives == "Yes").then(|| self.said_lag.unwrap_or(0).to_string());
            let texts =
                [&format!("10.0.0.{source}"), "3306", receives, applies].map(|text| Some(text.to_owned()));
            let rest = [error, "", "", &self.mysql_position(), "1"].map(|text| Some(text.to_owned()));
            texts.into_iter().chain([lag]).chain(rest).collect()
        };
        Answer::Rows {
            columns: names.map(str::to_owned).to_vec(),
            rows: self.source.map(row).into_iter().collect(),
        }
    }
}

impl Database {
    /// SHOW GLOBAL STATUS of counters: no account and no code is ever defined.
    pub(super) fn show_counters(&self, text: &str) -> Option<Answer> {
        let (name, columns) = ("Com_", ["Variable_name", "Value"].map(str::to_owned).to_vec());
        let counters = text.split('\'').filter(|part| part.starts_with(name));
        let rows: Vec<Vec<Value>> =
            counters.map(|counter| [counter, "0"].map(|text| Some(text.to_owned())).to_vec()).collect();
        (!rows.is_empty()).then_some(Answer::Rows { columns, rows })
    }

    /// The rows of tables that only a MySQL has, known by their names; `None` for all others.
    pub(super) fn select_of_mysql(&self, text: &str) -> Option<Vec<Vec<Value>>> {
        let text_of = |text: &str| Some(text.to_owned());
        Some(if text.contains("VARIABLE_NAME = 'Threads_connected'") {
            vec![vec![Some(self.max_connections.to_string()), Some(self.threads.len().to_string())]]
        } else if text.contains("mysql.func") {
            // Asks for the service account's rights along with functions.
            return None;
        } else if text.starts_with("SELECT Select_priv = ") {
            // The service account's: SELECT, SHOW VIEW, SHOW_ROUTINE, TRIGGER.
            vec![["1"; 4].map(text_of).to_vec()]
        } else if text.contains("FROM mysql.user") {
            let row = |account: &super::database::Account| {
                let may_kill = u8::from(account.may_kill).to_string();
                let stored = stored_text(account.password.as_bytes());
                let first = [&account.user, "%", "mysql_native_password", &stored, "0", &may_kill];
                // Nothing of TLS is required, and no password expires.
                let rest =
                    [text_of(""), text_of(""), text_of(""), text_of(""), text_of("0"), None, None, None];
                first.map(text_of).into_iter().chain(rest).chain([text_of("rights")]).collect()
            };
            self.accounts.iter().map(row).collect()
        } else if text.contains("performance_schema.data_lock_waits") {
            super::control::lock_waits(self)
        } else {
            return None;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gtid(server: ServerNumber, of_server: u64, is_tagged: bool) -> Gtid {
        Gtid { server, of_domain: 0, of_server, is_tagged }
    }

    #[test]
    fn sets_are_written_as_the_servers_do() {
        let has =
            [gtid(1, 1, false), gtid(1, 2, false), gtid(1, 4, false), gtid(1, 2, true), gtid(2, 7, true)];
        let (first, second) = (uuid(1), uuid(2));
        let all = has.into_iter().collect();
        assert_eq!(set_of(&all), format!("{first}:1-2:4:{TAG}:2,\n{second}:{TAG}:7"));
        assert_eq!(set_of(&BTreeSet::new()), "");
    }
}
