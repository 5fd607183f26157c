//! The meaning of the server's reports of changes, and the changes that a statement makes without a report.

use std::collections::BTreeSet;

use sql::{CharsetSetting, Classification, Effects, Kind};
use wire::StatusFlags;

use crate::request::Request;

/// The schema that MariaDB goes back to without a report (sql_db.cc: `mysql_change_db`).
pub(crate) const UNREPORTED_SCHEMA: &[u8] = b"information_schema";

/// The variables that SET CHARACTER SET and its like change. The collation is the schema's, which no tracker reports.
const CHARSETS: [&[u8]; 4] =
    [b"character_set_client", b"character_set_results", b"character_set_connection", b"collation_connection"];

/// The variables that stored code may set, and that go back at its end without a report (MariaDB's and MySQL's sp_head.cc:
/// `sp_head::execute`, and the creation context around it).
const GOES_BACK: [&[u8]; 4] =
    [b"sql_mode", b"character_set_client", b"character_set_connection", b"collation_connection"];

/// Effects of statements that may run stored code, and may set the session's variables themselves.
pub(crate) const MAY_SET: Effects = Effects::ROUTINE.union(Effects::UNKNOWN).union(Effects::TEXT_PREPARE);

/// The meaning of a variable's reported change for the session behind the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belief {
    /// The value is as reported.
    True,
    /// The value has gone back.
    Over,
    /// The value is as reported or has gone back; nobody here knows which.
    Doubtful,
}

pub(crate) fn belief(statement: &Classification, name: &[u8], failed: bool) -> Belief {
    if statement.variables.for_its_duration && statement.variables.unreported.iter().any(|set| **set == *name)
    {
        return if failed { Belief::Doubtful } else { Belief::Over };
    }
    let runs_code = !statement.effects.intersection(MAY_SET).is_empty();
    match statement.kind {
        _ if !GOES_BACK.contains(&name) => Belief::True,
        Kind::Set if !runs_code => Belief::True,
        // What is reported here may belong to a statement before it that failed.
        Kind::Set | Kind::Other | Kind::Prepare | Kind::Execute | Kind::Deallocate => Belief::Doubtful,
        _ if statement.several || failed => Belief::Doubtful,
        _ => Belief::Over,
    }
}

/// Returns the meaning of a reported schema. Stored code runs in a schema of its own, which the server reports with each result. The
/// server also reports the schema behind the code. Exceptions are [`UNREPORTED_SCHEMA`], and code that fails.
pub(crate) fn belief_in_schema(request: &Request, before: Option<&[u8]>, failed: bool) -> Belief {
    let statement = &request.statement;
    let reported = !before.is_some_and(|before| before.eq_ignore_ascii_case(UNREPORTED_SCHEMA));
    let unseen = Effects::UNKNOWN.union(Effects::TEXT_PREPARE);
    match statement.kind {
        _ if failed => Belief::Doubtful,
        _ if reported => Belief::True,
        _ if statement.several => Belief::Doubtful,
        _ if request.chooses_schema() => Belief::True,
        // What a statement that failed had reported comes with a later one.
        Kind::Other => Belief::Doubtful,
        _ if !statement.effects.intersection(unseen).is_empty() => Belief::Doubtful,
        _ => Belief::Over,
    }
}

/// Returns the variables that a statement leaves in doubt, whatever was reported.
pub(crate) fn unreported(
    statement: &Classification,
    reported: &BTreeSet<Box<[u8]>>,
    failed: bool,
) -> BTreeSet<Box<[u8]>> {
    let mut names = BTreeSet::new();
    // A SET that fails alone has set nothing.
    let done = !failed || statement.several;
    if !statement.variables.for_its_duration && done {
        let silent = statement
            .variables
            .unreported
            .iter()
            .filter(|name| statement.several || !reported.contains(*name));
        names.extend(silent.cloned());
    }
    let mut add = |more: &[&[u8]]| names.extend(more.iter().map(|&name| Box::from(name)));
    if statement.charset.is_unsure() && done {
        add(&CHARSETS);
    }
    if failed && statement.variables.for_its_duration {
        // They come with a later answer.
        names.extend(statement.variables.unreported.iter().cloned());
    }
    if failed && !statement.effects.intersection(MAY_SET).is_empty() {
        names.extend(GOES_BACK.map(Box::from));
    }
    // MariaDB sets the one with the other and says nothing of it (sys_vars.cc: fix_max_join_size).
    if names.contains(&b"max_join_size"[..]) || reported.contains(&b"max_join_size"[..]) {
        names.insert(b"sql_big_selects"[..].into());
    }
    // MySQL reports the character set alone of a collation's number.
    if reported.contains(&b"character_set_server"[..]) {
        names.insert(b"collation_server"[..].into());
    }
    names
}

/// Returns a variable's value that an OK tells by its status flags and not under the variable's name.
pub(crate) fn told_by_status(
    statement: &Classification,
    name: &[u8],
    status: Option<StatusFlags>,
) -> Option<&'static [u8]> {
    let status = status.filter(|_| *name == *b"autocommit" && !statement.several)?;
    Some(if status.contains(StatusFlags::AUTOCOMMIT) { b"ON" } else { b"OFF" })
}

/// Returns the other assignments of a statement that also sets the list of variables that the server reports. The server reports
/// by the new list, and forgets the changes made before that (session_tracker.cc: `Session_sysvars_tracker::update`).
pub(crate) fn assigned_beside_list(
    statement: &Classification,
    reported: &BTreeSet<Box<[u8]>>,
) -> BTreeSet<Box<[u8]>> {
    let told = |name: &[u8]| !statement.several && reported.contains(name);
    let mut names: BTreeSet<_> = statement.variables.all.iter().filter(|name| !told(name)).cloned().collect();
    if statement.charset != CharsetSetting::Untouched {
        names.extend(CHARSETS.map(Box::from));
    }
    names
}

#[cfg(test)]
mod tests {
    use wire::Expect;

    use super::*;
    use crate::request::RequestKind;

    fn statement(text: &str) -> Classification {
        sql::classify(text.as_bytes(), sql::LexMode::default())
    }

    fn of(text: &str, reported: &[&str], failed: bool) -> Vec<String> {
        let reported = reported.iter().map(|name| Box::from(name.as_bytes())).collect();
        let names = unreported(&statement(text), &reported, failed);
        names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    #[test]
    fn what_stored_code_sets_of_some_variables_goes_back() {
        let mode = |text, failed| belief(&statement(text), b"sql_mode", failed);
        assert_eq!(mode("CALL p()", false), Belief::Over);
        assert_eq!(mode("INSERT INTO t VALUES (1)", false), Belief::Over);
        assert_eq!(belief(&statement("CALL p()"), b"time_zone", false), Belief::True);
        assert_eq!(mode("CALL p()", true), Belief::Doubtful);
        assert_eq!(mode("CALL p(); SET sql_mode = ''", false), Belief::Doubtful);
        assert_eq!(mode("SET sql_mode = ''", false), Belief::True);
        assert_eq!(mode("SET @a = f()", false), Belief::Doubtful);
        assert_eq!(mode("EXECUTE IMMEDIATE 'SET sql_mode = 0'", false), Belief::Doubtful);
    }

    #[test]
    fn what_set_statement_sets_goes_back() {
        let zone = |text, failed| belief(&statement(text), b"time_zone", failed);
        assert_eq!(zone("SET STATEMENT time_zone = '+01:00' FOR SELECT 1", false), Belief::Over);
        assert_eq!(zone("SET STATEMENT sql_mode = '' FOR SELECT f()", false), Belief::True);
        assert_eq!(zone("SELECT /*+ SET_VAR(time_zone = '+01:00') */ 1", false), Belief::Over);
        assert_eq!(of("SET STATEMENT sql_mode = '' FOR SELECT 1", &[], false), [""; 0]);
        assert_eq!(of("SELECT /*+ SET_VAR(time_zone = '+01:00') */ 1", &["time_zone"], false), [""; 0]);
        assert_eq!(of("SET STATEMENT sql_mode = '' FOR SELECT x", &[], true), ["sql_mode"]);
        assert_eq!(of("SET STATEMENT sql_mode = '' FOR DO 1; SELECT 1", &["sql_mode"], false), ["sql_mode"]);
    }

    #[test]
    fn what_is_not_reported_is_asked_for() {
        assert_eq!(of("SET @@sql_mode = ''", &[], false), ["sql_mode"]);
        assert_eq!(of("SET @@sql_mode = ''", &["sql_mode"], false), [""; 0], "MySQL reports it");
        assert_eq!(of("SET @@sql_mode = 'x'", &[], true), [""; 0]);
        assert_eq!(of("SET @@time_zone = '+01:00'; SELECT x", &[], true), ["time_zone"]);
        assert_eq!(of("SET NAMES utf8 COLLATE utf8_bin; SELECT x", &[], true).len(), CHARSETS.len());
        assert_eq!(of("SET max_join_size = 5", &["max_join_size"], false), ["sql_big_selects"]);
        assert_eq!(of("CALL p()", &["sql_mode"], false), [""; 0]);
        assert_eq!(of("CALL p()", &[], true).len(), GOES_BACK.len());
    }

    #[test]
    fn what_stands_beside_the_list_of_variables_is_asked_for() {
        let beside = |text: &str, reported: &[&str]| {
            let reported = reported.iter().map(|name| Box::from(name.as_bytes())).collect();
            let names = assigned_beside_list(&statement(text), &reported);
            names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
        };
        let set = "SET autocommit = 1, session_track_system_variables = 'time_zone', time_zone = '+01:00'";
        assert_eq!(beside(set, &["time_zone"]), ["autocommit", "session_track_system_variables"]);
        assert_eq!(beside(&format!("{set}; DO 1"), &["time_zone"]).len(), 3);
        assert_eq!(beside("SET session_track_system_variables = '', NAMES utf8mb4", &[]).len(), 5);
    }

    #[test]
    fn the_way_back_to_information_schema_is_not_reported() {
        let belief = |text: &str, before: &str| {
            let mut request = Request::query(text);
            request.statement = statement(text);
            belief_in_schema(&request, Some(before.as_bytes()), false)
        };
        let inside = |text| belief(text, "INFORMATION_SCHEMA");
        assert_eq!(inside("CALL a.p()"), Belief::Over);
        assert_eq!(inside("SELECT a.f()"), Belief::Over);
        assert_eq!(inside("USE a"), Belief::True);
        assert_eq!(inside("USE a; CALL p()"), Belief::Doubtful);
        assert_eq!(inside("EXECUTE IMMEDIATE 'CALL a.p()'"), Belief::Doubtful);
        assert_eq!(belief("CALL a.p()", "b"), Belief::True);
        let late = Request::plain(Vec::new(), Expect::Simple, RequestKind::Other);
        assert_eq!(belief_in_schema(&late, Some(UNREPORTED_SCHEMA), false), Belief::Doubtful);
        assert_eq!(belief_in_schema(&late, None, false), Belief::True);
        assert_eq!(belief_in_schema(&late, None, true), Belief::Doubtful);
    }
}
