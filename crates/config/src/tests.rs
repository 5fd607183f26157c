//! The table as a whole, and how values come to be.

mod refusals;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use engine::{Change, Declared as _, HighPrioMode, ThreadHandling};

use crate::options::{FILE_OPTION, OPTIONS, OptionSpec};
use crate::reference::file_line;
use crate::value::{Given, Kind};
use crate::{
    BackendTarget, Configuration, Counted, Error, ListenAddress, LogLevel, Place, file, help, load,
    reference_page,
};

pub(crate) fn with_flags(flags: &[&str]) -> Result<Configuration, String> {
    with(flags, &[])
}

fn with(flags: &[&str], environment: &[(&str, &str)]) -> Result<Configuration, String> {
    loaded(flags, environment).map_err(|error| error.to_string())
}

fn loaded(flags: &[&str], environment: &[(&str, &str)]) -> Result<Configuration, Error> {
    let flags: Vec<String> = flags.iter().map(|flag| String::from(*flag)).collect();
    load(&flags, environment.iter().map(|(name, value)| (*name, OsStr::new(*value))))
}

fn with_file(text: &str) -> Result<Configuration, String> {
    let mut configuration = with_flags(&[])?;
    let mut faults = Vec::new();
    file::apply(&mut configuration, "onramp.toml".as_ref(), text, &mut faults);
    faults.first().map_or(Ok(configuration), |fault| Err(fault.to_string()))
}

fn message(result: Result<Configuration, String>) -> String {
    result.err().expect("this is an error")
}

/// All that [`crate::check`] says of these, line by line.
fn faults(flags: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
    let flags: Vec<String> = flags.iter().map(|flag| String::from(*flag)).collect();
    let checked = crate::check(&flags, environment.iter().map(|(name, value)| (*name, OsStr::new(*value))));
    checked.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// A file of its own, gone with the value.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("onramp-config-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn what_options_say_has_no_gaps() {
    for option in OPTIONS.iter() {
        assert!(!option.doc.contains("  "), "{}: {}", option.name, option.doc);
    }
}

/// A setting that somebody may give is the place of one option, and no option is about one that is found.
#[test]
fn every_setting_is_an_option() {
    let mut settings = Vec::new();
    Configuration::list("", &mut settings);
    for (path, change) in &settings {
        let options = OPTIONS.iter().filter(|option| option.kind.place().0 == path).count();
        assert_eq!(options, usize::from(*change != Change::Found), "{path}");
    }
    assert!(OPTIONS.iter().count() <= settings.len());
}

#[test]
fn what_kubernetes_says_of_a_service_is_no_option() {
    // Of each Service all pods of a namespace get such variables; this one is named onramp.
    let links = [
        ("ONRAMP_PORT", "tcp://10.96.0.7:3306"),
        ("ONRAMP_PORT_3306_TCP", "tcp://10.96.0.7:3306"),
        ("ONRAMP_PORT_3306_TCP_ADDR", "10.96.0.7"),
        ("ONRAMP_PORT_3306_TCP_PORT", "3306"),
        ("ONRAMP_PORT_3306_TCP_PROTO", "tcp"),
        ("ONRAMP_SERVICE_HOST", "10.96.0.7"),
        ("ONRAMP_SERVICE_PORT", "3306"),
        ("ONRAMP_SERVICE_PORT_MYSQL", "3306"),
        ("ONRAMP_SERVICE_PORT_HTTP", "9126"),
    ];
    assert!(load(&[], links.map(|(name, value)| (name, OsStr::new(value)))).is_ok());
}

#[test]
fn every_default_and_example_is_a_good_value_and_they_differ() {
    let mut configuration = Configuration::default();
    for option in OPTIONS {
        let default = option.default(&mut configuration);
        assert_ne!(default.as_deref(), Some(option.example), "{}", option.name);
        for value in default.into_iter().chain([String::from(option.example)]) {
            let applied = option.kind.apply(&mut Configuration::default(), &[Given::Bare(&value)]);
            assert_eq!(applied, Ok(()), "{}: {value}", option.name);
        }
    }
}

/// What the engine bounds has one row in the table of limits, under the name by which the engine speaks of it.
#[test]
fn every_limit_of_the_engine_is_an_option() {
    for limit in engine::Limit::ALL {
        let counts =
            |option: &&OptionSpec| option.limit.is_some_and(|row| row.counted == Counted::ByEngine(*limit));
        let options: Vec<_> = OPTIONS.iter().filter(counts).map(|option| option.name).collect();
        assert_eq!(options, [limit.name()]);
    }
}

/// A default that is none of its words could not be shown, nor given.
#[test]
fn every_choice_has_a_default_that_can_be_written() {
    for option in OPTIONS.iter().filter(|option| matches!(option.kind, Kind::Word(_))) {
        assert!(option.default(&mut Configuration::default()).is_some(), "{}", option.name);
    }
}

#[test]
fn names_are_unique_and_plain() {
    let mut names = std::collections::BTreeSet::new();
    for option in OPTIONS {
        assert!(option.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", option.name);
        assert!(names.insert(option.name), "{}", option.name);
        assert!(option.doc.ends_with('.'), "{}", option.name);
    }
}

/// Some options mean nothing without another.
fn is_understood(flags: &[&str], environment: &[(&str, &str)]) -> bool {
    loaded(flags, environment).map_or_else(|error| error.place == Place::Together, |_| true)
}

#[test]
fn every_option_can_be_given_in_each_of_the_three_ways() {
    for option in OPTIONS.iter().filter(|option| option.name != FILE_OPTION) {
        let flag = option.flag();
        let underscored = format!("--{}={}", option.name, option.example);
        assert!(is_understood(&[&flag, option.example], &[]), "{flag}");
        assert!(is_understood(&[&underscored], &[]), "{underscored}");
        let variable = option.environment();
        assert!(is_understood(&[], &[(&variable, option.example)]), "{variable}");
        let line = file_line(option);
        assert!(with_file(&line).is_ok(), "{line}");
    }
}

#[test]
fn values_arrive_where_they_belong() {
    let configuration = with_flags(&[
        "--backend=mysql://onramp:hush@db:3307/",
        "--listen",
        "[::1]:0",
        "--listen",
        "/run/onramp.sock",
        "--thread_handling=one-thread-per-connection",
        "--thread-pool-high-prio-mode=none",
        "--thread-pool-prio-kickup-timer=250",
        "--max-allowed-packet=16MiB",
        "--wait-timeout=5m",
        "--log-level=debug",
        "--data-dir=/srv/data",
    ])
    .unwrap();
    assert_eq!(configuration.backends[0].target, BackendTarget::Tcp { host: String::from("db"), port: 3307 });
    assert_eq!(
        configuration.listen,
        [
            ListenAddress::Tcp { host: String::from("::1"), port: 0, tls: None },
            ListenAddress::Unix(PathBuf::from("/run/onramp.sock"))
        ]
    );
    assert_eq!(configuration.engine.thread_handling, ThreadHandling::OneThreadPerConnection);
    assert_eq!(configuration.engine.high_prio_mode, HighPrioMode::None);
    assert_eq!(configuration.engine.prio_kickup_timer, Duration::from_millis(250));
    assert_eq!(configuration.engine.max_allowed_packet, 16 << 20);
    assert_eq!(configuration.engine.wait_timeout, Duration::from_secs(300));
    assert_eq!(configuration.log_level, LogLevel::Debug);
    assert_eq!(configuration.data_dir, PathBuf::from("/srv/data"));
}

#[test]
fn a_flag_outranks_the_environment_which_outranks_the_file() {
    let file = TemporaryFile::new(
        "ranks",
        "permits = 1\nmax_backends = 1\nback_log = 1\nlisten = [\"a:1\", \"b:2\"]\n",
    );
    let path = file.0.to_str().unwrap();
    let environment = [("ONRAMP_CONFIG", path), ("ONRAMP_PERMITS", "2"), ("ONRAMP_MAX_BACKENDS", "2")];
    let configuration = with(&["--permits", "3"], &environment).unwrap();
    assert_eq!(configuration.engine.permits, 3);
    assert_eq!(configuration.engine.max_backends, 2);
    assert_eq!(configuration.back_log, 1);
    assert_eq!(configuration.engine.max_connections, 100_000);
    assert_eq!(configuration.listen.len(), 2);
    // A list is replaced as a whole.
    assert_eq!(with(&["--listen", "c:3"], &environment).unwrap().listen.len(), 1);
    let two = [("ONRAMP_LISTEN", "a:1,b:2"), ("ONRAMP_PERMITS", "")];
    let configuration = with(&[], &two).unwrap();
    assert_eq!((configuration.listen.len(), configuration.engine.permits), (2, 0));
}

#[test]
fn the_texts_name_every_option() {
    let (help, page) = (help(), reference_page());
    for option in OPTIONS {
        assert!(help.contains(&format!("  {} ", option.flag())), "{}", option.name);
        assert!(page.contains(&format!("### {}\n", option.name)), "{}", option.name);
    }
    assert!(help.lines().all(|line| line.len() <= 110));
    assert_eq!(OptionSpec::find("max-backends").map(|option| option.name), Some("max_backends"));
}

#[test]
fn names_of_in_server_pools_are_understood_everywhere() {
    assert_eq!(with_flags(&["--thread-pool-size=3"]).unwrap().workers, 3);
    assert_eq!(with(&[], &[("ONRAMP_THREAD_POOL_SIZE", "4")]).unwrap().workers, 4);
    assert_eq!(with_file("thread_pool_size = 5\n").unwrap().workers, 5);
    let error = with_flags(&["--workers=1", "--thread-pool-size=2"]);
    assert!(message(error).contains("given twice"));
}

/// docs/OPTIONS.md is written by this test when UPDATE_DOCS is set, and compared with the table otherwise.
#[test]
fn the_reference_page_is_that_of_the_table() {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/OPTIONS.md"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, reference_page()).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == reference_page(),
        "docs/OPTIONS.md is not that of the table of options: run `make docs-options`"
    );
}

#[test]
fn a_profile_changes_the_defaults_and_nothing_that_is_given() {
    let percona = with_flags(&["--thread-pool-profile=percona"]).unwrap();
    assert_eq!(percona.engine.stall_limit, Duration::from_millis(500));
    assert_eq!(percona.engine.statements_in_flight, 1);
    assert!(percona.workers >= 1);
    assert_eq!(percona.engine.group_limit(percona.workers), Some(4));

    let given = with_file("thread_pool_profile = \"mariadb\"\nthread_pool_stall_limit = 100\n").unwrap();
    assert_eq!(given.engine.stall_limit, Duration::from_millis(100));

    // Its limit of transactions follows from the number of groups, unless it is given.
    let mysql = with_flags(&["--thread-pool-profile=mysql", "--thread-pool-size=3"]).unwrap();
    assert_eq!((mysql.workers, mysql.engine.max_transactions_limit), (3, 96));
    assert_eq!(mysql.engine.group_limit(3), Some(33));
    let given =
        with_flags(&["--thread-pool-profile=mysql", "--thread-pool-max-transactions-limit=0"]).unwrap();
    assert_eq!(given.engine.group_limit(given.workers), Some(3));

    let native = with_flags(&["--thread-pool-profile=native"]).unwrap();
    assert_eq!(native.engine.group_limit(1), None);
}

#[test]
fn the_engine_knows_whether_servers_are_checked() {
    use engine::ServerTls;
    let authorities = "--backend-tls-ca=a.pem";
    for (word, tls, more) in [
        ("disabled", ServerTls::Disabled, None),
        ("preferred", ServerTls::Preferred, None),
        ("required", ServerTls::Required, None),
        ("verify-ca", ServerTls::Verified, Some(authorities)),
        ("verify-full", ServerTls::Verified, Some(authorities)),
    ] {
        let flags: Vec<&str> = ["--backend-tls", word].into_iter().chain(more).collect();
        let configuration = with_flags(&flags).unwrap();
        assert_eq!(configuration.engine.server_tls, tls, "{word}");
    }
}

/// A folder of its own, gone with the value.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn credentials_stand_between_the_file_and_the_environment() {
    let folder = Folder(std::env::temp_dir().join(format!("onramp-credentials-{}", std::process::id())));
    std::fs::create_dir(&folder.0).unwrap();
    for (name, text) in [
        ("onramp_backend", "mysql://a:b@c/,mysql://a:b@d/\n"),
        ("onramp.http_password", "of http\r\n"),
        ("onramp_admin_password", ""),
        ("onramp_tls_key.pem", "-----BEGIN PRIVATE KEY-----"),
        ("permits", "of somebody else"),
        ("onramp_workers", "3"),
    ] {
        std::fs::write(folder.0.join(name), text).unwrap();
    }
    let path = folder.0.to_str().unwrap();
    let file = TemporaryFile::new("below-credentials", "workers = 2\n");
    let flags = ["--config", file.0.to_str().unwrap()];
    let found = with(&flags, &[("CREDENTIALS_DIRECTORY", path)]).unwrap();
    assert_eq!(found.backends.len(), 2);
    assert_eq!(
        (found.workers, found.http_password.as_str(), found.admin_password.as_str()),
        (3, "of http", "")
    );
    let source = |found: &Configuration| {
        let setting = found.settings().into_iter().find(|setting| setting.name == "workers");
        setting.unwrap().source.name()
    };
    assert_eq!(source(&found), "credential");
    let found = with(&flags, &[("CREDENTIALS_DIRECTORY", path), ("ONRAMP_WORKERS", "4")]).unwrap();
    assert_eq!((found.workers, source(&found)), (4, "environment"));
    std::fs::write(folder.0.join("onramp_bakcend"), "mysql://secret-user:secret@h/").unwrap();
    std::fs::write(folder.0.join("onramp_mapped_password"), "x").unwrap();
    std::fs::write(folder.0.join("onramp_permits"), "secret").unwrap();
    let found = faults(&[], &[("CREDENTIALS_DIRECTORY", path)]);
    assert_eq!(found[0], "credential onramp_bakcend: unknown option; did you mean onramp_backend?");
    assert_eq!(found[1], "credential onramp_permits: \"secret\" is not a whole number");
    assert_eq!(found.len(), 2);
    let found = faults(&[], &[("CREDENTIALS_DIRECTORY", "/nowhere/at/all")]);
    assert!(found[0].starts_with("CREDENTIALS_DIRECTORY: /nowhere/at/all cannot be read: "), "{found:?}");
    let none = "/run/credentials/of-a-test.service";
    assert!(with(&flags, &[("CREDENTIALS_DIRECTORY", none)]).is_ok(), "systemd names it and makes none");
}

#[test]
fn the_default_file_sets_nothing_and_each_of_its_lines_can_be_used() {
    let text = crate::default_file();
    assert!(with_file(&text).unwrap().chosen.is_empty());
    let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix('#')).collect();
    let settings: Vec<_> = lines.iter().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    assert_eq!(settings.len(), OPTIONS.iter().count() - 1, "all but the file's own name");
    for line in settings {
        let set = with_file(line).unwrap_or_else(|fault| panic!("{line}: {fault}"));
        let name = line.split(" = ").next().unwrap();
        assert!(set.chosen.contains_key(name), "{line}");
    }
    assert!(text.lines().all(|line| line.len() <= 160), "lines that a terminal shows");
}

#[test]
fn each_line_of_the_packages_file_can_be_used() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/packages/onramp.toml");
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(with_file(&text).unwrap().chosen.into_keys().collect::<Vec<_>>(), ["listen"]);
    let examples: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("#backend")).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        assert!(with_file(&format!("backend{example}")).unwrap().chosen.contains_key("backend"), "{example}");
    }
    assert!(text.lines().all(|line| line.len() <= 130), "lines that a terminal shows");
}
