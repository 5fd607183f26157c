//! An account's requirement of its connections: `REQUIRE` of CREATE USER.

use seam::TlsSession;

/// The condition that a connection has to meet before its password is looked at (`acl_check_ssl` in MySQL's
/// `sql/auth/sql_authentication.cc` and MariaDB's `sql/sql_acl.cc`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// Nothing.
    #[default]
    None,
    /// TLS.
    Tls,
    /// TLS, and a certificate of the client's that comes from one of our authorities.
    Certificate,
    /// TLS, and those of these that are there.
    Exactly { cipher: Option<String>, issuer: Option<String>, subject: Option<String> },
}

plain!(enum Requirement {
    0 => None, 1 => Tls, 2 => Certificate, 3 => Exactly { cipher, issuer, subject },
});

impl Requirement {
    /// Makes a requirement from the columns of the server's table: `ssl_type` is a word in MySQL and a number in MariaDB
    /// (`SSL_type`), where others may be absent.
    pub(crate) fn new(
        kind: Option<&[u8]>,
        cipher: Option<&[u8]>,
        issuer: Option<&[u8]>,
        subject: Option<&[u8]>,
    ) -> Self {
        let text = |field: Option<&[u8]>| {
            field.filter(|field| !field.is_empty()).map(|field| String::from_utf8_lossy(field).into_owned())
        };
        match kind {
            None | Some(b"" | b"0" | b"NONE") => Self::None,
            Some(b"1" | b"ANY") => Self::Tls,
            Some(b"2" | b"X509") => Self::Certificate,
            // What is not known is met by nothing that lacks any of it.
            Some(_) => Self::Exactly { cipher: text(cipher), issuer: text(issuer), subject: text(subject) },
        }
    }

    /// Says whether a connection with this TLS, or with none, meets the requirement.
    pub(crate) fn is_met(&self, tls: Option<&TlsSession>) -> bool {
        let Some(tls) = tls else { return *self == Self::None };
        match self {
            Self::None | Self::Tls => true,
            Self::Certificate => tls.peer.is_some(),
            Self::Exactly { cipher, issuer, subject } => {
                let peer = tls.peer.as_ref();
                let same = |wanted: &Option<String>, found: Option<&str>| {
                    wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
                };
                same(cipher, Some(tls.cipher))
                    && same(issuer, peer.map(|peer| peer.issuer.as_str()))
                    && same(subject, peer.map(|peer| peer.subject.as_str()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seam::{PeerCertificate, TlsVersion};

    #[test]
    fn each_asks_for_more() {
        let bare = TlsSession {
            version: TlsVersion::V1_3,
            cipher: "TLS_AES_256_GCM_SHA384",
            peer: None,
            own_fingerprint: None,
        };
        let peer = PeerCertificate { subject: "/CN=app".into(), issuer: "/CN=ca".into() };
        let known = TlsSession { peer: Some(Box::new(peer)), ..bare.clone() };
        let met =
            |requirement: Requirement| [None, Some(&bare), Some(&known)].map(|tls| requirement.is_met(tls));
        let new = |kind: &str| Requirement::new(Some(kind.as_bytes()), None, None, None);
        for none in [Requirement::new(None, None, None, None), new(""), new("0"), new("NONE")] {
            assert_eq!(met(none), [true, true, true]);
        }
        for tls in [new("1"), new("ANY"), new("3"), new("SPECIFIED")] {
            assert_eq!(met(tls), [false, true, true]);
        }
        for certificate in [new("2"), new("X509")] {
            assert_eq!(met(certificate), [false, false, true]);
        }
        let exactly = |cipher: &str, issuer: &str, subject: &str| {
            let field = |text: &str| Some(text.as_bytes().to_vec());
            let (cipher, issuer, subject) = (field(cipher), field(issuer), field(subject));
            met(Requirement::new(Some(b"3"), cipher.as_deref(), issuer.as_deref(), subject.as_deref()))
        };
        assert_eq!(exactly("", "", "/CN=app"), [false, false, true]);
        assert_eq!(exactly("", "/CN=ca", "/CN=app"), [false, false, true]);
        assert_eq!(exactly("", "/CN=other", "/CN=app"), [false, false, false]);
        assert_eq!(exactly("", "", "/CN=other"), [false, false, false]);
        assert_eq!(exactly("TLS_AES_256_GCM_SHA384", "", ""), [false, true, true]);
        assert_eq!(exactly("ECDHE-RSA-AES256-GCM-SHA384", "", ""), [false, false, false]);
    }
}
