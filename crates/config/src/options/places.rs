//! Where clients, operators and servers are.

use engine::ServerCompression;

use super::{OptionSpec, Section};
use crate::value::Kind;

/// Where clients and the server are.
pub(super) const ADDRESSES: &[OptionSpec] = &[
    OptionSpec {
        name: "backend",
        kind: Kind::Backends,
        default: "",
        example: "mysql://onramp:secret@10.0.0.5:3306/",
        doc: "The server, as mysql://user:password@host:port/ or mysql://user:password@localhost/?socket=/path. \
              Without one, a private server is started (see data_dir). User and password are the service account's, \
              which reads the server's accounts; parts that hold one of `:/?#[]@%` are percent-encoded. Given more \
              than once, these are addresses of one and the same server, tried in order, from the one that answered \
              last; all carry the same user and password. A host name stands for all of its addresses; it is looked \
              up once, at the start. Put a password into the file or the environment rather than on the command \
              line, where everybody on the machine can read it.",
        section: Section::Addresses,
    },
    OptionSpec {
        name: "mapped_password",
        kind: Kind::Secret(|configuration| &mut configuration.engine.mapped_password),
        default: "",
        example: "battery-staple",
        doc: "With what backends log in as accounts whose own method cannot be passed on (ed25519, \
              unix_socket): such an account needs a \
              second method with this password, see docs/ACCOUNTS.md. Without one they log in as whoever Onramp runs as. Put \
              it into the file or the environment.",
        section: Section::Addresses,
    },
    OptionSpec {
        name: "listen",
        kind: Kind::Listeners(|configuration| &mut configuration.listen),
        default: "127.0.0.1:3306",
        example: "0.0.0.0:3306",
        doc: "Where clients connect. What starts with / or unix: is the path of a Unix socket. Port 0 lets the system \
              choose one; the ready line says which. What follows a TCP address as ?tls=off, ?tls=allowed or ?tls=required \
              holds there in the place of tls.",
        section: Section::Addresses,
    },
    OptionSpec {
        name: "proxy_protocol_networks",
        kind: Kind::Networks(|configuration| &mut configuration.proxy_protocol_networks),
        default: "",
        example: "10.0.0.0/8,localhost",
        doc: "Peers that are trusted to say for whom they connect, by a header of the PROXY protocol (version 1 or 2) at the \
              beginning of a connection, as load balancers send it: addresses, networks, localhost for Unix sockets, * for \
              everybody, separated by commas. Accounts and limits go by the address that they say; one that sends no \
              header is served as itself. Anybody of these networks can pretend to any address.",
        section: Section::Addresses,
    },
    OptionSpec {
        name: "backend_proxy_protocol",
        kind: Kind::Word(&[
            ("off", |configuration| configuration.engine.proxy_to_server = false),
            ("v2", |configuration| configuration.engine.proxy_to_server = true),
        ]),
        default: "off",
        example: "v2",
        doc: "Whether connections to the server begin with a header of the PROXY protocol, version 2. It says the address of \
              the client of that account that logged in latest, so that the server chooses the account by the client's \
              address and not by Onramp's; many clients share the connection after that. The server has to trust Onramp's \
              address (proxy_protocol_networks of MariaDB and Percona Server); MySQL knows no such header. See \
              docs/ACCOUNTS.md.",
        section: Section::Addresses,
    },
    OptionSpec {
        name: "compression",
        kind: Kind::Word(&[
            ("on", |configuration| configuration.engine.compression = true),
            ("off", |configuration| configuration.engine.compression = false),
        ]),
        default: "on",
        example: "off",
        doc: "Whether clients that ask for it may have their packets compressed, by zlib or zstd, as the servers offer it. It saves \
              bytes on slow lines and costs the workers' time. For the way to the server see backend_compression.",
        section: Section::Addresses,
    },
    OptionSpec {
        name: "backend_compression",
        kind: Kind::Word(&[
            ("off", |configuration| configuration.engine.server_compression = ServerCompression::Off),
            ("zlib", |configuration| configuration.engine.server_compression = ServerCompression::Zlib),
            ("zstd", |configuration| configuration.engine.server_compression = ServerCompression::Zstd),
        ]),
        default: "off",
        example: "zstd",
        doc: "Whether connections to the server are compressed, whatever clients do: by zlib, or by zstd (level 3, MySQL since \
              8.0.18). A server that does not offer it is used without, and the log says so. It saves bytes where the server is \
              far away, or where traffic between zones is paid for; it costs the time of the workers and of the server's \
              threads, so that on one machine or in one network everything is slower with it.",
        section: Section::Addresses,
    },
    OptionSpec {
        name: "back_log",
        // A 16-bit number in the kernel's interface; 1 is the least that works.
        kind: Kind::Count(1..=65_535, |configuration| &mut configuration.back_log),
        // The kernel caps it to net.core.somaxconn, 4096 since Linux 5.4.
        default: "4096",
        example: "16384",
        doc: "Connections that the kernel holds until they are accepted, per address. The kernel caps it to \
              net.core.somaxconn.",
        section: Section::Addresses,
    },
];

/// The admin port.
pub(super) const ADMIN_PORT: &[OptionSpec] = &[
    OptionSpec {
        name: "admin_listen",
        kind: Kind::Listeners(|configuration| &mut configuration.admin_listen),
        default: "",
        example: "127.0.0.1:33062",
        doc: "Where the admin port is: every MySQL client can look into Onramp there with real SQL, and give it orders \
              (docs/ADMIN.md). As listen. Without one there is none. TLS is as with clients (tls, tls_certificate), but that \
              Unix sockets have none. Known as admin_port too.",
        section: Section::AdminPort,
    },
    OptionSpec {
        name: "admin_user",
        kind: Kind::Text(|configuration| &mut configuration.admin_user),
        default: "admin",
        example: "operator",
        doc: "The one user that may log in to the admin port. It has nothing to do with the server's accounts.",
        section: Section::AdminPort,
    },
    OptionSpec {
        name: "admin_password",
        kind: Kind::Secret(|configuration| &mut configuration.admin_password),
        default: "",
        example: "correct-horse",
        doc: "The password of admin_user. Without one, that of the private server's account admin counts (see data_dir); \
              with a server of your own, one has to be set. Put it into the file or the environment rather than on the \
              command line, where everybody on the machine can read it.",
        section: Section::AdminPort,
    },
    OptionSpec {
        name: "admin_max_connections",
        // Each is a thread that may hold a result of 64 MiB.
        kind: Kind::Count(1..=1000, |configuration| &mut configuration.admin_max_connections),
        default: "10",
        example: "3",
        doc: "Connections to the admin port at the same time that have logged in; one more gets error 1040. Beside them 16 may be \
              logging in, for ten seconds at most; for each further one the oldest is closed, of the address that has most.",
        section: Section::AdminPort,
    },
];

/// The private server.
pub(super) const PRIVATE_SERVER: &[OptionSpec] = &[
    OptionSpec {
        name: "data_dir",
        kind: Kind::Path(|configuration| &mut configuration.data_dir),
        default: "./onramp-data",
        example: "/var/lib/onramp",
        doc: "Where the private server keeps its data, its log and the passwords of its accounts. Created by the \
              first start. Not used where a backend is given.",
        section: Section::PrivateServer,
    },
    OptionSpec {
        name: "server_directory",
        kind: Kind::Path(|configuration| &mut configuration.server_directory),
        default: "",
        example: "/opt/mariadb/bin",
        doc: "The folder with the private server's programs (mariadbd and mariadb-install-db, or mysqld). Without it \
              they are looked for in PATH, /usr/sbin, /usr/bin and /usr/libexec.",
        section: Section::PrivateServer,
    },
];
