//! Files that are read one after the other, also behind one that cannot be used.

use std::fmt::Display;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tls::{Authorities, Identity, Pem, Validity};

use crate::Failure;

/// The permission that lets every user of the machine read a file.
const READABLE_BY_EVERYBODY: u32 = 0o004;

const SECONDS_OF_A_DAY: i64 = 24 * 60 * 60;

/// A file and the option that names it; a path without text where it is not given.
type Given<'a> = (&'a Path, &'a str);

/// What has been found on the way.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) faults: Vec<Failure>,
    /// What can be served with, and is hardly meant so.
    pub(super) doubts: Vec<String>,
}

impl Reading {
    /// A certificate and its key; `None` where none is given, or what is cannot be used.
    pub(super) fn identity(&mut self, certificate: Given<'_>, key: Given<'_>) -> Option<Identity> {
        if certificate.0.as_os_str().is_empty() {
            return None;
        }
        let (certificate, key) = (self.certificate(certificate), self.key(key));
        match Identity::from_pem(&certificate?, &key?) {
            Ok(identity) => Some(identity),
            Err(faults) => {
                self.faults.extend(faults.into_iter().map(Failure::from));
                None
            }
        }
    }

    /// Certificates that others are signed by; `None` likewise.
    pub(super) fn authorities(&mut self, path: &Path, option: &str) -> Option<Authorities> {
        let pem = self.or_fault(file_of(path, option))??;
        self.or_fault(Authorities::from_pem(&pem))
    }

    /// Notes what is wrong.
    pub(super) fn or_fault<T, E: Into<Failure>>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|fault| self.faults.push(fault.into())).ok()
    }

    /// What was made of the files, unless something was wrong. What is doubtful is in the log.
    ///
    /// # Errors
    /// All that was wrong.
    pub(super) fn end<T>(self, made: Option<T>) -> Result<T, Failure> {
        for doubt in &self.doubts {
            tracing::warn!("{doubt}");
        }
        made.filter(|_| self.faults.is_empty()).ok_or_else(|| in_one(&self.faults))
    }

    fn certificate(&mut self, (path, option): Given<'_>) -> Option<Pem> {
        let pem = self.or_fault(file(path, option))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let wrong = pem.validities().into_iter().filter_map(|validity| out_of_time(validity, now));
        self.doubts.extend(wrong.map(|what| format!("{} holds a certificate that {what}", pem.name)));
        Some(pem)
    }

    fn key(&mut self, (path, option): Given<'_>) -> Option<Pem> {
        let pem = self.or_fault(file(path, option))?;
        let mode = std::fs::metadata(path).map_or(0, |known| known.permissions().mode());
        if mode & READABLE_BY_EVERYBODY != 0 {
            self.doubts.push(format!(
                "{} may be read by everybody on this machine, by its mode: `chmod o-r` leaves it to its owner and group",
                pem.name
            ));
        }
        Some(pem)
    }
}

/// What is wrong with when a certificate counts.
fn out_of_time(validity: Validity, now: i64) -> Option<String> {
    if now > validity.until {
        Some(format!("expired {} ago: whoever checks it refuses it", days(now - validity.until)))
    } else if now < validity.from {
        let left = days(validity.from - now);
        Some(format!("counts from {left} from now on only, by this machine's clock"))
    } else {
        None
    }
}

fn days(seconds: i64) -> String {
    match seconds / SECONDS_OF_A_DAY {
        0 => String::from("less than a day"),
        1 => String::from("a day"),
        days => format!("{days} days"),
    }
}

/// Several failures as one.
pub(super) fn in_one(faults: &[impl Display]) -> Failure {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ").into()
}

/// The file of an option that need not be given.
///
/// # Errors
/// As [`file()`].
pub(super) fn file_of(path: &Path, option: &str) -> Result<Option<Pem>, Failure> {
    if path.as_os_str().is_empty() { Ok(None) } else { file(path, option).map(Some) }
}

/// The file of an option.
///
/// # Errors
/// A line that names both, and why it cannot be read.
fn file(path: &Path, option: &str) -> Result<Pem, Failure> {
    let name = format!("{option} ({})", path.display());
    match config::content(path) {
        Ok(text) => Ok(Pem { name, text }),
        Err(error) => Err(format!("{name} cannot be read: {error}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_out_of_its_time_is_told() {
        let validity = Validity { from: 1_000_000, until: 2_000_000 };
        for (now, told) in [
            (1_000_000, None),
            (2_000_000, None),
            (2_000_001, Some("expired less than a day ago: whoever checks it refuses it")),
            (2_000_000 + 3 * SECONDS_OF_A_DAY, Some("expired 3 days ago: whoever checks it refuses it")),
            (
                1_000_000 - SECONDS_OF_A_DAY,
                Some("counts from a day from now on only, by this machine's clock"),
            ),
        ] {
            assert_eq!(out_of_time(validity, now).as_deref(), told, "{now}");
        }
    }
}
