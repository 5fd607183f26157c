//! Times and sizes: numbers with a unit.

use std::time::Duration;

use crate::NoValue;

/// Units of time and their milliseconds, the largest first.
const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Units of size and their bytes, the largest first. Powers of 1024 alone, so that there is one way to read them.
const SIZE_UNITS: [(&str, usize); 4] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// A time as options take them: a whole number with its unit, `500ms` to `1d`.
///
/// # Errors
/// What is wrong with the text.
pub fn duration(text: &str) -> Result<Duration, NoValue> {
    let (number, unit) = number_and_unit(text);
    let wrong = || NoValue::NoTime(String::from(text));
    let number: u64 = number.parse().map_err(|_| wrong())?;
    if unit.is_empty() {
        return Err(without_unit(text));
    }
    let (_, milliseconds) = TIME_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    number.checked_mul(*milliseconds).map(Duration::from_millis).ok_or_else(wrong)
}

pub(crate) fn without_unit(number: &str) -> NoValue {
    NoValue::NoUnit(String::from(number))
}

pub(crate) fn milliseconds(text: &str) -> Result<Duration, NoValue> {
    match text.parse() {
        Ok(number) => Ok(Duration::from_millis(number)),
        Err(_) => duration(text).map_err(|_| NoValue::NoMilliseconds(String::from(text))),
    }
}

pub(crate) fn size(text: &str) -> Result<usize, NoValue> {
    let (number, unit) = number_and_unit(text);
    let wrong = || NoValue::NoSize(String::from(text));
    let count: usize = number.parse().map_err(|_| wrong())?;
    if unit.is_empty() {
        return Ok(count);
    }
    if let Some((_, bytes)) = SIZE_UNITS.iter().find(|(name, _)| *name == unit) {
        return count.checked_mul(*bytes).ok_or_else(wrong);
    }
    // 64M, 64MB, 64mib: one guess covers them all.
    let guess = SIZE_UNITS.iter().find(|(name, _)| {
        let initial = name.as_bytes()[0];
        unit.len() <= name.len() && unit.as_bytes()[0].eq_ignore_ascii_case(&initial)
    });
    match guess {
        Some((name, _)) => {
            Err(NoValue::OtherUnit { text: String::from(text), meant: format!("{number}{name}") })
        }
        None => Err(wrong()),
    }
}

fn number_and_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

pub(crate) fn duration_text(time: Duration) -> String {
    let total = u64::try_from(time.as_millis()).expect("options stay far below 2^64 milliseconds");
    let (unit, milliseconds) = TIME_UNITS
        .iter()
        .find(|(_, milliseconds)| total > 0 && total % milliseconds == 0)
        .unwrap_or(&("s", 1000));
    format!("{}{unit}", total / milliseconds)
}

pub(crate) fn milliseconds_text(time: Duration) -> String {
    time.as_millis().to_string()
}

pub(crate) fn size_text(bytes: usize) -> String {
    match SIZE_UNITS.iter().find(|(_, unit)| bytes > 0 && bytes % unit == 0) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, milliseconds) in
            [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("8h", 28_800_000), ("1d", 86_400_000)]
        {
            let time = Duration::from_millis(milliseconds);
            assert_eq!(duration(text), Ok(time));
            assert_eq!(duration_text(time), text);
        }
        assert_eq!(duration_text(Duration::from_millis(1500)), "1500ms");
        assert_eq!(duration("10").unwrap_err().to_string(), "\"10\" has no unit; did you mean 10s?");
        for text in
            ["", "s", "-1s", "1.5s", "10 s", "10sec", "99999999999999999999s", "18446744073709551615d"]
        {
            let message = duration(text).unwrap_err().to_string();
            assert!(message.contains("is no time: write a whole number and a unit"), "{text}: {message}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("64KiB", 64 << 10), ("64MiB", 64 << 20), ("2GiB", 2 << 30), ("1000", 1000)] {
            assert_eq!(size(text), Ok(bytes));
            assert_eq!(size_text(bytes), text);
        }
        for text in ["64M", "64MB", "64mib", "64m"] {
            assert_eq!(
                size(text).unwrap_err().to_string(),
                format!("{text:?} is no size; did you mean 64MiB?")
            );
        }
        for text in ["", "MiB", "-1", "1.5GiB", "64 MiB", "99999999999TiB", "1é", "64Mega"] {
            let message = size(text).unwrap_err().to_string();
            assert!(message.contains("is no size: write bytes"), "{text}: {message}");
        }
    }

    #[test]
    fn milliseconds_may_be_plain_or_carry_a_unit() {
        assert_eq!(milliseconds("1000"), Ok(Duration::from_secs(1)));
        assert_eq!(milliseconds("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(milliseconds("soon").unwrap_err().to_string(), "\"soon\" is not a number of milliseconds");
    }
}
