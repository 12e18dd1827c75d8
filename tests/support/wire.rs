//! Bytes over any stream, in either direction, for upstreams and for clients that inspect framing. Complete responses
//! are in `client`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Timeout of a read or a write.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One end of a connection.
pub struct Wire<S = TcpStream> {
    pub reader: BufReader<S>,
}

impl Wire {
    pub fn connect(port: u16) -> Wire {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("somebody listens");
        Wire::with_timeout(stream)
    }

    pub fn with_timeout(stream: TcpStream) -> Wire {
        Wire::new(patient(stream))
    }
}

/// Configures timeouts and disables Nagle's algorithm.
pub fn patient(stream: TcpStream) -> TcpStream {
    stream
        .set_read_timeout(Some(TIMEOUT))
        .expect("a timeout can be set");
    stream
        .set_write_timeout(Some(TIMEOUT))
        .expect("a timeout can be set");
    stream.set_nodelay(true).expect("it can be set");
    stream
}

impl<S: Read + Write> Wire<S> {
    pub fn new(stream: S) -> Wire<S> {
        Wire {
            reader: BufReader::new(stream),
        }
    }

    pub fn stream(&mut self) -> &mut S {
        self.reader.get_mut()
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the other side takes them");
    }

    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream().write_all(bytes.as_ref())?;
        self.stream().flush()
    }

    /// A line without its end; `None` at the end of the stream.
    pub fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).ok()?;
        let line = String::from_utf8_lossy(line.strip_suffix(b"\n")?).into_owned();
        Some(line.strip_suffix('\r').map_or(line.clone(), str::to_owned))
    }

    /// The lines of a head, or of a trailer section; `None` if the stream ends before.
    pub fn head(&mut self) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            match self.line()? {
                line if line.is_empty() => return Some(lines),
                line => lines.push(line),
            }
        }
    }

    /// `count` bytes, or as many as there are before the end.
    pub fn take(&mut self, count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = (&mut self.reader).take(count).read_to_end(&mut bytes);
        bytes
    }

    /// One chunk: its content, empty for the last one; `None` if the stream ends inside it.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.line()?;
        let size = line
            .split(';')
            .next()
            .and_then(|size| u64::from_str_radix(size.trim(), 16).ok())?;
        let content = self.take(size);
        let whole = u64::try_from(content.len()) == Ok(size);
        if size > 0 && (!whole || !self.line()?.is_empty()) {
            return None;
        }
        Some(content)
    }

    /// The body announced by a head; `None` if the stream ends before.
    pub fn body(&mut self, head: &[String]) -> Option<Vec<u8>> {
        if field(head, "Transfer-Encoding").is_some() {
            let mut body = Vec::new();
            loop {
                let chunk = self.chunk()?;
                if chunk.is_empty() {
                    self.head()?;
                    return Some(body);
                }
                body.extend_from_slice(&chunk);
            }
        }
        let length =
            field(head, "Content-Length").map_or(0, |text| text.parse().expect("a number"));
        let body = self.take(length);
        (u64::try_from(body.len()) == Ok(length)).then_some(body)
    }

    /// Reads and discards everything until the end; returns the number of bytes.
    pub fn drain(&mut self) -> u64 {
        let mut sum = 0;
        let mut buf = vec![0; 256 * 1024];
        while let Ok(count) = self.stream().read(&mut buf)
            && count > 0
        {
            sum += u64::try_from(count).expect("it fits");
        }
        sum
    }
}

/// The value of the first header of that name.
pub fn field<'a>(head: &'a [String], name: &str) -> Option<&'a str> {
    head.iter().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
