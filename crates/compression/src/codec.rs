//! One compressed packet: its header, and zlib or zstd for what is inside.

use flate2::{Compress, Compression as Level, Decompress, FlushCompress, FlushDecompress, Status};
use seam::Compression;
use zstd::bulk::{Compressor, Decompressor};

/// Length, number, and length before compression, of which the last is 0 for what is not compressed.
pub(crate) const HEADER: usize = 7;

/// Shorter ones are not worth it (`MIN_COMPRESS_LENGTH` in `include/mysql_com.h`).
const SHORTEST: usize = 50;

/// The most bytes in one compressed packet: lengths have three bytes.
const LARGEST: usize = 0xff_ffff;

/// zlib's own level, which the servers use (`net_compress` with `Z_DEFAULT_COMPRESSION`).
const ZLIB_LEVEL: u32 = 6;

/// Compressors and decompressors, one of each for all connections: each packet stands for itself.
pub(crate) struct Codec {
    deflate: Compress,
    inflate: Decompress,
    zstd: Option<Zstd>,
}

struct Zstd {
    compressor: Compressor<'static>,
    level: u8,
    decompressor: Decompressor<'static>,
}

/// A peer's packet is not what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// A compressed packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of what follows.
    pub(crate) length: usize,
    pub(crate) number: u8,
    /// Before compression; 0 where it is not compressed.
    pub(crate) original: usize,
}

impl Header {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, number, d, e, f] = *bytes.first_chunk::<HEADER>()?;
        let number_of =
            |low, middle, high| usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
        Some(Self { length: number_of(a, b, c), number, original: number_of(d, e, f) })
    }

    /// Bytes of the packet, opened.
    pub(crate) fn content(self) -> usize {
        if self.original == 0 { self.length } else { self.original }
    }

    fn put(self, header: &mut [u8]) {
        header[..3].copy_from_slice(&self.length.to_le_bytes()[..3]);
        header[3] = self.number;
        header[4..HEADER].copy_from_slice(&self.original.to_le_bytes()[..3]);
    }
}

impl Codec {
    pub(crate) fn new() -> Self {
        Self {
            deflate: Compress::new(Level::new(ZLIB_LEVEL), true),
            inflate: Decompress::new(true),
            zstd: None,
        }
    }

    /// Appends bytes as one compressed packet, or several where they are too many, numbered from `*number` on.
    pub(crate) fn put(&mut self, compression: Compression, number: &mut u8, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.chunks(LARGEST) {
            let start = out.len();
            out.resize(start + HEADER, 0);
            let smaller = piece.len() >= SHORTEST
                && self.compress(compression, piece, out).is_some()
                && out.len() - start - HEADER < piece.len();
            if !smaller {
                out.truncate(start + HEADER);
                out.extend_from_slice(piece);
            }
            let length = out.len() - start - HEADER;
            let original = if smaller { piece.len() } else { 0 };
            Header { length, number: *number, original }.put(&mut out[start..start + HEADER]);
            *number = number.wrapping_add(1);
        }
    }

    /// Appends what was compressed; `original` bytes, or it is [`Corrupt`].
    pub(crate) fn open(
        &mut self,
        compression: Compression,
        compressed: &[u8],
        original: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Corrupt> {
        let start = out.len();
        match compression {
            Compression::Zlib => {
                self.inflate.reset(true);
                out.reserve_exact(original);
                let status = self.inflate.decompress_vec(compressed, out, FlushDecompress::Finish);
                let ended = matches!(status, Ok(Status::StreamEnd));
                if ended && out.len() - start == original { Ok(()) } else { Err(Corrupt) }
            }
            Compression::Zstd { .. } => {
                let zstd = self.zstd().ok_or(Corrupt)?;
                out.resize(start + original, 0);
                match zstd.decompressor.decompress_to_buffer(compressed, &mut out[start..]) {
                    Ok(length) if length == original => Ok(()),
                    _ => Err(Corrupt),
                }
            }
        }
    }

    /// Appends the compressed piece; `None` where that cannot be done.
    fn compress(&mut self, compression: Compression, piece: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match compression {
            Compression::Zlib => {
                self.deflate.reset();
                // No more than the piece itself: beyond that it is of no use.
                out.reserve_exact(piece.len());
                match self.deflate.compress_vec(piece, out, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => Some(()),
                    _ => None,
                }
            }
            Compression::Zstd { level } => {
                let zstd = self.zstd()?;
                if zstd.level != level {
                    zstd.compressor.set_compression_level(i32::from(level)).ok()?;
                    zstd.level = level;
                }
                let start = out.len();
                out.resize(start + piece.len(), 0);
                let length = zstd.compressor.compress_to_buffer(piece, &mut out[start..]).ok()?;
                out.truncate(start + length);
                Some(())
            }
        }
    }

    /// Made when it is first needed: few clients ask for it, and it takes some hundred KiB.
    fn zstd(&mut self) -> Option<&mut Zstd> {
        if self.zstd.is_none() {
            let level = 3;
            let compressor = Compressor::new(i32::from(level)).ok()?;
            self.zstd = Some(Zstd { compressor, level, decompressor: Decompressor::new().ok()? });
        }
        self.zstd.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round(compression: Compression, bytes: &[u8]) -> (Vec<Header>, Vec<u8>) {
        let mut codec = Codec::new();
        let (mut packets, mut number) = (Vec::new(), 250);
        codec.put(compression, &mut number, bytes, &mut packets);
        let (mut headers, mut plain, mut rest) = (Vec::new(), Vec::new(), &packets[..]);
        while let Some(header) = Header::parse(rest) {
            let content = &rest[HEADER..HEADER + header.length];
            match header.original {
                0 => plain.extend_from_slice(content),
                original => codec.open(compression, content, original, &mut plain).unwrap(),
            }
            headers.push(header);
            rest = &rest[HEADER + header.length..];
        }
        assert!(rest.is_empty());
        (headers, plain)
    }

    const BOTH: [Compression; 3] =
        [Compression::Zlib, Compression::Zstd { level: 3 }, Compression::Zstd { level: 9 }];

    #[test]
    fn what_is_put_can_be_opened() {
        for compression in BOTH {
            let text = b"SELECT 1 ".repeat(2_000_000);
            let (headers, plain) = round(compression, &text);
            assert_eq!(plain, text);
            assert!(headers.iter().all(|header| header.length < header.original / 50));
            assert_eq!(headers.iter().map(|header| header.number).collect::<Vec<_>>(), [250, 251]);
            // Too short, and not to be made smaller.
            for text in [&b"x"[..], &[b'x'; 49]] {
                let (headers, plain) = round(compression, text);
                assert_eq!((headers[0].original, &plain[..]), (0, text));
            }
            assert!(round(compression, &[b'x'; 50]).0[0].original == 50);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_put_can_be_opened(bytes in prop::collection::vec(any::<u8>(), 0..2000), which in 0..3_usize) {
            prop_assert_eq!(round(BOTH[which], &bytes).1, bytes);
        }

        #[test]
        fn noise_is_corrupt_or_as_long_as_it_says(noise in prop::collection::vec(any::<u8>(), 0..200), original in 1..5000_usize) {
            for compression in BOTH {
                let mut out = Vec::new();
                if Codec::new().open(compression, &noise, original, &mut out).is_ok() {
                    prop_assert_eq!(out.len(), original);
                }
            }
        }
    }
}
