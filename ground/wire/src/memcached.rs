//! memcached's text protocol, limited to fetching one value: `get` and its reply (memcached's doc/protocol.txt,
//! "Retrieval command"). The caller interprets the value.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use memchr::memmem;

use crate::limits::MEMCACHED_LINE_BYTES_MAX;

/// What stands behind a value.
const END: &[u8] = b"\r\nEND\r\n";

/// Writes the question for the value of `key`. Bytes that would end the key or the line are escaped with a percent sign, as
/// nginx does; so the key of a question has none of them, whatever a client sent.
pub fn encode_get(key: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(b"get ");
    for byte in key {
        match byte {
            0..=b' ' | b'%' | 0x7f => {
                let digits = [
                    DIGITS[usize::from(byte >> 4)],
                    DIGITS[usize::from(byte & 15)],
                ];
                out.push(b'%');
                out.extend_from_slice(&digits);
            }
            _ => out.push(*byte),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The start of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// There is a value.
    Found {
        /// A number that was stored with it.
        flags: u32,
        /// Its bytes.
        length: u64,
    },
    /// There is no such value; the reply ends here.
    Missing,
}

/// Why bytes are not a valid reply to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The first line is not a reply to the request: it is a server error or another protocol.
    Line,
    /// It is longer than any that does.
    LongLine,
    /// The value is that of another key: the connection is out of step.
    OtherKey,
    /// Something else stands behind the value.
    NoEnd,
    /// The connection ended within the reply.
    CutOff,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Line => "not a memcached response to `get`",
            Fault::LongLine => "a line longer than any of memcached",
            Fault::OtherKey => "the value of another key",
            Fault::NoEnd => "a value that does not end where it should",
            Fault::CutOff => "a truncated response",
        })
    }
}

impl core::error::Error for Fault {}

/// Decodes the reply to one request.
#[derive(Debug)]
pub struct ResponseDecoder {
    key: Box<[u8]>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    AwaitHead,
    /// So many bytes of the value are to come.
    ReadValue(u64),
    /// So many bytes of what stands behind it were seen.
    ReadEnd(usize),
    Done,
}

impl ResponseDecoder {
    /// A decoder for the reply to `question`, which [`encode_get`] has written.
    pub fn new(question: &[u8]) -> ResponseDecoder {
        let key = question.strip_prefix(b"get ").unwrap_or(question);
        let key = key.strip_suffix(b"\r\n").unwrap_or(key);
        ResponseDecoder {
            key: key.into(),
            stage: Stage::AwaitHead,
        }
    }

    /// Whether all of it was read.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The start of the reply, and how many bytes of `input` it takes, once it is complete.
    pub fn decode_head(&mut self, input: &[u8]) -> Result<Option<(usize, Head)>, Fault> {
        let Some(end) = memmem::find(input, b"\r\n") else {
            return match input.len() > MEMCACHED_LINE_BYTES_MAX {
                true => Err(Fault::LongLine),
                false => Ok(None),
            };
        };
        if end > MEMCACHED_LINE_BYTES_MAX {
            return Err(Fault::LongLine);
        }
        let line = &input[..end];
        if line == b"END" {
            self.stage = Stage::Done;
            return Ok(Some((end + 2, Head::Missing)));
        }
        let words = line.strip_prefix(b"VALUE ").ok_or(Fault::Line)?;
        let mut words = words.split(|byte| *byte == b' ');
        if words.next() != Some(&*self.key) {
            return Err(Fault::OtherKey);
        }
        let flags = number(words.next()).and_then(|flags| u32::try_from(flags).ok());
        let length = number(words.next());
        // A fourth word, which only `gets` asks for, means nothing here.
        let (Some(flags), Some(length)) = (flags, length) else {
            return Err(Fault::Line);
        };
        self.stage = match length {
            0 => Stage::ReadEnd(0),
            _ => Stage::ReadValue(length),
        };
        Ok(Some((end + 2, Head::Found { flags, length })))
    }

    /// Where in `input`, which follows what was read before, bytes of the value are, and how much of it was read.
    pub fn decode(&mut self, input: &[u8]) -> Result<(Range<usize>, usize), Fault> {
        let mut content = 0..0;
        if let Stage::ReadValue(left) = self.stage {
            let here = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
            content = 0..here;
            self.stage = match left - here as u64 {
                0 => Stage::ReadEnd(0),
                left => Stage::ReadValue(left),
            };
        }
        let mut at = content.end;
        if let Stage::ReadEnd(seen) = self.stage {
            let wanted = &END[seen..];
            let here = wanted.len().min(input.len() - at);
            if input[at..at + here] != wanted[..here] {
                return Err(Fault::NoEnd);
            }
            at += here;
            self.stage = match seen + here == END.len() {
                true => Stage::Done,
                false => Stage::ReadEnd(seen + here),
            };
        }
        Ok((content, at))
    }

    /// Reports the end of the connection, which is an error unless the reply was complete.
    pub fn finish_at_eof(&self) -> Result<(), Fault> {
        match self.is_done() {
            true => Ok(()),
            false => Err(Fault::CutOff),
        }
    }
}

fn number(word: Option<&[u8]>) -> Option<u64> {
    let word = word.filter(|word| !word.is_empty() && word.iter().all(u8::is_ascii_digit))?;
    core::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn read(response: &[u8], step: usize) -> Result<(Option<Head>, Vec<u8>, bool), Fault> {
        let mut decoder = ResponseDecoder::new(b"get a%20b\r\n");
        let (mut head, mut value, mut unread) = (None, Vec::new(), Vec::new());
        for piece in response.chunks(step) {
            unread.extend_from_slice(piece);
            if head.is_none() {
                let Some((taken, found)) = decoder.decode_head(&unread)? else {
                    continue;
                };
                head = Some(found);
                unread.drain(..taken);
            }
            let (content, taken) = decoder.decode(&unread)?;
            value.extend_from_slice(&unread[content]);
            unread.drain(..taken);
        }
        Ok((head, value, decoder.is_done() && unread.is_empty()))
    }

    #[test]
    fn keys_have_no_bytes_that_end_them() {
        let mut out = vec![];
        encode_get(b"/a b?x=%41\r\nset y 0 0 1\r\n\x7f\0\xc3\xa4", &mut out);
        assert_eq!(
            out,
            b"get /a%20b?x=%2541%0D%0Aset%20y%200%200%201%0D%0A%7F%00\xc3\xa4\r\n"
        );
    }

    #[test]
    fn responses_are_parsed_in_pieces_of_any_size() {
        let found = |flags, length| Some(Head::Found { flags, length });
        for (response, head, value) in [
            (
                &b"VALUE a%20b 7 5\r\nhello\r\nEND\r\n"[..],
                found(7, 5),
                &b"hello"[..],
            ),
            (b"VALUE a%20b 0 0\r\n\r\nEND\r\n", found(0, 0), b""),
            (
                b"VALUE a%20b 4294967295 5 99\r\n\r\nEND\r\nEND\r\n",
                found(u32::MAX, 5),
                b"\r\nEND",
            ),
            (b"END\r\n", Some(Head::Missing), b""),
        ] {
            // The third has five bytes of what looks like an end, and then too much.
            if value == b"\r\nEND" {
                let whole = b"VALUE a%20b 4294967295 5 99\r\n\r\nEND\r\nEND\r\n";
                assert_eq!(read(whole, 1), Ok((head, value.to_vec(), true)));
                continue;
            }
            for step in 1..=response.len() {
                assert_eq!(
                    read(response, step),
                    Ok((head, value.to_vec(), true)),
                    "{step}"
                );
            }
        }
    }

    #[test]
    fn invalid_responses_are_distinguished() {
        for (response, fault) in [
            (&b"ERROR\r\n"[..], Fault::Line),
            (b"SERVER_ERROR out of memory\r\n", Fault::Line),
            (b"HTTP/1.1 400 Bad Request\r\n", Fault::Line),
            (b"VALUE b 0 5\r\nhello\r\nEND\r\n", Fault::OtherKey),
            (b"VALUE a%20b 0\r\n", Fault::Line),
            (b"VALUE a%20b -1 5\r\n", Fault::Line),
            (b"VALUE a%20b 0 99999999999999999999\r\n", Fault::Line),
            (b"VALUE a%20b 0 2\r\nhello\r\nEND\r\n", Fault::NoEnd),
        ] {
            for step in [1, 3, 1000] {
                assert_eq!(read(response, step), Err(fault), "{response:?}");
            }
        }
        let long = vec![b'x'; MEMCACHED_LINE_BYTES_MAX + 1];
        assert_eq!(read(&long, 100), Err(Fault::LongLine));
        let cut = ResponseDecoder::new(b"get a\r\n");
        assert_eq!(cut.finish_at_eof(), Err(Fault::CutOff));
    }
}
