//! What costs the server more than it has to.

use super::server::{answer, backends_needed, server_variable};
use crate::finding::{Amount, Check, Finding, Verdict};
use crate::{Machine, Remedy, Request};

/// `backend_prepared_statements`' default.
const PREPARED_ON_A_BACKEND: u64 = 256;

/// Each makes the server's tables be opened anew: fewer a second are nothing that anybody notices.
const OPENED_TOO_OFTEN: u64 = 1;

pub(super) fn prepared_statements(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "max_prepared_stmt_count of the server";
    let found = serving(machine, request)?.number("max_prepared_stmt_count")?;
    let needed = backends_needed(request) * PREPARED_ON_A_BACKEND;
    let finding = at_least(Check::ServerPreparedStatements, SUBJECT, found, needed).because(
        "Onramp keeps up to backend_prepared_statements = 256 of them on each connection; where the server takes no more, those \
         that were used longest ago are closed, and prepared again",
    );
    // Nothing can be prepared at all.
    let verdict = if found == 0 { Verdict::Short } else { finding.verdict };
    Some(Finding { verdict, ..finding }.lifted_by(server_variable("max_prepared_stmt_count", needed)))
}

pub(super) fn threads(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "thread_cache_size of the server";
    // MySQL's own default: 8, and one for each hundred connections.
    let needed = 8 + backends_needed(request) / 100;
    let answer = serving(machine, request)?;
    if answer.word("thread_handling") != Some("one-thread-per-connection") {
        return None;
    }
    let finding = at_least(Check::ServerThreads, SUBJECT, answer.number("thread_cache_size")?, needed)
        .because("connections come and go with the load, and each begins a thread of the server where none is kept")
        .lifted_by(server_variable("thread_cache_size", needed));
    Some(finding)
}

pub(super) fn concurrency(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "innodb_thread_concurrency of the server";
    let found = serving(machine, request)?.number("innodb_thread_concurrency")?;
    let verdict = if found > 0 { Verdict::Hint } else { Verdict::Ok };
    let found = if found > 0 { Amount::Count(found) } else { Amount::Unlimited };
    let why = "statements that Onramp has let through wait a second time there, where it cannot see for what: how many run is \
               for permits to say";
    let finding = Finding::new(Check::ServerConcurrency, SUBJECT, verdict, why)
        .amounts(found, Amount::words("0, for no limit"))
        .lifted_by(server_variable("innodb_thread_concurrency", 0));
    Some(finding)
}

pub(super) fn tables(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "table_open_cache of the server";
    let answer = serving(machine, request)?;
    let found = answer.number("table_open_cache")?;
    let uptime = answer.counted("Uptime")?.max(1);
    let opened = answer.counted("Opened_tables")? / uptime;
    let is_full = answer.counted("Open_tables")? >= found.saturating_sub(found / 10);
    let finding = if is_full && opened >= OPENED_TOO_OFTEN {
        at_least(Check::ServerTables, SUBJECT, found, 2 * found)
    } else {
        at_least(Check::ServerTables, SUBJECT, found, found)
    };
    let finding = finding
        .because(format!("{opened} tables a second were opened since the server began; where it is full, statements wait for that"))
        .lifted_by(server_variable("table_open_cache", 2 * found))
        .lifted_by(Remedy::Advice("each open table takes up to two of the server's open files".to_owned()));
    Some(finding)
}

/// What the server said, where Onramp is in front of it.
fn serving<'a>(machine: &'a Machine, request: &Request) -> Option<&'a crate::ServerAnswer> {
    answer(machine).filter(|_| request.role.serves())
}

/// Compares a number that should be reached: it goes on without.
fn at_least(check: Check, subject: &str, found: u64, needed: u64) -> Finding {
    let finding = Finding::at_least(check, subject, Some(found), needed);
    let verdict = if finding.verdict == Verdict::Short { Verdict::Hint } else { finding.verdict };
    Finding { verdict, ..finding }
}
