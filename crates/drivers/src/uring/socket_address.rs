//! Internet addresses as the kernel reads and writes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Room for a `sockaddr_in` or `sockaddr_in6` (netinet/in.h), laid out by hand: family in the machine's order, port and
/// address in the network's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(4))]
pub(super) struct SocketAddress([u8; Self::ROOM as usize]);

impl SocketAddress {
    /// Bytes of a `sockaddr_in6`, the longer one.
    pub(super) const ROOM: u32 = size_of::<libc::sockaddr_in6>() as u32;

    /// No address: the family is `AF_UNSPEC`, which is 0.
    pub(super) const UNSPECIFIED: Self = Self([0; Self::ROOM as usize]);

    /// The address, unless the family is none of the internet's.
    pub(super) fn read(&self) -> Option<SocketAddr> {
        let port = u16::from_be_bytes(self.part(2));
        match self.family() {
            libc::AF_INET => Some((Ipv4Addr::from(self.part::<4>(4)), port).into()),
            libc::AF_INET6 => {
                let (flow, scope) = (u32::from_be_bytes(self.part(4)), u32::from_ne_bytes(self.part(24)));
                Some(SocketAddrV6::new(Ipv6Addr::from(self.part::<16>(8)), port, flow, scope).into())
            }
            _ => None,
        }
    }

    /// `AF_INET`, `AF_INET6`, or 0 where nothing has been written.
    pub(super) fn family(&self) -> i32 {
        i32::from(u16::from_ne_bytes([self.0[0], self.0[1]]))
    }

    /// Bytes of it that count.
    pub(super) fn length(&self) -> u32 {
        if self.family() == libc::AF_INET { size_of::<libc::sockaddr_in>() as u32 } else { Self::ROOM }
    }

    fn part<const N: usize>(&self, from: usize) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&self.0[from..from + N]);
        part
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; Self::ROOM as usize];
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(ip) => bytes[4..8].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes[8..24].copy_from_slice(&ip.octets()),
        }
        if let SocketAddr::V6(address) = address {
            bytes[4..8].copy_from_slice(&address.flowinfo().to_be_bytes());
            bytes[24..].copy_from_slice(&address.scope_id().to_ne_bytes());
        }
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive() {
        let scoped = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 33_060, 5, 7);
        for address in [SocketAddr::from(([192, 0, 2, 1], 3306)), scoped.into()] {
            assert_eq!(SocketAddress::from(address).read(), Some(address));
        }
    }

    #[test]
    fn the_layout_is_the_systems() {
        let bytes = SocketAddress::from(SocketAddr::from(([192, 0, 2, 1], 0x1234)));
        assert_eq!(bytes.0[2..8], [0x12, 0x34, 192, 0, 2, 1]);
        assert_eq!(bytes.length(), 16);
        assert_eq!(SocketAddress::default().read(), None);
    }
}
