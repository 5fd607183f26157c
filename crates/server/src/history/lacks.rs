//! What statements lack that wait: which of it most do, and how that is said.

use engine::Lack;

/// What most statements lack, by how many lack each; nothing where nothing is lacked. Counts that are not known are no numbers.
pub(super) fn most_lacked(count: impl Fn(Lack) -> f64) -> Option<Lack> {
    let lacked = Lack::ALL.iter().map(|&lack| (lack, count(lack))).filter(|&(_, count)| count > 0.0);
    lacked.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(lack, _)| lack)
}

/// What is waited for, behind "wait for".
pub(super) struct Words {
    /// In few words, as the page says it (http_port/page/moment.js).
    pub(super) short: &'static str,
    /// With what explains it.
    pub(super) whole: &'static str,
}

/// How it is said.
pub(super) fn said(lack: Lack) -> Words {
    let (short, whole) = match lack {
        Lack::Permit => ("permits", "a permit: as many statements run as are best for the server"),
        Lack::LongPermits => ("permits of long statements", "one of the permits of long statements"),
        Lack::StatementsInFlight => {
            ("room on shared backends", "room on the backends that short reads share")
        }
        Lack::BackendConnect => {
            ("connections that are being made", "a connection to the server, which is being made")
        }
        Lack::MaxBackends => ("free backends", "a backend: all are held (max_backends)"),
        Lack::Paused => ("RESUME", "RESUME"),
    };
    Words { short, whole }
}

#[cfg(test)]
mod tests {
    use engine::EnumMap;

    use super::*;

    #[test]
    fn what_most_lack_is_found_beside_what_is_not_known() {
        let mut counts = EnumMap::from_fn(|_| 0.0);
        counts[Lack::StatementsInFlight] = f64::NAN;
        assert_eq!(most_lacked(|lack| counts[lack]), None);
        counts[Lack::Permit] = 1.0;
        counts[Lack::BackendConnect] = 3.0;
        counts[Lack::MaxBackends] = 2.0;
        assert_eq!(most_lacked(|lack| counts[lack]), Some(Lack::BackendConnect));
    }

    #[test]
    fn each_lack_has_words_of_its_own() {
        let page = include_str!("../http_port/page/moment.js");
        for &lack in Lack::ALL {
            let words = said(lack);
            assert!(page.contains(&format!("\"{}\"", words.short)), "{}", words.short);
        }
    }
}
