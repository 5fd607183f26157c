//! An account as a row of the server's answer tells it.

use super::requirement::Requirement;
use super::{Account, Credential};

impl Account {
    /// Reads a row of either question for the accounts ([`super::queries`]); `None` where it is not one.
    pub(super) fn of_row(row: &[Option<&[u8]>]) -> Option<Self> {
        let [user, host, plugin, stored, locked, may_kill, tls, cipher, issuer, subject, more @ ..] = row
        else {
            return None;
        };
        // The servers' own decision is made of two bits.
        let kills = number::<u8>(*may_kill).unwrap_or_default();
        let more = |index: usize| more.get(index).copied().flatten();
        // The first two are MySQL's, the next two MariaDB's: whether `unix_socket` is one of several ways in.
        let (expired, second, socket, public_key) = (more(0), more(1), more(2), more(3));
        // One of several ways in goes before the others, which are for our backends.
        let credential = match public_key {
            Some(public_key) => Credential::new(b"ed25519", public_key),
            None => Credential::new(plugin.unwrap_or_default(), stored.unwrap_or_default()),
        };
        let second = second.filter(|stored| !stored.is_empty());
        Some(Self {
            user: (*user)?.to_vec(),
            host: String::from_utf8_lossy((*host)?).into_owned(),
            socket_users: if credential == Credential::Socket || socket == Some(b"1") {
                // MySQL takes the name in the stored string beside the account's own (socket_auth); MariaDB has none there.
                let named = stored.filter(|name| credential == Credential::Socket && !name.is_empty());
                (*user).into_iter().chain(named).map(<[u8]>::to_vec).collect()
            } else {
                Vec::new()
            },
            credential,
            second: second.map(|stored| Credential::new(plugin.unwrap_or_default(), stored)),
            locked: *locked == Some(b"1"),
            expired: expired == Some(b"1"),
            may_kill: kills & 1 != 0,
            is_system_user: kills & 2 != 0,
            rights: more(4).unwrap_or_default().to_vec(),
            // MariaDB's limits do not hold for those who may KILL; a MySQL's refusals say where they do.
            max_connections: number(more(5).filter(|_| kills == 0)),
            requirement: Requirement::new(*tls, *cipher, *issuer, *subject),
        })
    }
}

fn number<T: std::str::FromStr>(field: Option<&[u8]>) -> Option<T> {
    std::str::from_utf8(field?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_a_missing_column_is_no_account() {
        assert!(
            Account::of_row(&[Some(b"u"), None, None, None, None, None, None, None, None, None]).is_none()
        );
        let mut row =
            [Some(&b"u"[..]), Some(b"%"), None, None, Some(b"0"), Some(b"1"), Some(b"2"), None, None, None];
        let account = Account::of_row(&row).unwrap();
        assert_eq!(account.requirement, Requirement::Certificate);
        row[6] = None;
        assert_eq!(Account::of_row(&row).unwrap().requirement, Requirement::None);
        assert_eq!(account.credential, Credential::Empty);
        assert!(account.may_kill && !account.locked);
    }

    #[test]
    fn connections_are_bounded_where_the_server_says_so_and_the_account_may_not_kill() {
        let most = |may_kill: &'static [u8], most: Option<&'static [u8]>| {
            let mut row = [None; 16];
            (row[0], row[1], row[5], row[15]) = (Some(&b"u"[..]), Some(&b"%"[..]), Some(may_kill), most);
            Account::of_row(&row).unwrap().max_connections.map(u32::from)
        };
        assert_eq!(
            [None, Some(&b"0"[..]), Some(b"-1"), Some(b"3")].map(|said| most(b"0", said)),
            [None, None, None, Some(3)]
        );
        assert_eq!(most(b"1", Some(b"3")), None);
    }
}
