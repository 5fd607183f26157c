//! A file for `/etc/sysctl.d`, with everything that is no system setting as remarks.

use std::fmt::Write as _;

use crate::remedy::SYSCTL_FILE;
use crate::{Finding, Remedy, Request, Verdict};

pub(crate) fn render(request: &Request, findings: &[Finding]) -> String {
    let mut text = format!(
        "# {SYSCTL_FILE}: what {} clients need here (onramp doctor, role {}).\n# Takes effect with: sysctl --system\n",
        crate::finding::grouped(u64::from(request.connections)),
        request.role
    );
    for finding in findings.iter().filter(|finding| finding.verdict == Verdict::Short) {
        put_settings(&mut text, finding, "");
    }
    for finding in findings.iter().filter(|finding| finding.verdict == Verdict::Hint) {
        put_settings(&mut text, finding, "# ");
    }
    put_fine(&mut text, findings);
    put_unit(&mut text, findings);
    put_others(&mut text, findings);
    text
}

/// The settings of one finding; with a prefix, where they are an offer.
fn put_settings(text: &mut String, finding: &Finding, prefix: &str) {
    let mut settings = finding.remedies.iter().filter_map(|remedy| match remedy {
        Remedy::Sysctl { key, value } => Some((*key, value)),
        _ => None,
    });
    let Some(first) = settings.next() else { return };
    put(text, &format!("\n# {} is {}{}:", finding.subject, finding.found, finding.comparison()));
    put(text, &format!("# {}", finding.why));
    for (key, value) in std::iter::once(first).chain(settings) {
        put(text, &format!("{prefix}{key} = {value}"));
    }
}

/// The settings that are enough as they are, so that a reader sees that they were looked at.
fn put_fine(text: &mut String, findings: &[Finding]) {
    let fine: Vec<_> = findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Ok && finding.found.number().is_some())
        .filter(|finding| is_setting(&finding.subject))
        .collect();
    if fine.is_empty() {
        return;
    }
    put(text, "\n# Enough as it is:");
    for finding in fine {
        let needed =
            finding.needed.number().map_or_else(String::new, |_| format!(", {} needed", finding.needed));
        put(text, &format!("#   {} ({}{needed})", finding.subject, finding.found));
    }
}

/// Whether a subject is the name of a system setting.
fn is_setting(subject: &str) -> bool {
    ["fs.", "kernel.", "net.", "vm."].iter().any(|front| subject.starts_with(front))
}

fn put_unit(text: &mut String, findings: &[Finding]) {
    let lines: Vec<_> = remedies(findings)
        .filter_map(|remedy| match remedy {
            Remedy::Unit { line, .. } => Some(line),
            _ => None,
        })
        .collect();
    if lines.is_empty() {
        return;
    }
    put(text, "\n# Not a system setting, but lines of the systemd unit:\n#   [Service]");
    for line in lines {
        put(text, &format!("#   {line}"));
    }
}

fn put_others(text: &mut String, findings: &[Finding]) {
    let lines: Vec<_> = remedies(findings)
        .filter_map(|remedy| match remedy {
            Remedy::Command { lasting, .. } => Some(lasting),
            Remedy::Advice(words) => Some(words),
            _ => None,
        })
        .collect();
    if lines.is_empty() {
        return;
    }
    put(text, "\n# And elsewhere:");
    for line in lines {
        put(text, &format!("#   {line}"));
    }
}

fn remedies(findings: &[Finding]) -> impl Iterator<Item = &Remedy> {
    findings.iter().flat_map(|finding| &finding.remedies)
}

fn put(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes everything");
}
