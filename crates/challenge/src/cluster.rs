//! A primary and its replicas, and what an operator's script does with them: by GTIDs, and so that what was acknowledged is on a replica.

use std::path::Path;
use std::time::{Duration, Instant};

use private_server::{Replication, ThreadHandling};
use zeroize::Zeroizing;

use crate::error::{Error, NoAnswer};
use crate::interrupts::Interrupts;
use crate::load::Bench;
use crate::options::Options;
use crate::private::{Private, SMALL_BUFFER_POOL};
use crate::server::Target;
use crate::sql::{Connection, Row};

/// Who the clients log in as: nobody whom a read-only server lets write.
const CLIENT: &str = "app";

/// Who the replicas log in as.
const REPLICA: &str = "replica";

/// MySQL takes no longer one (ER_CHANGE_SOURCE_PASSWORD_LENGTH).
const LONGEST_REPLICA_PASSWORD: usize = 32;

/// Backends that Onramp may have: as many as a server takes by default, which is far more than permits need.
const BACKENDS: u32 = 151;

/// How long a replica may take to come, or to carry out what it has got. Seconds of a busy machine; the rest is no machine for this.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at how far a server is.
const LOOK: Duration = Duration::from_millis(20);

/// The servers; the first is the primary at the start.
pub(crate) struct Cluster<'a> {
    servers: Vec<Private>,
    words: &'static Words,
    interrupts: &'a Interrupts,
}

/// How the two families say the same.
struct Words {
    /// From where, with the port, the user and the password to put in.
    follow: fn(port: u16, user: &str, password: &str) -> String,
    start: &'static str,
    stop: &'static str,
    stop_receiving: &'static str,
    forget: &'static str,
    status: &'static str,
    /// The column of the status with the GTIDs that have been received.
    received: &'static str,
    carried_out: &'static str,
    /// How many replicas acknowledge.
    acknowledging: &'static str,
    acknowledged: &'static str,
}

/// <https://mariadb.com/docs/server/ha-and-performance/standard-replication/gtid>
const MARIADB: Words = Words {
    follow: |port, user, password| {
        format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = '{user}', \
             MASTER_PASSWORD = '{password}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1"
        )
    },
    start: "START SLAVE",
    stop: "STOP SLAVE",
    stop_receiving: "STOP SLAVE IO_THREAD",
    forget: "RESET SLAVE ALL",
    status: "SHOW SLAVE STATUS",
    received: "Gtid_IO_Pos",
    carried_out: "SELECT @@global.gtid_current_pos",
    acknowledging: "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_master_clients'",
    acknowledged: "SET GLOBAL rpl_semi_sync_master_enabled = ON",
};

/// <https://dev.mysql.com/doc/refman/8.4/en/replication-gtids-howto.html>
const MYSQL: Words = Words {
    follow: |port, user, password| {
        format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = '{user}', \
             SOURCE_PASSWORD = '{password}', SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, GET_SOURCE_PUBLIC_KEY = 1"
        )
    },
    start: "START REPLICA",
    stop: "STOP REPLICA",
    stop_receiving: "STOP REPLICA IO_THREAD",
    forget: "RESET REPLICA ALL",
    status: "SHOW REPLICA STATUS",
    received: "Retrieved_Gtid_Set",
    carried_out: "SELECT @@global.gtid_executed",
    acknowledging: "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_source_clients'",
    acknowledged: "SET GLOBAL rpl_semi_sync_source_enabled = ON",
};

impl<'a> Cluster<'a> {
    /// The servers of a cluster, none of which runs yet.
    ///
    /// # Errors
    /// What the machine does not have.
    pub(crate) fn servers(options: &Options, folder: &Path) -> Result<Vec<Private>, Error> {
        let new = |number| Private::new(options, folder, number, BACKENDS, SMALL_BUFFER_POOL);
        (1..=options.servers).map(new).collect()
    }

    /// The first server with its tables, which are those of `workload`, the others as copies of it, and all of them replicating from the
    /// first.
    ///
    /// # Errors
    /// What does not come up.
    pub(crate) fn create(
        mut servers: Vec<Private>,
        options: &Options,
        bench: &Bench<'_>,
        workload: &str,
        interrupts: &'a Interrupts,
    ) -> Result<Self, Error> {
        let first = &mut servers[0];
        first.ensure(ThreadHandling::OneThreadPerConnection, interrupts)?;
        let version = first.access().map(|access| access.version.clone()).unwrap_or_default();
        let words = if version.starts_with("MariaDB") { &MARIADB } else { &MYSQL };
        bench.prepare(&first.target(), workload)?;
        let mut cluster = Self { servers, words, interrupts };
        cluster.admit(&options.db)?;
        cluster.servers[0].stop();
        for number in 1..cluster.servers.len() {
            let (from, to) = (cluster.servers[0].folder(), cluster.servers[number].folder());
            private_server::copy(from, to)?;
        }
        for (number, server) in cluster.servers.iter_mut().enumerate() {
            server.replicate(Replication { server_id: number as u32 + 1, read_only: number > 0 });
            server.ensure(ThreadHandling::OneThreadPerConnection, interrupts)?;
        }
        for number in 1..cluster.servers.len() {
            cluster.follow(number, 0)?;
        }
        cluster.wait_for_followers(0, cluster.servers.len() - 1)?;
        Ok(cluster)
    }

    /// The accounts of the clients and of the replicas, before there is a log of changes.
    fn admit(&self, schema: &str) -> Result<(), Error> {
        const WANTED: &str = "to create the accounts of clients and replicas";
        let schema = schema.replace('`', "``");
        let clients = format!("ALL PRIVILEGES ON `{schema}`.* TO '{CLIENT}'@'%'");
        let replicas = format!("REPLICATION SLAVE ON *.* TO '{REPLICA}'@'%'");
        let (client_password, replica_password) = (self.clients().password, self.replica_password());
        let mut admin = self.connect(0)?;
        for (account, password, rights) in
            [(CLIENT, client_password, clients), (REPLICA, replica_password, replicas)]
        {
            // Passwords of the private server's own: letters and digits.
            let create =
                Zeroizing::new(format!("CREATE USER '{account}'@'%' IDENTIFIED BY '{}'", password.as_str()));
            self.order(&mut admin, 0, WANTED, &create)?;
            self.order(&mut admin, 0, WANTED, &format!("GRANT {rights}"))?;
        }
        Ok(())
    }

    /// The beginning of the administrator's, which is random throughout.
    fn replica_password(&self) -> Zeroizing<String> {
        let all = self.servers[0].target().password;
        Zeroizing::new(all.chars().take(LONGEST_REPLICA_PASSWORD).collect())
    }

    /// Who the clients are. Where they connect is Onramp's affair.
    pub(crate) fn clients(&self) -> Target {
        Target { user: String::from(CLIENT), ..self.servers[0].target() }
    }

    /// Their URLs, as `backend` takes them from the environment.
    pub(crate) fn urls(&self) -> Zeroizing<String> {
        let urls: Vec<_> = self.servers.iter().map(Private::url).collect();
        let parts: Vec<&str> = urls.iter().map(|url| url.as_str()).collect();
        Zeroizing::new(parts.join(","))
    }

    /// What the servers are.
    pub(crate) fn version(&self) -> String {
        self.servers[0].access().map(|access| access.version.clone()).unwrap_or_default()
    }

    /// How a server is called where people read it.
    pub(crate) fn name(number: usize) -> String {
        format!("server {}", number + 1)
    }

    /// Kills a server.
    pub(crate) fn kill(&mut self, number: usize) {
        self.servers[number].kill();
    }

    /// What a script for failover does when the first server is gone: the replica that has received most carries out all of it, takes writes
    /// and is whom the others follow. Returns its number, and when it took writes.
    ///
    /// # Errors
    /// A server that does not do that.
    pub(crate) fn promote(&self) -> Result<(usize, Instant), Error> {
        let mut chosen = (1, 0);
        for number in 1..self.servers.len() {
            let mut admin = self.connect(number)?;
            self.order(&mut admin, number, "to receive nothing more", self.words.stop_receiving)?;
            let received = self.received(&mut admin, number)?.max(self.carried_out(&mut admin, number)?);
            if received > chosen.1 {
                chosen = (number, received);
            }
        }
        let (primary, received) = chosen;
        let mut admin = self.connect(primary)?;
        self.wait(primary, "carry out what it has received", || {
            Ok(self.carried_out(&mut admin, primary)? >= received)
        })?;
        self.order(&mut admin, primary, "to replicate no more", self.words.stop)?;
        self.order(&mut admin, primary, "to forget whom it replicated from", self.words.forget)?;
        let others: Vec<usize> = (1..self.servers.len()).filter(|number| *number != primary).collect();
        // Before the first of them comes, since a server asks then who acknowledges. Alone it would wait for nobody for ever.
        if !others.is_empty() {
            self.order(&mut admin, primary, "to wait for replicas", self.words.acknowledged)?;
        }
        for number in others {
            self.follow(number, primary)?;
        }
        self.order(&mut admin, primary, "to take writes", "SET GLOBAL read_only = OFF")?;
        Ok((primary, Instant::now()))
    }

    fn follow(&self, number: usize, primary: usize) -> Result<(), Error> {
        let (port, password) = (self.servers[primary].port(), self.replica_password());
        let source = Zeroizing::new((self.words.follow)(port, REPLICA, &password));
        let mut admin = self.connect(number)?;
        self.order(&mut admin, number, "to stop replicating", self.words.stop)?;
        self.order(&mut admin, number, "to replicate from another server", &source)?;
        self.order(&mut admin, number, "to replicate", self.words.start)
    }

    /// Until so many replicas acknowledge what a server commits.
    fn wait_for_followers(&self, number: usize, count: usize) -> Result<(), Error> {
        let mut admin = self.connect(number)?;
        self.wait(number, "find its replicas", || {
            let row = self.first_row(&mut admin, number, "for its replicas", self.words.acknowledging)?;
            Ok(row.get(1).cloned().flatten().and_then(|count| count.parse().ok()) == Some(count))
        })
    }

    /// The replicas that follow a server, other than the one that was killed.
    pub(crate) fn followers_of(&self, primary: usize) -> impl Iterator<Item = usize> + use<> {
        (1..self.servers.len()).filter(move |number| *number != primary)
    }

    /// Until a replica has all that its primary has.
    ///
    /// # Errors
    /// It has not in time.
    pub(crate) fn wait_for_follower(&self, number: usize, primary: usize) -> Result<(), Error> {
        let last = self.carried_out(&mut self.connect(primary)?, primary)?;
        let mut admin = self.connect(number)?;
        self.wait(number, "follow the new primary", || Ok(self.carried_out(&mut admin, number)? >= last))
    }

    fn wait(
        &self,
        number: usize,
        wanted: &'static str,
        mut is_there: impl FnMut() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !is_there()? {
            if self.interrupts.came() {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= deadline {
                return Err(Error::Late { of: Self::name(number), wanted });
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The number of the last transaction that a replica has received.
    fn received(&self, admin: &mut Connection, number: usize) -> Result<u64, Error> {
        let mut found = None;
        let names = self.ask(admin, number, "how far it is", self.words.status, |row| found = Some(row))?;
        let place = names.iter().position(|name| name == self.words.received);
        Ok(last_of(place.and_then(|place| found?.into_iter().nth(place)?).as_deref().unwrap_or_default()))
    }

    /// The number of the last transaction that a server has carried out.
    fn carried_out(&self, admin: &mut Connection, number: usize) -> Result<u64, Error> {
        let row = self.first_row(admin, number, "how far it is", self.words.carried_out)?;
        Ok(last_of(row.first().cloned().flatten().as_deref().unwrap_or_default()))
    }

    /// A connection of the administrator's.
    pub(crate) fn connect(&self, number: usize) -> Result<Connection, Error> {
        let failed =
            |reason| Error::Answer { of: Self::name(number), wanted: "to let the administrator in", reason };
        let Some(access) = self.servers[number].access() else {
            return Err(failed(NoAnswer::Connection(std::io::ErrorKind::NotConnected.into())));
        };
        Connection::to_socket(&access.socket, &access.admin_user, &access.admin_password).map_err(failed)
    }

    fn order(
        &self,
        admin: &mut Connection,
        number: usize,
        wanted: &'static str,
        statement: &str,
    ) -> Result<(), Error> {
        self.ask(admin, number, wanted, statement, drop).map(drop)
    }

    /// The first row of an answer; empty where it has none.
    pub(crate) fn first_row(
        &self,
        admin: &mut Connection,
        number: usize,
        wanted: &'static str,
        statement: &str,
    ) -> Result<Row, Error> {
        let mut first = None;
        self.ask(admin, number, wanted, statement, |row| {
            first.get_or_insert(row);
        })?;
        Ok(first.unwrap_or_default())
    }

    /// Has a statement executed, and tells its rows.
    pub(crate) fn ask(
        &self,
        admin: &mut Connection,
        number: usize,
        wanted: &'static str,
        statement: &str,
        each: impl FnMut(Row),
    ) -> Result<Vec<String>, Error> {
        admin.query(statement, each).map_err(|reason| Error::Answer {
            of: Self::name(number),
            wanted,
            reason,
        })
    }
}

impl Drop for Cluster<'_> {
    /// All that they have is thrown away: nothing is written out first, and none waits for another.
    fn drop(&mut self) {
        self.servers.iter_mut().for_each(Private::kill);
    }
}

/// Of GTIDs that all come from one server, in its order: `0-1-42` of MariaDB, `uuid:1-42` of MySQL. 0 where there are none.
fn last_of(gtids: &str) -> u64 {
    gtids.trim().rsplit(['-', ':']).next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_transaction_is_read_from_gtids() {
        for (gtids, last) in [
            ("", 0),
            ("0-1-42", 42),
            ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77", 77),
            ("3e11fa47-71ca-11e1-9e33-c80aa9429562:5\n", 5),
        ] {
            assert_eq!(last_of(gtids), last, "{gtids}");
        }
    }
}
