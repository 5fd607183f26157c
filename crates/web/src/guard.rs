//! Whether a request may have what it asks for: by its method, by the host that it names, and by the password.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use hyper::{Method, Version};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::{Access, Answer};

/// What is asked of each request.
pub(crate) struct Guard {
    /// Hashed, so that comparing takes the same time whatever is wrong; `None` where none is set.
    password: Option<[u8; 32]>,
    /// Only this machine reaches the port.
    loopback: bool,
}

/// Why a request gets nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The host that it names is not one of ours.
    ForeignHost,
    /// It names no host, or the path together with one, as to a proxy.
    BadRequest,
    /// There is nothing to be had by this method.
    Method(&'static str),
    /// An order, and there is no password.
    NoPasswordSet,
    /// An order that a page from elsewhere has sent.
    ForeignPage,
    /// No password.
    Unauthorized,
    /// A wrong one.
    WrongPassword,
    /// One that was not looked at: too many wrong ones have come from there.
    TooManyGuesses,
}

impl Guard {
    pub(crate) fn new(password: &str, loopback: bool) -> Self {
        let password = Some(password).filter(|password| !password.is_empty());
        Self { password: password.map(hash), loopback }
    }

    /// What has to be true of every request. A browser can be led to our port by a foreign name (DNS rebinding), whose pages may
    /// read then what we answer. It says by which name it came: to a port of this machine it can only be one of this
    /// machine. By which names others reach us, nobody has told us; there the password stands in front of what matters.
    pub(crate) fn check_host(
        &self,
        version: Version,
        uri: &hyper::Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        if uri.authority().is_some() {
            return Err(Refusal::BadRequest);
        }
        let mut hosts = headers.get_all(HOST).iter();
        match (hosts.next(), hosts.next()) {
            (Some(host), None) if !self.loopback || host.to_str().is_ok_and(is_of_this_machine) => Ok(()),
            (Some(_), None) => Err(Refusal::ForeignHost),
            // Browsers name one.
            (None, _) if version == Version::HTTP_10 => Ok(()),
            _ => Err(Refusal::BadRequest),
        }
    }

    /// Whether what is at a path with this access may be had.
    pub(crate) fn check(&self, access: Access, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        let reads = *method == Method::GET || *method == Method::HEAD;
        match access {
            Access::Free | Access::Private if !reads => Err(Refusal::Method("GET, HEAD")),
            Access::Free => Ok(()),
            Access::Private if self.password.is_none() => Ok(()),
            Access::Private => self.check_password(headers),
            Access::Order if *method != Method::POST => Err(Refusal::Method("POST")),
            Access::Order if self.password.is_none() => Err(Refusal::NoPasswordSet),
            Access::Order if comes_from_elsewhere(headers) => Err(Refusal::ForeignPage),
            Access::Order => self.check_password(headers),
        }
    }

    /// Whether there is a password to be looked at in what asks for that access.
    pub(crate) fn is_given_password(&self, access: Access, headers: &HeaderMap) -> bool {
        access != Access::Free && self.password.is_some() && headers.contains_key(AUTHORIZATION)
    }

    fn check_password(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let given = headers.get(AUTHORIZATION).ok_or(Refusal::Unauthorized)?;
        let given = given.to_str().ok().and_then(password_of).ok_or(Refusal::WrongPassword)?;
        let right = self.password.is_some_and(|password| password == hash(&given));
        if right { Ok(()) } else { Err(Refusal::WrongPassword) }
    }
}

impl Refusal {
    /// What is answered.
    pub(crate) fn answer(&self) -> Answer {
        match self {
            Self::ForeignHost => Answer::line(
                421,
                "this port is reached as localhost, 127.0.0.1 or [::1] (http_listen), and by no other name",
            ),
            Self::BadRequest => Answer::line(400, "one Host, and a path alone, are wanted here"),
            Self::Method(allowed) => Answer::line(405, &format!("what is here is had by {allowed}")),
            Self::NoPasswordSet => {
                Answer::line(403, "orders need a password, and none is set: set http_password")
            }
            Self::ForeignPage => Answer::line(403, "a page from elsewhere may give no orders"),
            Self::Unauthorized => {
                Answer::line(401, "the password is wanted (http_password), by HTTP's Basic authentication")
            }
            Self::WrongPassword => Answer::line(401, "wrong password; http_password is wanted"),
            Self::TooManyGuesses => Answer::line(
                429,
                "too many wrong passwords (http_password) have come from your network; ask again in some seconds",
            ),
        }
    }

    /// A header of the answer.
    pub(crate) fn header(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Unauthorized | Self::WrongPassword => {
                Some(("www-authenticate", "Basic realm=\"onramp\", charset=\"UTF-8\""))
            }
            Self::Method(allowed) => Some(("allow", allowed)),
            Self::TooManyGuesses => Some(("retry-after", "5")),
            _ => None,
        }
    }
}

fn hash(password: &str) -> [u8; 32] {
    Sha256::digest(password).into()
}

/// The password of `Basic ...` (RFC 7617), whoever the user is said to be.
fn password_of(authorization: &str) -> Option<Zeroizing<String>> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    let bytes =
        scheme.eq_ignore_ascii_case("basic").then(|| BASE64_STANDARD.decode(encoded.trim()).ok())??;
    let both = Zeroizing::new(bytes);
    let (_, password) = std::str::from_utf8(&both).ok()?.split_once(':')?;
    Some(Zeroizing::new(String::from(password)))
}

/// Whether a `Host` names this machine to itself, whatever the port.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = |ip: std::net::IpAddr| ip.is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

/// Browsers send a password that they know along with whatever a page sends, and say which page it is.
fn comes_from_elsewhere(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let host = headers.get(HOST).map(|host| host.as_bytes());
    let of = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    of.map(|(_, host)| host.as_bytes()) != host
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let value = |text: &str| text.parse().unwrap();
        all.iter().map(|(name, text)| (name.parse().unwrap(), value(text))).collect()
    }

    #[test]
    fn only_names_of_this_machine_lead_to_a_port_of_it() {
        let (near, far) = (Guard::new("", true), Guard::new("x", false));
        let check = |guard: &Guard, host| {
            guard.check_host(Version::HTTP_11, &"/".parse().unwrap(), &headers(&[("host", host)]))
        };
        for host in ["localhost", "LOCALHOST:9126", "127.0.0.1:1", "127.0.0.2", "[::1]:9126", "[::1]"] {
            assert_eq!(check(&near, host), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:9126", "127.0.0.1.evil.example", "10.0.0.1", ""]
        {
            assert_eq!(check(&near, host), Err(Refusal::ForeignHost), "{host}");
        }
        assert_eq!(check(&far, "onramp.example:9126"), Ok(()));
        let none = headers(&[]);
        assert_eq!(near.check_host(Version::HTTP_11, &"/".parse().unwrap(), &none), Err(Refusal::BadRequest));
        assert_eq!(near.check_host(Version::HTTP_10, &"/".parse().unwrap(), &none), Ok(()));
        let proxied = "http://localhost/".parse().unwrap();
        let host = headers(&[("host", "localhost")]);
        assert_eq!(near.check_host(Version::HTTP_11, &proxied, &host), Err(Refusal::BadRequest));
    }

    #[test]
    fn passwords_stand_in_front_of_what_they_should() {
        let (open, locked) = (Guard::new("", true), Guard::new("se:cret", true));
        let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        let with = |text: &str| headers(&[("authorization", text), ("host", "a:1")]);
        let none = headers(&[]);
        assert_eq!(open.check(Access::Private, &Method::GET, &none), Ok(()));
        assert_eq!(open.check(Access::Order, &Method::POST, &none), Err(Refusal::NoPasswordSet));
        assert_eq!(locked.check(Access::Free, &Method::HEAD, &none), Ok(()));
        assert_eq!(locked.check(Access::Free, &Method::POST, &none), Err(Refusal::Method("GET, HEAD")));
        assert_eq!(locked.check(Access::Private, &Method::GET, &none), Err(Refusal::Unauthorized));
        assert_eq!(locked.check(Access::Order, &Method::GET, &none), Err(Refusal::Method("POST")));
        assert_eq!(locked.check(Access::Private, &Method::GET, &with(&basic("any:se:cret"))), Ok(()));
        assert_eq!(locked.check(Access::Order, &Method::POST, &with(&basic(":se:cret"))), Ok(()));
        for wrong in [&basic("any:secret"), &basic("se:cret:"), "Basic !", "Basic", "Bearer x", ""] {
            let found = locked.check(Access::Private, &Method::GET, &with(wrong));
            assert_eq!(found, Err(Refusal::WrongPassword), "{wrong}");
        }
    }

    #[test]
    fn pages_from_elsewhere_give_no_orders() {
        let guard = Guard::new("x", false);
        let from = |origin: &str| {
            let password = format!("Basic {}", BASE64_STANDARD.encode(":x"));
            let all = [("authorization", &*password), ("host", "a:1"), ("origin", origin)];
            guard.check(Access::Order, &Method::POST, &headers(&all))
        };
        assert_eq!(from("http://a:1"), Ok(()));
        assert_eq!(from("https://a:1"), Ok(()));
        for elsewhere in ["http://evil.example", "null", "http://a:2"] {
            assert_eq!(from(elsewhere), Err(Refusal::ForeignPage), "{elsewhere}");
        }
    }
}
