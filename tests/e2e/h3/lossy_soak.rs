//! Downloads over HTTP/3 through networks that lose, reorder and duplicate packets, from sluice with each congestion control
//! and from Caddy in turn: the same Caddyfile, certificate, file, client and seeds. `cargo xtask soak` prints the throughput
//! of each. Only that each download is complete is a condition: speed depends on what else the machine does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::lossy::{Network, Relay};
use super::peer::{Identity, Peer};
use super::serving::pattern;
use crate::harness::Folder;
use crate::ports::free_port;
use crate::support::program::Program;
use crate::support::servers;

/// What the programs run.
const SITE: &str = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n\thttp_port {plain}\n\
    \thttps_port {port}\n{options}}\n\
    localhost {\n\ttls {folder}/site.pem {folder}/site.key\n\troot * {folder}/www\n\tfile_server\n}\n";

/// The global options that choose the other congestion control of sluice.
const BBR: &str = "\tservers {\n\t\thttp3 {\n\t\t\tcongestion bbr\n\t\t}\n\t}\n";

/// Downloads of each program through each network; the median counts.
const ROUNDS: u64 = 3;

/// The sizes of the file: far away a download takes longer.
const NEAR_BYTES: usize = 10_000_000;
const FAR_BYTES: usize = 2_000_000;

/// A client waits for each of as many parts as long as for anything else.
const PARTS: usize = 20;

/// Half a round trip to a server in the same country.
const WAY: Duration = Duration::from_millis(10);

const PERFECT: Network = Network::PERFECT;
const FAR: Network = Network {
    delay: WAY,
    ..PERFECT
};

/// The networks, with their names and the sizes of the downloads.
const NETWORKS: [(&str, Network, usize); 8] = [
    ("20 ms, nothing lost", FAR, FAR_BYTES),
    ("20 ms, 1 % lost", lossy(10, FAR), FAR_BYTES),
    ("20 ms, 5 % lost", lossy(50, FAR), FAR_BYTES),
    ("nothing lost", PERFECT, NEAR_BYTES),
    ("1 % lost", lossy(10, PERFECT), NEAR_BYTES),
    ("5 % lost", lossy(50, PERFECT), NEAR_BYTES),
    (
        "10 % reordered",
        Network {
            reordered: 100,
            ..PERFECT
        },
        NEAR_BYTES,
    ),
    (
        "10 % duplicated",
        Network {
            duplicated: 100,
            ..PERFECT
        },
        NEAR_BYTES,
    ),
];

const fn lossy(lost: u64, network: Network) -> Network {
    Network { lost, ..network }
}

/// A running server.
struct Serving {
    _program: Program,
    port: u16,
}

/// Starts `program`, called `name`, with the files in `folder` and these global options.
fn start(program: &Path, folder: &Folder, name: &str, options: &str) -> Serving {
    let port = free_port();
    let text = SITE
        .replace("{options}", options)
        .replace("{port}", &port.to_string())
        .replace("{plain}", &free_port().to_string())
        .replace("{folder}", &folder.path().display().to_string());
    let file = folder.write(&format!("{name}.Caddyfile"), text);
    let home = folder.path().join(format!("home-{name}"));
    let mut command = Command::new(program);
    command
        .args(["run", "--adapter", "caddyfile", "--config"])
        .arg(file)
        .env("HOME", &home)
        .env("XDG_DATA_HOME", &home)
        .env("XDG_CONFIG_HOME", &home);
    let log = folder.path().join(format!("{name}.log"));
    Serving {
        _program: Program::start(&mut command, log).listening(port),
        port,
    }
}

/// The throughput of a download through a network, in megabytes a second.
fn download(server: &Serving, network: Network, path: &str, file: &[u8], seed: u64) -> f64 {
    let relay = Relay::start(server.port, network, seed);
    let mut peer = Peer::begin(&Identity::new(), relay.port, "localhost");
    peer.drive("the handshake", |peer| peer.is_connected);
    let began = Instant::now();
    let id = peer.get(path);
    for part in 1..=PARTS {
        let wanted = file.len() * part / PARTS;
        peer.drive("more of the file", |peer| {
            peer.lost.is_some() || peer.so_far(id).body.len() >= wanted
        });
    }
    let response = peer.response(id);
    let took = began.elapsed();
    let received = response.body.len();
    assert!(response.body == file, "{received} bytes, seed {seed}");
    received as f64 / 1e6 / took.as_secs_f64()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// The program to measure: a test's own is not optimized.
fn sluice() -> PathBuf {
    let named = std::env::var_os("SLUICE_BIN");
    named.map_or_else(|| env!("CARGO_BIN_EXE_sluice").into(), PathBuf::from)
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn downloads_through_lossy_networks_are_complete_beside_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    folder.write("site.pem", made.cert.pem());
    folder.write("site.key", made.signing_key.serialize_pem());
    for size in [NEAR_BYTES, FAR_BYTES] {
        folder.write(&format!("www/{size}"), pattern(size));
    }
    let servers = [
        start(&sluice(), &folder, "cubic", ""),
        start(&sluice(), &folder, "bbr", BBR),
        start(&caddy, &folder, "caddy", ""),
    ];
    println!("megabytes a second       sluice, CUBIC       BBR     Caddy");
    for (name, network, size) in NETWORKS {
        let (path, file) = (format!("/{size}"), pattern(size));
        let mut found = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for (server, found) in servers.iter().zip(&mut found) {
                let seed = 0x5eed_0100 + 2 * round;
                found.push(download(server, network, &path, &file, seed));
            }
        }
        let [cubic, bbr, caddy] = found.map(median);
        println!("{name:24} {cubic:>13.2} {bbr:>9.2} {caddy:>9.2}");
    }
}
