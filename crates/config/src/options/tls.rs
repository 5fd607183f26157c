//! Encryption.

use engine::ClientTls;

use super::{OptionSpec, Section};
use crate::BackendTls;
use crate::value::Kind;

/// TLS with clients and with the server.
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
    OptionSpec {
        name: "backend_tls",
        kind: Kind::Word(&[
            ("disabled", |configuration| configuration.choose_backend_tls(BackendTls::Disabled)),
            ("preferred", |configuration| configuration.choose_backend_tls(BackendTls::Preferred)),
            ("required", |configuration| configuration.choose_backend_tls(BackendTls::Required)),
            ("verify-ca", |configuration| configuration.choose_backend_tls(BackendTls::VerifyCa)),
            ("verify-full", |configuration| configuration.choose_backend_tls(BackendTls::VerifyFull)),
        ]),
        default: "preferred",
        example: "verify-full",
        doc: "TLS to the server, as the ssl-mode of MySQL's clients. preferred uses it where the server offers it, but for Unix sockets \
              and loopback addresses, which nobody else can read; required never goes without; verify-ca has the server show a \
              certificate of backend_tls_ca, and verify-full one for the host that backend names. Below these, anybody on the \
              way can pretend to be the server, so that it does not get passwords of PAM and LDAP accounts.",
        section: Section::Tls,
    },
    OptionSpec {
        name: "backend_tls_ca",
        kind: Kind::Path(|configuration| &mut configuration.tls.backend_ca),
        default: "",
        example: "/etc/onramp/servers-ca.pem",
        doc: "The authorities of the server's certificate (PEM), for verify-ca and verify-full. Read again with tls_certificate.",
        section: Section::Tls,
    },
    OptionSpec {
        name: "backend_tls_certificate",
        kind: Kind::Path(|configuration| &mut configuration.tls.backend_certificate),
        default: "",
        example: "/etc/onramp/client.pem",
        doc: "The certificate that Onramp shows to a server that asks for one (PEM). All connections to the server show it, whoever \
              they are for. Read again with tls_certificate.",
        section: Section::Tls,
    },
    OptionSpec {
        name: "backend_tls_key",
        kind: Kind::Path(|configuration| &mut configuration.tls.backend_key),
        default: "",
        example: "/etc/onramp/client.key",
        doc: "The private key of backend_tls_certificate, without a passphrase (PEM).",
        section: Section::Tls,
    },
];
