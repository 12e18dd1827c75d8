//! SCGI, the web server's side: encodes the variables of a request as a netstring; its body follows unchanged. The
//! response is a CGI head and a body up to the end of the connection: [`crate::fastcgi::HeadDecoder`] parses the head.

use alloc::vec::Vec;
use core::fmt;

use sluice_message::decimal::push_integer;

use crate::cgi::{VariableName, has_zero};

/// A variable has a byte of value zero. In SCGI it ends names and values: the application would take what follows it for
/// another variable. FastCGI and uwsgi carry it, but to applications of C it ends a text, so that another script may run
/// than the one that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroByte;

impl fmt::Display for ZeroByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a variable of the request has a zero byte")
    }
}

impl core::error::Error for ZeroByte {}

/// Writes the variables of a request (SCGI protocol specification, section 2).
#[derive(Debug)]
pub struct Params<'a> {
    out: &'a mut Vec<u8>,
    /// Where the first of them begins.
    start: usize,
    fit: Result<(), ZeroByte>,
}

impl<'a> Params<'a> {
    /// Begins the variables at the end of `out` with the two that every request has: CONTENT_LENGTH, the `length` of the
    /// content, which has to be the first, and SCGI. Neither may be pushed again.
    pub fn new(out: &'a mut Vec<u8>, length: u64) -> Params<'a> {
        let start = out.len();
        let mut params = Params {
            out,
            start,
            fit: Ok(()),
        };
        params.push_with(b"CONTENT_LENGTH", |out| push_integer(out, length));
        params.push(b"SCGI", b"1");
        params
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
        if encode_variable(name.into(), write, self.out).is_err() {
            self.fit = Err(ZeroByte);
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
        if has_zero(&self.out[value_at..]) {
            self.fit = Err(ZeroByte);
        }
        self.out.push(0);
    }

    /// Adds variables that [`encode_variable`] has encoded before.
    pub fn push_encoded(&mut self, encoded: &[u8]) {
        self.out.extend_from_slice(encoded);
    }

    /// Ends the variables; where they do not fit `out` is as it was before.
    pub fn end(self) -> Result<(), ZeroByte> {
        if self.fit.is_err() {
            self.out.truncate(self.start);
            return self.fit;
        }
        // The length is written behind the variables, where it is known, and then moved before them.
        let content_end = self.out.len();
        push_integer(self.out, (content_end - self.start) as u64);
        self.out.push(b':');
        let prefix = self.out.len() - content_end;
        self.out[self.start..].rotate_right(prefix);
        self.out.push(b',');
        Ok(())
    }
}

/// Appends a variable in the form that it has among others, with the value that `write` appends; nothing if it has a zero
/// byte.
pub fn encode_variable(
    name: VariableName<'_>,
    write: impl FnOnce(&mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Result<(), ZeroByte> {
    let start = out.len();
    encode_name(name, out)?;
    let value_at = out.len();
    write(out);
    if has_zero(&out[value_at..]) {
        out.truncate(start);
        return Err(ZeroByte);
    }
    out.push(0);
    Ok(())
}

/// Appends the name of a variable in the form that it has before a value, for [`Params::push_named`]; nothing if it has a
/// zero byte.
pub fn encode_name(name: VariableName<'_>, out: &mut Vec<u8>) -> Result<(), ZeroByte> {
    let start = out.len();
    name.write(out);
    if has_zero(&out[start..]) {
        out.truncate(start);
        return Err(ZeroByte);
    }
    out.push(0);
    Ok(())
}
