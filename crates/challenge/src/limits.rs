//! What is short on this machine, before anything begins.

use doctor::{Check, Finding, Request, Role};
use drivers::DriverChoice;

use crate::options::Options;
use crate::report::text;

/// What is short, one line each. Whatever they are, the run may begin.
///
/// # Errors
/// What is short, where the largest step cannot be reached because of it.
pub(crate) fn look(options: &Options) -> Result<Vec<String>, String> {
    let request = request(options);
    judge(&doctor::short(&request), request.connections)
}

fn request(options: &Options) -> Request {
    // The doctor judges by the system's settings; whether io_uring works is better known by trying.
    let asked = options.driver.as_deref().and_then(|word| word.parse().ok()).unwrap_or_default();
    let driver = match asked {
        DriverChoice::Auto if drivers::probe_uring().is_ok() => DriverChoice::Uring,
        DriverChoice::Auto => DriverChoice::Epoll,
        named => named,
    };
    Request {
        connections: options.most_clients(),
        role: Role::Both,
        driver,
        workers: options.workers.unwrap_or(1),
        ..Request::default()
    }
}

fn judge(short: &[Finding], clients: u32) -> Result<Vec<String>, String> {
    let (fatal, others): (Vec<&Finding>, Vec<&Finding>) =
        short.iter().partition(|finding| is_fatal(finding.check));
    if fatal.is_empty() {
        return Ok(others.iter().map(ToString::to_string).collect());
    }
    let lines: String = fatal.iter().map(|finding| format!("\n    {finding}")).collect();
    Err(format!(
        "{} clients cannot be reached here:{lines}\n`onramp doctor` says more. Lift it, or choose a smaller \
         last step with --steps",
        text::grouped(u64::from(clients))
    ))
}

/// Whether clients are refused where it is short. The rest makes them slower.
fn is_fatal(check: Check) -> bool {
    matches!(
        check,
        Check::IoUring
            | Check::OpenFiles
            | Check::OpenFilesSystem
            | Check::LocalPorts
            | Check::Conntrack
            | Check::Memory
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use doctor::{Amount, Verdict};

    use super::*;

    fn finding(check: Check, subject: &str) -> Finding {
        Finding {
            check,
            subject: String::from(subject),
            verdict: Verdict::Short,
            found: Amount::Count(1_024),
            needed: Amount::Count(100_192),
            why: String::new(),
            remedies: Vec::new(),
        }
    }

    #[test]
    fn what_refuses_clients_stops_the_run_and_the_rest_is_said() {
        let slow = finding(Check::AcceptQueue, "net.core.somaxconn");
        let fatal = finding(Check::OpenFiles, "RLIMIT_NOFILE");
        assert_eq!(
            judge(std::slice::from_ref(&slow), 100_000),
            Ok(vec![String::from("net.core.somaxconn is 1,024, 100,192 needed")])
        );
        let error = judge(&[slow, fatal], 100_000).unwrap_err();
        assert!(
            error.starts_with("100,000 clients cannot be reached here:\n    RLIMIT_NOFILE is 1,024"),
            "{error}"
        );
        assert!(error.contains("--steps") && !error.contains("somaxconn"), "{error}");
    }

    #[test]
    fn the_doctor_is_asked_about_both_ends_of_the_largest_step() {
        let options =
            Options::try_parse_from(["onramp challenge", "--steps", "5000,70000", "--driver", "epoll"])
                .unwrap();
        let request = request(&options);
        assert_eq!(
            (request.connections, request.role, request.driver),
            (70_000, Role::Both, DriverChoice::Epoll)
        );
    }
}
