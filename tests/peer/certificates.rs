//! Which certificates of upstreams and clients are accepted: the installed nginx and Caddy give the results of the
//! tables in `support::certificates`, which sluice is tested for in `tests/e2e/peer_certificates.rs`.

use std::process::Command;

use crate::support::abilities::has_openssl;
use crate::support::certificates::{
    CASES, CLIENTS, Configurations, Language, configurations, make,
};
use crate::support::client::Client;
use crate::support::program::Program;
use crate::support::servers;
use crate::support::temp_folder::TempFolder;

use super::peers::sluice;

/// Compares a peer, which `start` starts, with the tables. sluice serves the certificates of upstreams.
fn compare(language: Language, start: impl Fn(&TempFolder, &Configurations) -> Program) {
    let folder = TempFolder::new();
    make(folder.path());
    let configured = configurations(folder.path());
    let file = folder.write("upstreams.nginx.conf", &configured.upstreams);
    let mut command = Command::new(sluice());
    command
        .args(["run", "--adapter", "nginx", "--config"])
        .arg(file);
    command.env("HOME", folder.path());
    let (_, line) = configured.upstreams.rsplit_once("127.0.0.1:").expect("one");
    let port = line.split(' ').next().and_then(|port| port.parse().ok());
    let log = folder.path().join("upstreams.log");
    let _upstreams = Program::start(&mut command, log).listening(port.expect("a port"));
    let _peer = start(&folder, &configured);
    let ports = match language {
        Language::Nginx => &configured.nginx_ports,
        Language::Caddyfile => &configured.caddy_ports,
    };
    let mut wrong = Vec::new();
    let mut look = |what: String, port: u16, expected: bool| {
        let status = Client::connect(port).get("/").status;
        if (status == 200) != expected {
            wrong.push(format!("{what}: {status}"));
        }
    };
    for (case, port) in CASES.iter().zip(ports) {
        let what = format!("{} by {}", case.leaf, case.pool);
        look(what, *port, case.by_peer(language));
    }
    if language == Language::Caddyfile {
        for ((shown, pool, expected), port) in CLIENTS.iter().zip(&configured.client_ports) {
            look(format!("client {shown} by {pool}"), *port, *expected);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn nginx_accepts_the_certificates_of_the_table() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    if !has_openssl() {
        return;
    }
    compare(Language::Nginx, |folder, configured| {
        let file = folder.write("nginx.conf", &configured.nginx);
        let mut command = Command::new(&nginx);
        command.arg("-p").arg(folder.path()).arg("-c").arg(file);
        command.args(["-g", "daemon off;"]);
        let last = configured.nginx_ports[CASES.len() - 1];
        Program::start(&mut command, folder.path().join("peer.log")).listening(last)
    });
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn caddy_accepts_the_certificates_of_the_table() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    if !has_openssl() {
        return;
    }
    compare(Language::Caddyfile, |folder, configured| {
        let file = folder.write("Caddyfile", &configured.caddyfile);
        let mut command = Command::new(&caddy);
        command.args(["run", "--adapter", "caddyfile", "--config"]);
        command.arg(file).env("HOME", folder.path());
        command.env("XDG_DATA_HOME", folder.path().join("data"));
        let program = Program::start(&mut command, folder.path().join("peer.log"));
        // Caddy starts its servers in no particular order.
        let ports = configured
            .caddy_ports
            .iter()
            .chain(&configured.client_ports);
        ports.fold(program, |program, port| program.listening(*port))
    });
}
