//! The ways to prove that one has a password, on either side.

/// An authentication plugin that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// `mysql_native_password`. The holder of its hash can check an answer, and recover from a right one the secret that a login
    /// on the server needs.
    Native,
    /// `caching_sha2_password`: an answer suffices where the password has been seen lately, else it is sent.
    CachingSha2,
    /// `sha256_password`: the password is always sent.
    Sha256,
    /// MariaDB's `ed25519`: a signature, from which nothing can be learned that a login on the server could use.
    Ed25519,
    /// `mysql_clear_password`: the password as it is, for a server that asks somebody else about it (PAM, LDAP).
    Clear,
    /// MariaDB's `dialog`: questions of a server that does so, of which the first is for the password
    /// (`plugin/auth_dialog`, `auth_pam_base.c`).
    Dialog,
}

plain!(enum Method { 0 => Native, 1 => CachingSha2, 2 => Sha256, 3 => Ed25519, 4 => Clear, 5 => Dialog });

impl Method {
    /// The plugin's name on the wire.
    pub(crate) fn name(self) -> &'static [u8] {
        match self {
            Self::Native => b"mysql_native_password",
            Self::CachingSha2 => b"caching_sha2_password",
            Self::Sha256 => b"sha256_password",
            Self::Ed25519 => b"client_ed25519",
            Self::Clear => b"mysql_clear_password",
            Self::Dialog => b"dialog",
        }
    }

    /// Says whether a server may ask for the password itself in this method's course.
    pub(crate) fn is_sha2(self) -> bool {
        matches!(self, Self::CachingSha2 | Self::Sha256)
    }

    /// The one of this name; an empty name means the native one, as the servers have it.
    pub(crate) fn of_name(name: &[u8]) -> Option<Self> {
        match name {
            b"" | b"mysql_native_password" => Some(Self::Native),
            b"caching_sha2_password" => Some(Self::CachingSha2),
            b"sha256_password" => Some(Self::Sha256),
            b"client_ed25519" => Some(Self::Ed25519),
            b"mysql_clear_password" => Some(Self::Clear),
            b"dialog" => Some(Self::Dialog),
            _ => None,
        }
    }
}
