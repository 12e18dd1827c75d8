//! SCGI, the web server's side: encodes the variables of a request as a netstring; its body follows unchanged. The
//! response is a CGI head and a body up to the end of the connection: [`crate::fastcgi::HeadDecoder`] parses the head.

use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use memchr::memchr;

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
        params.push(b"CONTENT_LENGTH", format!("{length}").as_bytes());
        params.push(b"SCGI", b"1");
        params
    }

    /// Adds a variable.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, value] {
            if memchr(0, part).is_some() {
                self.fit = Err(ZeroByte);
            }
            self.out.extend_from_slice(part);
            self.out.push(0);
        }
    }

    /// Ends the variables; where they do not fit `out` is as it was before.
    pub fn end(self) -> Result<(), ZeroByte> {
        if self.fit.is_err() {
            self.out.truncate(self.start);
            return self.fit;
        }
        let length = format!("{}:", self.out.len() - self.start);
        self.out.splice(self.start..self.start, length.into_bytes());
        self.out.push(b',');
        Ok(())
    }
}
