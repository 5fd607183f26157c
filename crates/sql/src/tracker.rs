//! The variables that say what of changes of its session a client is told.

/// One of `session_track_...`, as far as a session may have another value than the connection to the server on which its
/// statements run. (MySQL's manual, "Server Tracking of Client Session State"; MariaDB's pages of the variables.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackerVariable {
    /// `session_track_schema`: 0 or 1.
    Schema,
    /// `session_track_state_change`: 0 or 1.
    StateChange,
    /// `session_track_system_variables`: names with commas between them, or `*`.
    SystemVariables,
}

impl TrackerVariable {
    const ALL: [Self; 3] = [Self::Schema, Self::StateChange, Self::SystemVariables];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Schema => "session_track_schema",
            Self::StateChange => "session_track_state_change",
            Self::SystemVariables => "session_track_system_variables",
        }
    }

    /// The variable of this name, in any case.
    pub fn of(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|known| name.eq_ignore_ascii_case(known.name().as_bytes()))
    }
}
