//! A PHP that runs no script and tells what it was asked.

use std::io::{Read, Write};
use std::net::TcpListener;

/// Parameters that the sites look at.
const TOLD: &[&str] = &[
    "CONTENT_LENGTH",
    "MODE",
    "PATH_INFO",
    "QUERY_STRING",
    "REQUEST_METHOD",
    "REQUEST_URI",
    "SCRIPT_NAME",
    "TENANT",
];

/// Starts it on a free port; it ends with the test.
pub fn start() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || while serve(&mut stream).is_some() {});
        }
    });
    port
}

fn serve(stream: &mut (impl Read + Write)) -> Option<()> {
    let (mut params, mut body) = (Vec::new(), Vec::new());
    let id = loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        stream.read_exact(&mut content).ok()?;
        match (head[1], length) {
            (4, _) => params.extend_from_slice(&content[..length]),
            (5, 0) => break [head[2], head[3]],
            (5, _) => body.extend_from_slice(&content[..length]),
            _ => {}
        }
    };
    let mut said = "Content-Type: text/plain\r\nX-Powered-By: PHP\r\n\r\n".to_owned();
    let found = pairs(&params)?;
    for name in TOLD {
        let value = found.iter().find(|(known, _)| known == name);
        said.push_str(&value.map_or(String::new(), |(_, value)| format!("{name}={value}\n")));
    }
    said.push_str(&String::from_utf8_lossy(&body));
    let record = |kind: u8, content: &[u8]| {
        let length = u16::try_from(content.len())
            .expect("it is short")
            .to_be_bytes();
        let head = [1, kind, id[0], id[1], length[0], length[1], 0, 0];
        [&head[..], content].concat()
    };
    let bytes = [
        record(6, said.as_bytes()),
        record(6, b""),
        record(3, &[0; 8]),
    ]
    .concat();
    stream.write_all(&bytes).ok()
}

/// Names and values, each with its length in one byte or four (FastCGI specification, section 3.4).
fn pairs(mut bytes: &[u8]) -> Option<Vec<(String, String)>> {
    fn length(bytes: &mut &[u8]) -> Option<usize> {
        let (length, used) = match **bytes {
            [short @ 0..0x80, ..] => (usize::from(short), 1),
            [a, b, c, d, ..] => (u32::from_be_bytes([a & 0x7f, b, c, d]) as usize, 4),
            _ => return None,
        };
        *bytes = bytes.get(used..)?;
        Some(length)
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes)?, length(&mut bytes)?);
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        found.push((
            text(bytes.get(..name)?),
            text(bytes.get(name..name + value)?),
        ));
        bytes = bytes.get(name + value..)?;
    }
    Some(found)
}
