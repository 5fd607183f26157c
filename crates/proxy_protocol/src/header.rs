//! The header's bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The first bytes of version 2 (specification, section 2.2). No MySQL client can begin so: the fourth is its packet's number.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Likewise of version 1 (section 2.1).
const WORD: &[u8] = b"PROXY ";
/// The longest line of version 1, its end included (section 2.1).
const LONGEST_LINE: usize = 107;
/// Signature, command, family and length.
const FRONT: usize = 16;
/// Longer ones of version 2 are refused: addresses and the usual additions (TLS, a unique id) take some hundred bytes.
const LONGEST: usize = 4096;

/// The first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// They may become a header.
    Partial,
    /// They are none.
    Absent,
    /// They begin with one.
    Header(Header),
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The client that has connected to the sender; `None` where that is the sender itself (a health check), or it does not say.
    pub source: Option<SocketAddr>,
    /// Its bytes.
    pub length: usize,
}

/// Bytes that begin like a header and are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Looks at the first bytes of a connection.
///
/// # Errors
/// [`Malformed`] where they begin like a header and go on differently, or for too long.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Malformed> {
    if begins(bytes, WORD) {
        line(bytes)
    } else if begins(bytes, &SIGNATURE) {
        binary(bytes)
    } else {
        Ok(Parsed::Absent)
    }
}

/// Appends a header of version 2 that says for whom a connection to `destination` is.
pub fn put(out: &mut Vec<u8>, source: SocketAddr, destination: SocketAddr) {
    out.extend_from_slice(&SIGNATURE);
    match (source.ip().to_canonical(), destination.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend_from_slice(&[0x21, 0x11, 0, 12]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
        }
        (from, to) => {
            out.extend_from_slice(&[0x21, 0x21, 0, 36]);
            out.extend_from_slice(&version_6(from).octets());
            out.extend_from_slice(&version_6(to).octets());
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}

fn version_6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Appends a header of version 2 that says nothing of anybody (`LOCAL`).
pub fn put_local(out: &mut Vec<u8>) {
    out.extend_from_slice(&SIGNATURE);
    out.extend_from_slice(&[0x20, 0, 0, 0]);
}

/// Says whether the bytes begin with the prefix, as far as there are any.
fn begins(bytes: &[u8], prefix: &[u8]) -> bool {
    let length = bytes.len().min(prefix.len());
    bytes[..length] == prefix[..length]
}

/// `PROXY TCP4 source destination port port`, or `PROXY UNKNOWN` and anything.
fn line(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let searched = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = searched.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < LONGEST_LINE { Ok(Parsed::Partial) } else { Err(Malformed) };
    };
    let text = std::str::from_utf8(&searched[WORD.len()..end]).map_err(|_| Malformed)?;
    let words: Vec<&str> = text.split(' ').collect();
    let source = match words[..] {
        ["UNKNOWN", ..] => None,
        ["TCP4", source, destination, port, other] => {
            destination.parse::<Ipv4Addr>().map_err(|_| Malformed)?;
            let address = source.parse::<Ipv4Addr>().map_err(|_| Malformed)?;
            Some((IpAddr::V4(address), port, other))
        }
        ["TCP6", source, destination, port, other] => {
            destination.parse::<Ipv6Addr>().map_err(|_| Malformed)?;
            let address = source.parse::<Ipv6Addr>().map_err(|_| Malformed)?;
            Some((IpAddr::V6(address), port, other))
        }
        _ => return Err(Malformed),
    };
    let source = match source {
        None => None,
        Some((address, port, other)) => {
            other.parse::<u16>().map_err(|_| Malformed)?;
            Some(SocketAddr::new(address, port.parse().map_err(|_| Malformed)?))
        }
    };
    Ok(Parsed::Header(Header { source, length: end + 2 }))
}

fn binary(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let Some(front) = bytes.first_chunk::<FRONT>() else { return Ok(Parsed::Partial) };
    let [.., command, family, high, low] = *front;
    let length = FRONT + usize::from(u16::from_be_bytes([high, low]));
    if length > LONGEST {
        return Err(Malformed);
    }
    let Some(body) = bytes.get(FRONT..length) else { return Ok(Parsed::Partial) };
    let source = match (command, family) {
        // LOCAL: whatever follows is to be skipped.
        (0x20, _) => None,
        // PROXY, by TCP: source, destination, port, port.
        (0x21, 0x11) => {
            let addresses = body.first_chunk::<12>().ok_or(Malformed)?;
            let [a, b, c, d, .., port_high, port_low, _, _] = *addresses;
            let port = u16::from_be_bytes([port_high, port_low]);
            Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port))
        }
        (0x21, 0x21) => {
            let addresses = body.first_chunk::<36>().ok_or(Malformed)?;
            let address: [u8; 16] = *addresses.first_chunk().ok_or(Malformed)?;
            let port = u16::from_be_bytes([addresses[32], addresses[33]]);
            Some(SocketAddr::new(IpAddr::V6(address.into()), port))
        }
        // Unix sockets of another machine, datagrams, and what is not said.
        (0x21, _) => None,
        _ => return Err(Malformed),
    };
    Ok(Parsed::Header(Header { source, length }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(source: Option<&str>, length: usize) -> Result<Parsed, Malformed> {
        let source = source.map(|source| source.parse().unwrap());
        Ok(Parsed::Header(Header { source, length }))
    }

    fn version_2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend_from_slice(&[command, family]);
        bytes.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn both_versions_are_understood() {
        let v1 = b"PROXY TCP4 192.0.2.1 10.0.0.1 56324 3306\r\nrest";
        assert_eq!(parse(v1), header(Some("192.0.2.1:56324"), 42));
        let v1 = b"PROXY TCP6 2001:db8::1 ::1 1 3306\r\n";
        assert_eq!(parse(v1), header(Some("[2001:db8::1]:1"), 35));
        assert_eq!(parse(b"PROXY UNKNOWN\r\n"), header(None, 15));
        assert_eq!(parse(b"PROXY UNKNOWN ffff::1 any thing\r\n"), header(None, 33));
        let v2 = version_2(0x21, 0x11, &[192, 0, 2, 1, 10, 0, 0, 1, 0xdc, 4, 12, 234, 9, 9, 9]);
        assert_eq!(parse(&v2), header(Some("192.0.2.1:56324"), 31));
        let mut body = Ipv6Addr::LOCALHOST.octets().to_vec();
        body.extend_from_slice(&[0; 16]);
        body.extend_from_slice(&[0, 7, 0, 8]);
        assert_eq!(parse(&version_2(0x21, 0x21, &body)), header(Some("[::1]:7"), 52));
        assert_eq!(parse(&version_2(0x21, 0x31, &[0; 216])), header(None, 232));
        let mut local = Vec::new();
        put_local(&mut local);
        assert_eq!(parse(&local), header(None, 16));
    }

    #[test]
    fn what_is_written_is_read() {
        for (source, destination) in [
            ("192.0.2.1:7", "10.0.0.1:3306"),
            ("[2001:db8::1]:7", "[::1]:3306"),
            ("[2001:db8::1]:7", "10.0.0.1:3306"),
        ] {
            let mut bytes = Vec::new();
            put(&mut bytes, source.parse().unwrap(), destination.parse().unwrap());
            assert_eq!(parse(&bytes), header(Some(source), bytes.len()));
        }
        let mut bytes = Vec::new();
        put(&mut bytes, "[::ffff:192.0.2.1]:7".parse().unwrap(), "10.0.0.1:3306".parse().unwrap());
        assert_eq!(parse(&bytes), header(Some("192.0.2.1:7"), 28));
    }

    #[test]
    fn what_only_begins_like_one_is_malformed() {
        for line in [
            "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
            "PROXY TCP4 ::1 1.2.3.4 1 1\r\n",
            "PROXY TCP4 1.2.3.4 1.2.3.4 70000 1\r\n",
            "PROXY  TCP4 1.2.3.4 1.2.3.4 1 1\r\n",
            "PROXY TCP6 1.2.3.4 1.2.3.4 1 1\r\n",
        ] {
            assert_eq!(parse(line.as_bytes()), Err(Malformed), "{line}");
        }
        assert_eq!(parse(&[WORD, &[b'x'; 200]].concat()), Err(Malformed));
        assert_eq!(parse(&version_2(0x11, 0x11, &[0; 12])), Err(Malformed));
        assert_eq!(parse(&version_2(0x21, 0x11, &[0; 11])), Err(Malformed));
        assert_eq!(parse(&version_2(0x21, 0x11, &[0; 4096])), Err(Malformed));
        // The front of a login request.
        assert_eq!(parse(&[0x50, 0, 0, 1, 5]), Ok(Parsed::Absent));
        assert_eq!(parse(&[13, 10, 0, 1]), Ok(Parsed::Absent));
    }

    proptest! {
        /// Whatever comes, a front of it says nothing else than that more is needed, or the same.
        #[test]
        fn a_front_never_contradicts(
            version in 0..3,
            body in prop::collection::vec(any::<u8>(), 0..60),
            cut in 0..80_usize,
        ) {
            let bytes = match version {
                0 => version_2(0x21, 0x11, &body),
                1 => [WORD, &body].concat(),
                _ => body,
            };
            let cut = cut.min(bytes.len());
            match parse(&bytes[..cut]) {
                Ok(Parsed::Partial) => {}
                decided => prop_assert_eq!(decided, parse(&bytes)),
            }
        }
    }
}
