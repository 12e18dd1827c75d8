//! How lines of a file are held back until a good piece can be written, and compressed. When they are written is left to
//! `output`.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::limits::LOG_HOLD_BYTES_MAX;

/// How lines are held back. The default holds back nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Until they are so many bytes.
    bytes: usize,
    /// The longest that they are held back.
    pub time: Option<Duration>,
    /// How hard each piece is compressed, from 1 to 9.
    pub gzip: Option<u32>,
}

impl Hold {
    /// Lines are held back until they are so many bytes, or for so long, and compressed so hard if at all.
    pub fn new(bytes: usize, time: Option<Duration>, gzip: Option<u32>) -> Hold {
        Hold {
            bytes: bytes.min(LOG_HOLD_BYTES_MAX),
            time,
            gzip,
        }
    }

    /// So many bytes are written.
    pub fn bytes_min(&self) -> usize {
        self.bytes.max(1)
    }

    /// Whether the writer has to look at a queue that has grown from `before` bytes to `after`.
    pub fn is_due(&self, before: usize, after: usize) -> bool {
        let is_enough = before < self.bytes_min() && after >= self.bytes_min();
        is_enough || before == 0 && self.time.is_some()
    }
}

/// Lines as a piece of a file that is decompressed as one: such files are pieces, one after the other (RFC 1952, section
/// 2.2).
pub fn piece(lines: &[u8], level: u32) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(lines)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_is_woken_when_there_is_enough_or_time_runs() {
        let plain = Hold::default();
        assert!(plain.is_due(0, 5) && !plain.is_due(5, 10));
        let large = Hold::new(100, None, None);
        assert!(!large.is_due(0, 99) && large.is_due(99, 100) && !large.is_due(100, 150));
        let timed = Hold::new(100, Some(Duration::from_secs(1)), None);
        assert!(timed.is_due(0, 5) && !timed.is_due(5, 10) && timed.is_due(10, 100));
        let bytes = Hold::new(usize::MAX, None, None).bytes_min();
        assert_eq!(bytes, LOG_HOLD_BYTES_MAX);
    }

    #[test]
    fn pieces_are_read_as_one_file() {
        let mut file = piece(b"one\n", 1).unwrap();
        file.extend(piece(b"two\n", 9).unwrap());
        let mut text = String::new();
        let mut reader = flate2::read::MultiGzDecoder::new(file.as_slice());
        std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
    }
}
