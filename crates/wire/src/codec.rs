//! Integers and strings as the protocol writes them: little endian, and "length-encoded".

use crate::WireError;

/// First byte of a length-encoded string that is SQL NULL (text rows only).
pub(crate) const LENENC_NULL: u8 = 0xfb;

/// Reads fields from the front of a payload. Every read past the end is a [`WireError::Truncated`] that names the
/// packet, never a panic.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; errors call it a packet.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::of("packet", bytes)
    }

    /// Reads `bytes`; errors call it `what`.
    pub fn of(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, what }
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        match self.rest.split_at_checked(count) {
            Some((front, rest)) => {
                self.rest = rest;
                Ok(front)
            }
            None => Err(self.truncated()),
        }
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        match self.rest.split_first_chunk::<N>() {
            Some((front, rest)) => {
                self.rest = rest;
                Ok(*front)
            }
            None => Err(self.truncated()),
        }
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Three bytes.
    pub fn u24(&mut self) -> Result<u32, WireError> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length-encoded integer: one byte up to 250, else 0xfc, 0xfd or 0xfe and two, three or eight bytes. The first
    /// bytes 0xfb (NULL) and 0xff (ERR) are malformed here.
    ///
    /// Source: `net_field_length_ll` in the servers' `sql-common/pack.c(c)`.
    pub fn lenenc_int(&mut self) -> Result<u64, WireError> {
        match self.u8()? {
            small @ 0..=0xfa => Ok(u64::from(small)),
            0xfc => Ok(u64::from(self.u16()?)),
            0xfd => Ok(u64::from(self.u24()?)),
            0xfe => self.u64(),
            LENENC_NULL | 0xff => Err(WireError::Malformed { what: "length-encoded integer" }),
        }
    }

    /// A string after its length.
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.lenenc_int()?;
        match usize::try_from(length) {
            Ok(length) => self.bytes(length),
            Err(_) => Err(self.truncated()),
        }
    }

    /// A value of a text row: a string after its length, or NULL.
    pub fn lenenc_bytes_or_null(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        if self.rest.first() == Some(&LENENC_NULL) {
            self.u8()?;
            return Ok(None);
        }
        self.lenenc_bytes().map(Some)
    }

    /// A string up to a zero byte, which is taken too.
    pub fn nul_terminated(&mut self) -> Result<&'a [u8], WireError> {
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or_else(|| self.truncated())?;
        let text = self.bytes(end)?;
        self.u8()?;
        Ok(text)
    }

    /// A string up to a zero byte, or to the end of the packet: the servers allow both for the last field.
    pub fn nul_terminated_or_rest(&mut self) -> &'a [u8] {
        match self.nul_terminated() {
            Ok(text) => text,
            Err(_) => self.rest(),
        }
    }

    /// Everything that is left; nothing is left afterwards.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Says whether no bytes are left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn truncated(&self) -> WireError {
        WireError::Truncated { what: self.what }
    }
}

/// Appends two bytes, little endian.
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends the low three bytes, little endian. What does not fit is lost: callers bound the value.
pub fn put_u24(out: &mut Vec<u8>, value: u32) {
    debug_assert!(value <= 0xff_ffff, "does not fit into three bytes");
    out.extend_from_slice(&value.to_le_bytes()[..3]);
}

/// Appends four bytes, little endian.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends eight bytes, little endian.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a length-encoded integer in its shortest form.
pub fn put_lenenc_int(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a string after its length.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc_int(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a string and a zero byte. A zero byte inside would end it early for the reader: callers exclude that.
pub fn put_nul_terminated(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenenc_integers_take_their_shortest_form_and_come_back() {
        for (value, length) in [
            (0, 1),
            (250, 1),
            (251, 3),
            (0xffff, 3),
            (0x1_0000, 4),
            (0xff_ffff, 4),
            (0x100_0000, 9),
            (u64::MAX, 9),
        ] {
            let mut out = Vec::new();
            put_lenenc_int(&mut out, value);
            assert_eq!(out.len(), length, "{value}");
            let mut reader = Reader::new(&out);
            assert_eq!(reader.lenenc_int(), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn null_and_err_are_no_lengths() {
        for first in [0xfb, 0xff] {
            assert!(matches!(Reader::new(&[first, 0, 0]).lenenc_int(), Err(WireError::Malformed { .. })));
        }
        assert_eq!(Reader::new(&[0xfb]).lenenc_bytes_or_null(), Ok(None));
    }

    #[test]
    fn reads_past_the_end_name_the_packet() {
        let truncated = WireError::Truncated { what: "greeting" };
        assert_eq!(Reader::of("greeting", &[1]).u16(), Err(truncated));
        assert_eq!(Reader::of("greeting", b"abc").nul_terminated(), Err(truncated));
        // A length near 2^64 must not overflow anything.
        let huge = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Reader::of("greeting", &huge).lenenc_bytes(), Err(truncated));
    }

    #[test]
    fn the_last_string_may_lack_its_zero_byte() {
        let mut reader = Reader::new(b"ab\0cd");
        assert_eq!(reader.nul_terminated_or_rest(), b"ab");
        assert_eq!(reader.remaining(), 2);
        assert_eq!(reader.nul_terminated_or_rest(), b"cd");
        assert_eq!(reader.nul_terminated_or_rest(), b"");
    }
}
