//! uwsgi, the protocol of the server uWSGI, the web server's side: encodes the variables of a request in one packet;
//! its body follows unchanged. The response is a head, with or without an HTTP status line, and a body up to the end of
//! the connection: [`crate::fastcgi::HeadDecoder`] parses the head.

use alloc::vec::Vec;
use core::fmt;

use crate::cgi::{VariableName, has_zero};
use crate::scgi::ZeroByte;

/// The bytes before the variables: a modifier, their length, another modifier.
const HEAD_BYTES: usize = 4;

/// The bytes of the length of a name or value.
const LENGTH_BYTES: usize = 2;

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
    pub fn push<'n>(&mut self, name: impl Into<VariableName<'n>>, value: &[u8]) {
        self.push_with(name, |out| out.extend_from_slice(value));
    }

    /// Adds a variable with the value that `write` appends. It must not change what is there already.
    pub fn push_with<'n>(
        &mut self,
        name: impl Into<VariableName<'n>>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if let Err(refused) = encode_variable(name.into(), write, self.out) {
            self.fit = Err(refused);
        }
    }

    /// Adds a variable whose name [`encode_name`] has encoded before.
    pub fn push_named(&mut self, name: &[u8], value: &[u8]) {
        self.push_named_with(name, |out| out.extend_from_slice(value));
    }

    /// As [`Params::push_named`] with the value that `write` appends. It must not change what is there already.
    pub fn push_named_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.out.extend_from_slice(name);
        let value_at = self.out.len();
        write(self.out);
        if let Err(refused) = end_part(value_at, self.out) {
            self.fit = Err(refused);
        }
    }

    /// Adds variables that [`encode_variable`] has encoded before.
    pub fn push_encoded(&mut self, encoded: &[u8]) {
        self.out.extend_from_slice(encoded);
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

/// Appends a variable in the form that it has among others, with the value that `write` appends; nothing if it cannot be
/// sent.
pub fn encode_variable(
    name: VariableName<'_>,
    write: impl FnOnce(&mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Result<(), Refused> {
    let start = out.len();
    let encoded = encode_part(|out| name.write(out), out).and_then(|()| encode_part(write, out));
    if encoded.is_err() {
        out.truncate(start);
    }
    encoded
}

/// Appends the name of a variable in the form that it has before a value, for [`Params::push_named`]; nothing if it cannot
/// be sent.
pub fn encode_name(name: VariableName<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
    let start = out.len();
    let encoded = encode_part(|out| name.write(out), out);
    match encoded {
        // Room for the length of the value.
        Ok(()) => out.extend_from_slice(&[0; LENGTH_BYTES]),
        Err(_) => out.truncate(start),
    }
    encoded
}

/// Appends a name or a value behind its length.
fn encode_part(write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) -> Result<(), Refused> {
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    let part_at = out.len();
    write(out);
    end_part(part_at, out)
}

/// Writes the length of the name or value from `part_at` on before it.
fn end_part(part_at: usize, out: &mut [u8]) -> Result<(), Refused> {
    let part = &out[part_at..];
    let length = u16::try_from(part.len()).map_err(|_| Refused::TooLong)?;
    if has_zero(part) {
        return Err(Refused::ZeroByte(ZeroByte));
    }
    out[part_at - LENGTH_BYTES..part_at].copy_from_slice(&length.to_le_bytes());
    Ok(())
}
