//! The values of options, and which of them can change while Onramp runs.

use crate::defaults::defaults_of;
use crate::options::{OPTIONS, OTHER_NAMES, OptionSpec};
use crate::together::check_together;
use crate::value::Given;
use crate::{Configuration, Fault, NoValue};

/// Where an option's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The table.
    Default,
    /// The file.
    File,
    /// A credential of the service.
    Credential,
    /// The environment.
    Environment,
    /// The command line.
    Flag,
    /// A socket that was handed over, whatever the others say.
    Socket,
    /// Somebody who may, while Onramp runs.
    Admin,
}

impl Source {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Credential => "credential",
            Self::Environment => "environment",
            Self::Flag => "flag",
            Self::Socket => "socket",
            Self::Admin => "admin",
        }
    }
}

/// An option with what it is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// As it was written, lists separated by commas; `None` where there is no value, or it is a secret.
    pub value: Option<String>,
    /// What holds where nobody says anything.
    pub default: Option<String>,
    /// Whether [`Configuration::set`] takes it.
    pub live: bool,
    /// Where the value comes from.
    pub source: Source,
}

/// Why an option was not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSet {
    /// There is none of this name.
    Unknown,
    /// The option cannot change while Onramp runs.
    NotLive,
    /// The value is wrong, and why.
    Wrong(Fault),
}

/// The value that somebody chose for an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// `None` for a secret.
    text: Option<String>,
    source: Source,
}

impl Configuration {
    /// All options, in the order of the reference page.
    pub fn settings(&self) -> Vec<Setting> {
        let (mut scratch, mut defaults) = (self.clone(), Self::default());
        OPTIONS.iter().map(|option| scratch.setting(option, &mut defaults)).collect()
    }

    /// Other names of options, each with the option's own: a value can be given under either.
    pub fn other_names() -> &'static [(&'static str, &'static str)] {
        &OTHER_NAMES
    }

    /// Sets a live option, by any of its names.
    ///
    /// # Errors
    /// Why it is not set; then nothing has changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), NotSet> {
        let option = OptionSpec::find(name).ok_or(NotSet::Unknown)?;
        if !option.is_live() {
            return Err(NotSet::NotLive);
        }
        let mut changed = self.clone();
        changed
            .choose(option, &[Given::Bare(value)], Source::Admin)
            .map_err(|wrong| NotSet::Wrong(wrong.into()))?;
        if option.name == "thread_pool_profile" {
            changed.take_defaults_of_profile();
        }
        check_together(&changed).map_err(|error| NotSet::Wrong(error.fault))?;
        *self = changed;
        Ok(())
    }

    /// The profile is another one: live options that nobody has chosen have its defaults.
    fn take_defaults_of_profile(&mut self) {
        let mut defaults = defaults_of(self.engine.profile, self.workers, self.workers);
        for option in OPTIONS {
            let live = option.is_live() && !self.chosen.contains_key(option.name);
            if let Some(text) = option.kind.current(&mut defaults).filter(|_| live) {
                let applied = option.kind.apply(self, &[Given::Bare(&text)]);
                applied.expect("a default is shown as it is written");
            }
        }
    }

    /// Takes up what has changed of the live options in a configuration that was read again. Returns a line for each other
    /// one that has.
    pub fn take_up(&mut self, fresh: &Self) -> Vec<String> {
        let mut left = Vec::new();
        let (mut fresh, mut defaults) = (fresh.clone(), Self::default());
        let targets = |of: &Self| Vec::from_iter(of.backends.iter().map(|backend| backend.target.clone()));
        let has_other_servers = targets(self) != targets(&fresh);
        for option in OPTIONS {
            let (now, then) = (self.setting(option, &mut defaults), fresh.setting(option, &mut defaults));
            let looks_the_same = now.value == then.value;
            if looks_the_same && option.kind.has_same_secret(self, &mut fresh) {
                self.chosen.extend(fresh.chosen.get_key_value(option.name).map(|(k, v)| (*k, v.clone())));
                continue;
            }
            // What is said of servers is said of those that are there with the next start.
            if option.is_live() && !(option.kind.names_servers() && has_other_servers) {
                if !option.kind.take_over(self, &mut fresh) {
                    let value = then.value.as_deref().unwrap_or_default();
                    let applied = option.kind.apply(self, &[Given::Bare(value)]);
                    applied.expect("the same text was taken when the configuration was read");
                }
                self.chosen.remove(option.name);
                self.chosen.extend(fresh.chosen.get_key_value(option.name).map(|(k, v)| (*k, v.clone())));
            } else {
                let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| String::from("unset"));
                let (name, now, then) = (option.name, shown(&now.value), shown(&then.value));
                left.push(match looks_the_same {
                    false => format!("{name} stays {now} until the next start, which makes it {then}"),
                    true => format!("{name} stays as it is until the next start, which changes it"),
                });
            }
        }
        left
    }

    /// Puts the addresses of sockets that were handed over in the place of what is said of this option.
    ///
    /// # Errors
    /// Why they are no values of it.
    ///
    /// # Panics
    /// Where there is no such option.
    pub fn hand_over(&mut self, option: &str, addresses: &[String]) -> Result<(), NoValue> {
        let option = OptionSpec::find(option).expect("options are named in the sources alone");
        let given: Vec<_> = addresses.iter().map(|address| Given::Bare(address)).collect();
        self.choose(option, &given, Source::Socket)
    }

    /// Checks values and puts them in their place.
    pub(crate) fn choose(
        &mut self,
        option: &'static OptionSpec,
        given: &[Given<'_>],
        source: Source,
    ) -> Result<(), NoValue> {
        option.kind.apply(self, given)?;
        self.chosen.insert(option.name, Chosen { text: option.kind.shown(given), source });
        Ok(())
    }

    fn setting(&mut self, option: &'static OptionSpec, defaults: &mut Self) -> Setting {
        let default = option.default(defaults);
        let (value, source) = match self.chosen.get(option.name) {
            Some(chosen) => (chosen.text.clone(), chosen.source),
            // Under the profile of another pool, some have its defaults.
            None => (option.kind.current(self), Source::Default),
        };
        Setting { name: option.name, value, default, live: option.is_live(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Profile;
    use std::time::Duration;

    fn configuration(arguments: &[&str]) -> Configuration {
        let arguments: Vec<_> = arguments.iter().map(|argument| String::from(*argument)).collect();
        crate::load(&arguments, []).unwrap()
    }

    fn setting(configuration: &Configuration, name: &str) -> Setting {
        configuration.settings().into_iter().find(|setting| setting.name == name).unwrap()
    }

    #[test]
    fn live_options_can_be_set_and_the_others_not() {
        let mut configuration = configuration(&["--permits", "8"]);
        assert_eq!(setting(&configuration, "permits").source, Source::Flag);
        configuration.set("Wait-Timeout".to_lowercase().as_str(), "5m").unwrap();
        assert_eq!(configuration.engine.wait_timeout, Duration::from_secs(300));
        let found = setting(&configuration, "wait_timeout");
        assert_eq!((found.value.as_deref(), found.source), (Some("5m"), Source::Admin));
        assert_eq!(configuration.set("workers", "2"), Err(NotSet::NotLive));
        assert_eq!(configuration.set("thread_pool_size", "2"), Err(NotSet::NotLive));
        assert_eq!(configuration.set("nothing", "2"), Err(NotSet::Unknown));
        assert!(matches!(configuration.set("permits", "many"), Err(NotSet::Wrong(_))));
        // Two values that do not go together.
        assert!(matches!(configuration.set("statement_memory", "1MiB"), Err(NotSet::Wrong(_))));
        assert_eq!(configuration.engine.statement_memory, 256 << 20);
    }

    #[test]
    fn what_was_read_again_is_taken_up_as_far_as_it_can_be() {
        let mut running = configuration(&["--permits", "8", "--wait-timeout", "5m", "--max-backends", "10"]);
        running.set("net_write_timeout", "5s").unwrap();
        let fresh = configuration(&["--permits", "9", "--max-backends", "20", "--admin-password", "x"]);
        let left = running.take_up(&fresh);
        assert_eq!(running.engine.permits, 9);
        assert_eq!(running.engine.wait_timeout, Duration::from_secs(28_800), "the default again");
        assert_eq!(running.engine.net_write_timeout, Duration::from_secs(60));
        assert_eq!(setting(&running, "wait_timeout").source, Source::Default);
        assert_eq!(running.engine.max_backends, 10);
        assert_eq!(
            left,
            [
                "max_backends stays 10 until the next start, which makes it 20",
                "admin_password stays as it is until the next start, which changes it"
            ]
        );
    }

    #[test]
    fn a_secret_that_has_changed_is_told_of_whichever_it_is() {
        let kept = "stays as it is until the next start, which changes it";
        let secrets = OPTIONS.iter().filter(|option| matches!(option.kind, crate::value::Kind::Secret(_)));
        let mut of = Vec::from_iter(secrets.map(|option| (option.name, ["one", "two"])));
        of.push(("backend", ["mysql://app:one@10.0.0.5/", "mysql://app:two@10.0.0.5/"]));
        assert!(of.len() > 3, "{of:?}");
        for (name, values) in of {
            let given = |value| configuration(&[&format!("--{}", name.replace('_', "-")), value]);
            let [mut running, same, changed] = [values[0], values[0], values[1]].map(given);
            assert_eq!(running.take_up(&same), Vec::<String>::new(), "{name}");
            assert_eq!(running.take_up(&changed), [format!("{name} {kept}")]);
            assert_eq!(running.take_up(&changed), [format!("{name} {kept}")], "as long as it does not hold");
        }
        let at = |host: &str| configuration(&["--backend", &format!("mysql://app:one@{host}/")]);
        assert_eq!(
            at("10.0.0.5").take_up(&at("10.0.0.6")),
            [
                "backend stays mysql://app@10.0.0.5:3306/ until the next start, which makes it mysql://app@10.0.0.6:3306/"
            ]
        );
    }

    #[test]
    fn passwords_in_a_live_list_are_taken_up_and_not_shown() {
        let with = |password: &str| {
            configuration(&[
                "--admin-peers",
                &format!("a:1,mysql://op:{password}@b:1/"),
                "--admin-password",
                "x",
            ])
        };
        let (mut running, fresh) = (with("one"), with("two"));
        assert_eq!(running.take_up(&fresh), Vec::<String>::new());
        assert_eq!(running.admin_peers, fresh.admin_peers);
        running.set("admin_peers", "mysql://op:three@b:1/").unwrap();
        let shown = format!("{:?} {running:?}", running.settings(), running = running.admin_peers);
        assert!(shown.contains("mysql://op@b:1/"), "{shown}");
        assert!(!["one", "two", "three"].iter().any(|password| shown.contains(&format!(":{password}"))));
        running.set("admin_peers", "").unwrap();
        assert_eq!(running.admin_peers.iter().count(), 0);
        let wrong = running.set("admin_peers", "mysql://op:hush@b:1/schema").unwrap_err();
        assert!(!format!("{wrong:?}").contains("hush"));
    }

    #[test]
    fn what_is_said_of_other_servers_waits_for_them() {
        let with = |weights: &str, host: &str| {
            let url = format!("mysql://app:one@{host}/");
            configuration(&["--backend", &url, "--read-weights", weights, "--zone", host])
        };
        let mut running = with("10.0.0.5=2", "10.0.0.5");
        let left = running.take_up(&with("10.0.0.6=3", "10.0.0.6"));
        assert!(
            left[1]
                .starts_with("read_weights stays 10.0.0.5=2 until the next start, which makes it 10.0.0.6=3"),
            "{left:?}"
        );
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(setting(&running, "zone").value.as_deref(), Some("10.0.0.6"));
        assert_eq!(running.set("wait_timeout", "5m"), Ok(()), "all goes together as before");
        assert_eq!(running.take_up(&with("10.0.0.5=4", "10.0.0.5")), Vec::<String>::new());
        assert_eq!(setting(&running, "read_weights").value.as_deref(), Some("10.0.0.5=4"));
        assert_eq!(
            running.take_up(&configuration(&["--backend", "mysql://app:one@10.0.0.5/"])),
            Vec::<String>::new()
        );
        assert_eq!(
            (running.engine.reads.zone, setting(&with("", "a"), "read_weights").default),
            (None, None)
        );
    }

    #[test]
    fn defaults_are_those_of_the_profile() {
        let native = configuration(&["--thread-pool-stall-limit", "70"]);
        assert_eq!(setting(&native, "thread_pool_stall_limit").value.as_deref(), Some("70"));
        assert_eq!(setting(&native, "wait_timeout").value.as_deref(), Some("8h"));
        let percona = configuration(&["--thread-pool-profile", "percona"]);
        let found = setting(&percona, "thread_pool_stall_limit");
        assert_eq!((found.value.as_deref(), found.default.as_deref()), (Some("500"), Some("60")));
        assert_eq!(found.source, Source::Default);
    }

    #[test]
    fn another_profile_brings_its_defaults_but_for_what_was_chosen() {
        let mut configuration = configuration(&["--long-statement-time", "2s"]);
        let native = configuration.engine.clone();
        configuration.set("thread_pool_profile", "mariadb").unwrap();
        let changed = &configuration.engine;
        assert_eq!((changed.profile, changed.stall_limit), (Profile::MariaDb, Duration::from_millis(500)));
        assert_eq!((changed.statements_in_flight, changed.max_threads), (1, 65_536));
        assert_eq!((changed.lazy_begin, changed.lazy_set), (false, false), "words have defaults too");
        assert_eq!(changed.long_statement_time, Duration::from_secs(2), "somebody wants it so");
        configuration.set("thread_pool_profile", "native").unwrap();
        let back = &configuration.engine;
        assert_eq!((back.profile, back.stall_limit), (Profile::Native, native.stall_limit));
        assert_eq!((back.statements_in_flight, back.max_threads), (16, native.max_threads));
    }

    #[test]
    fn secrets_are_not_shown() {
        let configuration = configuration(&[
            "--admin-password",
            "hush",
            "--backend",
            "mysql://app:hush@127.0.0.1:3306/",
            "--backend",
            "mysql://app:hush@127.0.0.2:3306/",
        ]);
        let shown = format!("{:?}", configuration.settings());
        assert!(!shown.contains("hush"), "{shown}");
        let backend = setting(&configuration, "backend").value.unwrap();
        assert!(backend.contains("127.0.0.1") && backend.contains("127.0.0.2"), "{backend}");
    }
}
