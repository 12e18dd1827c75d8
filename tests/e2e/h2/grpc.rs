//! gRPC's interoperability tests: its own client and its own server, with the proxy between them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::serving::plain;
use crate::harness::{Folder, Server, Setup, finish, free_port, text};
use crate::support::program::Program;

/// The cases that every client has and that do not need cloud credentials.
const CASES: [&str; 14] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "unimplemented_method",
    "unimplemented_service",
    "custom_metadata",
];

fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("SLUICE_GRPC").map(PathBuf::from);
    let file = folder.map(|folder| folder.join(name));
    file.filter(|file| file.is_file()).unwrap_or_else(|| {
        panic!("no `{name}` in the folder SLUICE_GRPC; `cargo xtask grpc` installs it")
    })
}

/// A running gRPC server, with its output in the folder.
fn serve(folder: &Folder, port: u16, args: &[&str]) -> Program {
    let mut command = Command::new(program("server"));
    command.arg(format!("--port={port}")).args(args);
    Program::start(&mut command, folder.path().join("grpc.log")).listening(port)
}

/// The failing cases, with the client's output.
fn failing(port: u16, cases: &[&str], args: &[&str]) -> Vec<String> {
    let mut failed = Vec::new();
    for case in cases {
        let output = finish(
            Command::new(program("client"))
                .arg(format!("--server_port={port}"))
                .arg(format!("--test_case={case}"))
                .args(args),
        );
        println!("{case}: {}", output.status);
        if !output.status.success() {
            failed.push(format!("{case}: {}", text(&output.stderr)));
        }
    }
    failed
}

#[test]
#[ignore = "needs the programs of gRPC: cargo xtask grpc"]
fn the_cases_of_grpc_pass_through_without_tls() {
    let (backend, folder) = (free_port(), Folder::new());
    let _service = serve(&folder, backend, &[]);
    let server = Server::start(&plain(
        "",
        &format!("reverse_proxy h2c://localhost:{backend}"),
    ));
    let args = ["--server_host=localhost"];
    assert_eq!(failing(server.port, &CASES, &args), Vec::<String>::new());
}

#[test]
#[ignore = "needs the programs of gRPC: cargo xtask grpc"]
fn the_cases_of_grpc_pass_through_over_tls() {
    let backend = free_port();
    let setup = Setup::new(&format!(
        "{{\n\tadmin off\n\thttps_port {{port}}\n\tauto_https disable_redirects\n\tskip_install_trust\n}}\n\
         localhost {{\n\treverse_proxy https://localhost:{backend} {{\n\t\ttransport http {{\n\
         \t\t\ttls_trust_pool pki_root local\n\t\t}}\n\t}}\n}}\n"
    ));
    let server = setup.start();
    // The service presents the certificate of the site, issued by the same CA.
    let path = |name: &str| -> String {
        let path: &Path = server.folder.path();
        path.join("data/sluice").join(name).display().to_string()
    };
    let part = |kind: &str| path(&format!("certificates/local/localhost/localhost.{kind}"));
    crate::harness::eventually(
        "a certificate",
        || Path::new(&part("key")).is_file(),
        || server.stderr(),
    );
    let files = [
        "--use_tls".to_owned(),
        format!("--tls_cert_file={}", part("crt")),
        format!("--tls_key_file={}", part("key")),
    ];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let _service = serve(&server.folder, backend, &files);
    let root = format!("--ca_file={}", path("pki/authorities/local/root.crt"));
    let args = [
        "--server_host=localhost",
        "--use_tls",
        "--use_test_ca",
        &root,
    ];
    assert_eq!(failing(server.port, &CASES, &args), Vec::<String>::new());
}
