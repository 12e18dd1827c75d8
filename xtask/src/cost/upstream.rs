//! What stands behind the server: a responder in threads of this process, for HTTP/1.1, FastCGI, SCGI and uwsgi.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::client::{body_length, head};

/// The first byte of a FastCGI record, and of a packet of uwsgi. A request of SCGI begins with a number.
const FASTCGI: u8 = 1;
const UWSGI: u8 = 0;

/// The response of an application.
const CGI_RESPONSE: &[u8] = b"Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";

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
        UWSGI => uwsgi(stream),
        b'0'..=b'9' => scgi(stream),
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
                let mut response = record(STDOUT, id, CGI_RESPONSE);
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

/// One request, without a body.
fn scgi(mut stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = Vec::new();
    reader.read_until(b':', &mut length)?;
    let digits = String::from_utf8_lossy(&length);
    let length: usize = digits.trim_end_matches(':').parse().unwrap_or(0);
    // The comma after the variables as well.
    reader.read_exact(&mut vec![0; length + 1])?;
    stream.write_all(CGI_RESPONSE)
}

/// One request, without a body.
fn uwsgi(mut stream: TcpStream) -> io::Result<()> {
    let mut packet = [0; 4];
    stream.read_exact(&mut packet)?;
    let length = usize::from(u16::from_le_bytes([packet[1], packet[2]]));
    stream.read_exact(&mut vec![0; length])?;
    stream.write_all(CGI_RESPONSE)
}

fn record(kind: u8, id: [u8; 2], content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("the records here are small");
    let [high, low] = length.to_be_bytes();
    let mut record = vec![FASTCGI, kind, id[0], id[1], high, low, 0, 0];
    record.extend_from_slice(content);
    record
}
