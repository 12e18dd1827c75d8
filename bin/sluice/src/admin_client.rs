//! Client of the admin endpoint: the requests that `stop`, `reload` and `trust` send to a running server.
//! `sluice-admin` is the server side.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use sluice_model::Config;

use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat};

/// Timeout for a response: a reload opens files and may fetch nothing, so this is ample.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of a response.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// The address of the admin endpoint: the given one, else the one in the configuration, else the default.
pub fn address(given: Option<&str>, config: Option<&Config>) -> Result<String, Failed> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let admin = config.and_then(|config| config.admin.as_ref());
    match admin {
        Some(admin) if admin.disabled => {
            Err(Failed::new("the configuration disables the admin endpoint")
                .help("send SIGUSR1 to the process to reload, SIGTERM to stop it"))
        }
        Some(admin) if !admin.listen.is_empty() => Ok(admin.listen.clone()),
        Some(_) | None => Ok(default_address()),
    }
}

/// The default address: `$SLUICE_ADMIN`, else Caddy's.
pub fn default_address() -> String {
    let variable = std::env::var("SLUICE_ADMIN")
        .ok()
        .filter(|value| !value.is_empty());
    variable.unwrap_or_else(|| sluice_admin::Address::DEFAULT.to_owned())
}

/// The flags that name a running server.
#[derive(clap::Args, Debug)]
pub struct Place {
    /// Address of the admin endpoint (default: the one in the configuration, else `localhost:2019`).
    #[arg(long, global = true)]
    address: Option<String>,
    /// Configuration file to read the admin address from.
    #[arg(short, long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Configuration format: caddyfile, caddy1, json or nginx (default: detected from name and content).
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        global = true,
        hide_possible_values = true
    )]
    adapter: Option<Adapter>,
}

impl Place {
    /// The address of the admin endpoint.
    pub fn address(&self, format: MessageFormat) -> Result<String, Failed> {
        let config = match &self.config {
            Some(path) => Some(
                Source::required(Some(path), self.adapter)?
                    .load(format)?
                    .config,
            ),
            None => None,
        };
        address(self.address.as_deref(), config.as_ref())
    }
}

/// A client for one server.
#[derive(Debug)]
pub struct Client {
    address: String,
    timeout: Duration,
}

impl Client {
    /// A client for the endpoint at `address`: `host:port`, `:port` or `unix//path`.
    pub fn new(address: String) -> Self {
        Client {
            address,
            timeout: TIMEOUT,
        }
    }

    /// Waits so long for a response.
    pub fn waiting(self, timeout: Duration) -> Self {
        Client { timeout, ..self }
    }

    /// Sends a POST request and returns the response body. An error response becomes an error with the server's
    /// message.
    pub fn post(
        &self,
        path: &str,
        kind: &str,
        body: &[u8],
        fields: &[(&str, &str)],
    ) -> Result<Vec<u8>, Failed> {
        self.request("POST", path, kind, body, fields)
    }

    /// Like [`Client::post`], with PATCH.
    pub fn patch(&self, path: &str, kind: &str, body: &[u8]) -> Result<Vec<u8>, Failed> {
        self.request("PATCH", path, kind, body, &[])
    }

    /// Sends a GET request that accepts this media type and returns the response body. An error response becomes an
    /// error with the server's message.
    pub fn get(&self, path: &str, accept: &str) -> Result<Vec<u8>, Failed> {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n",
            self.host()
        );
        self.send(&head, b"")
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &[u8],
        fields: &[(&str, &str)],
    ) -> Result<Vec<u8>, Failed> {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Connection: close\r\n",
            self.host(),
            body.len()
        );
        for (name, value) in fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.send(&head, body)
    }

    fn send(&self, head: &str, body: &[u8]) -> Result<Vec<u8>, Failed> {
        let raw = self.exchange(head.as_bytes(), body).map_err(|error| {
            Failed::new(format!(
                "cannot reach the admin endpoint at {}: {error}",
                self.address
            ))
            .help("start the server first, or name another endpoint with `--address`")
        })?;
        let (status, body) = response(&raw)
            .ok_or_else(|| Failed::new(format!("{} does not speak HTTP", self.address)))?;
        if (200..300).contains(&status) {
            return Ok(body.to_vec());
        }
        let given = serde_json::from_slice::<serde_json::Value>(body).ok();
        let given = given.and_then(|value| value.get("error")?.as_str().map(str::to_owned));
        Err(Failed::new(match given {
            Some(given) => format!("the server refused: {given}"),
            None => format!("the server responded with status {status}"),
        }))
    }

    fn exchange(&self, head: &[u8], body: &[u8]) -> io::Result<Vec<u8>> {
        if let Some(path) = self.address.strip_prefix("unix/") {
            let path = path.split('|').next().unwrap_or_default();
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(self.timeout))?;
            return talk(stream, head, body);
        }
        let stream = TcpStream::connect(self.host())?;
        stream.set_read_timeout(Some(self.timeout))?;
        talk(stream, head, body)
    }

    /// The host and port to connect to, also used for the `Host` header.
    fn host(&self) -> String {
        let address = self.address.strip_prefix("tcp/").unwrap_or(&self.address);
        if address.starts_with("unix/") {
            return "localhost".to_owned();
        }
        if address.starts_with(':') {
            format!("localhost{address}")
        } else {
            address.to_owned()
        }
    }
}

fn talk(mut stream: impl Read + Write, head: &[u8], body: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(head)?;
    // A server that rejects a body may close before it has read all of it; its response is still valid.
    let written = stream.write_all(body);
    let mut raw = Vec::new();
    match stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut raw) {
        Ok(0) => written.and(Err(io::ErrorKind::UnexpectedEof.into())),
        Ok(_) => Ok(raw),
        Err(_) if !raw.is_empty() => Ok(raw),
        Err(error) => Err(error),
    }
}

/// Status and body of a complete response. The connection ends after it, so framing does not matter, except that a
/// chunked body would have to be decoded; our servers always declare the length.
fn response(raw: &[u8]) -> Option<(u16, &[u8])> {
    let end = raw.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&raw[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
    Some((status, &raw[end + 4..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_parsed() {
        let raw = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(response(raw), Some((400, &b"{}"[..])));
        assert_eq!(response(b"SSH-2.0\r\n\r\n"), None);
        assert_eq!(response(b""), None);
    }

    #[test]
    fn addresses_become_hosts() {
        for (address, host) in [
            ("localhost:2019", "localhost:2019"),
            (":2019", "localhost:2019"),
            ("tcp/[::1]:1", "[::1]:1"),
            ("unix//run/x.sock", "localhost"),
        ] {
            assert_eq!(Client::new(address.into()).host(), host);
        }
    }
}
