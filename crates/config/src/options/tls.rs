//! Encryption.

use engine::ClientTls;

use super::{OptionSpec, Section, setting};
use crate::BackendTls;
use crate::value::{Kind, Words};

/// TLS with clients and with the server.
pub(super) const TLS: &[OptionSpec] = &[
    OptionSpec {
        name: "tls",
        kind: Kind::Word(&Words {
            slot: setting!(tls.clients),
            words: &[
                ("off", ClientTls::Off),
                ("allowed", ClientTls::Allowed),
                ("required", ClientTls::Required),
            ],
        }),
        example: "required",
        doc: "Whether clients may use TLS (1.2 and 1.3), must use it, or are not offered it. required refuses others with error \
              3159, but for those of a Unix socket, as require_secure_transport of the servers does. An address may say \
              otherwise for itself, see listen.",
        section: Section::Tls,
        limit: None,
    },
    OptionSpec {
        name: "tls_certificate",
        kind: Kind::Path(setting!(tls.certificate)),
        example: "/etc/onramp/server.pem",
        doc: "The certificate that clients see, followed by those that lead from it to an authority that they know (PEM). Without \
              one, one that nobody vouches for is made at each start, so that clients that want to encrypt can, as with the \
              servers. Read again at SIGHUP and RELOAD; connections that stand keep theirs.",
        section: Section::Tls,
        limit: None,
    },
    OptionSpec {
        name: "tls_key",
        kind: Kind::Path(setting!(tls.key)),
        example: "/etc/onramp/server.key",
        doc: "The private key of tls_certificate, without a passphrase (PEM).",
        section: Section::Tls,
        limit: None,
    },
    OptionSpec {
        name: "tls_client_ca",
        kind: Kind::Path(setting!(tls.client_ca)),
        example: "/etc/onramp/clients-ca.pem",
        doc: "The authorities of clients' certificates (PEM). With it, clients are asked for one; they may show none, but one that \
              they show has to come from one of these. Read again with tls_certificate.",
        section: Section::Tls,
        limit: None,
    },
    OptionSpec {
        name: "backend_tls",
        kind: Kind::Word(&Words {
            slot: setting!(tls.backend),
            words: &[
                ("disabled", BackendTls::Disabled),
                ("preferred", BackendTls::Preferred),
                ("required", BackendTls::Required),
                ("verify-ca", BackendTls::VerifyCa),
                ("verify-full", BackendTls::VerifyFull),
            ],
        }),
        example: "verify-full",
        doc: "TLS to the server, as the ssl-mode of MySQL's clients. preferred uses it where the server offers it, but for Unix sockets \
              and loopback addresses, which nobody else can read; required never goes without; verify-ca has the server show a \
              certificate of backend_tls_ca, and verify-full one for the host that backend names. Below these, anybody on the \
              way can pretend to be the server, so that it is not sent any password; see backend_public_key and docs/TLS.md.",
        section: Section::Tls,
        limit: None,
    },
    OptionSpec {
        name: "backend_tls_ca",
        kind: Kind::Path(setting!(tls.backend_ca)),
        example: "/etc/onramp/servers-ca.pem",
        doc: "The authorities of the server's certificate (PEM), for verify-ca and verify-full. Read again with tls_certificate.",
        section: Section::Tls,
        limit: None,
    },
    OptionSpec {
        name: "backend_public_key",
        kind: Kind::Path(setting!(tls.backend_public_key)),
        example: "/etc/onramp/public_key.pem",
        doc: "The server's RSA public key (PEM): public_key.pem of MySQL's data folder, which its clients know as \
              --server-public-key-path. On a connection without TLS the passwords of caching_sha2_password and sha256_password \
              are encrypted with it, and with no other that a server sends. The keys of several servers go into one file, one \
              behind the other. Inside TLS servers take no encrypted password, so this is for backend_tls = disabled and for \
              loopback addresses. Read at the start.",
        section: Section::Tls,
        limit: None,
    },
    OptionSpec {
        name: "backend_trusted_networks",
        kind: Kind::Networks(setting!(engine.trusted_servers)),
        example: "10.1.2.0/24,127.0.0.1",
        doc: "Addresses and networks, separated by commas, in which nobody but the server can answer in its place: to a server \
              there the passwords of clients are sent without a checked certificate or a known key, encrypted with whatever RSA \
              key it sends, or over TLS that nothing is checked of; of PAM and LDAP accounts as they are. 127.0.0.1 \
              is as good as the machine's users: any of them can take the server's port while it is down. Unix sockets need \
              no trust.",
        section: Section::Tls,
        limit: None,
    },
    OptionSpec {
        name: "backend_tls_certificate",
        kind: Kind::Path(setting!(tls.backend_certificate)),
        example: "/etc/onramp/client.pem",
        doc: "The certificate that Onramp shows to a server that asks for one (PEM). All connections to the server show it, whoever \
              they are for. Read again with tls_certificate.",
        section: Section::Tls,
        limit: None,
    },
    OptionSpec {
        name: "backend_tls_key",
        kind: Kind::Path(setting!(tls.backend_key)),
        example: "/etc/onramp/client.key",
        doc: "The private key of backend_tls_certificate, without a passphrase (PEM).",
        section: Section::Tls,
        limit: None,
    },
];
