//! Certificates of upstreams and clients that a strict library refuses and users of OpenSSL and Go have. Caddy and nginx
//! give the results in the tables of `support::certificates`: `tests/peer/certificates.rs`.

use std::path::Path;
use std::process::Command;

use crate::harness::Folder;
use crate::support::abilities::has_openssl;
use crate::support::certificates::{
    CASES, CLIENTS, Case, Configurations, Language, configurations, make,
};
use crate::support::client::Client;
use crate::support::ports::free_port;
use crate::support::program::Program;

/// A running sluice with this configuration; `port` is the last that it opens.
fn sluice(folder: &Path, language: Language, name: &str, text: &str, port: u16) -> Program {
    let file = folder.join(name);
    std::fs::write(&file, text).expect("the folder is writable");
    let adapter = match language {
        Language::Nginx => "nginx",
        Language::Caddyfile => "caddyfile",
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command
        .args(["run", "--adapter", adapter, "--config"])
        .arg(&file)
        .env("HOME", folder)
        .env("XDG_DATA_HOME", folder.join("data"))
        .env("SLUICE_WORKERS", "1")
        .env("SLUICE_ADMIN", format!("localhost:{}", free_port()));
    Program::start(&mut command, folder.join(format!("{name}.log"))).listening(port)
}

/// The port of the last server of an nginx.conf.
fn last_port(text: &str) -> u16 {
    let (_, line) = text.rsplit_once("listen 127.0.0.1:").expect("a server");
    let port = line.split([' ', ';']).next().unwrap_or_default();
    port.parse().expect("a port")
}

fn is_accepted(port: u16) -> bool {
    match Client::connect(port).get("/").status {
        200 => true,
        502 => false,
        status => panic!("status {status} of port {port}"),
    }
}

fn check(language: Language, ports: &[u16]) -> Vec<String> {
    let wrong = |(case, port): (&Case, &u16)| {
        let accepts = is_accepted(*port);
        let name = format!("{language:?}: {} by {}: {accepts}", case.leaf, case.pool);
        (accepts != case.is_accepted(language)).then_some(name)
    };
    CASES.iter().zip(ports).filter_map(wrong).collect()
}

#[test]
fn certificates_of_ca_and_leaf_version_1_and_common_names_are_judged_as_by_the_peers() {
    if !has_openssl() {
        return;
    }
    let folder = Folder::new();
    let at = folder.path();
    make(at);
    let Configurations {
        upstreams,
        nginx,
        caddyfile,
        nginx_ports,
        caddy_ports,
        client_ports,
    } = configurations(at);
    // Certificates of version 1 are served, too.
    let upstreams_port = last_port(&upstreams);
    let _upstreams = sluice(at, Language::Nginx, "upstreams", &upstreams, upstreams_port);
    let _nginx = sluice(at, Language::Nginx, "nginx", &nginx, last_port(&nginx));
    let last = client_ports[client_ports.len() - 1];
    let _caddy = sluice(at, Language::Caddyfile, "caddy", &caddyfile, last);

    let mut wrong = check(Language::Nginx, &nginx_ports);
    wrong.extend(check(Language::Caddyfile, &caddy_ports));
    for ((shown, pool, expected), port) in CLIENTS.iter().zip(client_ports) {
        let accepts = is_accepted(port);
        if accepts != *expected {
            wrong.push(format!("client {shown} by {pool}: {accepts}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
