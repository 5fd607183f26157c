//! The server's counts of statements that change accounts, see [`crate::backend::login::rights`].

/// The server's counts of statements that change accounts.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// The server's latest count, as the server wrote it.
    count: Option<Vec<u8>>,
    /// The number of times that the count was another one than before.
    seen: u64,
    /// True if the server does not show them to the service account.
    hidden: bool,
}

plain!(struct Changes { count, seen, hidden });

impl Changes {
    /// How many changes of the count have been seen.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// True if the server does not show the counts to the service account.
    pub(crate) fn are_hidden(&self) -> bool {
        self.hidden
    }

    /// The service account has logged in anew: it may be another server, or see more.
    pub(crate) fn asked_anew(&mut self) {
        self.hidden = false;
    }

    /// The server's answer; `None` where it refused one.
    pub(crate) fn take(&mut self, count: Option<Vec<u8>>) {
        self.hidden = count.is_none();
        if self.count.is_some() && count.is_some() && self.count != count {
            self.seen += 1;
        }
        self.count = count.or(self.count.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(number: &str) -> Option<Vec<u8>> {
        Some(number.into())
    }

    #[test]
    fn a_count_that_is_not_told_is_no_change() {
        let mut changes = Changes::default();
        changes.take(count("7"));
        changes.take(None);
        assert!(changes.hidden);
        changes.asked_anew();
        changes.take(count("7"));
        assert_eq!((changes.seen(), changes.hidden), (0, false));
        changes.take(count("0"));
        assert_eq!(changes.seen(), 1, "a server that was restarted");
    }
}
