//! MariaDB or MySQL: what differs between both in what they say of themselves.

/// Whose server it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// MariaDB 10.11.
    #[default]
    MariaDb,
    /// MySQL 8.4. Where it differs from the other for its sessions, it is as one without the collations of 8.0 that has
    /// `collation_server = latin1_swedish_ci` and accounts of `mysql_native_password`.
    MySql,
}

/// Variables that MySQL names otherwise: MariaDB's name, and MySQL's.
const RENAMED: [(&str, &str); 2] =
    [("tx_isolation", "transaction_isolation"), ("tx_read_only", "transaction_read_only")];

impl Kind {
    /// What the server calls itself.
    pub fn version(self) -> &'static str {
        match self {
            Self::MariaDb => super::VERSION,
            Self::MySql => "8.4.7-virtual",
        }
    }

    /// The kind of a server that calls itself so.
    pub fn of_version(version: &[u8]) -> Self {
        if version == Self::MySql.version().as_bytes() { Self::MySql } else { Self::MariaDb }
    }

    /// The name in the table of variables of what has this name here; `None` where there is no such variable.
    pub fn known_as(self, name: &str) -> Option<&str> {
        match self {
            Self::MariaDb => Some(name),
            Self::MySql => match RENAMED.iter().find(|(mariadb, mysql)| *mariadb == name || *mysql == name) {
                Some((mariadb, mysql)) => (*mysql == name).then_some(*mariadb),
                None => Some(name),
            },
        }
    }

    /// The name that a variable of the table has here.
    pub fn name_of(self, name: &str) -> &str {
        let renamed = RENAMED.iter().find(|(mariadb, _)| self == Self::MySql && *mariadb == name);
        renamed.map_or(name, |(_, mysql)| mysql)
    }

    /// What `CURRENT_ROLE()` gives: MySQL names the account, and says NONE where MariaDB has NULL.
    pub fn current_role(self, role: Option<&str>) -> Option<String> {
        match (self, role) {
            (Self::MariaDb, role) => role.map(str::to_owned),
            (Self::MySql, None) => Some("NONE".to_owned()),
            (Self::MySql, Some(role)) => Some(format!("`{role}`@`%`")),
        }
    }

    /// ER_OPTION_PREVENTS_STATEMENT of a server that takes no writes.
    pub fn read_only_message(self) -> &'static str {
        match self {
            Self::MariaDb => {
                "The MariaDB server is running with the --read-only option so it cannot execute this statement"
            }
            Self::MySql => {
                "The MySQL server is running with the --super-read-only option so it cannot execute this statement"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_one_name_on_each() {
        let names = ["tx_isolation", "transaction_isolation", "time_zone"];
        let known = |kind: Kind| names.map(|name| kind.known_as(name));
        assert_eq!(known(Kind::MySql), [None, Some("tx_isolation"), Some("time_zone")]);
        assert_eq!(known(Kind::MariaDb), names.map(Some));
        assert_eq!(Kind::MySql.name_of("tx_read_only"), "transaction_read_only");
        assert_eq!(Kind::MariaDb.name_of("tx_read_only"), "tx_read_only");
    }
}
