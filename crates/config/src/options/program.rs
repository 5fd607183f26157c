//! The program itself.

use drivers::DriverChoice;

use super::{FILE_OPTION, OptionSpec, Section};
use crate::value::Kind;
use crate::{LogFormat, LogLevel};

/// The program itself.
pub(super) const PROGRAM: &[OptionSpec] = &[
    OptionSpec {
        name: FILE_OPTION,
        kind: Kind::Path(|configuration| &mut configuration.file),
        default: "",
        example: "/etc/onramp.toml",
        doc: "A file with options, one `name = value` a line (TOML). No file is read unless one is named here.",
        section: Section::Program,
    },
    OptionSpec {
        name: "driver",
        kind: Kind::Word(&[
            ("auto", |configuration| configuration.driver = DriverChoice::Auto),
            ("uring", |configuration| configuration.driver = DriverChoice::Uring),
            ("epoll", |configuration| configuration.driver = DriverChoice::Epoll),
        ]),
        default: "auto",
        example: "epoll",
        doc: "What the event loops run on. With uring (io_uring) clients cost no file descriptors, so that 100,000 of them \
              fit under any limit of open files. auto takes it where the kernel allows it, else epoll, and says why.",
        section: Section::Program,
    },
    OptionSpec {
        name: "core_dumps",
        kind: Kind::Word(&[
            ("off", |configuration| configuration.core_dumps = false),
            ("on", |configuration| configuration.core_dumps = true),
        ]),
        default: "off",
        example: "on",
        doc: "Whether the kernel may write the process's memory to a file when it crashes. It holds clients' passwords and what they \
              read and write. off also keeps other processes of the same user from reading it (gdb, perf and strace need \
              root then); on leaves both as the system has them (ulimit -c, kernel.core_pattern).",
        section: Section::Program,
    },
    OptionSpec {
        name: "log_level",
        kind: Kind::Word(&[
            ("error", |configuration| {
                configuration.log_level = LogLevel::Error;
            }),
            ("warn", |configuration| {
                configuration.log_level = LogLevel::Warn;
            }),
            ("info", |configuration| {
                configuration.log_level = LogLevel::Info;
            }),
            ("debug", |configuration| {
                configuration.log_level = LogLevel::Debug;
            }),
            ("trace", |configuration| {
                configuration.log_level = LogLevel::Trace;
            }),
        ]),
        default: "info",
        example: "debug",
        doc: "The least important lines that are still logged, to the standard error stream.",
        section: Section::Program,
    },
    OptionSpec {
        name: "log_format",
        kind: Kind::Word(&[
            ("text", |configuration| configuration.log_format = LogFormat::Text),
            ("json", |configuration| configuration.log_format = LogFormat::Json),
        ]),
        default: "text",
        example: "json",
        doc: "How lines of the log look. text is time, level and message, for people; json is one object a line, for what \
              collects logs: timestamp (RFC 3339, UTC), level, message, and for what clients, backends and servers do its \
              name (event) and the worker.",
        section: Section::Program,
    },
];
