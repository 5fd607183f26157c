//! Servers of RDS, by what they answer otherwise than the MariaDB or MySQL that each of them is. What people's servers have answered is in
//! `rds/recorded.txt`, for the tests.

/// Where the files of their programs are, and those of no other server: `/rdsdbbin/mysql-5.7.18/`.
const PROGRAMS: &str = "/rdsdbbin/";

/// From whom a MariaDB of RDS replicates. By RDS's manual nobody there has the right to ask for that as elsewhere, from 10.5 on, and an
/// administrator cannot give away what he does not have. The columns are the same, by their older or newer names.
pub(super) const REPLICA_STATUS: &str = "CALL mysql.rds_replica_status";

/// What [`REPLICA_STATUS`] takes.
pub(super) const RIGHT_TO_LOOK: &str = "EXECUTE ON PROCEDURE mysql.rds_replica_status";

/// Whether a server with this `basedir` is of RDS.
pub(super) fn is_of_rds(basedir: &str) -> bool {
    basedir.starts_with(PROGRAMS)
}

#[cfg(test)]
#[path = "rds/tests.rs"]
mod tests;
