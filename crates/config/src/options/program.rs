//! The program itself.

use drivers::DriverChoice;

use super::{FILE_OPTION, OFF_ON, OptionSpec, Section, setting};
use crate::value::{Kind, Words};
use crate::{LogFormat, LogLevel};

/// The program itself.
pub(super) const PROGRAM: &[OptionSpec] = &[
    OptionSpec {
        name: FILE_OPTION,
        kind: Kind::Path(setting!(file)),
        example: "/etc/onramp.toml",
        doc: "A file with options, one `name = value` a line (TOML). No file is read unless one is named here.",
        section: Section::Program,
        limit: None,
    },
    OptionSpec {
        name: "driver",
        kind: Kind::Word(&Words {
            slot: setting!(driver),
            words: &[
                ("auto", DriverChoice::Auto),
                ("uring", DriverChoice::Uring),
                ("epoll", DriverChoice::Epoll),
            ],
        }),
        example: "epoll",
        doc: "What the event loops run on. With uring (io_uring) clients cost no file descriptors, so that 100,000 of them \
              fit under any limit of open files. auto takes it where the kernel allows it, else epoll, and says why.",
        section: Section::Program,
        limit: None,
    },
    OptionSpec {
        name: "core_dumps",
        kind: Kind::Word(&Words { slot: setting!(core_dumps), words: OFF_ON }),
        example: "on",
        doc: "Whether the kernel may write the process's memory to a file when it crashes. It holds clients' passwords and what they \
              read and write. off also keeps other processes of the same user from reading it (gdb, perf and strace need \
              root then); on leaves both as the system has them (ulimit -c, kernel.core_pattern).",
        section: Section::Program,
        limit: None,
    },
    OptionSpec {
        name: "log_level",
        kind: Kind::Word(&Words {
            slot: setting!(log_level),
            words: &[
                ("error", LogLevel::Error),
                ("warn", LogLevel::Warn),
                ("info", LogLevel::Info),
                ("debug", LogLevel::Debug),
                ("trace", LogLevel::Trace),
            ],
        }),
        example: "debug",
        doc: "The least important lines that are still logged, to the standard error stream.",
        section: Section::Program,
        limit: None,
    },
    OptionSpec {
        name: "log_format",
        kind: Kind::Word(&Words {
            slot: setting!(log_format),
            words: &[("text", LogFormat::Text), ("json", LogFormat::Json)],
        }),
        example: "json",
        doc: "How lines of the log look. text is time, level and message, for people; json is one object a line, for what \
              collects logs: timestamp (RFC 3339, UTC), level, message, and for what clients, backends and servers do its \
              name (event) and the worker.",
        section: Section::Program,
        limit: None,
    },
];
