//! Who logs in on which connection, and how: one user everywhere, or a crowd of them, as hosters have, with drivers and session states
//! unlike each other.

use std::borrow::Cow;

use crate::distribution::{Distribution, Random, Shape};
use login::Credentials;

/// The logins of a run.
#[derive(Clone)]
pub struct Crowd {
    common: Credentials,
    users: Option<Distribution>,
    schemas: Option<Distribution>,
    seed: u64,
    mixed_drivers: bool,
    session_states: u32,
}

/// In a crowd of several session states the n-th has the character set at place n of these, counted round and round: such as applications
/// use, and every server has.
const CHARACTER_SETS: [&str; 5] = ["utf8mb4", "latin1", "utf8", "cp1251", "greek"];

/// And a time zone of so many whole hours, which needs no tables of time zones on the server. Every server takes them from -11 on.
const TIME_ZONES: u32 = 24;
const FIRST_TIME_ZONE: i32 = -11;

/// As many session states as there are pairs of these.
pub const MOST_SESSION_STATES: u32 = CHARACTER_SETS.len() as u32 * TIME_ZONES;

impl Crowd {
    /// On each connection one of so many users and schemas, whose numbers from 1 on stand behind the common name; the
    /// common one where there is no number. `shape` says how many connections each of them has.
    pub fn drawn(
        common: Credentials,
        users: Option<u32>,
        schemas: Option<u32>,
        shape: Shape,
        seed: u64,
    ) -> Self {
        let among = |count: Option<u32>| count.map(|count| Distribution::new(shape, count));
        Self {
            common,
            users: among(users),
            schemas: among(schemas),
            seed,
            mixed_drivers: false,
            session_states: 0,
        }
    }

    /// Who logs in on a connection; the same whenever it logs in.
    pub fn member(&self, connection: u32) -> Cow<'_, Credentials> {
        if self.users.is_none() && self.schemas.is_none() && !self.mixed_drivers {
            return Cow::Borrowed(&self.common);
        }
        let mut random = Random::new(self.seed.wrapping_add(u64::from(connection)));
        let mut draw = |among: &Option<Distribution>| among.as_ref().map(|among| among.draw(&mut random));
        let user = draw(&self.users);
        let mut member = self.common.numbered(user, draw(&self.schemas));
        if self.mixed_drivers && connection % 2 == 0 {
            member = member.with_eof_packets();
        }
        if self.mixed_drivers && connection % 3 == 0 {
            member = member.with_multi_statements();
        }
        Cow::Owned(member)
    }

    /// The statement by which a connection begins, where it has a session state of its own.
    pub fn begins_with(&self, connection: u32) -> Option<String> {
        if self.session_states == 0 {
            return None;
        }
        let state = connection % self.session_states;
        let character_set = CHARACTER_SETS[state as usize % CHARACTER_SETS.len()];
        let hours = FIRST_TIME_ZONE + (state / CHARACTER_SETS.len() as u32 % TIME_ZONES) as i32;
        Some(format!("SET NAMES {character_set}, time_zone = '{hours:+03}:00'"))
    }

    /// The same; where drivers are mixed, half of its connections log in as drivers do that know no CLIENT_DEPRECATE_EOF, and a third with CLIENT_MULTI_STATEMENTS.
    #[must_use]
    pub fn with_mixed_drivers(self, mixed_drivers: bool) -> Self {
        Self { mixed_drivers, ..self }
    }

    /// The same in so many session states, [`MOST_SESSION_STATES`] at most; 0 leaves that of the login.
    #[must_use]
    pub fn with_session_states(self, session_states: u32) -> Self {
        Self { session_states, ..self }
    }

    /// The same, inside TLS.
    #[must_use]
    pub fn with_tls(self) -> Self {
        Self { common: self.common.with_tls(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_connection_keeps_its_user_and_all_are_used() {
        let common = Credentials::new("shop", "secret", Some("db"), false);
        let crowd = Crowd::drawn(common, Some(10), None, Shape::Uniform, 7);
        let name = |connection| crowd.member(connection).user().to_owned();
        let names: BTreeSet<_> = (0..200).map(name).collect();
        assert_eq!(names.len(), 10);
        assert!(names.contains("shop1") && names.contains("shop10"));
        assert_eq!(name(3), name(3));
        assert_eq!(crowd.member(0).schema(), Some("db"));
    }

    #[test]
    fn mixed_drivers_have_each_class_in_its_part() {
        let common = Credentials::new("root", "", None, false);
        let crowd = Crowd::drawn(common.clone(), None, None, Shape::Uniform, 7).with_mixed_drivers(true);
        let alike = |credentials: &Credentials| {
            (0..600).filter(|&connection| crowd.member(connection).class() == credentials.class()).count()
        };
        let (old, several) = (common.clone().with_eof_packets(), common.clone().with_multi_statements());
        let both = old.clone().with_multi_statements();
        assert_eq!([alike(&common), alike(&old), alike(&several), alike(&both)], [200, 200, 100, 100]);
    }

    #[test]
    fn each_session_state_is_another_statement() {
        let common = Credentials::new("root", "", None, false);
        let crowd = Crowd::drawn(common, None, None, Shape::Uniform, 7);
        assert_eq!(crowd.begins_with(3), None);
        let crowd = crowd.with_session_states(MOST_SESSION_STATES);
        let begins: BTreeSet<_> = (0..1_000).filter_map(|connection| crowd.begins_with(connection)).collect();
        assert_eq!(begins.len(), MOST_SESSION_STATES as usize);
        assert!(begins.contains("SET NAMES latin1, time_zone = '-11:00'"), "{begins:?}");
        assert!(begins.contains("SET NAMES greek, time_zone = '+12:00'"), "{begins:?}");
    }

    #[test]
    fn without_numbers_all_are_alike() {
        let crowd =
            Crowd::drawn(Credentials::new("root", "", Some("db"), false), None, None, Shape::Uniform, 7);
        assert!(matches!(crowd.member(5), Cow::Borrowed(login) if login.user() == "root"));
    }
}
