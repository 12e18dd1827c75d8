//! Where `acme_server` validates challenges: Caddy and sluice connect to ports 80 and 443 of the client, whatever ports the
//! server itself uses (RFC 8555, section 8.3; RFC 8737, section 3). Caddy's directive and its JSON have no setting for it.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::harness::{Folder, Setup};
use crate::peer::peers::{free_port, sluice};
use crate::support::abilities::skipped;
use crate::support::program::Program;
use crate::support::servers;

/// How long an order may take until its challenge is validated.
const TIMEOUT: Duration = Duration::from_secs(40);

/// What the first connection to `host:port` begins with.
fn first_bytes(host: Ipv4Addr, port: u16) -> std::io::Result<Receiver<[u8; 2]>> {
    let listener = TcpListener::bind((host, port))?;
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 2];
            if stream.read_exact(&mut bytes).is_ok() && sender.send(bytes).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// A CA on `localhost`, with ports of its own for HTTP and HTTPS.
fn authority(program: &Path, folder: &Folder, challenge: &str) -> (Program, u16) {
    let port = free_port();
    let dir = folder.path().display();
    let text = format!(
        "{{\n\tadmin off\n\thttp_port {}\n\thttps_port {port}\n\tauto_https disable_redirects\n\tskip_install_trust\n\
         \tstorage file_system {dir}/stored\n}}\nlocalhost {{\n\ttls internal\n\tacme_server {{\n\t\tchallenges {challenge}\n\t}}\n}}\n",
        free_port()
    );
    folder.write("Caddyfile", text);
    let mut command = Command::new(program);
    command
        .args(["run", "--adapter", "caddyfile", "--config", "Caddyfile"])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("XDG_DATA_HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path());
    let running = Program::start(&mut command, folder.path().join("log")).listening(port);
    (running, port)
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn challenges_are_validated_at_the_ports_of_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let kinds = [("http-01", 80, *b"GE"), ("tls-alpn-01", 443, [22, 3])];
    for (number, program) in [caddy, sluice()].iter().enumerate() {
        for (challenge, port, expected) in kinds {
            let host = Ipv4Addr::new(127, 77, number as u8, port as u8);
            let bytes = match first_bytes(host, port) {
                Ok(bytes) => bytes,
                Err(error) => return skipped(format!("port {port}: {error}")),
            };
            let folder = Folder::new();
            let (running, directory) = authority(program, &folder, challenge);
            let root = folder.path().join("stored/pki/authorities/local/root.crt");
            let client = Setup::new(&format!(
                "{{\n\tadmin off\n\thttp_port {}\n\thttps_port {{port}}\n\tauto_https disable_redirects\n\tskip_install_trust\n}}\n\
                 {host} {{\n\ttls {{\n\t\tissuer acme {{\n\t\t\tdir https://localhost:{directory}/acme/local/directory\n\
                 \t\t\ttrusted_roots {}\n\t\t}}\n\t}}\n}}\n",
                free_port(),
                root.display()
            ))
            .start();
            let state = || {
                let said = client.stderr();
                format!("{program:?}, {challenge}: {said}\n{}", running.output())
            };
            let found = bytes
                .recv_timeout(TIMEOUT)
                .unwrap_or_else(|error| panic!("{error}: {}", state()));
            assert_eq!(found, expected, "{}", state());
        }
    }
}
