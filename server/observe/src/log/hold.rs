//! Buffering of log lines until a sufficiently large piece can be written, and its compression. `output` decides when
//! to write.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::limits::LOG_HOLD_BYTES_MAX;

/// Buffering settings. By default lines are not held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// The number of bytes to collect.
    bytes: usize,
    /// The maximum time to hold lines back.
    pub time: Option<Duration>,
    /// The gzip compression level, from 1 to 9.
    pub gzip: Option<u32>,
}

impl Hold {
    /// Holds lines back until there are `bytes`, or for `time`, and compresses them at level `gzip`, if set.
    pub fn new(bytes: usize, time: Option<Duration>, gzip: Option<u32>) -> Hold {
        Hold {
            bytes: bytes.min(LOG_HOLD_BYTES_MAX),
            time,
            gzip,
        }
    }

    /// The number of bytes that triggers a write.
    pub fn bytes_min(&self) -> usize {
        self.bytes.max(1)
    }

    /// Whether to wake the writer after a queue has grown from `before` bytes to `after`.
    pub fn is_due(&self, before: usize, after: usize) -> bool {
        let is_enough = before < self.bytes_min() && after >= self.bytes_min();
        is_enough || before == 0 && self.time.is_some()
    }
}

/// Compresses lines as one gzip member: a file may consist of several (RFC 1952, section 2.2).
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
