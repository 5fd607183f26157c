//! The part of a session state that a prepared statement depends on.

use super::SessionState;

impl SessionState {
    /// Returns the part of this state that decides the meaning of a statement prepared in it. `defines`: true if that is DDL.
    pub(crate) fn for_preparing(&self, defines: bool) -> Self {
        let variables = self.variables_for_preparing(defines);
        let variables = variables.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { schema: self.schema.clone(), charset: self.charset.clone(), variables }
    }

    /// A state of [`Self::for_preparing`] may have got others since ([`super::Sessions::keep_values`]).
    fn variables_for_preparing(&self, defines: bool) -> impl Iterator<Item = (&Box<[u8]>, &Box<[u8]>)> {
        self.variables.iter().filter(move |(name, _)| matters_to_preparing(name, defines))
    }

    /// Says whether a statement prepared in this state means the same as in `wanted`, a state of [`Self::for_preparing`]. A
    /// statement that needs no schema may be prepared in any.
    pub(crate) fn prepares_like(&self, wanted: &Self, defines: bool) -> bool {
        (wanted.schema.is_none() || self.schema == wanted.schema) && self.reads_like(wanted, defines)
    }

    /// Says the same but for the schema: the servers keep that of a statement's preparation, and read the rest anew where they
    /// prepare it again by themselves (sql_prepare.cc: `Prepared_statement::reprepare`).
    pub(crate) fn reads_like(&self, wanted: &Self, defines: bool) -> bool {
        let variables = self.variables_for_preparing(defines);
        self.charset == wanted.charset && variables.eq(wanted.variables_for_preparing(defines))
    }

    /// The state in which a client in this state gets something prepared as in `wanted`, on a backend in state `found`.
    pub(crate) fn to_prepare(&self, wanted: &Self, found: &Self, defines: bool) -> Self {
        let own = self.variables.iter().filter(|(name, _)| !matters_to_preparing(name, defines));
        let variables = own.chain(wanted.variables_for_preparing(defines));
        let variables = variables.map(|(name, value)| (name.clone(), value.clone()));
        Self {
            schema: wanted.schema.clone().or_else(|| found.schema.clone()),
            charset: wanted.charset.clone(),
            variables: variables.collect(),
        }
    }
}

/// System variables that say how a statement is executed and nothing of what it means. Clients that differ in them alone can
/// share prepared statements.
const ONLY_FOR_EXECUTION: [&[u8]; 16] = [
    b"autocommit",
    b"foreign_key_checks",
    b"innodb_lock_wait_timeout",
    b"interactive_timeout",
    b"lock_wait_timeout",
    b"max_execution_time",
    b"max_statement_time",
    b"net_read_timeout",
    b"net_write_timeout",
    b"session_track_gtids",
    b"session_track_transaction_info",
    b"transaction_isolation",
    b"transaction_read_only",
    b"tx_isolation",
    b"tx_read_only",
    b"unique_checks",
];

/// System variables that matter where a statement defines columns, and nowhere else to preparing: MySQL looks there when it reads
/// the text (parse_tree_column_attrs.h: `PT_timestamp_type`), else when it executes (field_conv.cc). In a transaction it does
/// not let this one be set (sys_vars.cc: `check_explicit_defaults_for_timestamp`).
const ONLY_FOR_DEFINITIONS: [&[u8]; 1] = [b"explicit_defaults_for_timestamp"];

fn matters_to_preparing(name: &[u8], defines: bool) -> bool {
    !ONLY_FOR_EXECUTION.contains(&name) && (defines || !ONLY_FOR_DEFINITIONS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(variables: &[(&str, &str)]) -> SessionState {
        let mut state = SessionState::default();
        for (name, value) in variables {
            assert!(state.set_variable(name.as_bytes(), value.as_bytes()));
        }
        state
    }

    #[test]
    fn what_only_executions_read_is_the_clients_own() {
        let then = state(&[("sql_mode", "ANSI"), ("lock_wait_timeout", "5")]);
        let wanted = then.for_preparing(false);
        assert_eq!(wanted, state(&[("sql_mode", "ANSI")]));
        let now = state(&[("sql_mode", "TRADITIONAL"), ("lock_wait_timeout", "7")]);
        assert!(then.prepares_like(&wanted, false) && !now.prepares_like(&wanted, false));
        let target = now.to_prepare(&wanted, &SessionState::default(), false);
        assert_eq!(target, state(&[("sql_mode", "ANSI"), ("lock_wait_timeout", "7")]));
    }

    #[test]
    fn a_state_to_prepare_in_may_have_values_of_others_kinds() {
        let then = state(&[("sql_mode", "ANSI")]);
        let wanted = state(&[("sql_mode", "ANSI"), ("autocommit", "ON")]);
        assert!(then.prepares_like(&wanted, false));
        let now = state(&[("autocommit", "OFF")]);
        let target = now.to_prepare(&wanted, &SessionState::default(), false);
        assert_eq!(target, state(&[("sql_mode", "ANSI"), ("autocommit", "OFF")]));
    }

    #[test]
    fn what_only_definitions_read_changes_for_nothing_else() {
        let then = SessionState::default();
        let now = state(&[("explicit_defaults_for_timestamp", "OFF")]);
        for (defines, agrees) in [(true, false), (false, true)] {
            let wanted = now.for_preparing(defines);
            assert_eq!(then.prepares_like(&wanted, defines), agrees);
            assert_eq!(now.prepares_like(&then.for_preparing(defines), defines), agrees);
            assert_eq!(now.to_prepare(&then, &then, defines) == now, agrees);
        }
    }
}
