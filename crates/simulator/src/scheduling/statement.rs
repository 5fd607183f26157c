//! The statements of the scheduling scenarios: written by light clients, read by the modelled server.

/// What a statement does to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A plain read of one row.
    Read,
    /// An update of one row: its lock is held until the transaction ends.
    Write,
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// FLUSH TABLES WITH READ LOCK: waits for the writes that run, then nobody writes.
    GlobalReadLock,
    /// LOCK TABLES ... WRITE.
    LockTable,
    /// UNLOCK TABLES: of either kind.
    Unlock,
    /// GET_LOCK of the row's number, with a timeout.
    GetLock {
        /// Whole seconds.
        timeout: u32,
    },
    /// RELEASE_LOCK of the row's number.
    ReleaseLock,
}

/// One statement as the server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What it does.
    pub action: Action,
    /// On which of the scenario's tables; what it costs is the table's.
    pub table: u16,
    /// On which row, or the number of a user lock.
    pub row: u64,
}

/// Whose statement it is, so that the server's side of it can be told to the right client of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The client.
    pub client: u32,
    /// Counts its statements.
    pub number: u32,
}

impl Origin {
    /// Of a statement that any client may have sent.
    pub const NOBODY: Self = Self { client: u32::MAX, number: 0 };

    /// 64 bits that depend on the seed, the statement and what they are for alone.
    pub fn bits(self, seed: u64, purpose: u64) -> u64 {
        let statement = u64::from(self.client) << 32 | u64::from(self.number);
        mix(mix(seed ^ purpose.rotate_left(48)) ^ statement)
    }
}

/// The finaliser of SplitMix64: neighbouring numbers come out far apart.
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Statement {
    /// The text, with its origin in a comment unless that is [`Origin::NOBODY`].
    pub fn text(&self, origin: Origin) -> String {
        let (table, row) = (self.table, self.row);
        let Origin { client, number } = origin;
        let text = match self.action {
            Action::Read => format!("SELECT c FROM t{table} WHERE id={row}"),
            Action::Write => format!("UPDATE t{table} SET k=k+1 WHERE id={row}"),
            Action::Begin => "BEGIN".to_owned(),
            Action::Commit => "COMMIT".to_owned(),
            Action::Rollback => "ROLLBACK".to_owned(),
            Action::GlobalReadLock => "FLUSH TABLES WITH READ LOCK".to_owned(),
            Action::LockTable => format!("LOCK TABLES t{table} WRITE"),
            Action::Unlock => "UNLOCK TABLES".to_owned(),
            Action::GetLock { timeout } => format!("SELECT GET_LOCK('l{row}',{timeout})"),
            Action::ReleaseLock => format!("SELECT RELEASE_LOCK('l{row}')"),
        };
        if origin == Origin::NOBODY { text } else { format!("{text} /*{client}.{number}*/") }
    }

    /// Reads such a text; `None` for any other.
    pub fn parse(text: &str) -> Option<(Self, Origin)> {
        let (text, origin) = match text.strip_suffix("*/").and_then(|text| text.rsplit_once(" /*")) {
            Some((text, comment)) => {
                let (client, number) = comment.split_once('.')?;
                (text, Origin { client: client.parse().ok()?, number: number.parse().ok()? })
            }
            None => (text, Origin::NOBODY),
        };
        let of = |action, table: &str, row: &str| {
            Some(Self { action, table: table.parse().ok()?, row: row.parse().ok()? })
        };
        let statement = if let Some(rest) = text.strip_prefix("SELECT c FROM t") {
            let (table, row) = rest.split_once(" WHERE id=")?;
            of(Action::Read, table, row)
        } else if let Some(rest) = text.strip_prefix("UPDATE t") {
            let (table, row) = rest.split_once(" SET k=k+1 WHERE id=")?;
            of(Action::Write, table, row)
        } else if let Some(rest) = text.strip_prefix("LOCK TABLES t") {
            of(Action::LockTable, rest.strip_suffix(" WRITE")?, "0")
        } else if let Some(rest) = text.strip_prefix("SELECT GET_LOCK('l") {
            let (name, timeout) = rest.strip_suffix(')')?.split_once("',")?;
            of(Action::GetLock { timeout: timeout.parse().ok()? }, "0", name)
        } else if let Some(rest) = text.strip_prefix("SELECT RELEASE_LOCK('l") {
            of(Action::ReleaseLock, "0", rest.strip_suffix("')")?)
        } else {
            let action = match text {
                // The second is Onramp's own, where it sends a client's BEGIN with the next statement.
                "BEGIN" | "START TRANSACTION" => Action::Begin,
                "COMMIT" => Action::Commit,
                "ROLLBACK" => Action::Rollback,
                "FLUSH TABLES WITH READ LOCK" => Action::GlobalReadLock,
                "UNLOCK TABLES" => Action::Unlock,
                _ => return None,
            };
            of(action, "0", "0")
        };
        Some((statement?, origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_the_server_reads() {
        let origin = Origin { client: 77, number: 3 };
        for (action, table, row) in [
            (Action::Read, 2, 9),
            (Action::Write, 1, 8),
            (Action::Begin, 0, 0),
            (Action::Commit, 0, 0),
            (Action::Rollback, 0, 0),
            (Action::GlobalReadLock, 0, 0),
            (Action::LockTable, 4, 0),
            (Action::Unlock, 0, 0),
            (Action::GetLock { timeout: 60 }, 0, 5),
            (Action::ReleaseLock, 0, 5),
        ] {
            let statement = Statement { action, table, row };
            for origin in [origin, Origin::NOBODY] {
                assert_eq!(Statement::parse(&statement.text(origin)), Some((statement, origin)));
            }
        }
        assert_eq!(Statement::parse("SELECT CURRENT_USER()"), None);
    }
}
