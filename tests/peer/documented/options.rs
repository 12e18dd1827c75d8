//! Global options of the Caddyfile: for each that clients can notice a file of our own, requests over HTTP and TLS, and
//! the responses of Caddy and sluice side by side. The others are named with the place where they are compared.

use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;

use super::options_list::{ELSEWHERE, SHEETS};
use crate::harness::Folder;
use crate::peer::cases::{Difference, Seen};
use crate::peer::http::{self, Response};
use crate::peer::peers::{free_port, sluice};
use crate::support::any_certificate::AnyCertificate;
use crate::support::program::Program;
use crate::support::servers;
use crate::tls::{Secure, connect_to};
use crate::wire::Wire;

/// How long two programs may need until they have the same certificates.
const SETTLED: Duration = Duration::from_secs(5);

/// What one option does.
pub(super) struct Sheet {
    pub option: &'static str,
    /// A whole file; `PORT`, `PLAIN`, `SECOND`, `ADMIN` and `DIR` are filled in, and something listens on `PORT`.
    pub caddyfile: &'static str,
    /// `GET a.test/path | X-A: b` to `PORT`, or after `PLAIN`, `SECOND` or `ADMIN` to that port, after `TLS <name>` over
    /// TLS to `PORT` with this name in the handshake (an address: without one), and after `AT <address>` there.
    /// `FILES <folder>` lists files.
    pub requests: &'static [&'static str],
    pub accepted: &'static [Difference],
}

/// Bytes of a long header, which `LONG` stands for.
const LONG: usize = 24_000;

/// The ports that files name.
const PORTS: [&str; 4] = ["PORT", "PLAIN", "SECOND", "ADMIN"];

/// A program that serves the file of a sheet.
struct Running {
    _program: Program,
    ports: [u16; 4],
    folder: Folder,
}

impl Running {
    fn start(program: &Path, text: &str) -> Running {
        let folder = Folder::new();
        let has_admin = text.contains("ADMIN");
        let ports = PORTS.map(|_| free_port());
        let mut text = text.replace("DIR", &folder.path().display().to_string());
        for (name, port) in PORTS.iter().zip(ports) {
            text = text.replace(name, &port.to_string());
        }
        folder.write("Caddyfile", text);
        let mut command = Command::new(program);
        command
            .args(["run", "--adapter", "caddyfile", "--config", "Caddyfile"])
            .current_dir(folder.path());
        for name in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
            command.env(name, folder.path());
        }
        let mut program =
            Program::start(&mut command, folder.path().join("log")).listening(ports[0]);
        if has_admin {
            program = program.listening(ports[3]);
        }
        Running {
            _program: program,
            ports,
            folder,
        }
    }

    fn ask(&self, line: &str) -> Response {
        let names_port = line.contains(":PORT");
        let line = line.replace("LONG", &"x".repeat(LONG));
        let line = PORTS
            .iter()
            .zip(self.ports)
            .fold(line, |line, (name, port)| {
                line.replace(&format!(":{name}"), &format!(":{port}"))
            });
        let (kind, rest) = line.split_once(' ').expect("two words");
        let mut response = match kind {
            "FILES" => files(&self.folder.path().join(rest)),
            "TLS" => {
                let (name, rest) = rest.split_once(' ').expect("a name and a request");
                over_tls(self.ports[0], name, rest)
            }
            "AT" => {
                let (address, rest) = rest.split_once(' ').expect("an address and a request");
                plain(address.parse().expect("an address"), self.ports[0], rest)
            }
            _ => match PORTS.iter().position(|name| *name == kind) {
                Some(at) => plain(Ipv4Addr::LOCALHOST, self.ports[at], rest),
                None => plain(Ipv4Addr::LOCALHOST, self.ports[0], &line),
            },
        };
        for (name, port) in PORTS.iter().zip(self.ports) {
            let port = port.to_string();
            for value in response.fields.values_mut().flatten() {
                *value = value.replace(&port, name);
            }
            if let Ok(text) = std::str::from_utf8(&response.body) {
                response.body = text.replace(&port, name).into_bytes();
            }
        }
        // sluice announces HTTP/3 at the port that the client names, and Caddy at its own.
        if !names_port {
            response.fields.remove("alt-svc");
        }
        response
    }
}

/// A response over HTTP, or why the connection failed.
fn plain(host: Ipv4Addr, port: u16, line: &str) -> Response {
    match TcpStream::connect((host, port)) {
        Ok(_) if host == Ipv4Addr::LOCALHOST => http::ask(port, &super::request(line)),
        Ok(_) => failed("connected"),
        Err(error) => failed(error.kind()),
    }
}

fn failed(why: impl std::fmt::Debug) -> Response {
    Response {
        status: format!("{why:?}"),
        ..Response::default()
    }
}

/// The files below a folder, without what differs by nature.
fn files(folder: &Path) -> Response {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => found.push(path),
            }
        }
    }
    let names = found
        .iter()
        .filter_map(|path| path.strip_prefix(folder).ok());
    let mut names: Vec<String> = names.map(|path| path.display().to_string()).collect();
    names.retain(|name| name.ends_with(".crt") || name.ends_with(".key"));
    names.sort();
    Response {
        status: "files".to_owned(),
        body: names.join("\n").into_bytes(),
        ..Response::default()
    }
}

/// A handshake with whatever certificate, with this name (an address: without one) and these protocols.
pub(in crate::peer) fn handshake(
    port: u16,
    name: &str,
    protocols: &[&[u8]],
) -> std::io::Result<Wire<Secure>> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows them")
        .dangerous()
        .with_custom_certificate_verifier(AnyCertificate::verifier())
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let addr = (Ipv4Addr::LOCALHOST, port).into();
    connect_to(&Arc::new(config), addr, name)
}

/// A response over TLS, with the names, the issuer and the kind of key of the certificate, and the protocol.
pub(in crate::peer) fn over_tls(port: u16, name: &str, line: &str) -> Response {
    let mut wire = match handshake(port, name, &[b"h9", b"http/1.1"]) {
        Ok(wire) => wire,
        Err(error) if error.to_string().contains("lert") => return failed("alert"),
        Err(error) => return failed(error.kind()),
    };
    let conn = &wire.stream().conn;
    let leaf = conn.peer_certificates().and_then(|chain| chain.first());
    let (_, leaf) = x509_parser::parse_x509_certificate(leaf.expect("a certificate"))
        .expect("the certificate is well-formed");
    let names = leaf.subject_alternative_name().ok().flatten();
    let shown = [
        (
            "names",
            format!("{:?}", names.map(|names| &names.value.general_names)),
        ),
        (
            "issuer",
            leaf.issuer().to_string().replace("Sluice", "Caddy"),
        ),
        ("key", leaf.public_key().algorithm.oid().to_string()),
        ("lifetime", lifetime(&leaf)),
        ("alpn", format!("{:?}", conn.alpn_protocol())),
    ];
    wire.send(http::request(&super::request(line)));
    let mut raw = Vec::new();
    let _ = std::io::Read::read_to_end(&mut wire.reader, &mut raw);
    let mut response = http::parse(&raw);
    for (name, value) in shown {
        response.fields.insert(format!("tls {name}"), vec![value]);
    }
    response
}

/// The hours for which a certificate is valid.
fn lifetime(cert: &x509_parser::certificate::X509Certificate<'_>) -> String {
    let validity = cert.validity();
    let seconds = validity.not_after.timestamp() - validity.not_before.timestamp();
    format!("{} h", (seconds + 1800) / 3600)
}

/// The differences for one request. Certificates are obtained after the start, so a request over TLS is repeated until
/// both programs have theirs.
fn compared(theirs: &Running, ours: &Running, line: &str) -> Vec<http::Differs> {
    let end = Instant::now() + SETTLED;
    loop {
        let found = http::differences(&theirs.ask(line), &ours.ask(line));
        let may_settle = line.starts_with("TLS ") || line.starts_with("FILES ");
        if found.is_empty() || !may_settle || Instant::now() > end {
            return found;
        }
        // Why time has to pass: nothing announces that a program has issued a certificate.
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn every_global_option_has_a_sheet_or_a_reason() {
    let page = include_str!("../../../docs/reference/caddyfile-directives.md");
    for title in ["global options", "servers"] {
        let names = super::names_of(page, &format!("\n### {title}\n"));
        assert!(names.len() > 15, "{names:?}");
        for name in names {
            let name = match title {
                "servers" => format!("servers {name}"),
                _ => name,
            };
            let has_sheet = SHEETS.iter().any(|sheet| sheet.option == name);
            let is_elsewhere = ELSEWHERE.iter().any(|(known, _)| *known == name);
            assert!(has_sheet != is_elsewhere, "`{name}` has no sheet, or two");
        }
    }
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn documented_uses_of_global_options_equal_those_of_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let only = std::env::var("ONLY").unwrap_or_default();
    let (mut requests, mut equal, mut with_reason, mut failures) = (0, 0, 0, Vec::new());
    for sheet in SHEETS.iter().filter(|sheet| sheet.option.contains(&only)) {
        let theirs = Running::start(&caddy, sheet.caddyfile);
        let ours = Running::start(&sluice(), sheet.caddyfile);
        let mut seen = vec![false; sheet.accepted.len()];
        for line in sheet.requests {
            requests += 1;
            let found = compared(&theirs, &ours, line);
            let mut unknown = 0;
            for difference in &found {
                let covers = |accepted: &Difference| accepted.covers(line, difference);
                match sheet.accepted.iter().position(covers) {
                    Some(at) => seen[at] = true,
                    None => {
                        unknown += 1;
                        failures.push(format!("{}: {line}\n    {difference}", sheet.option));
                    }
                }
            }
            equal += usize::from(found.is_empty());
            with_reason += usize::from(!found.is_empty() && unknown == 0);
        }
        let gone = sheet.accepted.iter().zip(seen);
        let gone = gone.filter(|(known, seen)| known.seen == Seen::Always && !seen);
        for (known, _) in gone {
            failures.push(format!(
                "{}: {} {} has gone away",
                sheet.option, known.request, known.what
            ));
        }
    }
    println!(
        "{} options, {requests} requests: {equal} equal, {with_reason} different with a reason, {} different without",
        SHEETS.len(),
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
