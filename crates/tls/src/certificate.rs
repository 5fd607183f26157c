//! Whose certificate it is, in the words in which MySQL's accounts ask for it, and until when it counts.
//!
//! The certificate has been checked, or is not to be, so that all that is read here are the two names and the validity of its front
//! (RFC 5280, section 4.1).

use std::fmt::Write as _;

use seam::PeerCertificate;
use time::{Date, Month};

/// Tags of DER (X.690).
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which certificates of version 1 lack.
const VERSION: u8 = 0xa0;

/// The short names of OpenSSL (`crypto/objects/objects.txt`) for what is found in names, by their encoding.
const SHORT_NAMES: [(&[u8], &str); 20] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 13], "description"),
    (&[0x55, 4, 17], "postalCode"),
    (&[0x55, 4, 41], "name"),
    (&[0x55, 4, 42], "GN"),
    (&[0x55, 4, 43], "initials"),
    (&[0x55, 4, 46], "dnQualifier"),
    (&[0x55, 4, 65], "pseudonym"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
];

/// Reads the names; `None` where it is no certificate.
pub(crate) fn names(der: &[u8]) -> Option<PeerCertificate> {
    let (_, certificate, _) = element(der, SEQUENCE)?;
    let (_, mut fields, _) = element(certificate, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        fields = any(fields)?.2;
    }
    // Behind the serial number and the algorithm.
    fields = any(fields)?.2;
    fields = any(fields)?.2;
    let (_, issuer, fields) = element(fields, SEQUENCE)?;
    // Behind the validity.
    let (_, subject, _) = element(any(fields)?.2, SEQUENCE)?;
    Some(PeerCertificate { subject: one_line(subject)?, issuer: one_line(issuer)? })
}

/// From when and until when a certificate counts, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its first second.
    pub from: i64,
    /// Its last one.
    pub until: i64,
}

/// Until when it counts, in seconds since 1970; `None` where it is no certificate, or that was before.
pub(crate) fn expiry(der: &[u8]) -> Option<u64> {
    u64::try_from(validity(der)?.until).ok()
}

/// When it counts; `None` where it is no certificate.
pub(crate) fn validity(der: &[u8]) -> Option<Validity> {
    let (_, certificate, _) = element(der, SEQUENCE)?;
    let (_, mut fields, _) = element(certificate, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        fields = any(fields)?.2;
    }
    // Behind the serial number, the algorithm and the issuer.
    for _ in 0..3 {
        fields = any(fields)?.2;
    }
    let (_, validity, _) = element(fields, SEQUENCE)?;
    let (tag, from, rest) = any(validity)?;
    let (until_tag, until, _) = any(rest)?;
    Some(Validity { from: seconds(tag, from)?, until: seconds(until_tag, until)? })
}

/// A time of a certificate, in seconds since 1970.
fn seconds(tag: u8, time: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(time).ok().filter(|text| text.is_ascii())?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        // Two digits are those of 1950 to 2049 (RFC 5280, section 4.1.2.5.1).
        UTC_TIME => {
            let (year, rest) = (text.get(..2)?.parse::<i32>().ok()?, text.get(2..)?);
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let two = |at: usize| rest.get(at..at + 2)?.parse::<u8>().ok();
    let date = Date::from_calendar_date(year, Month::try_from(two(0)?).ok()?, two(2)?).ok()?;
    let time = date.with_hms(two(4)?, two(6)?, two(8)?).ok()?;
    Some(time.assume_utc().unix_timestamp())
}

/// As `X509_NAME_oneline` of OpenSSL writes it, which is what both servers compare with (`acl_check_ssl` of MySQL's
/// `sql_authentication.cc`, `check_access`'s neighbour of the same purpose in MariaDB's `sql_acl.cc`).
fn one_line(mut name: &[u8]) -> Option<String> {
    let mut text = String::new();
    while !name.is_empty() {
        let (_, mut parts, rest) = element(name, SET)?;
        name = rest;
        while !parts.is_empty() {
            let (_, part, others) = element(parts, SEQUENCE)?;
            parts = others;
            let (_, kind, value) = element(part, OBJECT_IDENTIFIER)?;
            let (_, value, _) = any(value)?;
            text.push('/');
            match SHORT_NAMES.iter().find(|(encoding, _)| *encoding == kind) {
                Some((_, short)) => text.push_str(short),
                None => text.push_str(&dotted(kind)),
            }
            text.push('=');
            for byte in value {
                match byte {
                    b' '..=b'~' => text.push(char::from(*byte)),
                    _ => write!(text, "\\x{byte:02X}").ok()?,
                }
            }
        }
    }
    Some(text)
}

/// An object identifier in numbers (X.690, section 8.19).
fn dotted(encoding: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0u64;
    for byte in encoding {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut number));
        }
    }
    let mut text = String::new();
    for (position, number) in numbers.iter().enumerate() {
        let _ = match position {
            0 => write!(text, "{}.{}", (number / 40).min(2), number - 40 * (number / 40).min(2)),
            _ => write!(text, ".{number}"),
        };
    }
    text
}

/// The next element if it has this tag: tag, content and what follows.
fn element(der: &[u8], tag: u8) -> Option<(u8, &[u8], &[u8])> {
    any(der).filter(|(found, _, _)| *found == tag)
}

fn any(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // A certificate is shorter than four bytes of length can say.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        CertificateParams, CustomExtension, DistinguishedName, DnType, Issuer, KeyPair, date_time_ymd,
    };

    /// As `date --utc --date=... +%s` has it.
    #[test]
    fn expiry_is_in_seconds_since_1970() {
        let key = KeyPair::generate().unwrap();
        for ((year, month, day), seconds) in [
            ((1970, 1, 1), 0),
            ((1999, 12, 31), 946_598_400),
            ((2000, 2, 29), 951_782_400),
            ((2024, 2, 29), 1_709_164_800),
            ((2024, 3, 1), 1_709_251_200),
            ((2027, 1, 15), 1_799_971_200),
            ((2049, 12, 31), 2_524_521_600),
            ((2050, 1, 1), 2_524_608_000),
            ((2100, 3, 1), 4_107_542_400),
        ] {
            let mut parameters = CertificateParams::new(Vec::new()).unwrap();
            parameters.not_before = date_time_ymd(1970, 1, 1);
            parameters.not_after = date_time_ymd(year, month, day);
            let der = parameters.self_signed(&key).unwrap().der().to_vec();
            assert_eq!(expiry(&der), Some(seconds), "{year}-{month}-{day}");
            assert_eq!(validity(&der).map(|found| found.from), Some(0));
            assert_eq!(expiry(&der[..100]), None);
        }
        assert_eq!(expiry(b""), None);
    }

    #[test]
    fn names_are_those_of_openssl() {
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CountryName, "SE");
        subject.push(DnType::OrganizationName, "Ex & ample");
        subject.push(DnType::CommonName, "appé");
        subject.push(DnType::CustomDnType(vec![1, 2, 840, 1_000_000]), "x");
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.distinguished_name = DistinguishedName::new();
        authority.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(authority, &key);
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name = subject;
        parameters.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2, 3], vec![0; 300])];
        let der = parameters.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().to_vec();
        let found = names(&der).unwrap();
        assert_eq!(found.subject, "/C=SE/O=Ex & ample/CN=app\\xC3\\xA9/1.2.840.1000000=x");
        assert_eq!(found.issuer, "/CN=authority");
        for cut in 0..der.len() {
            assert_eq!(names(&der[..cut]), None, "{cut}");
        }
    }
}
