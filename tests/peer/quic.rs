//! Other QUIC libraries against sluice: clients on quic-go, and on aioquic for what quic-go does not try, and Caddy as an
//! upstream over HTTP/3. `cargo xtask peer` builds and installs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::Client;
use crate::harness::{Server, Setup, finish, text};
use crate::ports::free_port;
use crate::support::abilities::skipped;
use crate::support::program::Program;
use crate::support::servers::caddy;
use crate::temp_folder::TempFolder;
use crate::upstream::Upstream;

/// The sizes of files, as the clients know them.
const SIZES: [usize; 8] = [0, 1, 13, 1_200, 4_096, 65_536, 190_000, 1_048_576];

/// A program that `cargo xtask peer` provides.
#[track_caller]
fn provided(variable: &str, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        skipped(format_args!(
            "no {variable}: `cargo xtask peer` provides {name}"
        ));
    }
    path
}

/// The body of this size, as the clients expect it.
fn body(size: usize) -> Vec<u8> {
    (0..size).map(|at| ((at * 31 + size) % 251) as u8).collect()
}

/// A server of files and of an echo, with these server options and a certificate of its local CA.
fn start(options: &str) -> Server {
    let upstream = Upstream::echo();
    let setup = Setup::new(&format!(
        "{{\n\tadmin off\n\tstorage file_system {{folder}}/store\n\thttps_port {{port}}\n\
         \tauto_https disable_redirects\n\tskip_install_trust\n\tservers {{\n\t\t{options}\n\t}}\n}}\n\
         localhost {{\n\ttls internal\n\troot * {{folder}}/www\n\
         \thandle /echo {{\n\t\treverse_proxy localhost:{}\n\t}}\n\
         \thandle /proto {{\n\t\trespond \"{{http.request.proto}} {{method}} {{http.request.body}}\"\n\t}}\n\
         \thandle /early {{\n\t\trespond early\n\t}}\n\tfile_server\n}}\n",
        upstream.port
    ));
    for size in SIZES {
        setup
            .folder()
            .write(&format!("www/files/{size}"), body(size));
    }
    setup.start()
}

/// The certificate of the server's local CA.
fn root_of(server: &Server) -> PathBuf {
    let store = server.folder.path().join("store");
    store.join("pki/authorities/local/root.crt")
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn a_client_on_quic_go_is_served() {
    let Some(client) = provided("SLUICE_QUIC_GO", "a client on quic-go") else {
        return;
    };
    let server = start("0rtt on");
    let url = format!("https://localhost:{}", server.port);
    let output = finish(Command::new(client).arg(url).arg(root_of(&server)));
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(said, "200 of 200 requests succeeded\n", "{complained}");
}

/// Runs cases of the script against a server with these options.
fn run_cases(python: &Path, options: &str, cases: &[&str]) {
    let server = start(options);
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/peer/aioquic_client.py"
    );
    let mut client = Command::new(python);
    client.arg(script).arg(server.port.to_string());
    let output = finish(client.arg(root_of(&server)).args(cases));
    let expected: String = cases.iter().map(|case| format!("{case}: ok\n")).collect();
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

/// Requests in both directions, 0-RTT, key updates, a client that moves to another port, and Retry.
#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn a_client_on_aioquic_is_served() {
    let Some(python) = provided("SLUICE_AIOQUIC", "Python with aioquic") else {
        return;
    };
    let cases = [
        "get_and_post",
        "download",
        "resumption_with_early_data",
        "key_update",
        "migration",
        "rebinding",
    ];
    run_cases(&python, "0rtt on", &cases);
    run_cases(&python, "http3 {\n\t\t\talways_retry\n\t\t}", &["retry"]);
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn caddy_is_an_upstream_over_http3() {
    let Some(caddy) = caddy() else { return };
    let folder = TempFolder::new();
    let (port, echo) = (free_port(), Upstream::echo());
    let path = folder.path().display();
    let file = folder.write(
        "Caddyfile",
        format!(
            "{{\n\tadmin off\n\tstorage file_system {path}/store\n\thttps_port {port}\n\
             \tauto_https disable_redirects\n\tskip_install_trust\n}}\n\
             localhost {{\n\ttls internal\n\
             \thandle /echo {{\n\t\treverse_proxy localhost:{}\n\t}}\n\
             \thandle {{\n\t\trespond \"{{http.request.proto}} {{uri}}\"\n\t}}\n}}\n",
            echo.port
        ),
    );
    let mut command = Command::new(caddy);
    command.args(["run", "--adapter", "caddyfile", "--config"]);
    command.arg(file).env("HOME", folder.path());
    let upstream = Program::start(&mut command, folder.path().join("log")).listening(port);
    let server = Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\n:{{port}} {{\n\treverse_proxy https://localhost:{port} {{\n\
         \t\ttransport http {{\n\t\t\tversions 3\n\
         \t\t\ttls_trust_pool file {path}/store/pki/authorities/local/root.crt\n\t\t}}\n\t}}\n}}\n"
    ));
    let mut client = Client::connect(server.port);
    for number in 0..3 {
        let expected = format!("HTTP/3.0 /{number}");
        assert_eq!(
            client.get(&format!("/{number}")).text(),
            expected,
            "{}",
            upstream.output()
        );
    }
    let sent = body(1_000_000);
    client.send(format!(
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        sent.len()
    ));
    client.send(&sent);
    let response = client.response();
    assert_eq!(response.status, 200);
    assert!(response.body.ends_with(&sent), "the echo differs");
    assert_eq!(server.metric("sluice_http3_upstream_connections_total"), 1);
}
