//! Sockets that the supervisor has opened for us (sd_listen_fds(3)): it holds the ports while the program starts anew, and may bind
//! those that are for root alone.

use config::Configuration;
use drivers::{InheritedSocket, ListenAddress};

use crate::Failure;

/// How many there are.
const COUNT: &str = "LISTEN_FDS";
/// For which process.
const PROCESS: &str = "LISTEN_PID";
/// Their names, separated by colons.
const NAMES: &str = "LISTEN_FDNAMES";

/// The names that a socket may have, each with the option in whose place it is.
const PURPOSES: [(&str, &str); 3] = [("mysql", "listen"), ("admin", "admin_listen"), ("http", "http_listen")];

/// What was handed over, by option.
#[derive(Default)]
pub(crate) struct Sockets {
    all: Vec<(&'static str, InheritedSocket)>,
}

impl Sockets {
    /// Takes them, once, before anything else is opened. Without names all are for MySQL's clients.
    ///
    /// # Errors
    /// Which of them is named for nothing that we do, or is no listening socket.
    pub(crate) fn take() -> Result<Self, Failure> {
        let variable = |name: &str| std::env::var(name).ok();
        let is_for_us = variable(PROCESS).is_some_and(|process| process == std::process::id().to_string());
        let Some(count) = variable(COUNT).filter(|_| is_for_us) else { return Ok(Self::default()) };
        let count = count.parse().map_err(|_| format!("{COUNT}: {count:?} is no number of sockets"))?;
        let sockets = InheritedSocket::take(count).map_err(|error| format!("{COUNT}: {error}"))?;
        let options = options(count, variable(NAMES).as_deref())?;
        let all: Vec<_> = options.into_iter().zip(sockets).collect();
        if all.iter().filter(|(option, _)| *option == "http_listen").count() > 1 {
            return Err(format!("{NAMES}: HTTP is answered at one address; two are named http").into());
        }
        Ok(Self { all })
    }

    /// Their addresses, by option.
    pub(crate) fn addresses(&self) -> Addresses {
        let options = PURPOSES.iter().map(|(_, option)| *option);
        Addresses(
            options.map(|option| (option, self.of(option))).filter(|(_, all)| !all.is_empty()).collect(),
        )
    }

    fn of(&self, option: &str) -> Vec<String> {
        let sockets = self.all.iter().filter(|(other, _)| *other == option);
        let text = |address: &ListenAddress| match address {
            ListenAddress::Tcp(address) => address.to_string(),
            ListenAddress::Unix(path) => format!("unix:{}", path.display()),
        };
        sockets.map(|(_, socket)| text(socket.address())).collect()
    }

    /// Those in the place of an option.
    pub(crate) fn take_of(&mut self, option: &str) -> Vec<InheritedSocket> {
        let mut taken = Vec::new();
        for (other, socket) in std::mem::take(&mut self.all) {
            if other == option {
                taken.push(socket);
            } else {
                self.all.push((other, socket));
            }
        }
        taken
    }
}

/// Where the sockets are, by the option in whose place they are.
#[derive(Clone, Default)]
pub(crate) struct Addresses(Vec<(&'static str, Vec<String>)>);

impl Addresses {
    /// Puts them in the place of what the options say.
    ///
    /// # Errors
    /// Which of them does not do for its purpose.
    pub(crate) fn replace(&self, configuration: &mut Configuration) -> Result<(), Failure> {
        for (option, addresses) in &self.0 {
            configuration
                .hand_over(option, addresses)
                .map_err(|wrong| format!("{NAMES}: what was handed over for {option}: {wrong}"))?;
        }
        Ok(())
    }

    /// Says that the options do not count.
    pub(crate) fn say(&self) {
        for (option, addresses) in &self.0 {
            tracing::info!("{option}: the supervisor has handed over {}", addresses.join(", "));
        }
    }
}

/// For which options so many sockets with these names are.
fn options(count: usize, names: Option<&str>) -> Result<Vec<&'static str>, Failure> {
    let Some(names) = names else { return Ok(vec!["listen"; count]) };
    let names: Vec<_> = names.split(':').collect();
    if names.len() != count {
        return Err(format!("{NAMES}: {} names for {count} sockets", names.len()).into());
    }
    let option = |name: &str| PURPOSES.iter().find(|(other, _)| *other == name).map(|(_, option)| *option);
    let unknown = |name: &str| {
        format!(
            "{NAMES}: a socket is named {name:?}: name it mysql, admin or http (FileDescriptorName= in the unit of the socket)"
        )
    };
    names.into_iter().map(|name| option(name).ok_or_else(|| unknown(name).into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_sockets_are_for() {
        assert_eq!(options(3, Some("http:mysql:admin")).unwrap(), ["http_listen", "listen", "admin_listen"]);
        assert_eq!(options(2, None).unwrap(), ["listen", "listen"]);
        let refused = |count, names| options(count, Some(names)).unwrap_err().to_string();
        assert_eq!(refused(2, "mysql"), "LISTEN_FDNAMES: 1 names for 2 sockets");
        assert!(refused(1, "onramp.socket").contains("a socket is named \"onramp.socket\": name it mysql, "));
    }
}
