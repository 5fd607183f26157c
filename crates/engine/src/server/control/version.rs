//! The server's kind and version by its greeting.

/// A server's version, with what is asked of it for each statement.
pub(crate) struct Version {
    text: Vec<u8>,
    is_mariadb: bool,
    /// The first three numbers.
    numbers: [u32; 3],
}

plain!(struct Version { text, is_mariadb, numbers });

impl Version {
    pub(crate) fn new(text: Vec<u8>) -> Self {
        let is_mariadb = text.windows(7).any(|part| part.eq_ignore_ascii_case(b"mariadb"));
        // MariaDB up to 10 writes this for replicas of old versions.
        let numbers = text.strip_prefix(b"5.5.5-").unwrap_or(&text);
        let mut digits =
            numbers.split(|byte| !byte.is_ascii_digit()).map(|digits| std::str::from_utf8(digits));
        let mut next = || digits.next()?.ok()?.parse().ok();
        let numbers = [next(), next(), next()].map(Option::unwrap_or_default);
        Self { text, is_mariadb, numbers }
    }

    /// The text of the version, as the server greeted with it.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// True for MariaDB, which says so in its version, be that with or without the prefix.
    pub(crate) fn is_mariadb(&self) -> bool {
        self.is_mariadb
    }

    /// The first number, behind the prefix; 0 where there is none.
    pub(crate) fn major(&self) -> u32 {
        self.numbers[0]
    }

    /// The version as a number, as [`sql::LexMode`] has it: 101114 for 10.11.14.
    pub(crate) fn number(&self) -> u32 {
        let [major, minor, patch] = self.numbers;
        major.saturating_mul(10_000).saturating_add(minor.min(99) * 100 + patch.min(99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_and_the_first_number_are_read() {
        for (text, is_mariadb, number) in [
            ("5.5.5-10.11.14-MariaDB-0+deb12u2", true, 101_114),
            ("11.4.5-MARIADB", true, 110_405),
            ("10.6.9-5-MariaDB-enterprise-log", true, 100_609),
            ("9.7.4-2", false, 90_704),
            ("8.0.11-TiDB-v8.5.0", false, 80_011),
            ("5.7", false, 50_700),
            ("5.5.5-x", false, 0),
            ("", false, 0),
        ] {
            let version = Version::new(text.into());
            assert_eq!((version.is_mariadb(), version.number()), (is_mariadb, number), "{text}");
            assert_eq!(version.major(), number / 10_000);
            assert_eq!(version.text(), text.as_bytes());
        }
    }
}
