//! The content codings gzip, zstd and brotli behind one interface. The filter decides when to compress.

use std::cell::Cell;
use std::io::{self, Write};

use super::gzip::Gzip;
use crate::limits::ENCODERS_MAX;
use sluice_pipeline::refusal::Refusal;

/// A content coding and its compression level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coding {
    /// gzip (RFC 1952).
    Gzip {
        /// 1 to 9.
        level: u32,
    },
    /// Zstandard (RFC 8878).
    Zstd {
        /// 1 to 22.
        level: i32,
        /// Whether the frame ends with a checksum.
        checksum: bool,
    },
    /// Brotli (RFC 7932).
    Brotli {
        /// 0 to 11.
        level: u32,
    },
}

/// 512 KiB: the memory a decoder needs. RFC 9659 allows 8 MB, but the encoder needs as much for each response.
const ZSTD_WINDOW_BITS: u32 = 19;

/// 256 KiB, for the same reason.
const BROTLI_WINDOW_BITS: u32 = 18;

impl Coding {
    /// gzip; level 0 selects the default.
    pub fn gzip(level: i64) -> Result<Coding, Refusal> {
        match level {
            0 => Ok(Coding::Gzip { level: 5 }),
            1..=9 => Ok(Coding::Gzip {
                level: level as u32,
            }),
            _ => Err(Refusal::new(format!(
                "gzip level {level} is not between 1 and 9"
            ))),
        }
    }

    /// Zstandard with one of Caddy's levels; an empty text selects the default.
    pub fn zstd(level: &str, checksum: bool) -> Result<Coding, Refusal> {
        let level = match level {
            "fastest" => 1,
            "" | "default" => 3,
            "better" => 7,
            "best" => 11,
            other => {
                return Err(Refusal::new(format!("unknown zstd level `{other}`"))
                    .with_help("write fastest, default, better or best"));
            }
        };
        Ok(Coding::Zstd { level, checksum })
    }

    /// Brotli; level 0 selects the default, which compresses about as fast as gzip.
    pub fn brotli(level: i64) -> Result<Coding, Refusal> {
        match level {
            0 => Ok(Coding::Brotli { level: 4 }),
            1..=11 => Ok(Coding::Brotli {
                level: level as u32,
            }),
            _ => Err(Refusal::new(format!(
                "br level {level} is not between 1 and 11"
            ))),
        }
    }

    /// The name in `Accept-Encoding` and `Content-Encoding`.
    pub fn name(&self) -> &'static str {
        match self {
            Coding::Gzip { .. } => "gzip",
            Coding::Zstd { .. } => "zstd",
            Coding::Brotli { .. } => "br",
        }
    }

    /// An encoder for a stream; `None` if the worker already has [`ENCODERS_MAX`] of them.
    pub(super) fn coder(&self) -> io::Result<Option<Coder>> {
        let Some(permit) = Permit::take() else {
            return Ok(None);
        };
        let state = self.start(None)?;
        Ok(Some(Coder {
            state,
            _permit: permit,
        }))
    }

    /// Compresses `bytes` in one go.
    pub(super) fn encode(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut state = self.start(Some(bytes.len() as u64))?;
        state.write(bytes)?;
        state.finish()
    }

    fn start(&self, len: Option<u64>) -> io::Result<State> {
        Ok(match self {
            Coding::Gzip { level } => State::Gzip(Gzip::new(*level)),
            Coding::Zstd { level, checksum } => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), *level)?;
                encoder.window_log(ZSTD_WINDOW_BITS)?;
                encoder.include_checksum(*checksum)?;
                encoder.set_pledged_src_size(len)?;
                State::Zstd(encoder)
            }
            Coding::Brotli { level } => {
                let buffer = 4096;
                State::Brotli(Box::new(brotli::CompressorWriter::new(
                    Vec::new(),
                    buffer,
                    *level,
                    BROTLI_WINDOW_BITS,
                )))
            }
        })
    }
}

/// An encoder in progress.
pub(super) struct Coder {
    state: State,
    _permit: Permit,
}

impl Coder {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.state.write(bytes)
    }

    /// Flushes: makes everything written so far decodable for the client.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Gzip(encoder) => encoder.flush(),
            State::Zstd(encoder) => encoder.flush(),
            State::Brotli(encoder) => encoder.flush(),
        }
    }

    /// Compressed bytes that were not taken yet.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        match &mut self.state {
            State::Gzip(encoder) => encoder.output(),
            State::Zstd(encoder) => encoder.get_mut(),
            State::Brotli(encoder) => encoder.get_mut(),
        }
    }

    /// Ends the stream and returns the bytes that were not taken yet.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        self.state.finish()
    }
}

enum State {
    Gzip(Gzip),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
}

impl State {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            State::Gzip(encoder) => encoder.write_all(bytes),
            State::Zstd(encoder) => encoder.write_all(bytes),
            State::Brotli(encoder) => encoder.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            State::Gzip(encoder) => encoder.finish(),
            State::Zstd(encoder) => encoder.finish(),
            State::Brotli(encoder) => Ok(encoder.into_inner()),
        }
    }
}

thread_local! {
    /// The number of encoders of the worker that runs on this thread.
    static CODERS: Cell<usize> = const { Cell::new(0) };
}

/// A slot for one encoder, released when dropped.
struct Permit(());

impl Permit {
    fn take() -> Option<Permit> {
        CODERS.with(|coders| {
            (coders.get() < ENCODERS_MAX).then(|| {
                coders.set(coders.get() + 1);
                Permit(())
            })
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        CODERS.with(|coders| coders.set(coders.get() - 1));
    }
}
