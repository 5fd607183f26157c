//! What statements lack that wait: which of it most do, and how that is said.

use engine::WaitReason;

/// What most statements lack, of how many lack each of [`WaitReason::LACKS`], in that order; nothing where nothing is lacked. Counts that
/// are not known are no numbers.
pub(super) fn most_lacked(counts: impl IntoIterator<Item = f64>) -> Option<WaitReason> {
    let lacked = WaitReason::LACKS.into_iter().zip(counts).filter(|&(_, count)| count > 0.0);
    lacked.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(reason, _)| reason)
}

/// What is waited for, behind "wait for".
pub(super) struct Words {
    /// In few words, as the page says it (http_port/page/moment.js).
    pub(super) short: &'static str,
    /// With what explains it.
    pub(super) whole: &'static str,
}

/// How it is said.
pub(super) fn said(lacked: WaitReason) -> Words {
    let (short, whole) = match lacked {
        WaitReason::Permit => ("permits", "a permit: as many statements run as are best for the server"),
        WaitReason::LongPermits => ("permits of long statements", "one of the permits of long statements"),
        WaitReason::StatementsInFlight => {
            ("room on shared backends", "room on the backends that short reads share")
        }
        WaitReason::BackendConnect => {
            ("connections that are being made", "a connection to the server, which is being made")
        }
        WaitReason::MaxBackends => ("free backends", "a backend: all are held (max_backends)"),
        WaitReason::Paused => ("RESUME", "RESUME"),
        // They are no lacks of a queue. One by one, so that a new reason is no program without its words.
        WaitReason::HighQueue
        | WaitReason::LowQueue
        | WaitReason::LongQueue
        | WaitReason::Urgent
        | WaitReason::Login
        | WaitReason::RowLock
        | WaitReason::Replica => ("something else", "something else"),
    };
    Words { short, whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_lack_is_found_beside_what_is_not_known() {
        assert_eq!(most_lacked([1.0, 0.0, f64::NAN, 3.0, 2.0, 0.0]), Some(WaitReason::BackendConnect));
        assert_eq!(most_lacked([f64::NAN, 0.0, 0.0, 0.0, 0.0, 0.0]), None);
    }

    #[test]
    fn each_lack_has_words_of_its_own() {
        let page = include_str!("../http_port/page/moment.js");
        for reason in WaitReason::LACKS {
            let words = said(reason);
            assert_ne!(words.short, "something else", "{}", reason.name());
            assert!(page.contains(&format!("\"{}\"", words.short)), "{}", words.short);
        }
    }
}
