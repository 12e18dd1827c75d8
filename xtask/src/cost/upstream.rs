//! What stands behind the server: a responder in threads of this process, for HTTP/1.1 and FastCGI.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::client::{body_length, head};

/// The first byte of a FastCGI record.
const FASTCGI: u8 = 1;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

/// Starts the responder. Its threads end with the process.
pub fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                // The server may close at any time.
                let _ = respond(stream);
            });
        }
    });
    Ok(address)
}

fn respond(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    if stream.peek(&mut first)? == 0 {
        return Ok(());
    }
    match first[0] {
        FASTCGI => fastcgi(stream),
        _ => http(stream),
    }
}

fn http(stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let head = head(&mut reader)?;
        let mut body = vec![0; body_length(&head).unwrap_or(0)];
        reader.read_exact(&mut body)?;
        // The target is the size of the body.
        let target = head.split(' ').nth(1).unwrap_or_default();
        let size: usize = target.trim_start_matches('/').parse().unwrap_or(0);
        let mut response = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {size}\r\n\r\n"
        )
        .into_bytes();
        response.resize(response.len() + size, b'x');
        stream.write_all(&response)?;
    }
}

fn fastcgi(stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let mut is_kept = false;
    loop {
        let mut header = [0; 8];
        reader.read_exact(&mut header)?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut content = vec![0; length + usize::from(header[6])];
        reader.read_exact(&mut content)?;
        match header[1] {
            BEGIN_REQUEST => is_kept = content[2] & 1 == 1,
            STDIN if length == 0 => {
                let id = [header[2], header[3]];
                let text = b"Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
                let mut response = record(STDOUT, id, text);
                response.extend(record(STDOUT, id, b""));
                response.extend(record(END_REQUEST, id, &[0; 8]));
                stream.write_all(&response)?;
                if !is_kept {
                    return Ok(());
                }
            }
            _ => {}
        }
    }
}

fn record(kind: u8, id: [u8; 2], content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("the records here are small");
    let [high, low] = length.to_be_bytes();
    let mut record = vec![FASTCGI, kind, id[0], id[1], high, low, 0, 0];
    record.extend_from_slice(content);
    record
}
