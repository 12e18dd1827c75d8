//! Traces of connections in qlog's format (draft-ietf-quic-qlog-main-schema), to find out what QUIC did on one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use quinn_proto::{ConnectionId, QlogConfig, QlogStream};

use crate::limits::{TRACE_BYTES_MAX, TRACES_MAX};

/// The latest traces of a socket.
#[derive(Default)]
pub(crate) struct Traces {
    kept: RefCell<VecDeque<PathBuf>>,
}

impl Traces {
    /// Begins the trace of a connection whose client chose the ID `original` for it: `ORIGINAL.sqlog` in `folder`, by
    /// which tools find it. The oldest trace is removed if there are too many.
    ///
    /// # Errors
    ///
    /// If the file exists or cannot be created.
    pub(crate) fn begin(&self, folder: &Path, original: &ConnectionId) -> io::Result<QlogStream> {
        // Hexadecimal digits, whatever the client has sent.
        let path = folder.join(format!("{original}.sqlog"));
        let file = File::create_new(&path)?;
        let mut kept = self.kept.borrow_mut();
        if kept.len() == TRACES_MAX
            && let Some(oldest) = kept.pop_front()
        {
            // Someone may have removed it already.
            let _ = fs::remove_file(oldest);
        }
        kept.push_back(path);
        let mut config = QlogConfig::default();
        config.writer(Box::new(Bounded {
            to: BufWriter::new(file),
            left: TRACE_BYTES_MAX,
        }));
        config
            .into_stream()
            .ok_or_else(|| io::Error::other("the first record cannot be written"))
    }
}

/// A writer that takes so many bytes, and drops the rest.
struct Bounded<W> {
    to: W,
    left: u64,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A piece that does not fit ends the trace, so that its last line is whole or visibly cut.
        let fits = u64::try_from(bytes.len()).is_ok_and(|len| len <= self.left);
        if !fits {
            self.left = 0;
            return Ok(bytes.len());
        }
        self.to.write_all(bytes)?;
        self.left -= bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_ends_at_its_limit() {
        let mut bounded = Bounded {
            to: Vec::new(),
            left: 10,
        };
        for piece in ["four", "five5", "six666", "1"] {
            bounded.write_all(piece.as_bytes()).expect("a vector");
        }
        assert_eq!(bounded.to, b"fourfive5");
    }

    #[test]
    fn the_latest_traces_are_kept_and_none_is_overwritten() {
        let folder = std::env::temp_dir().join(format!("sluice-traces-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let traces = Traces::default();
        let id = |number: usize| ConnectionId::new(&number.to_be_bytes());
        for number in 0..TRACES_MAX + 3 {
            let begun = traces.begin(&folder, &id(number));
            begun.expect("a new file");
        }
        let exists = |number| folder.join(format!("{}.sqlog", id(number))).exists();
        assert!(!exists(2) && exists(3) && exists(TRACES_MAX + 2));
        assert!(traces.begin(&folder, &id(3)).is_err());
        fs::remove_dir_all(&folder).expect("it exists");
    }
}
