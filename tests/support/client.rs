//! A client that sends exact bytes and parses responses. It supports HTTP/1.1 only.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Timeout of a response.
const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// The whole head, including line endings.
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    /// The value of the first header of that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(port: u16) -> Client {
        Client::try_connect(port).expect("somebody listens")
    }

    /// Connects to a server that may be gone.
    pub fn try_connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Client::of(stream))
    }

    /// A client on an open connection.
    pub fn of(stream: TcpStream) -> Client {
        Client {
            reader: BufReader::new(stream),
        }
    }

    /// Sends bytes unchanged.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the server takes them");
    }

    /// Sends bytes that the server may no longer accept.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes.as_ref())
    }

    /// Sends a GET for `path`; the connection stays open.
    pub fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.response()
    }

    /// Reads one response to a request other than HEAD.
    pub fn response(&mut self) -> Response {
        self.try_response().expect("an answer")
    }

    /// Reads one response, or detects that the connection has ended.
    pub fn try_response(&mut self) -> io::Result<Response> {
        let head = self.head()?;
        let status = head.get(9..12).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status in {head:?}")))?;
        let mut response = Response {
            status,
            head,
            body: Vec::new(),
        };
        let bodiless = status < 200 || status == 204 || status == 304;
        let length = response
            .field("Content-Length")
            .and_then(|text| text.parse::<usize>().ok());
        let chunked = response
            .field("Transfer-Encoding")
            .is_some_and(|text| text == "chunked");
        match length {
            _ if bodiless => {}
            _ if chunked => response.body = self.chunks()?,
            Some(length) => {
                response.body.resize(length, 0);
                self.reader.read_exact(&mut response.body)?;
            }
            None => _ = self.reader.read_to_end(&mut response.body)?,
        }
        Ok(response)
    }

    /// Reads only a head, as of a response to HEAD.
    pub fn head(&mut self) -> io::Result<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if self.reader.read_until(b'\n', &mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        String::from_utf8(head).map_err(io::Error::other)
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            let start = body.len();
            body.resize(start + size, 0);
            self.reader.read_exact(&mut body[start..])?;
            self.reader.read_line(&mut line)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    /// The next byte.
    pub fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.reader.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    /// Whether the server has closed the connection by now, without waiting.
    pub fn was_closed(&self) -> bool {
        match self.peek() {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Whether the server has sent something or closed the connection by now, without waiting.
    pub fn has_heard(&self) -> bool {
        !self
            .peek()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    fn peek(&self) -> io::Result<usize> {
        let stream = self.reader.get_ref();
        let _ = stream.set_nonblocking(true);
        let seen = stream.peek(&mut [0]);
        let _ = stream.set_nonblocking(false);
        seen
    }

    /// Whether the server has closed the connection; waits until it sends something or closes.
    pub fn is_closed(&mut self) -> bool {
        match self.reader.fill_buf() {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// Requests a path with GET on a connection of its own.
pub fn ask(port: u16, path: &str) -> Response {
    exchange(
        port,
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    )
}

/// Sends a complete request on a connection of its own.
pub fn exchange(port: u16, request: impl AsRef<[u8]>) -> Response {
    let mut client = Client::connect(port);
    client.send(request);
    client.response()
}
