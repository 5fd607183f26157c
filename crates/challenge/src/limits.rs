//! What is short on this machine, before anything begins.

use doctor::{Check, Finding, Request, Role};
use drivers::DriverChoice;

use crate::error::{Error, Lack, Room};
use crate::options::Options;
use crate::private::SMALL_BUFFER_POOL;
use crate::process_usage::kilobytes;

/// What is short, one line each. Whatever they are, the run may begin.
///
/// # Errors
/// What is short, where the largest step cannot be reached because of it.
pub(crate) fn look(options: &Options) -> Result<Vec<String>, Error> {
    if options.servers > 1 {
        look_at_room(options)?;
    }
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

fn judge(short: &[Finding], clients: u32) -> Result<Vec<String>, Error> {
    let (fatal, others): (Vec<&Finding>, Vec<&Finding>) =
        short.iter().partition(|finding| is_fatal(finding.check));
    if fatal.is_empty() {
        return Ok(others.iter().map(ToString::to_string).collect());
    }
    let short = fatal.iter().map(ToString::to_string).collect();
    Err(Error::Machine(Lack::Clients { clients, short }))
}

/// What one of several servers has resident once clients write: pages of tables, threads of as many backends as permits need, and what it
/// brings along.
const MEMORY_OF_A_SERVER: u64 = SMALL_BUFFER_POOL + (256 << 20);

/// What its folder holds: InnoDB's own files (100 to 200 MB), the tables, and logs of what some minutes of clients write.
const DISK_OF_A_SERVER: u64 = 512 << 20;

/// Whether memory and disk have room for all of the servers.
fn look_at_room(options: &Options) -> Result<(), Error> {
    let folder = options.work_directory.clone().unwrap_or_else(std::env::temp_dir);
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = kilobytes(&meminfo, "MemAvailable:");
    let disk = rustix::fs::statvfs(&folder).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    has_room(options.servers, Room::Memory, MEMORY_OF_A_SERVER, memory)?;
    has_room(options.servers, Room::Disk(folder), DISK_OF_A_SERVER, disk)
}

/// Where nobody knows how much there is, trying will tell.
fn has_room(servers: u32, of: Room, each: u64, found: Option<u64>) -> Result<(), Error> {
    let needed = u64::from(servers) * each;
    match found {
        Some(found) if found < needed => Err(Error::Machine(Lack::Room { servers, of, needed, found })),
        _ => Ok(()),
    }
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
            judge(std::slice::from_ref(&slow), 100_000).unwrap(),
            ["net.core.somaxconn is 1,024, 100,192 needed"]
        );
        let error = judge(&[slow, fatal], 100_000).unwrap_err().to_string();
        assert!(
            error.starts_with("100,000 clients cannot be reached here:\n    RLIMIT_NOFILE is 1,024"),
            "{error}"
        );
        assert!(error.contains("--steps") && !error.contains("somaxconn"), "{error}");
    }

    #[test]
    fn servers_for_which_there_is_no_room_are_not_started() {
        let disk = Room::Disk("/full".into());
        assert!(
            has_room(3, Room::Memory, 100, Some(300)).is_ok() && has_room(3, disk.clone(), 100, None).is_ok()
        );
        let said = |of| has_room(3, of, 1_000_000_000, Some(500_000_000)).unwrap_err().to_string();
        let memory = said(Room::Memory);
        assert!(memory.contains("take about 3.0 GB of memory, and 500 MB are free"), "{memory}");
        assert!(memory.contains("--servers"), "{memory}");
        let disk = said(disk);
        assert!(disk.contains("in /full") && disk.contains("--work-directory"), "{disk}");
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
