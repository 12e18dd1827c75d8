//! Sends requests one after another, and checks the responses.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use super::kinds::{Kind, Protocol};
use super::lab;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// The flag that ends a stream; of SETTINGS, that acknowledges them.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Sends `count` requests of `kind` to the server at `port`, those over HTTP/3 by the program `lab`.
pub fn send(lab: &Path, port: u16, kind: &Kind, count: u32) -> io::Result<()> {
    match kind.protocol {
        Protocol::Kept => {
            let stream = connect(port)?;
            kept(stream.try_clone()?, stream, port, kind, count)
        }
        Protocol::Single => (0..count).try_for_each(|_| {
            let stream = connect(port)?;
            kept(stream.try_clone()?, stream, port, kind, 1)
        }),
        Protocol::Tls => tls(port, kind, count),
        Protocol::H2c => h2c(connect(port)?, port, count),
        Protocol::H3 => h3(lab, port, kind, count),
    }
}

/// All on one connection. Another one carries a single request before, by which the lab sees that the server is there.
fn h3(lab: &Path, port: u16, kind: &Kind, count: u32) -> io::Result<()> {
    let length = format!("len:{}", kind.response_body);
    let verified = ["--expect-status", "200", "--verify", &length];
    let more = [&["--h3", "--insecure", "-c", "1", "-t", "1"][..], &verified].concat();
    lab::hit(lab, kind, port, count, &more).map_err(io::Error::other)
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn kept(from: impl Read, mut to: impl Write, port: u16, kind: &Kind, count: u32) -> io::Result<()> {
    let mut request = format!("{}Host: localhost:{port}\r\n", kind.request);
    if kind.request_body > 0 {
        request.push_str(&format!("Content-Length: {}\r\n", kind.request_body));
    }
    request.push_str("\r\n");
    let mut request = request.into_bytes();
    request.resize(request.len() + kind.request_body, b'x');
    let mut from = BufReader::with_capacity(256 * 1024, from);
    for _ in 0..count {
        to.write_all(&request)?;
        to.flush()?;
        let head = head(&mut from)?;
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(unexpected(&head));
        }
        let length = match body_length(&head) {
            Some(length) => {
                from.read_exact(&mut vec![0; length])?;
                length
            }
            None => chunked(&mut from)?,
        };
        if kind.response_body != 0 && length != kind.response_body {
            return Err(unexpected(&format!("{length} bytes")));
        }
    }
    Ok(())
}

/// The head of a message, with its empty line.
pub fn head(from: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

/// The length of the body that `head` announces.
pub fn body_length(head: &str) -> Option<usize> {
    let field = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = field.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next()?.1.trim().parse().ok()
}

fn chunked(from: &mut impl BufRead) -> io::Result<usize> {
    let mut total = 0;
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim_end(), 16).map_err(|_| unexpected(&line))?;
        from.read_exact(&mut vec![0; size + 2])?;
        if size == 0 {
            return Ok(total);
        }
        total += size;
    }
}

/// Through `openssl s_client`, so that nothing of the server checks itself.
fn tls(port: u16, kind: &Kind, count: u32) -> io::Result<()> {
    let mut child = Command::new("openssl")
        .args(["s_client", "-quiet", "-servername", "localhost", "-connect"])
        .arg(format!("127.0.0.1:{port}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let to = child.stdin.take().expect("stdin is a pipe");
    let from = child.stdout.take().expect("stdout is a pipe");
    let sent = kept(from, to, port, kind, count);
    // It waits for the server otherwise.
    let _ = child.kill();
    child.wait()?;
    sent
}

fn h2c(mut stream: TcpStream, port: u16, count: u32) -> io::Result<()> {
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    let authority = format!("localhost:{port}");
    // RFC 7541: GET, http and / by their numbers, and the host as it is.
    let mut block = vec![0x82, 0x86, 0x84, 0x01];
    block.push(u8::try_from(authority.len()).expect("the name is short"));
    block.extend_from_slice(authority.as_bytes());
    for request in 0..count {
        let stream_id = 2 * request + 1;
        stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, stream_id, &block))?;
        loop {
            let mut header = [0; 9];
            stream.read_exact(&mut header)?;
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            let mut content = vec![0; length];
            stream.read_exact(&mut content)?;
            let (kind, flags) = (header[3], header[4]);
            let id = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
            match kind {
                SETTINGS if flags & END_STREAM == 0 => {
                    stream.write_all(&frame(SETTINGS, END_STREAM, 0, &[]))?;
                }
                GOAWAY => return Err(unexpected("GOAWAY")),
                // 0x88 is `:status: 200`.
                HEADERS if content.first() != Some(&0x88) => return Err(unexpected("a status")),
                DATA if flags & END_STREAM != 0 && id == stream_id => break,
                _ => {}
            }
        }
    }
    Ok(())
}

fn frame(kind: u8, flags: u8, stream_id: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("the frames here are small");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream_id.to_be_bytes());
    frame.extend_from_slice(content);
    frame
}

fn unexpected(what: &str) -> io::Error {
    io::Error::other(format!("an unexpected response: {what}"))
}
