//! Responds to ACME challenges on a port that no server listens on, for example if a site uses a nonstandard HTTPS
//! port, or the configuration has no redirects. If our servers listen on the port, they respond themselves, and binding
//! it fails.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustls::server::Acceptor;

use crate::challenges::{ALPN, Challenges};
use crate::limits::CHALLENGE_CLIENT_TIMEOUT;

/// Maximum size of a request: validation servers send a few hundred bytes.
const REQUEST_BYTES_MAX: usize = 4096;

/// The challenge type of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateKind {
    /// http-01.
    Http,
    /// tls-alpn-01.
    Alpn,
}

/// A listener that only responds to challenges, until it is dropped.
pub(crate) struct Gate {
    addr: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Gate {
    /// Listens on the port; `None` if it is in use or permission is denied.
    pub(crate) fn open(
        kind: GateKind,
        host: &str,
        port: u16,
        challenges: &Arc<Challenges>,
    ) -> Option<Gate> {
        let listener = bind(host, port)?;
        let addr = listener.local_addr().ok()?;
        let ends = Arc::new(AtomicBool::new(false));
        let (challenges, ended) = (challenges.clone(), ends.clone());
        let thread = std::thread::Builder::new()
            .name("challenges".to_owned())
            .spawn(move || {
                for client in listener.incoming() {
                    if ended.load(Ordering::Acquire) {
                        return;
                    }
                    let Ok(client) = client else { continue };
                    // Errors of a client are ignored.
                    let _ = match kind {
                        GateKind::Http => respond_http(client, &challenges),
                        GateKind::Alpn => respond_alpn(client, &challenges),
                    };
                }
            })
            .ok()?;
        Some(Gate {
            addr,
            ends,
            thread: Some(thread),
        })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        let mut addr = self.addr;
        if addr.ip().is_unspecified() {
            addr.set_ip(match addr.ip() {
                IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        // A connection wakes the thread.
        let woken = TcpStream::connect_timeout(&addr, CHALLENGE_CLIENT_TIMEOUT).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            // It has processed untrusted input; how it ended does not matter.
            let _ = thread.join();
        }
    }
}

fn bind(host: &str, port: u16) -> Option<TcpListener> {
    if !host.is_empty() {
        return TcpListener::bind((host, port)).ok();
    }
    // On most systems, IPv6 sockets accept IPv4 as well.
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
        .ok()
}

fn respond_http(mut client: TcpStream, challenges: &Challenges) -> std::io::Result<()> {
    client.set_read_timeout(Some(CHALLENGE_CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CHALLENGE_CLIENT_TIMEOUT))?;
    let mut head = Vec::new();
    let mut buf = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < REQUEST_BYTES_MAX {
        match client.read(&mut buf)? {
            0 => break,
            count => head.extend_from_slice(&buf[..count]),
        }
    }
    let line = head.split(|b| *b == b'\r').next().unwrap_or_default();
    let path = line
        .strip_prefix(b"GET ")
        .and_then(|rest| rest.split(|b| *b == b' ').next());
    let response = match path.and_then(|path| challenges.http_response(path)) {
        Some(text) => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        ),
        None => {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
        }
    };
    client.write_all(response.as_bytes())
}

fn respond_alpn(mut client: TcpStream, challenges: &Challenges) -> std::io::Result<()> {
    client.set_read_timeout(Some(CHALLENGE_CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CHALLENGE_CLIENT_TIMEOUT))?;
    let mut acceptor = Acceptor::default();
    let accepted = loop {
        if acceptor.read_tls(&mut client)? == 0 {
            return Ok(());
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => break accepted,
            Err((_, mut alert)) => return alert.write(&mut client).map(drop),
        }
    };
    let hello = accepted.client_hello();
    let asks = hello
        .alpn()
        .is_some_and(|mut names| names.any(|name| name == ALPN));
    let name = hello.server_name().unwrap_or_default();
    let Some(config) = challenges.alpn_config(name).filter(|_| asks) else {
        return Ok(());
    };
    match accepted.into_connection(config) {
        Ok(mut connection) => {
            while connection.is_handshaking() {
                connection.complete_io(&mut client)?;
            }
            connection.send_close_notify();
            connection.complete_io(&mut client).map(drop)
        }
        Err((_, mut alert)) => alert.write(&mut client).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_serves_challenges_only_and_closes() {
        let challenges = Arc::new(Challenges::default());
        let _shown = challenges.show_http("tok", "tok.thumb").unwrap();
        let gate = Gate::open(GateKind::Http, "127.0.0.1", 0, &challenges).unwrap();
        let addr = gate.addr;
        assert!(Gate::open(GateKind::Http, "127.0.0.1", addr.port(), &challenges).is_none());
        for (path, status) in [
            ("/.well-known/acme-challenge/tok", "200"),
            ("/.well-known/acme-challenge/other", "404"),
            ("/", "404"),
        ] {
            let mut client = TcpStream::connect(addr).unwrap();
            write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut response = String::new();
            client.read_to_string(&mut response).unwrap();
            assert!(
                response.starts_with(&format!("HTTP/1.1 {status} ")),
                "{response}"
            );
            assert_eq!(response.ends_with("tok.thumb"), status == "200");
        }
        drop(gate);
        assert!(TcpListener::bind(addr).is_ok());
    }
}
