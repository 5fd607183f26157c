//! What slows down rather than stops.

use crate::finding::{Amount, Check, Finding, Verdict};
use crate::{Machine, Remedy, Request};

pub(super) fn huge_pages(machine: &Machine, _: &Request) -> Option<Finding> {
    const SUBJECT: &str = "transparent_hugepage/enabled";
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let found = machine.memory.huge_pages.as_deref()?;
    let verdict = if found == "always" { Verdict::Hint } else { Verdict::Ok };
    let why = "\"always\" rounds the memory of small, scattered objects up to pages of 2 MiB";
    let finding = Finding::new(Check::HugePages, SUBJECT, verdict, why)
        .amounts(Amount::words(found), Amount::words("madvise"))
        .lifted_by(Remedy::Command {
            now: format!("echo madvise > {FILE}"),
            lasting: format!("w {FILE} - - - - madvise in /etc/tmpfiles.d/90-onramp.conf"),
        });
    Some(finding)
}

pub(super) fn cpu_quota(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "cpu.max";
    let Some(hundredths) = machine.group.cpu_hundredths else {
        let finding = Finding::new(Check::CpuQuota, SUBJECT, Verdict::Ok, "no share of the cores is set");
        return Some(finding.amounts(Amount::Unlimited, Amount::Unread));
    };
    let workers = u64::from(request.workers);
    let verdict = if hundredths < workers.saturating_mul(100) { Verdict::Hint } else { Verdict::Ok };
    let found = Amount::Words(format!("{}.{:02} cores", hundredths / 100, hundredths % 100));
    let why = "a worker that has used up the share stands still, with all of its clients, until the next period (100 ms)";
    let finding = Finding::new(Check::CpuQuota, SUBJECT, verdict, why)
        .amounts(found, Amount::Words(format!("{workers}.00 cores")))
        .lifted_by(Remedy::unit(
            format!("CPUQuota={}%", workers.saturating_mul(100)),
            format!("systemctl set-property --runtime UNIT CPUQuota={}%", workers.saturating_mul(100)),
        ));
    if hundredths >= 100 {
        return Some(finding.lifted_by(Remedy::Advice(format!("or workers = {}", hundredths / 100))));
    }
    Some(finding)
}

pub(super) fn swap(machine: &Machine, _: &Request) -> Option<Finding> {
    const SUBJECT: &str = "vm.swappiness";
    // As servers' manuals advise: what remains is enough to avoid an end by lack of memory.
    const CALM: u64 = 10;
    let swappiness = machine.memory.swappiness?;
    let swap = machine.memory.swap?;
    let verdict = if swap > 0 && swappiness > CALM { Verdict::Hint } else { Verdict::Ok };
    let why =
        "the state of clients that were idle for long is swapped out, and is read from disk when they wake";
    let needed = if swap > 0 { Amount::Count(CALM) } else { Amount::words("no swap here") };
    let finding = Finding::new(Check::Swap, SUBJECT, verdict, why)
        .amounts(Amount::Count(swappiness), needed)
        .lifted_by(Remedy::sysctl(SUBJECT, CALM));
    Some(finding)
}
