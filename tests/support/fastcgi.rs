//! FastCGI as applications speak it.

use std::io::{Read, Write};

use super::wire::Wire;

/// The type of response records.
pub const STDOUT: u8 = 6;
/// The type of records for the error log.
pub const STDERR: u8 = 7;

/// A record with this content.
pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, kind, 0, 1];
    let length = u16::try_from(content.len()).expect("it fits into a record");
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&[0, 0]);
    bytes.extend_from_slice(content);
    bytes
}

/// An `END_REQUEST` record.
pub fn end(protocol_status: u8) -> Vec<u8> {
    record(3, &[0, 0, 0, 0, protocol_status, 0, 0, 0])
}

/// A complete response with this head and body.
pub fn said(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in content.chunks(60_000) {
        bytes.extend(record(STDOUT, part));
    }
    bytes.extend(end(0));
    bytes
}

/// A request as the application received it.
pub struct Asked {
    pub params: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Vec<u8>,
    /// Whether the connection stays open.
    pub keeps: bool,
}

impl Asked {
    pub fn param(&self, name: &str) -> Option<&str> {
        let found = self
            .params
            .iter()
            .find(|(found, _)| found == name.as_bytes());
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }
}

/// Reads one request; `None` at the end of the connection.
pub fn read_request<S: Read + Write>(wire: &mut Wire<S>) -> Option<Asked> {
    let (mut params, mut body, mut keeps) = (Vec::new(), Vec::new(), false);
    loop {
        let head = wire.take(8);
        let length = u16::from_be_bytes([*head.get(4)?, *head.get(5)?]);
        let content = wire.take(u64::from(length));
        wire.take(u64::from(*head.get(6)?));
        match (head[1], length) {
            (1, _) => keeps = content.get(2).is_some_and(|flags| flags & 1 == 1),
            (4, _) => params.extend_from_slice(&content),
            (5, 0) => break,
            (5, _) => body.extend_from_slice(&content),
            _ => {}
        }
    }
    Some(Asked {
        params: pairs(&params),
        body,
        keeps,
    })
}

/// Names and values, each with its length in one byte or four (FastCGI specification, section 3.4).
fn pairs(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fn length(bytes: &mut &[u8]) -> usize {
        let (length, used) = match **bytes {
            [short @ 0..0x80, ..] => (usize::from(short), 1),
            [a, b, c, d, ..] => (u32::from_be_bytes([a & 0x7f, b, c, d]) as usize, 4),
            _ => panic!("a length is cut off"),
        };
        *bytes = &bytes[used..];
        length
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        found.push((bytes[..name].to_vec(), bytes[name..name + value].to_vec()));
        bytes = &bytes[name + value..];
    }
    found
}
