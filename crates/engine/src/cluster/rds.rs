//! Servers of RDS, by the answers in which they differ from the MariaDB or MySQL that each of them is. Answers of people's servers are in
//! `rds/recorded.txt`, for the tests.

/// The folder of their programs, which no other server has: `/rdsdbbin/mysql-5.7.18/`.
const PROGRAMS: &str = "/rdsdbbin/";

/// Asks a MariaDB of RDS for its sources. By RDS's manual nobody there has the right to ask as elsewhere, from 10.5 on, and an
/// administrator cannot give away a right that he does not have. The columns are the same, by their older or newer names.
pub(super) const REPLICA_STATUS: &str = "CALL mysql.rds_replica_status";

/// The right that [`REPLICA_STATUS`] takes.
pub(super) const RIGHT_TO_LOOK: &str = "EXECUTE ON PROCEDURE mysql.rds_replica_status";

/// Says whether a server with this `basedir` is of RDS.
pub(super) fn is_of_rds(basedir: &str) -> bool {
    basedir.starts_with(PROGRAMS)
}

#[cfg(test)]
#[path = "rds/tests.rs"]
mod tests;
