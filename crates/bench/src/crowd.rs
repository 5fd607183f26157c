//! Who logs in on which connection: one user everywhere, or a crowd of them, as hosters have.

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
}

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
        Self { common, users: among(users), schemas: among(schemas), seed }
    }

    /// Who logs in on a connection; the same whenever it logs in.
    pub fn member(&self, connection: u32) -> Cow<'_, Credentials> {
        if self.users.is_none() && self.schemas.is_none() {
            return Cow::Borrowed(&self.common);
        }
        let mut random = Random::new(self.seed.wrapping_add(u64::from(connection)));
        let mut draw = |among: &Option<Distribution>| among.as_ref().map(|among| among.draw(&mut random));
        let user = draw(&self.users);
        Cow::Owned(self.common.numbered(user, draw(&self.schemas)))
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
    fn without_numbers_all_are_alike() {
        let crowd =
            Crowd::drawn(Credentials::new("root", "", Some("db"), false), None, None, Shape::Uniform, 7);
        assert!(matches!(crowd.member(5), Cow::Borrowed(login) if login.user() == "root"));
    }
}
