//! Where clients, operators and servers are.

use std::time::Duration;

use engine::ServerCompression;

use super::{ByAdminPort, OFF_ON, OptionSpec, Scope, Section, Unit, always, setting};
use crate::value::{Kind, Words};

/// Where clients and the server are.
pub(super) const ADDRESSES: &[OptionSpec] = &[
    OptionSpec {
        name: "backend",
        kind: Kind::Backends(setting!(backends)),
        example: "mysql://onramp:secret@10.0.0.5:3306/",
        doc: "The server, as mysql://user:password@host:port/ or mysql://user:password@localhost/?socket=/path. \
              Without one, a private server is started (see data_dir). User and password are the service account's, \
              which reads the server's accounts; parts that hold one of `:/?#[]@%` are percent-encoded. Given more \
              than once, these are addresses of one server or servers of one cluster, of which Onramp finds out the primary \
              (docs/CLUSTERS.md); all carry the same user and password. A host name stands for all of its addresses; it is looked \
              up at the start and every backend_lookup_interval. Put a password into the file or the environment rather than on the command \
              line, where everybody on the machine can read it.",
        section: Section::Addresses,
        limit: None,
    },
    OptionSpec {
        name: "mapped_password",
        kind: Kind::Secret(setting!(engine.mapped_password)),
        example: "battery-staple",
        doc: "With what backends log in as accounts whose own method cannot be passed on (ed25519, \
              unix_socket): such an account needs a \
              second method with this password, see docs/ACCOUNTS.md. Without one they log in as whoever Onramp runs as. Put \
              it into the file or the environment.",
        section: Section::Addresses,
        limit: None,
    },
    OptionSpec {
        name: "listen",
        kind: Kind::Listeners(setting!(listen)),
        example: "0.0.0.0:3306",
        doc: "Where clients connect. What starts with / or unix: is the path of a Unix socket. Port 0 lets the system \
              choose one; the ready line says which. What follows a TCP address as ?tls=off, ?tls=allowed or ?tls=required \
              holds there in the place of tls.",
        section: Section::Addresses,
        limit: None,
    },
    OptionSpec {
        name: "proxy_protocol_networks",
        kind: Kind::Networks(setting!(proxy_protocol_networks)),
        example: "10.0.0.0/8,localhost",
        doc: "Peers that are trusted to say for whom they connect, by a header of the PROXY protocol (version 1 or 2) at the \
              beginning of a connection, as load balancers send it: addresses, networks, localhost for Unix sockets, * for \
              everybody, separated by commas. Accounts and limits go by the address that they say; one that sends no \
              header is served as itself. Anybody of these networks can pretend to any address.",
        section: Section::Addresses,
        limit: None,
    },
    OptionSpec {
        name: "backend_proxy_protocol",
        kind: Kind::Word(&Words {
            slot: setting!(engine.proxy_to_server),
            words: &[("off", false), ("v2", true)],
        }),
        example: "v2",
        doc: "Whether connections to the server begin with a header of the PROXY protocol, version 2. It says the address of \
              the client of that account that logged in latest, so that the server chooses the account by the client's \
              address and not by Onramp's; many clients share the connection after that. The server has to trust Onramp's \
              address (proxy_protocol_networks of MariaDB and Percona Server); MySQL knows no such header. See \
              docs/ACCOUNTS.md.",
        section: Section::Addresses,
        limit: None,
    },
    OptionSpec {
        name: "compression",
        kind: Kind::Word(&Words {
            slot: setting!(engine.compression),
            words: &[("on", true), ("off", false)],
        }),
        example: "off",
        doc: "Whether clients that ask for it may have their packets compressed, by zlib or zstd, as the servers offer it. It saves \
              bytes on slow lines and costs the workers' time. For the way to the server see backend_compression.",
        section: Section::Addresses,
        limit: None,
    },
    OptionSpec {
        name: "backend_compression",
        kind: Kind::Word(&Words {
            slot: setting!(engine.server_compression),
            words: &[
                ("off", ServerCompression::Off),
                ("zlib", ServerCompression::Zlib),
                ("zstd", ServerCompression::Zstd),
            ],
        }),
        example: "zstd",
        doc: "Whether connections to the server are compressed, whatever clients do: by zlib, or by zstd (level 3, MySQL since \
              8.0.18). A server that does not offer it is used without, and the log says so. It saves bytes where the server is \
              far away, or where traffic between zones is paid for; it costs the time of the workers and of the server's \
              threads, so that on one machine or in one network everything is slower with it.",
        section: Section::Addresses,
        limit: None,
    },
    OptionSpec {
        name: "back_log",
        // A 16-bit number in the kernel's interface; 1 is the least that works.
        kind: Kind::Count(1..=65_535, setting!(back_log)),
        example: "16384",
        doc: "Connections that the kernel holds until they are accepted, per address. The kernel caps it to \
              net.core.somaxconn.",
        section: Section::Addresses,
        limit: None,
    },
];

/// The admin port.
pub(super) const ADMIN_PORT: &[OptionSpec] = &[
    OptionSpec {
        name: "admin_listen",
        kind: Kind::Listeners(setting!(admin_listen)),
        example: "127.0.0.1:33062",
        doc: "Where the admin port is: every MySQL client can look into Onramp there with real SQL, and give it orders \
              (docs/ADMIN.md). As listen. Without one there is none. TLS is as with clients (tls, tls_certificate), but that \
              Unix sockets have none. Known as admin_port too.",
        section: Section::AdminPort,
        limit: None,
    },
    OptionSpec {
        name: "admin_user",
        kind: Kind::Text(setting!(admin_user)),
        example: "operator",
        doc: "The one user that may log in to the admin port. It has nothing to do with the server's accounts.",
        section: Section::AdminPort,
        limit: None,
    },
    OptionSpec {
        name: "admin_password",
        kind: Kind::Secret(setting!(admin_password)),
        example: "correct-horse",
        doc: "The password of admin_user. Without one, that of the private server's account admin counts (see data_dir); \
              with a server of your own, one has to be set. Put it into the file or the environment rather than on the \
              command line, where everybody on the machine can read it.",
        section: Section::AdminPort,
        limit: None,
    },
    OptionSpec {
        name: "admin_max_connections",
        // Each is a thread that may hold a result of 64 MiB.
        kind: Kind::Count(1..=1000, setting!(admin_max_connections)),
        example: "3",
        doc: "Connections to the admin port at the same time that have logged in; one more gets error 1040. Beside them 16 may be \
              logging in, for ten seconds at most; for each further one the oldest is closed, of the address that has most.",
        section: Section::AdminPort,
        limit: always(ByAdminPort, "clients of the admin port", Unit::Clients, Scope::Process),
    },
    OptionSpec {
        name: "admin_peers",
        kind: Kind::AdminPeers(setting!(admin_peers)),
        example: "10.0.0.7:33062,10.0.0.8:33062",
        doc: "The admin ports of other Onramps, for statements about all of them: SELECT * FROM cluster_clients, SHOW CLUSTER PROCESSLIST \
              (docs/ADMIN.md). Each is asked as admin_user with admin_password, or, given as mysql://user:password@host:port/, with that \
              account. The same list may stand in the configuration of each: an address that leads to this Onramp is noticed. Passwords are not shown.",
        section: Section::AdminPort,
        limit: None,
    },
    OptionSpec {
        name: "admin_peers_tls_ca",
        kind: Kind::Path(setting!(admin_peers_ca)),
        example: "/etc/onramp/ca.pem",
        doc: "The authorities of which one must have signed the certificates of admin_peers, for the host by which each is named there: a file of PEM. \
              With it other Onramps are asked inside TLS alone; without it inside TLS where they offer that, and whose certificate they show is not looked at: \
              nobody can listen, but somebody who stands between both could log in there with what he is told. It is read anew for each such statement.",
        section: Section::AdminPort,
        limit: None,
    },
    OptionSpec {
        name: "admin_peers_timeout",
        // A statement has 10 s in all. With less than one of them left for what it does with the rows it would fail as a whole.
        kind: Kind::Duration(
            Duration::from_millis(100)..=Duration::from_secs(9),
            setting!(admin_peers_timeout),
        ),
        example: "2s",
        doc: "How long a statement waits for all of admin_peers together. Those that have not answered by then are left out, and a warning \
              of the statement names them. A worker there that hangs takes two seconds of it.",
        section: Section::AdminPort,
        limit: None,
    },
];

/// The private server.
pub(super) const PRIVATE_SERVER: &[OptionSpec] = &[
    OptionSpec {
        name: "private_server",
        kind: Kind::Word(&Words { slot: setting!(private_server), words: OFF_ON }),
        example: "off",
        doc: "Whether a private server is started where no backend is given. off makes that an error: where applications look for \
              their data, an option that has gone missing must not have them find an empty server. The unit for systemd sets off.",
        section: Section::PrivateServer,
        limit: None,
    },
    OptionSpec {
        name: "data_dir",
        kind: Kind::Path(setting!(data_dir)),
        example: "/var/lib/onramp",
        doc: "Where the private server keeps its data, its log and the passwords of its accounts. Created by the \
              first start. Not used where a backend is given.",
        section: Section::PrivateServer,
        limit: None,
    },
    OptionSpec {
        name: "server_directory",
        kind: Kind::Path(setting!(server_directory)),
        example: "/opt/mariadb/bin",
        doc: "The folder with the private server's programs (mariadbd and mariadb-install-db, or mysqld). Without it \
              they are looked for in PATH, /usr/sbin, /usr/bin and /usr/libexec.",
        section: Section::PrivateServer,
        limit: None,
    },
];
