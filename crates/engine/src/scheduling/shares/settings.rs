//! Who gets how much of the server.

use super::named_numbers::NamedNumbers;

settings! {
    /// Who gets how much of the server.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SharesSettings / SharesChange {
        /// Between whom the server's time is shared out evenly.
        pub fair_share: FairShare = FairShare::Crowding, live;
        /// Weights of users or schemas; 1 where there is none.
        pub fair_weights: NamedNumbers = NamedNumbers::default(), live;
        /// Statements that a user may have under way.
        pub user_permits: NamedNumbers = NamedNumbers::default(), live;
        /// Those on a schema.
        pub schema_permits: NamedNumbers = NamedNumbers::default(), live;
        /// Those from a client address.
        pub address_permits: NamedNumbers = NamedNumbers::default(), live;
    }
}

/// The parties that the server's time is shared out between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FairShare {
    /// Nobody: who comes first goes first.
    #[default]
    Off,
    /// Users, by their names, while a user is crowded out by others.
    Crowding,
    /// Users, by their names.
    User,
    /// Default schemas.
    Schema,
}

impl SharesSettings {
    /// Says whether new work always waits for its share.
    pub(crate) fn is_on(&self) -> bool {
        let limits = [&self.user_permits, &self.schema_permits, &self.address_permits];
        matches!(self.fair_share, FairShare::User | FairShare::Schema)
            || limits.iter().any(|limits| !limits.is_empty())
    }
}
