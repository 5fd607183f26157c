//! Encryption.

use engine::ClientTls;

use super::{OptionSpec, Section};
use crate::value::Kind;

/// TLS with clients.
pub(super) const TLS: &[OptionSpec] = &[
    OptionSpec {
        name: "tls",
        kind: Kind::Word(&[
            ("off", |configuration| configuration.tls.clients = ClientTls::Off),
            ("allowed", |configuration| configuration.tls.clients = ClientTls::Allowed),
            ("required", |configuration| configuration.tls.clients = ClientTls::Required),
        ]),
        default: "allowed",
        example: "required",
        doc: "Whether clients may use TLS (1.2 and 1.3), must use it, or are not offered it. required refuses others with error \
              3159, but for those of a Unix socket, as require_secure_transport of the servers does. An address may say \
              otherwise for itself, see listen.",
        section: Section::Tls,
    },
    OptionSpec {
        name: "tls_certificate",
        kind: Kind::Path(|configuration| &mut configuration.tls.certificate),
        default: "",
        example: "/etc/onramp/server.pem",
        doc: "The certificate that clients see, followed by those that lead from it to an authority that they know (PEM). Without \
              one, one that nobody vouches for is made at each start, so that clients that want to encrypt can, as with the \
              servers. Read again at SIGHUP and RELOAD; connections that stand keep theirs.",
        section: Section::Tls,
    },
    OptionSpec {
        name: "tls_key",
        kind: Kind::Path(|configuration| &mut configuration.tls.key),
        default: "",
        example: "/etc/onramp/server.key",
        doc: "The private key of tls_certificate, without a passphrase (PEM).",
        section: Section::Tls,
    },
    OptionSpec {
        name: "tls_client_ca",
        kind: Kind::Path(|configuration| &mut configuration.tls.client_ca),
        default: "",
        example: "/etc/onramp/clients-ca.pem",
        doc: "The authorities of clients' certificates (PEM). With it, clients are asked for one; they may show none, but one that \
              they show has to come from one of these. Read again with tls_certificate.",
        section: Section::Tls,
    },
];
