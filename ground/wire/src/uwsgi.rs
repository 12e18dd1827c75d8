//! uwsgi, the protocol of the server uWSGI, the web server's side: encodes the variables of a request in one packet;
//! its body follows unchanged. The response is a head, with or without an HTTP status line, and a body up to the end of
//! the connection: [`crate::fastcgi::HeadDecoder`] parses the head.

use alloc::vec::Vec;
use core::fmt;

use memchr::memchr;

use crate::scgi::ZeroByte;

/// The bytes before the variables: a modifier, their length, another modifier.
const HEAD_BYTES: usize = 4;

/// Why variables cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// They do not fit into one packet, whose length has 16 bits, as has that of each name and value.
    TooLong,
    /// One has a zero byte.
    ZeroByte(ZeroByte),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::TooLong => {
                f.write_str("the variables of the request do not fit into a packet of uwsgi")
            }
            Refused::ZeroByte(zero) => zero.fmt(f),
        }
    }
}

impl core::error::Error for Refused {}

/// What kind of application is asked ("uwsgi protocol", the table of modifiers): both are 0 for WSGI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// The first byte of the packet.
    pub first: u8,
    /// The fourth one.
    pub second: u8,
}

/// Writes the variables of a request ("uwsgi protocol", the packet; numbers are little-endian).
#[derive(Debug)]
pub struct Params<'a> {
    out: &'a mut Vec<u8>,
    /// Where the packet begins.
    start: usize,
    modifiers: Modifiers,
    fit: Result<(), Refused>,
}

impl<'a> Params<'a> {
    /// Begins a packet at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>, modifiers: Modifiers) -> Params<'a> {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        Params {
            out,
            start,
            modifiers,
            fit: Ok(()),
        }
    }

    /// Adds a variable.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, value] {
            let Ok(length) = u16::try_from(part.len()) else {
                self.fit = Err(Refused::TooLong);
                return;
            };
            if memchr(0, part).is_some() {
                self.fit = Err(Refused::ZeroByte(ZeroByte));
                return;
            }
            self.out.extend_from_slice(&length.to_le_bytes());
            self.out.extend_from_slice(part);
        }
    }

    /// Ends the packet; where the variables do not fit `out` is as it was before.
    pub fn end(self) -> Result<(), Refused> {
        let length = u16::try_from(self.out.len() - self.start - HEAD_BYTES);
        match (self.fit, length) {
            (Ok(()), Ok(length)) => {
                let [low, high] = length.to_le_bytes();
                let head = [self.modifiers.first, low, high, self.modifiers.second];
                self.out[self.start..self.start + HEAD_BYTES].copy_from_slice(&head);
                Ok(())
            }
            (fit, _) => {
                self.out.truncate(self.start);
                Err(fit.err().unwrap_or(Refused::TooLong))
            }
        }
    }
}
