//! Streams of gzip (RFC 1952). A compressor has 270 KB of memory that must be zero at first, so that a new one costs a
//! small response more than compressing it; a used one is reset instead.

use std::cell::RefCell;
use std::io::{self, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use crate::limits::GZIP_KEPT_MAX;

/// The header without time and file name, from an unknown system, as zlib and Go write it.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// The member of the header that says how hard the compressor tried, and what it says for the extremes.
const EFFORT: usize = 8;
const BEST: u8 = 2;
const FASTEST: u8 = 4;

thread_local! {
    /// The compressors that a worker keeps, with their levels.
    static KEPT: RefCell<Vec<(u32, DeflateEncoder<Vec<u8>>)>> = const { RefCell::new(Vec::new()) };
}

/// A stream in progress.
pub(super) struct Gzip {
    level: u32,
    deflate: DeflateEncoder<Vec<u8>>,
    crc: Crc,
}

impl Gzip {
    /// A stream with this level, 1 to 9.
    pub(super) fn new(level: u32) -> Gzip {
        let mut deflate =
            take(level).unwrap_or_else(|| DeflateEncoder::new(Vec::new(), Compression::new(level)));
        let mut header = HEADER;
        header[EFFORT] = match level {
            1 => FASTEST,
            9 => BEST,
            _ => 0,
        };
        deflate.get_mut().extend_from_slice(&header);
        Gzip {
            level,
            deflate,
            crc: Crc::new(),
        }
    }

    /// Compresses `bytes`.
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        self.deflate.write_all(bytes)
    }

    /// Makes everything written so far decodable.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.deflate.flush()
    }

    /// Compressed bytes that were not taken yet.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        self.deflate.get_mut()
    }

    /// Ends the stream and returns the bytes that were not taken yet.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        let Gzip {
            level,
            mut deflate,
            crc,
        } = self;
        deflate.try_finish()?;
        let mut out = deflate.reset(Vec::new())?;
        out.extend_from_slice(&crc.sum().to_le_bytes());
        out.extend_from_slice(&crc.amount().to_le_bytes());
        KEPT.with_borrow_mut(|kept| {
            if kept.len() < GZIP_KEPT_MAX {
                kept.push((level, deflate));
            }
        });
        Ok(out)
    }
}

/// A kept compressor with this level.
fn take(level: u32) -> Option<DeflateEncoder<Vec<u8>>> {
    KEPT.with_borrow_mut(|kept| {
        let at = kept.iter().rposition(|(of, _)| *of == level)?;
        Some(kept.swap_remove(at).1)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn round(level: u32, text: &[u8]) -> Vec<u8> {
        let mut gzip = Gzip::new(level);
        gzip.write_all(&text[..text.len() / 2]).unwrap();
        gzip.flush().unwrap();
        let mut bytes = std::mem::take(gzip.output());
        gzip.write_all(&text[text.len() / 2..]).unwrap();
        bytes.extend(gzip.finish().unwrap());
        let mut decoder = GzDecoder::new(&bytes[..]);
        let mut back = Vec::new();
        decoder.read_to_end(&mut back).unwrap();
        assert_eq!(back, text);
        bytes
    }

    fn kept() -> usize {
        KEPT.with_borrow(Vec::len)
    }

    #[test]
    fn a_reset_compressor_writes_what_a_new_one_does() {
        let text = b"the same text ".repeat(1000);
        let first = round(5, &text);
        assert_eq!(kept(), 1);
        round(
            5,
            b"another text, so that nothing of it is found in the next",
        );
        assert_eq!(round(5, &text), first);
        assert_eq!(kept(), 1);
        // One of another level is a new one.
        assert_ne!(round(9, &text)[EFFORT], first[EFFORT]);
        assert_eq!(kept(), 2);
    }

    #[test]
    fn a_bounded_number_is_kept() {
        let many: Vec<Gzip> = (0..GZIP_KEPT_MAX + 3).map(|_| Gzip::new(5)).collect();
        many.into_iter().for_each(|gzip| {
            gzip.finish().unwrap();
        });
        assert_eq!(kept(), GZIP_KEPT_MAX);
    }

    #[test]
    fn a_stream_given_up_leaves_nothing_behind() {
        let mut gzip = Gzip::new(5);
        gzip.write_all(b"abandoned").unwrap();
        drop(gzip);
        assert_eq!(kept(), 0);
        round(5, b"");
    }
}
