//! The identity that something has, as plain data.

use super::identities::{Identities, IdentityHold, IdentityId};
use super::secret::IdentityKey;

/// An identity by name. The identities go along as a table of their own, with the secrets, and keep their numbers there: two may have one
/// name, where the rights of an account have changed.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenIdentity {
    number: u32,
    name: IdentityKey,
}

plain!(struct FrozenIdentity { number, name });

impl FrozenIdentity {
    /// Copies an identity's number and name. Its holder goes on holding it.
    pub(crate) fn of(id: IdentityId, identities: &Identities) -> Self {
        let identity = identities.identity(id);
        Self { number: id.number(), name: identity.account.identity_key(&identity.user) }
    }

    /// Holds it once more; `None` where the number means nobody, or somebody else.
    pub(crate) fn thaw(&self, identities: &mut Identities) -> Option<IdentityHold> {
        let (user, account_user, account_host) = &self.name;
        let entry = identities.entries.get(self.number as usize)?;
        let is_it =
            entry.user == *user && entry.account.user == *account_user && entry.account.host == *account_host;
        is_it.then(|| identities.hold_again(IdentityId(self.number)))
    }
}
