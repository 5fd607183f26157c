//! The admin port's needs of the program around it.

use std::time::Duration;

use admin_client::Place;

use crate::Rows;
use crate::tables::Setting;

/// The running Onramp. Called from the threads of admin connections, several at a time; calls may block for some seconds.
pub trait Pool: Send + Sync {
    /// Fills the tables that `rows` [wants](Rows::wants), as they are now.
    fn fill(&self, rows: &mut Rows<'_>);

    /// Where the other Onramps are that statements about all of them ask, and what this one is called among them.
    fn peers(&self) -> Peers;

    /// All options with what they are set to. Secrets are not among the values.
    fn settings(&self) -> Vec<Setting>;

    /// Further names of options, each with the option's own.
    fn other_names(&self) -> &'static [(&'static str, &'static str)];

    /// Ends a client's connection or, with `query_only`, only its statement.
    ///
    /// # Errors
    /// [`Refusal::NoSuchClient`].
    fn kill(&self, id: u64, query_only: bool) -> Result<(), Refusal>;

    /// Sends the server no new statement until [`Self::resume`].
    ///
    /// # Errors
    /// [`Refusal::Failed`] where a worker does not answer.
    fn pause(&self) -> Result<(), Refusal>;

    /// Goes on after [`Self::pause`].
    ///
    /// # Errors
    /// As [`Self::pause`].
    fn resume(&self) -> Result<(), Refusal>;

    /// Changes the primary for the server with this address, one of those in the table `servers`. Returns what there is to say of it.
    ///
    /// # Errors
    /// [`Refusal::Failed`] with the reason; then statements go on at the former primary, if that still takes writes.
    fn switch_over(&self, to: &str) -> Result<String, Refusal>;

    /// Takes the server with this address, one of those in the table `servers`, out of the choice of a primary, or puts it back. Returns what
    /// there is to say of it.
    ///
    /// # Errors
    /// [`Refusal::Failed`] with the reason.
    fn drain_server(&self, address: &str, drains: bool) -> Result<String, Refusal>;

    /// Reads the configuration again. What can change does; the rest comes back as warnings.
    ///
    /// # Errors
    /// [`Refusal::Failed`] with what is wrong in the configuration; then nothing has changed.
    fn reload(&self) -> Result<Vec<String>, Refusal>;

    /// Sets an option until the next start or reload.
    ///
    /// # Errors
    /// Why it cannot be.
    fn set(&self, name: &str, value: &str) -> Result<(), Refusal>;

    /// One line about how things are going: what `mysqladmin status` shows.
    fn statistics(&self) -> String;

    /// Ends Onramp as SIGTERM does; with `immediate`, as two of them do.
    fn shutdown(&self, immediate: bool);
}

/// The Onramps that are asked together.
pub struct Peers {
    /// What this one is called where none of the addresses leads to it.
    pub own_name: String,
    /// The others, by the names that they have in tables, all different; this one may be among them. Or why they cannot be asked.
    pub others: Result<Vec<Peer>, Box<dyn std::error::Error + Send + Sync>>,
    /// How long all that they are asked may take, together, as long as the statement has time.
    pub patience: Duration,
}

/// Another Onramp.
pub struct Peer {
    /// What it is called.
    pub name: String,
    /// Its admin port.
    pub place: Place,
}

/// Why something was not done. Each becomes a MySQL error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No client has this id.
    NoSuchClient,
    /// There is no option of this name.
    UnknownOption,
    /// The option is fixed at the start.
    NotLive {
        /// The thing to do instead.
        advice: String,
    },
    /// The option does not take this value.
    WrongValue {
        /// Why.
        reason: String,
    },
    /// Something else.
    Failed {
        /// The reason.
        reason: String,
    },
}
