//! Plain data as bytes, and back.
//!
//! Numbers are little-endian and have their full width. A value of variable length has its length in front. The bytes do not say of
//! which type they are: the reader has to be of the version that wrote, which [`FORMAT`] says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

/// Changes with every change of what is frozen.
pub(crate) const FORMAT: u16 = 6;

/// A type that holds nothing but its own bytes.
pub(crate) trait Plain: Sized {
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);

    /// Takes one from the front; `None` where there is none.
    fn take(bytes: &mut &[u8]) -> Option<Self>;
}

/// Makes a type plain that has plain parts, in the order in which they are named here. A part that is left out does not compile.
///
/// `plain!(struct Name { one, other })` of a struct, with numbers as names where it has none, and
/// `plain!(enum Name { 0 => Unit, 1 => Tuple(inner), 2 => Struct { one } })` of an enum, with a number for each variant.
macro_rules! plain {
    (struct $type:ty { $($field:tt),* $(,)? }) => {
        impl $crate::frozen::plain::Plain for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::frozen::plain::Plain::put(&self.$field, out);)*
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: $crate::frozen::plain::Plain::take(bytes)?),* })
            }
        }
    };
    (enum $type:ty {
        $($number:literal => $variant:ident $(($($inner:ident),*))? $({ $($field:ident),* })?),* $(,)?
    }) => {
        impl $crate::frozen::plain::Plain for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($($inner),*))? $({ $($field),* })? => {
                        out.push($number);
                        $($($crate::frozen::plain::Plain::put($inner, out);)*)?
                        $($($crate::frozen::plain::Plain::put($field, out);)*)?
                    })*
                }
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                Some(match <u8 as $crate::frozen::plain::Plain>::take(bytes)? {
                    $($number => {
                        $($(let $inner = $crate::frozen::plain::Plain::take(bytes)?;)*)?
                        $($(let $field = $crate::frozen::plain::Plain::take(bytes)?;)*)?
                        Self::$variant $(($($inner),*))? $({ $($field),* })?
                    })*
                    _ => return None,
                })
            }
        }
    };
}

/// Turns plain data into bytes, with the version that has written them.
pub(crate) fn bytes_of(plain: &impl Plain) -> Vec<u8> {
    let mut out = Vec::new();
    FORMAT.put(&mut out);
    plain.put(&mut out);
    out
}

/// Makes a value again from the bytes of [`bytes_of`]; `None` where they are of another version, or where something is missing or left over.
pub(crate) fn read<T: Plain>(mut bytes: &[u8]) -> Option<T> {
    if u16::take(&mut bytes)? != FORMAT {
        return None;
    }
    let read = T::take(&mut bytes)?;
    bytes.is_empty().then_some(read)
}

macro_rules! plain_numbers {
    ($($type:ty),*) => {$(
        impl Plain for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(bytes: &mut &[u8]) -> Option<Self> {
                let (number, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_le_bytes(*number))
            }
        }
    )*};
}

plain_numbers!(u8, u16, u32, u64, i64, f32, f64);

impl Plain for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Self::try_from(u64::take(bytes)?).ok()
    }
}

impl Plain for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        (self.as_secs(), self.subsec_nanos()).put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (seconds, nanos) = <(u64, u32)>::take(bytes)?;
        (nanos < 1_000_000_000).then(|| Self::new(seconds, nanos))
    }
}

impl Plain for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        match u8::take(bytes)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Plain for NonZeroU32 {
    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Self::new(u32::take(bytes)?)
    }
}

/// Appends each value with its length in front. The length is believed only as far as something comes behind it.
fn put_all<'a, T: Plain + 'a>(all: impl ExactSizeIterator<Item = &'a T>, out: &mut Vec<u8>) {
    all.len().put(out);
    all.for_each(|one| one.put(out));
}

fn take_all<T: Plain, All: FromIterator<T>>(bytes: &mut &[u8]) -> Option<All> {
    let count = usize::take(bytes)?;
    (0..count).map(|_| T::take(bytes)).collect()
}

impl<T: Plain> Plain for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_all(self.iter(), out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        take_all(bytes)
    }
}

impl Plain for Box<[u8]> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend_from_slice(self);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let length = usize::take(bytes)?;
        let (taken, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Some(taken.into())
    }
}

impl<T: Plain> Plain for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        T::take(bytes).map(Self::new)
    }
}

impl Plain for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Self::from_utf8(Box::<[u8]>::take(bytes)?.into_vec()).ok()
    }
}

impl Plain for Box<str> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        String::take(bytes).map(Self::from)
    }
}

impl<T: Plain> Plain for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|one| one.put(out));
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(match bool::take(bytes)? {
            true => Some(T::take(bytes)?),
            false => None,
        })
    }
}

impl<T: Plain + Ord> Plain for BTreeSet<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_all(self.iter(), out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        take_all(bytes)
    }
}

impl<K: Plain + Ord, V: Plain> Plain for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        take_all::<(K, V), Self>(bytes)
    }
}

impl<T: Plain, const N: usize> Plain for [T; N] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|one| one.put(out));
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let all: Option<Vec<T>> = (0..N).map(|_| T::take(bytes)).collect();
        all?.try_into().ok()
    }
}

impl<A: Plain, B: Plain> Plain for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::take(bytes)?, B::take(bytes)?))
    }
}

impl<A: Plain, B: Plain, C: Plain> Plain for (A, B, C) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
        self.2.put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::take(bytes)?, B::take(bytes)?, C::take(bytes)?))
    }
}

impl Plain for Range<usize> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.start, self.end).put(out);
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (start, end) = Plain::take(bytes)?;
        Some(start..end)
    }
}

impl Plain for SocketAddr {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::V4(address) => (4_u8, address.ip().octets(), address.port()).put(out),
            Self::V6(address) => {
                (6_u8, address.ip().octets(), address.port()).put(out);
                (address.flowinfo(), address.scope_id()).put(out);
            }
        }
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(bytes)? {
            4 => {
                let (octets, port) = <([u8; 4], u16)>::take(bytes)?;
                SocketAddrV4::new(octets.into(), port).into()
            }
            6 => {
                let (octets, port) = <([u8; 16], u16)>::take(bytes)?;
                let (flowinfo, scope) = Plain::take(bytes)?;
                SocketAddrV6::new(octets.into(), port, flowinfo, scope).into()
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Sample {
        Nothing,
        Pair(u8, Option<String>),
        Named { one: BTreeMap<u16, Vec<u32>> },
    }

    plain!(enum Sample { 0 => Nothing, 1 => Pair(one, other), 2 => Named { one } });

    #[test]
    fn what_is_written_is_read_again_and_nothing_else_is() {
        let one = BTreeMap::from([(7, vec![1, 2]), (9, Vec::new())]);
        for sample in [Sample::Nothing, Sample::Pair(3, Some("x".into())), Sample::Named { one }] {
            let bytes = bytes_of(&sample);
            assert_eq!(read::<Sample>(&bytes), Some(sample));
            assert_eq!(read::<Sample>(&bytes[..bytes.len() - 1]), None, "something is missing");
            assert_eq!(read::<Sample>(&[&bytes[..], &[0]].concat()), None, "something is left over");
        }
        assert_eq!(read::<Sample>(&[&FORMAT.to_le_bytes()[..], &[3]].concat()), None, "no variant");
        assert_eq!(read::<bool>(&[&(FORMAT + 1).to_le_bytes()[..], &[1]].concat()), None, "another version");
    }

    #[test]
    fn a_length_beyond_the_bytes_takes_no_memory() {
        let bytes = [&FORMAT.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat();
        assert_eq!(read::<Vec<u8>>(&bytes), None);
        assert_eq!(read::<Box<[u8]>>(&bytes), None);
    }
}
