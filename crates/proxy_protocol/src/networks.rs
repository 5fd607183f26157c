//! The peers that are trusted to speak for others.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use seam::Peer;

/// Networks, by the words of MariaDB's `proxy_protocol_networks`: addresses with or without a length of their prefix,
/// `localhost` for Unix sockets, `*` for everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    all: Vec<Network>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Everybody,
    UnixSockets,
    Prefix { address: IpAddr, length: u8 },
}

impl Networks {
    /// Nobody.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Says whether a peer belongs to one of them.
    pub fn contain(&self, peer: &Peer) -> bool {
        self.all.iter().any(|network| match (network, peer) {
            (Network::Everybody, _) | (Network::UnixSockets, Peer::Unix { .. }) => true,
            (Network::Prefix { address, length }, Peer::Tcp(peer)) => {
                let (ours, ours_width) = bits(*address);
                let (theirs, width) = bits(peer.ip().to_canonical());
                // Both are left-aligned; a prefix of nothing is shared by all of its kind.
                ours_width == width && (*length == 0 || (ours ^ theirs) >> (128 - u32::from(*length)) == 0)
            }
            (Network::Prefix { .. }, Peer::Unix { .. }) | (Network::UnixSockets, Peer::Tcp(_)) => false,
        })
    }
}

/// An address as bits from the left, and how many it has.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// A word that is no network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoNetwork(pub String);

impl fmt::Display for NoNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no network: write an address, 10.0.0.0/8, localhost for Unix sockets, or *",
            self.0
        )
    }
}

impl std::error::Error for NoNetwork {}

impl FromStr for Networks {
    type Err = NoNetwork;

    /// Reads a list with commas; an empty text is nobody.
    ///
    /// # Errors
    /// What of it is no network.
    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        Ok(Self { all: words.map(network).collect::<Result<_, _>>()? })
    }
}

fn network(word: &str) -> Result<Network, NoNetwork> {
    match word {
        "*" => return Ok(Network::Everybody),
        "localhost" => return Ok(Network::UnixSockets),
        _ => {}
    }
    let wrong = || NoNetwork(String::from(word));
    let (address, length) = match word.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (word, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let (_, width) = bits(address);
    let length = length.map_or(Ok(width), |length| length.parse().map_err(|_| wrong()))?;
    if length <= width { Ok(Network::Prefix { address, length }) } else { Err(wrong()) }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, network) in self.all.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            match network {
                Network::Everybody => f.write_str("*")?,
                Network::UnixSockets => f.write_str("localhost")?,
                Network::Prefix { address, length } => write!(f, "{address}/{length}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(address: &str) -> Peer {
        Peer::Tcp((address.parse::<IpAddr>().unwrap(), 1).into())
    }

    #[test]
    fn peers_are_found_by_prefix() {
        let networks: Networks = "10.0.0.0/8, 192.168.1.7, fd00::/16,localhost".parse().unwrap();
        for inside in ["10.0.0.1", "10.255.0.1", "192.168.1.7", "fd00::1", "::ffff:10.1.1.1"] {
            assert!(networks.contain(&tcp(inside)), "{inside}");
        }
        for outside in ["11.0.0.1", "192.168.1.6", "fd01::1", "::1", "127.0.0.1"] {
            assert!(!networks.contain(&tcp(outside)), "{outside}");
        }
        assert!(networks.contain(&Peer::Unix { uid: 0 }));
        let everybody: Networks = "*".parse().unwrap();
        assert!(everybody.contain(&tcp("1.2.3.4")) && everybody.contain(&Peer::Unix { uid: 1 }));
        let all_of_4: Networks = "0.0.0.0/0".parse().unwrap();
        assert!(all_of_4.contain(&tcp("1.2.3.4")) && !all_of_4.contain(&tcp("::1")));
        let nobody: Networks = "".parse().unwrap();
        assert!(nobody.is_empty() && !nobody.contain(&tcp("127.0.0.1")));
    }

    #[test]
    fn what_is_shown_can_be_read_back() {
        for text in ["*", "localhost,10.0.0.0/8", "::1/128", ""] {
            assert_eq!(text.parse::<Networks>().unwrap().to_string(), text);
        }
        for wrong in ["10.0.0.0/33", "::/129", "ten", "10.0.0.0/", "10.0.0.0/-1", "/8"] {
            assert!(wrong.parse::<Networks>().unwrap_err().to_string().contains("is no network"), "{wrong}");
        }
    }
}
