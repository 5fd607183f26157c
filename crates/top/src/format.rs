//! Values as people read them, and nothing in them that a terminal would obey.

use time::{OffsetDateTime, PrimitiveDateTime};

/// Whether a character is not shown but obeyed: control characters, and marks that turn the direction of text or have no width.
pub fn is_hostile(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

/// A text that a terminal only shows: blanks in the place of line ends and tabs, `?` in that of each other character that
/// [`is_hostile`].
pub fn clean(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\r' | '\t' => ' ',
        character if is_hostile(character) => '?',
        character => character,
    };
    text.chars().map(shown).collect()
}

/// A time in microseconds, in at most seven columns: `850us`, `12.3ms`, `4.56s`, `3m05s`, `2h03m`, `5d04h`.
pub fn duration(us: i64) -> String {
    let us = us.max(0);
    let seconds = us / 1_000_000;
    match us {
        0..1_000 => format!("{us}us"),
        1_000..100_000 => format!("{:.1}ms", tenths(us, 100)),
        100_000..1_000_000 => format!("{}ms", us / 1_000),
        1_000_000..60_000_000 => format!("{:.1}s", tenths(us, 100_000)),
        _ if seconds < 3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Cut, not rounded, so that 59.99 s is not shown as 60.0 s.
fn tenths(us: i64, tenth: i64) -> f64 {
    (us / tenth) as f64 / 10.0
}

/// A number in at most seven columns: up to 99,999 as it is, then with `k`, `M`, `G`, `T`.
pub fn count(number: i64) -> String {
    let mut scaled = number as f64;
    if number.unsigned_abs() < 100_000 {
        return number.to_string();
    }
    for unit in ["k", "M", "G", "T", "P"] {
        scaled /= 1000.0;
        if scaled.abs() < 1000.0 {
            return format!("{scaled:.1}{unit}");
        }
    }
    format!("{scaled:.0}E")
}

/// A number that may have a fraction, in at most seven columns: with a digit behind the point where it is below a hundred.
pub fn rate(number: f64) -> String {
    if number.abs() < 99.95 { format!("{number:.1}") } else { count(number.round() as i64) }
}

/// Milliseconds since 1970 as `2026-11-27 11:43:06`, in UTC; what is beyond the year 9999, which only a file can say, is its last second.
pub fn utc(at: u64) -> String {
    let time = i64::try_from(at / 1000).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    let time = time.unwrap_or_else(|| PrimitiveDateTime::MAX.assume_utc());
    let (hour, minute, second) = time.to_hms();
    format!("{} {hour:02}:{minute:02}:{second:02}", time.date())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_obey_is_taken_out() {
        assert_eq!(clean("a\x1b[31mb\x07\u{9b}2J\n\tc\u{202e}d\x7f\0"), "a?[31mb??2J  c?d??");
        assert_eq!(clean("sélect 'ü' 日本"), "sélect 'ü' 日本");
    }

    #[test]
    fn times_are_short() {
        let texts = [0, 999, 1_000, 99_999, 850_000, 59_999_999, 60_000_000, 3_599_999_999, 7_380_000_000];
        let shown = texts.map(duration);
        assert_eq!(shown, ["0us", "999us", "1.0ms", "99.9ms", "850ms", "59.9s", "1m00s", "59m59s", "2h03m"]);
        assert_eq!(duration(5 * 86_400_000_000 + 4 * 3_600_000_000), "5d04h");
        assert_eq!(duration(-5), "0us");
        duration(i64::MAX);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 99_999, 100_000, 12_345_678, -7].map(count), ["0", "99999", "100.0k", "12.3M", "-7"]);
        assert_eq!([0.0, 0.26, 99.94, 99.96, 123_456.0].map(rate), ["0.0", "0.3", "99.9", "100", "123.5k"]);
        assert!(count(i64::MAX).len() <= 7 && count(i64::MIN).len() <= 8);
    }

    #[test]
    fn times_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(utc(1_767_225_599_999), "2025-12-31 23:59:59");
        assert_eq!(utc(u64::MAX), "9999-12-31 23:59:59");
    }
}
