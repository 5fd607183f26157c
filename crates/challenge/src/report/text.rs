//! Numbers and results as people read them.

use super::{Figures, Idle, Outcome};

/// `1,234,567`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 connection`, `4,000 connections`
pub(crate) fn connections(count: u32) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} connection{s}", grouped(u64::from(count)))
}

/// The same of a number that was measured, rounded.
pub(crate) fn rounded(number: f64) -> String {
    grouped(number.round().max(0.0) as u64)
}

/// Who shares the machine's cores, where the server was held to so many.
pub(crate) fn sharing(server_cpus: Option<f64>) -> String {
    match server_cpus {
        None => String::from("server, Onramp and load generator share them"),
        Some(cores) => {
            format!("the server is held to {cores} of them, Onramp and load generator have the rest")
        }
    }
}

/// Milliseconds with as many digits as are worth reading: `0.18`, `9.1`, `1,010`.
pub(crate) fn milliseconds(number: f64) -> String {
    match number {
        ..1.0 => format!("{number:.2}"),
        ..100.0 => format!("{number:.1}"),
        _ => rounded(number),
    }
}

/// Bytes in the units of storage makers, as memory is mostly written: `15.1 MB`, `6.6 GB`, `512 bytes`.
pub(crate) fn bytes(number: f64) -> String {
    match number {
        ..1e4 => format!("{} bytes", rounded(number)),
        ..1e6 => format!("{:.0} kB", number / 1e3),
        ..1e8 => format!("{:.1} MB", number / 1e6),
        ..1e9 => format!("{:.0} MB", number / 1e6),
        _ => format!("{:.1} GB", number / 1e9),
    }
}

/// A number of connections on an axis: `4`, `256`, `15k`, `1M`.
pub(crate) fn short(number: f64) -> String {
    let trimmed = |number: f64, unit: &str| {
        let text = format!("{number:.1}");
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match number {
        ..1e3 if number >= 10.0 || number.fract() == 0.0 => format!("{number:.0}"),
        ..1e3 => format!("{number}"),
        ..1e6 => trimmed(number / 1e3, "k"),
        ..1e9 => trimmed(number / 1e6, "M"),
        _ => trimmed(number / 1e9, "G"),
    }
}

/// Milliseconds on an axis: `0.1 ms`, `500 ms`, `2 s`.
pub(crate) fn short_time(number: f64) -> String {
    if number < 1e3 { format!("{} ms", short(number)) } else { format!("{} s", short(number / 1e3)) }
}

/// Bytes on an axis: `5 MB`.
pub(crate) fn short_bytes(number: f64) -> String {
    let text = short(number);
    match text.strip_suffix(['k', 'M', 'G']) {
        Some(digits) => format!("{digits} {}B", &text[digits.len()..]),
        None => format!("{text} B"),
    }
}

/// What came of a step, in a line.
pub(crate) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured(figures) => measured(figures),
        Outcome::Refused(reason) => format!("refused: {reason}"),
        Outcome::Skipped(reason) => format!("left out: {reason}"),
    }
}

fn measured(figures: &Figures) -> String {
    let mut line = format!(
        "{:>9} queries/s  p95 {:>6} ms ({:.2} x fair share)",
        rounded(figures.queries_per_second),
        milliseconds(figures.p95),
        figures.p95_over_fair_share
    );
    if let Some(onramp) = figures.onramp {
        line.push_str(&format!("  {} resident", bytes(onramp.resident_peak as f64)));
    }
    if figures.errors > 0 {
        line.push_str(&format!("  {} ERRORS, such as: {}", grouped(figures.errors), figures.error));
    }
    if figures.starved > 0 {
        line.push_str(&format!("  {} WITHOUT AN ANSWER", grouped(figures.starved)));
    }
    line
}

/// What silent clients cost, in a line.
pub(crate) fn idle(idle: &Idle) -> String {
    let kernel = idle
        .kernel_bytes_per_socket()
        .map_or_else(String::new, |number| format!("; the kernel {} a socket", bytes(number)));
    format!("{} resident, {} a client{kernel}", bytes(idle.resident as f64), bytes(idle.bytes_per_client()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_rounded() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(
            (connections(1), connections(4_000)),
            (String::from("1 connection"), String::from("4,000 connections"))
        );
        for (number, text) in [(0.184, "0.18"), (9.14, "9.1"), (159.6, "160"), (1010.2, "1,010")] {
            assert_eq!(milliseconds(number), text);
        }
        for (number, text) in [
            (512.4, "512 bytes"),
            (64_000.0, "64 kB"),
            (15_100_000.0, "15.1 MB"),
            (512_000_000.0, "512 MB"),
            (6_600_000_000.0, "6.6 GB"),
        ] {
            assert_eq!(bytes(number), text);
        }
        for (number, text) in [
            (0.1, "0.1"),
            (1.0, "1"),
            (256.0, "256"),
            (15_000.0, "15k"),
            (2_500.0, "2.5k"),
            (1e6, "1M"),
            (2e9, "2G"),
        ] {
            assert_eq!(short(number), text);
        }
        for (number, text) in [(0.1, "0.1 ms"), (500.0, "500 ms"), (2_000.0, "2 s"), (10_000.0, "10 s")] {
            assert_eq!(short_time(number), text);
        }
        assert_eq!((short_bytes(5e6), short_bytes(512.0)), (String::from("5 MB"), String::from("512 B")));
    }
}
