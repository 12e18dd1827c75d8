//! The serialization protocol of Redis and Valkey, version 2 (RESP2): commands out, replies in. Every server since
//! Redis 1.2 speaks it without negotiation. What commands mean is up to the caller.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

use memchr::memmem;

use crate::limits::{RESP_DEPTH_MAX, RESP_LINE_BYTES_MAX, RESP_REPLY_BYTES_MAX};

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A short text, such as `OK`.
    Status(Vec<u8>),
    /// An error; its first word is a code, such as `NOSCRIPT`.
    Error(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Vec<u8>),
    /// No value.
    Nil,
    /// Several replies.
    Array(Vec<Reply>),
}

/// Why bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A reply does not begin with this byte: the peer speaks another protocol, or the connection is out of step.
    Kind(u8),
    /// A length or an integer that is not a number.
    Number,
    /// Something else than a line break follows a string.
    NoEnd,
    /// The reply is longer than [`RESP_REPLY_BYTES_MAX`], or a line longer than [`RESP_LINE_BYTES_MAX`].
    TooLong,
    /// Arrays are nested deeper than [`RESP_DEPTH_MAX`].
    TooDeep,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kind(byte) => write!(f, "not a Redis reply: it begins with byte {byte:#04x}"),
            Fault::Number => f.write_str("a Redis reply with an invalid number"),
            Fault::NoEnd => f.write_str("a Redis string that does not end where it should"),
            Fault::TooLong => f.write_str("a Redis reply longer than expected"),
            Fault::TooDeep => f.write_str("a Redis reply nested deeper than expected"),
        }
    }
}

impl core::error::Error for Fault {}

/// Encodes a command: its name and its arguments, each of any bytes.
pub fn encode_command<'a>(words: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let words: Vec<&[u8]> = words.into_iter().collect();
    push_length(b'*', words.len(), out);
    for word in words {
        push_length(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn push_length(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(length.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Decodes the reply at the start of `input`: returns it and its length in bytes, or `None` if it is incomplete.
///
/// # Errors
/// The bytes are not a reply, or it exceeds a limit. The connection cannot be used any more.
pub fn decode_reply(input: &[u8]) -> Result<Option<(Reply, usize)>, Fault> {
    let mut rest = Rest { input, at: 0 };
    match rest.reply(RESP_DEPTH_MAX) {
        Ok(reply) => Ok(Some((reply, rest.at))),
        Err(Stop::Fault(fault)) => Err(fault),
        Err(Stop::Incomplete) if input.len() > RESP_REPLY_BYTES_MAX => Err(Fault::TooLong),
        Err(Stop::Incomplete) => Ok(None),
    }
}

/// Why decoding stopped.
enum Stop {
    /// The rest has not arrived yet.
    Incomplete,
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

struct Rest<'i> {
    input: &'i [u8],
    at: usize,
}

impl<'i> Rest<'i> {
    fn reply(&mut self, depth: usize) -> Result<Reply, Stop> {
        let kind = *self.input.get(self.at).ok_or(Stop::Incomplete)?;
        if !b"+-:$*".contains(&kind) {
            return Err(Fault::Kind(kind).into());
        }
        self.at += 1;
        let line = self.line()?;
        Ok(match kind {
            b'+' => Reply::Status(line.to_vec()),
            b'-' => Reply::Error(line.to_vec()),
            b':' => Reply::Integer(number(line)?),
            b'$' => match length(line)? {
                None => Reply::Nil,
                Some(length) => Reply::Bulk(self.bulk(length)?.to_vec()),
            },
            _ => match length(line)? {
                None => Reply::Nil,
                Some(length) => self.array(length, depth)?,
            },
        })
    }

    fn line(&mut self) -> Result<&'i [u8], Stop> {
        let rest = &self.input[self.at..];
        let Some(end) = memmem::find(rest, b"\r\n") else {
            return Err(match rest.len() > RESP_LINE_BYTES_MAX {
                true => Stop::Fault(Fault::TooLong),
                false => Stop::Incomplete,
            });
        };
        if end > RESP_LINE_BYTES_MAX {
            return Err(Fault::TooLong.into());
        }
        self.at += end + 2;
        Ok(&rest[..end])
    }

    fn bulk(&mut self, length: usize) -> Result<&'i [u8], Stop> {
        let rest = &self.input[self.at..];
        let content = rest.get(..length).ok_or(Stop::Incomplete)?;
        match &rest[length..] {
            [b'\r', b'\n', ..] => {}
            [] | [b'\r'] => return Err(Stop::Incomplete),
            _ => return Err(Fault::NoEnd.into()),
        }
        self.at += length + 2;
        Ok(content)
    }

    fn array(&mut self, length: usize, depth: usize) -> Result<Reply, Stop> {
        let depth = depth.checked_sub(1).ok_or(Fault::TooDeep)?;
        // A peer may announce more elements than it sends: only those that are there take memory.
        let mut elements = Vec::new();
        for _ in 0..length {
            elements.push(self.reply(depth)?);
        }
        Ok(Reply::Array(elements))
    }
}

fn number(text: &[u8]) -> Result<i64, Fault> {
    let text = core::str::from_utf8(text).map_err(|_| Fault::Number)?;
    text.parse().map_err(|_| Fault::Number)
}

/// A length; `None` for -1, which stands for no value.
fn length(text: &[u8]) -> Result<Option<usize>, Fault> {
    match number(text)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length > RESP_REPLY_BYTES_MAX => Err(Fault::TooLong),
            Ok(length) => Ok(Some(length)),
            Err(_) => Err(Fault::Number),
        },
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn arguments_may_hold_any_bytes() {
        let mut out = vec![];
        encode_command([&b"SET"[..], b"a\r\n*1", b""], &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$5\r\na\r\n*1\r\n$0\r\n\r\n");
    }

    #[test]
    fn replies_are_decoded_once_they_are_complete() {
        let text = |text: &str| text.as_bytes().to_vec();
        for (bytes, reply) in [
            (&b"+OK\r\n"[..], Reply::Status(text("OK"))),
            (b"-ERR no\r\n", Reply::Error(text("ERR no"))),
            (b":-42\r\n", Reply::Integer(-42)),
            (b"$4\r\na\r\nb\r\n", Reply::Bulk(text("a\r\nb"))),
            (b"$0\r\n\r\n", Reply::Bulk(vec![])),
            (b"$-1\r\n", Reply::Nil),
            (b"*-1\r\n", Reply::Nil),
            (b"*0\r\n", Reply::Array(vec![])),
            (
                b"*3\r\n:1\r\n$1\r\nx\r\n*1\r\n+y\r\n",
                Reply::Array(vec![
                    Reply::Integer(1),
                    Reply::Bulk(text("x")),
                    Reply::Array(vec![Reply::Status(text("y"))]),
                ]),
            ),
        ] {
            for end in 0..bytes.len() {
                assert_eq!(decode_reply(&bytes[..end]), Ok(None), "{bytes:?} to {end}");
            }
            let followed = [bytes, b"+next\r\n"].concat();
            assert_eq!(decode_reply(&followed), Ok(Some((reply, bytes.len()))));
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for (bytes, fault) in [
            (&b"HTTP/1.1 400 Bad Request\r\n"[..], Fault::Kind(b'H')),
            (b"\x15\x03\x03\0\x02", Fault::Kind(0x15)),
            (b":4x\r\n", Fault::Number),
            (b":99999999999999999999\r\n", Fault::Number),
            (b"$-2\r\n", Fault::Number),
            (b"$1\r\nxy\r\n", Fault::NoEnd),
            (b"$999999999999\r\n", Fault::TooLong),
            (b"*999999999999\r\n", Fault::TooLong),
            (&b"*1\r\n".repeat(RESP_DEPTH_MAX + 1), Fault::TooDeep),
            (&[b'+'; RESP_LINE_BYTES_MAX + 2], Fault::TooLong),
        ] {
            assert_eq!(decode_reply(bytes), Err(fault), "{bytes:?}");
        }
        let endless = [
            &b"*65536\r\n"[..],
            &b":1\r\n".repeat(RESP_REPLY_BYTES_MAX / 4),
        ]
        .concat();
        assert_eq!(decode_reply(&endless), Err(Fault::TooLong));
    }
}
