//! SCGI and uwsgi as applications speak them: one request per connection, and a response that ends with it.

use std::io::{Read, Write};

use super::fastcgi::Asked;
use super::wire::Wire;

/// Reads a SCGI request; `None` at the end of the connection.
pub fn read_scgi<S: Read + Write>(wire: &mut Wire<S>) -> Option<Asked> {
    let mut length = Vec::new();
    loop {
        match wire.take(1).first()? {
            b':' => break,
            digit => length.push(*digit),
        }
    }
    let length: u64 = String::from_utf8(length)
        .expect("digits")
        .parse()
        .expect("a number");
    let text = wire.take(length);
    assert_eq!(wire.take(1), b",", "the end of a netstring");
    let text = text.strip_suffix(&[0]).expect("every value is ended");
    let parts: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
    assert_eq!(parts.len() % 2, 0, "every name has a value");
    let params: Vec<(Vec<u8>, Vec<u8>)> = parts
        .chunks(2)
        .map(|pair| (pair[0].to_vec(), pair[1].to_vec()))
        .collect();
    let names: Vec<&[u8]> = params.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(names[..2], [&b"CONTENT_LENGTH"[..], b"SCGI"]);
    let body = read_body(wire, &params);
    Some(Asked {
        params,
        body,
        keeps: false,
    })
}

/// Reads a uwsgi request with its two modifiers.
pub fn read_uwsgi<S: Read + Write>(wire: &mut Wire<S>) -> Option<(Asked, [u8; 2])> {
    let head = wire.take(4);
    let [first, low, high, second] = head[..].try_into().ok()?;
    let text = wire.take(u64::from(u16::from_le_bytes([low, high])));
    let (mut at, mut parts) = (0, Vec::new());
    while at < text.len() {
        let length = usize::from(u16::from_le_bytes([text[at], text[at + 1]]));
        parts.push(text[at + 2..at + 2 + length].to_vec());
        at += 2 + length;
    }
    assert_eq!(parts.len() % 2, 0, "every name has a value");
    let params: Vec<(Vec<u8>, Vec<u8>)> = parts
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect();
    let body = read_body(wire, &params);
    let asked = Asked {
        params,
        body,
        keeps: false,
    };
    Some((asked, [first, second]))
}

fn read_body<S: Read + Write>(wire: &mut Wire<S>, params: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let lengths: Vec<&Vec<u8>> = params
        .iter()
        .filter(|(name, _)| name == b"CONTENT_LENGTH")
        .map(|(_, value)| value)
        .collect();
    assert_eq!(lengths.len(), 1, "the length is told once");
    let length = String::from_utf8_lossy(lengths[0]).parse();
    wire.take(length.expect("a number"))
}
