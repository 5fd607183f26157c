//! Whether it is well, in sentences: what an operator has to know first.

use std::time::Duration;

use admin::tables::Limit;
use serde_json::{Value, json};

use super::lacks::{most_lacked, said};
use super::together::Together;
use crate::control::Control;
use crate::control::answers::have;

/// A statement that has waited for so long is noticed by whoever sent it.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// Nine tenths of a bound are in use: soon somebody is refused.
const NEAR: f64 = 0.9;

/// Days before a certificate's end in which it is time to see to the next one.
const DAYS_LEFT: u64 = 14;

/// What is looked at.
struct Scene<'a> {
    together: &'a Together,
    /// Workers that do not answer.
    silent: &'a [usize],
    ending: bool,
    reloaded: bool,
    /// The server's address.
    server: &'a str,
    limits: Vec<&'a Limit>,
    /// Seconds since 1970.
    certificate_ends: Option<u64>,
    /// How many a second were refused lately.
    refused: f64,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Somebody is not served.
    Bad,
    /// Somebody has ordered it so, which explains much of the rest.
    Told,
    /// Somebody may soon not be served, or waits.
    Warn,
    /// There is nothing else to say.
    Well,
    /// It is neither good nor bad.
    Says,
}

/// A sentence, and the part of the page that tells more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) level: Level,
    pub(crate) text: String,
    pub(crate) see: &'static str,
}

impl Level {
    /// In a word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Told => "told",
            Self::Warn => "warn",
            Self::Well => "well",
            Self::Says => "says",
        }
    }
}

impl Note {
    /// Where there is nothing else to say.
    pub(super) fn well() -> Self {
        Self { level: Level::Well, text: String::from("All is well."), see: "top" }
    }

    /// What is neither good nor bad.
    pub(super) fn says(see: &'static str, text: String) -> Self {
        Self { level: Level::Says, text, see }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "level": self.level.name(), "text": self.text, "see": self.see })
    }
}

/// How it is now. `refused` is how many a second were refused lately; 0 where that is not known.
pub(crate) fn of(control: &Control, together: &Together, silent: &[usize], refused: f64) -> Vec<Note> {
    // Permits and backends are there to be used up.
    let is_told = |option: &str| {
        !matches!(
            option,
            "permits" | "max_backends" | "shared_backends" | "statements_in_flight" | "digests_size"
        )
    };
    let acceptor = control.program.tls.acceptor();
    notes(&Scene {
        together,
        silent,
        ending: control.is_ending(),
        reloaded: control.reloaded(),
        server: &server(control),
        limits: together.limits.values().filter(|limit| is_told(limit.option)).collect(),
        certificate_ends: acceptor.and_then(|acceptor| acceptor.expiry()),
        refused,
    })
}

/// What a restart would break off now, in a sentence.
pub(super) fn restart(together: &Together) -> String {
    let parts: Vec<_> = [
        (together.transactions, counted(together.transactions, "open transaction")),
        (together.holders.pinned, counted(together.holders.pinned, "pinned client")),
        (together.holders.running, counted(together.holders.running, "running statement")),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(_, words)| words)
    .collect();
    let clients = counted(together.clients, "client");
    let what = if parts.is_empty() { String::from("nothing") } else { parts.join(", ") };
    format!("A restart now breaks off {what}; {clients} would have to connect again.")
}

/// The server's address, as it was given first.
pub(crate) fn server(control: &Control) -> String {
    let backends = &control.program.configuration.backends;
    backends.first().map_or_else(|| String::from("private"), |backend| backend.target.to_string())
}

/// The worst first; none where all is well.
fn notes(scene: &Scene<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut say = |level, see, text: String| notes.push(Note { level, text, see });
    let together = scene.together;
    if !scene.silent.is_empty() {
        let text = format!(
            "{} not answered: its loop does not turn, and its clients are not served.",
            have(scene.silent)
        );
        say(Level::Bad, "workers", text);
    }
    if !together.server_is_up {
        let waiting = if together.waiting() > 0 {
            format!(" {} wait for it.", counted(together.waiting(), "statement"))
        } else {
            String::from(" Clients stay connected, and wait.")
        };
        say(Level::Bad, "server", format!("The server {} does not answer.{waiting}", scene.server));
    } else if together.lacks_primary {
        let text = format!(
            "No primary, so that nothing is sent to any server: none takes writes, more than one does, or the one that does lacks \
             something. {} for up to failover_hold; the events say why.",
            waiting(together.waiting())
        );
        say(Level::Bad, "server", text);
    } else if !together.has_accounts {
        let text =
            String::from("Not ready: the server's accounts have not been read yet, so nobody can log in.");
        say(Level::Bad, "server", text);
    }
    if scene.refused > 0.0 {
        let text = format!("{:.0} a second are refused, since a limit is reached.", scene.refused.max(1.0));
        say(Level::Bad, "limits", text);
    }
    if !scene.reloaded {
        let text = "The last RELOAD failed: what held before still holds. The events say what is wrong.";
        say(Level::Warn, "events", String::from(text));
    }
    waits(together, &mut say);
    for limit in &scene.limits {
        if let (Some(in_use), Some(bound)) = (limit.in_use, limit.bound) {
            let share = in_use as f64 / bound as f64;
            if share >= NEAR {
                let text = format!("{} is nearly used up: {:.0} % of it.", limit.option, 100.0 * share);
                say(Level::Warn, "limits", text);
            }
        }
    }
    if let Some(ends) = scene.certificate_ends {
        let days = ends.saturating_sub(together.at.as_secs()) / 86_400;
        if days < DAYS_LEFT {
            let text = format!("The certificate that clients are shown ends in {}.", counted(days, "day"));
            say(Level::Warn, "options", text);
        }
    }
    if scene.ending {
        let text =
            format!("Ending: new clients should go elsewhere; {} left.", counted(together.clients, "client"));
        say(Level::Told, "clients", text);
    }
    orders(together, &mut say);
    notes.sort_by_key(|note| note.level);
    notes
}

/// What operators have ordered, and what stands until they order something else.
fn orders(together: &Together, say: &mut impl FnMut(Level, &'static str, String)) {
    if together.paused {
        let text =
            format!("Paused by an operator: {} until RESUME at the admin port.", waiting(together.waiting()));
        say(Level::Told, "waiting", text);
    }
    if !together.drained.is_empty() {
        let text = format!(
            "Drained by an operator, until UNDRAIN at the admin port: {}.",
            together.drained.join(", ")
        );
        say(Level::Told, "server", text);
    }
}

fn waits(together: &Together, say: &mut impl FnMut(Level, &'static str, String)) {
    let blocking = together.holders.blocking;
    if blocking > 0 {
        let whom = waiting(together.holders.lock_waits);
        let verb = if blocking == 1 { "blocks" } else { "block" };
        say(
            Level::Warn,
            "locks",
            format!("{} {verb} others: {whom} for locks on the server.", counted(blocking, "client")),
        );
    }
    let oldest = together.oldest_queued.filter(|&oldest| oldest >= LONG_WAIT);
    if let Some(oldest) = oldest.filter(|_| !together.paused && together.server_is_up) {
        let most = most_lacked(|lack| together.lacking[lack] as f64);
        let lack = most.map_or_else(String::new, |lack| format!(", most for {}", said(lack).whole));
        let verb = waiting(together.waiting());
        say(Level::Warn, "waiting", format!("{verb}, the longest for {:.1} s{lack}.", oldest.as_secs_f64()));
    }
}

fn waiting(count: u64) -> String {
    format!("{} {}", counted(count, "statement"), if count == 1 { "waits" } else { "wait" })
}

/// `1 client`, `2 clients`.
fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use engine::{Lack, Queue};

    use super::*;

    fn said_of(change: impl FnOnce(&mut Together, &mut Scene<'_>)) -> Vec<(Level, String)> {
        let mut together = Together::of_nothing(Duration::from_secs(1_000_000));
        let nothing = Together::of_nothing(Duration::ZERO);
        let mut scene = Scene {
            together: &nothing,
            silent: &[],
            ending: false,
            reloaded: true,
            server: "10.0.0.5:3306",
            limits: Vec::new(),
            certificate_ends: None,
            refused: 0.0,
        };
        change(&mut together, &mut scene);
        let scene = Scene { together: &together, ..scene };
        notes(&scene).into_iter().map(|note| (note.level, note.text)).collect()
    }

    #[test]
    fn a_pool_that_is_well_says_nothing() {
        assert_eq!(said_of(|_, _| {}), []);
    }

    #[test]
    fn the_worst_comes_first() {
        let said = said_of(|together, scene| {
            together.server_is_up = false;
            together.paused = true;
            together.queued[Queue::Low] = 3;
            together.holders.blocking = 1;
            together.holders.lock_waits = 2;
            scene.reloaded = false;
        });
        let levels: Vec<_> = said.iter().map(|(level, _)| *level).collect();
        assert_eq!(levels, [Level::Bad, Level::Told, Level::Warn, Level::Warn]);
        assert_eq!(said[0].1, "The server 10.0.0.5:3306 does not answer. 3 statements wait for it.");
        assert_eq!(said[1].1, "Paused by an operator: 3 statements wait until RESUME at the admin port.");
        assert_eq!(said[3].1, "1 client blocks others: 2 statements wait for locks on the server.");
    }

    #[test]
    fn that_there_is_no_primary_is_told_while_the_former_one_answers() {
        let said = said_of(|together, _| {
            together.lacks_primary = true;
            together.queued[Queue::Low] = 1;
        });
        let [(Level::Bad, text)] = &said[..] else { panic!("{said:?}") };
        assert!(text.starts_with("No primary, ") && text.contains(" 1 statement waits for up to"), "{text}");
    }

    #[test]
    fn what_is_drained_is_told() {
        let said = said_of(|together, _| together.drained = vec![String::from("a:1"), String::from("b:1")]);
        let wanted = "Drained by an operator, until UNDRAIN at the admin port: a:1, b:1.";
        assert_eq!(said, [(Level::Told, String::from(wanted))]);
    }

    #[test]
    fn who_waits_long_is_told_what_for() {
        let said = said_of(|together, _| {
            together.queued[Queue::Low] = 7;
            together.lacking[Lack::MaxBackends] = 7;
            together.oldest_queued = Some(Duration::from_millis(2500));
        });
        let wanted =
            "7 statements wait, the longest for 2.5 s, most for a backend: all are held (max_backends).";
        assert_eq!(said, [(Level::Warn, String::from(wanted))]);
        let short = said_of(|together, _| {
            together.queued[Queue::Low] = 7;
            together.oldest_queued = Some(Duration::from_millis(900));
        });
        assert_eq!(short, []);
    }

    #[test]
    fn bounds_and_certificates_are_told_of_in_time() {
        let limit = |in_use| Limit {
            option: "max_connections",
            bounds: "clients",
            unit: "clients",
            scope: "process",
            in_use: Some(in_use),
            bound: Some(100),
            reached: 0,
        };
        let (near, far) = (limit(93), limit(80));
        let said = said_of(|_, scene| {
            scene.certificate_ends = Some(1_000_000 + 86_400 * 3);
            scene.refused = 0.2;
        });
        assert_eq!(said[0].1, "1 a second are refused, since a limit is reached.");
        assert_eq!(said[1].1, "The certificate that clients are shown ends in 3 days.");
        let together = Together::of_nothing(Duration::ZERO);
        let scene = Scene {
            together: &together,
            silent: &[1, 2],
            ending: true,
            reloaded: true,
            server: "",
            limits: vec![&near, &far],
            certificate_ends: None,
            refused: 0.0,
        };
        let said: Vec<_> = notes(&scene).into_iter().map(|note| note.text).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].starts_with("workers 1, 2 have not answered"));
        assert_eq!(said[1], "Ending: new clients should go elsewhere; 0 clients left.");
        assert_eq!(said[2], "max_connections is nearly used up: 93 % of it.");
    }
}
