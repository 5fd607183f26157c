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
              way can pretend to be the server, so that it is not sent any password; see backend_public_key and docs/TLS.md.",
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
        name: "backend_public_key",
        kind: Kind::Path(|configuration| &mut configuration.tls.backend_public_key),
        default: "",
        example: "/etc/onramp/public_key.pem",
        doc: "The server's RSA public key (PEM): public_key.pem of MySQL's data folder, which its clients know as \
              --server-public-key-path. On a connection without TLS the passwords of caching_sha2_password and sha256_password \
              are encrypted with it, and with no other that a server sends. The keys of several servers go into one file, one \
              behind the other. Inside TLS servers take no encrypted password, so this is for backend_tls = disabled and for \
              loopback addresses. Read at the start.",
        section: Section::Tls,
    },
    OptionSpec {
        name: "backend_trusted_networks",
        kind: Kind::Networks(|configuration| &mut configuration.engine.trusted_servers),
        default: "",
        example: "10.1.2.0/24,127.0.0.1",
        doc: "Addresses and networks, separated by commas, in which nobody but the server can answer in its place: to a server \
              there the passwords of clients are sent without a checked certificate or a known key, encrypted with whatever RSA \
              key it sends, or over TLS that nothing is checked of; of PAM and LDAP accounts as they are. 127.0.0.1 \
              is as good as the machine's users: any of them can take the server's port while it is down. Unix sockets need \
              no trust.",
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
