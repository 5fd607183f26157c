//! One driver out of two: which, and why.

use std::fmt;
use std::io;
use std::str::FromStr;

use seam::{ListenerId, Program};

use crate::uring::{UringDriver, probe, reason};
use crate::{Counters, EpollDriver, ListenAddress, ListenSocket, NoUring, Settings, Signaller};

/// The driver that somebody may ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring where it can be used, else epoll.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll.
    Epoll,
}

/// A word that names no driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDriver(String);

impl fmt::Display for UnknownDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is none of auto, uring, epoll", self.0)
    }
}

impl std::error::Error for UnknownDriver {}

impl FromStr for DriverChoice {
    type Err = UnknownDriver;

    /// # Errors
    /// The word that names none.
    fn from_str(text: &str) -> Result<Self, UnknownDriver> {
        match text {
            "auto" => Ok(Self::Auto),
            "uring" => Ok(Self::Uring),
            "epoll" => Ok(Self::Epoll),
            _ => Err(UnknownDriver(text.to_owned())),
        }
    }
}

impl fmt::Display for DriverChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        })
    }
}

/// The driver that one may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverKind {
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
}

impl fmt::Display for DriverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uring => "uring",
            Self::Epoll => "epoll",
        })
    }
}

impl From<DriverKind> for DriverChoice {
    /// To insist on what one has got.
    fn from(kind: DriverKind) -> Self {
        match kind {
            DriverKind::Uring => Self::Uring,
            DriverKind::Epoll => Self::Epoll,
        }
    }
}

/// Runs a [`Program`] on what the system offers.
///
/// Call [`Driver::listen`] or [`Driver::attach`] as often as there are addresses, [`Driver::signaller`] for each part that may
/// end it, then [`Driver::run`], once. It stays on the thread that has opened it.
pub enum Driver {
    /// On io_uring.
    Uring(Box<UringDriver>),
    /// On epoll.
    Epoll(Box<EpollDriver>),
}

/// A driver and how it was chosen.
pub struct Opened {
    /// The driver.
    pub driver: Driver,
    /// Why [`DriverChoice::Auto`] did not take io_uring.
    pub fallback: Option<NoUring>,
}

impl Driver {
    /// A driver without listeners or connections. Its clock starts here.
    ///
    /// # Errors
    /// `InvalidInput` for [`Settings`] out of range; `Unsupported` with [`NoUring`] where io_uring was asked for and cannot
    /// be used; else what the system says.
    pub fn open(choice: DriverChoice, settings: Settings) -> io::Result<Opened> {
        // Before anything else, so that a fault of the caller's is not taken for one of the system's.
        settings.check()?;
        let fallback = match choice {
            DriverChoice::Epoll => None,
            DriverChoice::Auto | DriverChoice::Uring => match open_uring(settings.clone()) {
                Ok(driver) => return Ok(Opened { driver: Self::Uring(Box::new(driver)), fallback: None }),
                Err(reason) if choice == DriverChoice::Uring => {
                    return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
                }
                Err(reason) => Some(reason),
            },
        };
        Ok(Opened { driver: Self::Epoll(Box::new(EpollDriver::new(settings)?)), fallback })
    }

    /// Which one it is.
    pub fn kind(&self) -> DriverKind {
        match self {
            Self::Uring(_) => DriverKind::Uring,
            Self::Epoll(_) => DriverKind::Epoll,
        }
    }

    /// Listens on one more address, whose [`ListenerId`] is its place in the order of these calls and those of
    /// [`Driver::attach`]. `backlog` is how many connections may wait to be accepted; the system's own limit
    /// (`net.core.somaxconn`) is silently applied. Returns the address with the port that the system chose where it was
    /// 0.
    ///
    /// # Errors
    /// `AddrInUse` where somebody listens there already; otherwise what the system says.
    pub fn listen(&mut self, address: &ListenAddress, backlog: u32) -> io::Result<ListenAddress> {
        let (socket, actual) = ListenSocket::open_alone(address, backlog)?;
        self.attach(socket)?;
        Ok(actual)
    }

    /// Accepts on a share of a listening address.
    ///
    /// # Errors
    /// `InvalidInput` after 65,536 listeners; otherwise what the system says.
    pub fn attach(&mut self, socket: ListenSocket) -> io::Result<ListenerId> {
        match self {
            Self::Uring(driver) => driver.attach(socket),
            Self::Epoll(driver) => driver.attach(socket),
        }
    }

    /// A way to reach the loop from other threads.
    ///
    /// # Errors
    /// None at present; a driver may need a descriptor for each.
    pub fn signaller(&self) -> io::Result<Signaller> {
        match self {
            Self::Uring(driver) => driver.signaller(),
            Self::Epoll(driver) => driver.signaller(),
        }
    }

    /// Runs turns until the program says [`seam::Output::Finished`]. The first turn does not wait, so that a program can
    /// begin by itself. Afterwards all listeners and connections are closed; those that the program closed before keep
    /// their time to send what is unsent (5 seconds, up to 60 while their peers read), unless [`seam::Signal::Drain`] or
    /// [`seam::Signal::Stop`] comes once more.
    ///
    /// # Errors
    /// Where waiting itself fails, which is a bug or a kernel without memory. Trouble with a connection is the
    /// program's to hear.
    pub fn run<P: Program>(&mut self, program: &mut P) -> io::Result<()> {
        match self {
            Self::Uring(driver) => driver.run(program),
            Self::Epoll(driver) => driver.run(program),
        }
    }

    /// Returns the counts of its work so far.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Uring(driver) => driver.counters(),
            Self::Epoll(driver) => driver.counters(),
        }
    }
}

/// A driver that was tried out in small. In full it needs more: memory that it may lock, which the one that was tried out
/// is still charged with for a while.
fn open_uring(settings: Settings) -> Result<UringDriver, NoUring> {
    probe()?;
    UringDriver::new(settings).map_err(|error| reason(&error))
}

/// Tries out what the io_uring driver needs.
///
/// # Errors
/// Why io_uring cannot be used, by the cause that an operator can lift.
pub fn probe_uring() -> Result<(), NoUring> {
    probe()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_as_they_are_written() {
        for choice in [DriverChoice::Auto, DriverChoice::Uring, DriverChoice::Epoll] {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let unknown = "io_uring".parse::<DriverChoice>().unwrap_err();
        assert_eq!(unknown.to_string(), "\"io_uring\" is none of auto, uring, epoll");
    }
}
