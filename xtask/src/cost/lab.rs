//! The load generator of the lab for kinds of requests: many connections at once.

use std::path::Path;
use std::process::Command;

use super::kinds::{Kind, Protocol};
use crate::python::output;

/// Concurrent connections: enough that the server finds several ready each time that it looks.
const CONNECTIONS: u32 = 50;

/// How many times as many requests as are counted.
const TIMES: u32 = 10;

/// Sends `count` requests of a kind by the program `lab`, with further arguments of its command `hit`.
///
/// # Errors
/// The program cannot be started, or a request failed: the last line of what it printed.
pub fn hit(lab: &Path, kind: &Kind, port: u16, count: u32, more: &[&str]) -> Result<(), String> {
    run(lab, &command(kind, port, count, more))
}

/// Sends the requests of each load of a kind.
///
/// # Errors
/// As of [`hit`].
pub fn load(lab: &Path, kind: &Kind, port: u16) -> Result<(), String> {
    arguments(kind, port)
        .iter()
        .try_for_each(|arguments| run(lab, arguments))
}

fn run(lab: &Path, arguments: &[String]) -> Result<(), String> {
    output(Command::new(lab).args(arguments))
        .map(drop)
        .map_err(|error| format!("{} {arguments:?}: {error}", lab.display()))
}

/// The arguments of `sluice-lab` for each load of a kind.
fn arguments(kind: &Kind, port: u16) -> Vec<Vec<String>> {
    let variants: &[&[&str]] = match kind.protocol {
        Protocol::Kept => &[&[]],
        Protocol::Single => &[&["--close"]],
        Protocol::Tls => &[
            &["--insecure"],
            &["--insecure", "--h2", "--depth", "10"],
            &["--insecure", "--h3", "--depth", "10"],
        ],
        Protocol::H2c => &[&["--h2"], &["--h2", "--depth", "10"]],
        Protocol::H3 => &[&["--insecure", "--h3"]],
    };
    let connections = CONNECTIONS.to_string();
    let of = |variant: &&[&str]| {
        let more = [&["-c", &connections][..], variant].concat();
        command(kind, port, kind.requests * TIMES, &more)
    };
    variants.iter().map(of).collect()
}

fn command(kind: &Kind, port: u16, count: u32, more: &[&str]) -> Vec<String> {
    let (url, request) = request(kind, port);
    let count = count.to_string();
    let fixed = ["-n", &count, "--fail", "errors>0%"];
    let after = fixed.iter().chain(more).map(|word| (*word).to_owned());
    let before = ["hit".to_owned(), url].into_iter().chain(request);
    before.chain(after).collect()
}

/// The URL of a request, and the arguments for its method, fields and body.
fn request(kind: &Kind, port: u16) -> (String, Vec<String>) {
    let scheme = match kind.protocol {
        Protocol::Tls | Protocol::H3 => "https",
        Protocol::Kept | Protocol::Single | Protocol::H2c => "http",
    };
    let mut lines = kind.request.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let mut arguments = vec!["-m".to_owned(), method];
    for line in lines.filter(|line| !line.starts_with("Connection:")) {
        arguments.extend(["-H".to_owned(), line.to_owned()]);
    }
    if kind.request_body > 0 {
        arguments.extend(["--body-bytes".to_owned(), kind.request_body.to_string()]);
    }
    (format!("{scheme}://localhost:{port}{target}"), arguments)
}

#[cfg(test)]
mod tests {
    use super::super::kinds::KINDS;
    use super::*;

    #[test]
    fn a_kind_has_its_request_in_the_arguments() {
        let kind = |name: &str| KINDS.iter().find(|kind| kind.name == name).unwrap();
        let upload = arguments(kind("proxied-upload-64k"), 81);
        assert_eq!(upload.len(), 1);
        let text = upload[0].join(" ");
        assert!(text.starts_with("hit http://localhost:81/13 -m POST --body-bytes 65536 -n 5000"));
        let single = arguments(kind("connection-each"), 81)[0].join(" ");
        assert!(single.ends_with("--close") && !single.contains("-H"));
        let protocols = arguments(kind("fixed-tls"), 81);
        assert!(protocols.iter().all(|one| one[1].starts_with("https:")));
        assert_eq!(protocols.len(), 3);
    }
}
