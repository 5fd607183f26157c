//! What a server's greeting says that it is.

/// A server's version, with what is asked of it for each statement.
pub(crate) struct Version {
    text: Vec<u8>,
    is_mariadb: bool,
    major: u32,
}

impl Version {
    pub(crate) fn new(text: Vec<u8>) -> Self {
        let is_mariadb = text.windows(7).any(|part| part.eq_ignore_ascii_case(b"mariadb"));
        // MariaDB up to 10 writes this for replicas of old versions.
        let numbers = text.strip_prefix(b"5.5.5-").unwrap_or(&text);
        let major =
            numbers.split(|&byte| byte == b'.').next().and_then(|text| std::str::from_utf8(text).ok());
        let major = major.and_then(|major| major.parse().ok()).unwrap_or(0);
        Self { text, is_mariadb, major }
    }

    /// As it was greeted with.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// MariaDB says so in its version, be it with or without the prefix.
    pub(crate) fn is_mariadb(&self) -> bool {
        self.is_mariadb
    }

    /// The first number, behind the prefix; 0 where there is none.
    pub(crate) fn major(&self) -> u32 {
        self.major
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_and_the_first_number_are_read() {
        for (text, is_mariadb, major) in [
            ("5.5.5-10.11.14-MariaDB-0+deb12u2", true, 10),
            ("11.4.5-MARIADB", true, 11),
            ("9.7.4-2", false, 9),
            ("8.0.11-TiDB-v8.5.0", false, 8),
            ("5.5.5-x", false, 0),
            ("", false, 0),
        ] {
            let version = Version::new(text.into());
            assert_eq!((version.is_mariadb(), version.major()), (is_mariadb, major), "{text}");
            assert_eq!(version.text(), text.as_bytes());
        }
    }
}
