//! The local API of the Tailscale daemon: HTTP over a Unix socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use serde::Deserialize;
use sluice_dns::limits::RESPONSE_BYTES_MAX;

use crate::limits::TAILSCALE_TIMEOUT;
use crate::subject::Subject;

/// The status of the daemon, as far as it is used here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Status {
    /// Names that it can obtain certificates for; `null` if certificates are disabled for the network.
    cert_domains: Option<Vec<String>>,
}

/// Key and chain for `subject` as PEM; `None` if the daemon is not responsible for the name.
pub(super) fn ask(socket: &Path, subject: &Subject) -> Result<Option<Vec<u8>>, String> {
    let name = match subject.name() {
        Some(name) if name.ends_with(".ts.net") => name,
        Some(_) | None => return Ok(None),
    };
    // As in Caddy, a daemon that does not report its names is queried anyway. Information about peers is not needed.
    let status = get(socket, "/localapi/v0/status?peers=false");
    let status = status.ok().filter(|(status, _)| *status == 200);
    let status = status.and_then(|(_, text)| serde_json::from_slice::<Status>(&text).ok());
    if let Some(status) = status {
        let domains = status.cert_domains.unwrap_or_default();
        if !domains
            .iter()
            .any(|one| crate::on_demand::covers(one, name))
        {
            return Ok(None);
        }
    }
    match get(socket, &format!("/localapi/v0/cert/{name}?type=pair"))? {
        (200, text) => Ok(Some(text)),
        (403, _) => Err(
            "the daemon denied the request (status 403); set TS_PERMIT_CERT_UID to the user that sluice runs as"
                .to_owned(),
        ),
        (status, _) => Err(format!("the daemon responded with status {status}")),
    }
}

/// Sends a request and returns status and body. Uses HTTP/1.0, where a response ends with its connection.
fn get(socket: &Path, path: &str) -> Result<(u16, Vec<u8>), String> {
    let response = exchange(socket, path).map_err(|error| error.to_string())?;
    let odd = || "the daemon sent an unexpected response".to_owned();
    let end = response.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = response.split_at(end.ok_or_else(odd)? + 4);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| {
        let rest = line.strip_prefix("http/1.")?;
        rest.split(' ').nth(1)?.parse::<u16>().ok()
    });
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let is_whole = match name {
            "content-length" => value.trim().parse() == Ok(body.len()),
            // RFC 9112, section 6.1: must not be sent to an HTTP/1.0 client.
            "transfer-encoding" => false,
            _ => true,
        };
        if !is_whole {
            return Err(odd());
        }
    }
    Ok((status.ok_or_else(odd)?, body.to_vec()))
}

fn exchange(socket: &Path, path: &str) -> io::Result<Vec<u8>> {
    let end = Instant::now() + TAILSCALE_TIMEOUT;
    let mut stream = UnixStream::connect(socket)?;
    stream.set_write_timeout(Some(TAILSCALE_TIMEOUT))?;
    // In one piece: a server that reads only the beginning before it responds would close on the rest.
    let request = format!("GET {path} HTTP/1.0\r\nHost: local-tailscaled.sock\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    let mut buf = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buf)? {
            0 => return Ok(response),
            count => response.extend_from_slice(&buf[..count]),
        }
        if response.len() as u64 > RESPONSE_BYTES_MAX {
            return Err(io::Error::other("the response is too large"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::tests::TempFolder;

    /// A daemon with these responses for `status` and `cert`; also returns the requests it receives.
    fn daemon(
        folder: &TempFolder,
        status: &'static str,
        cert: &'static str,
    ) -> (PathBuf, Arc<Mutex<Vec<String>>>) {
        let path = folder.path().join("tailscaled.sock");
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = asked.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let mut buf = [0; 1024];
                let count = client.read(&mut buf).unwrap();
                let text = String::from_utf8_lossy(&buf[..count]).into_owned();
                let is_status = text.contains("/status");
                heard.lock().unwrap().push(text);
                let _ = client.write_all(if is_status { status } else { cert }.as_bytes());
            }
        });
        (path, asked)
    }

    const NAMES: &str = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n\
        {\"CertDomains\":[\"me.tail.ts.net\"],\"Self\":{}}";
    const PAIR: &str = "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\npair";

    fn asked_for(name: &str, socket: &Path) -> Result<Option<Vec<u8>>, String> {
        ask(socket, &Subject::parse(name).unwrap())
    }

    #[test]
    fn the_daemon_is_asked_for_its_own_names_only() {
        let folder = TempFolder::new();
        let (socket, asked) = daemon(&folder, NAMES, PAIR);
        assert_eq!(asked_for("a.test", &socket), Ok(None));
        assert_eq!(asked.lock().unwrap().len(), 0);
        assert_eq!(asked_for("other.tail.ts.net", &socket), Ok(None));
        assert_eq!(asked.lock().unwrap().len(), 1);
        let text = asked_for("Me.Tail.ts.net", &socket);
        assert_eq!(text, Ok(Some(b"pair".to_vec())));
        assert_eq!(
            asked.lock().unwrap()[2],
            "GET /localapi/v0/cert/me.tail.ts.net?type=pair HTTP/1.0\r\n\
             Host: local-tailscaled.sock\r\n\r\n"
        );
        let off = "HTTP/1.0 200 OK\r\n\r\n{\"CertDomains\":null}";
        let (socket, _) = daemon(&folder, off, PAIR);
        assert_eq!(asked_for("me.tail.ts.net", &socket), Ok(None));
    }

    #[test]
    fn a_failing_daemon_is_reported() {
        let folder = TempFolder::new();
        let gone = folder.path().join("nobody");
        assert!(asked_for("me.tail.ts.net", &gone).is_err());
        for (response, wanted) in [
            ("HTTP/1.0 403 Forbidden\r\n\r\n", "TS_PERMIT_CERT_UID"),
            ("HTTP/1.0 500 Oh\r\n\r\n{}", "status 500"),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\npair",
                "unexpected response",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "unexpected response",
            ),
            ("nonsense", "unexpected response"),
            ("", "unexpected response"),
        ] {
            // A daemon that does not report its names is queried anyway.
            let (socket, _) = daemon(&folder, "HTTP/1.0 500 Oh\r\n\r\n", response);
            let said = asked_for("me.tail.ts.net", &socket).unwrap_err();
            assert!(said.contains(wanted), "{response:?}: {said}");
        }
    }
}
