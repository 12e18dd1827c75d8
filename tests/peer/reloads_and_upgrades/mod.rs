//! A hundred reloads and twenty binary upgrades under two hundred keep-alive clients, new connections, WebSockets and a slow
//! download: sluice loses nothing. What nginx and Caddy lose in the same test is printed.
//!
//! Every step waits for an event, a response of the new configuration, so it does not matter how fast the machine is.

mod clients;
mod servers;

use std::sync::Arc;

use clients::{Clients, Long, Outcome};
use servers::{Caddy, NginxLike, Replaceable, Sluice, wait_for_word};

use crate::h3::serving::pattern;
use crate::harness::eventually;
use crate::proxy::WEBSOCKET_KEY;
use crate::support::servers as installed;
use crate::support::wire::field;
use crate::upstream::Upstream;

const RELOADS: usize = 100;
const UPGRADES: usize = 20;

/// WebSockets at the beginning, and after how many steps there is one more.
const SOCKETS: usize = 8;
const SOCKET_EVERY: usize = 5;

/// Requests that are served between two steps: the clients go on in every state.
const BETWEEN: u64 = 300;

/// Larger than the buffers of the kernel and what is read in all steps together, so that the download goes on to the end.
const LARGE: usize = 24_000_000;

/// Switches protocols and returns what it gets.
fn echo() -> Upstream {
    Upstream::start(|mut wire| {
        let Some(head) = wire.head() else { return };
        assert_eq!(field(&head, "Sec-WebSocket-Key"), Some(WEBSOCKET_KEY));
        wire.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        );
        while let Some(line) = wire.line() {
            if wire.try_send(line + "\n").is_err() {
                return;
            }
        }
    })
}

/// Reloads, or upgrades after a change of the configuration, under load. `None` if the server has no upgrades.
fn under_load(
    server: &mut dyn Replaceable,
    large: &Arc<Vec<u8>>,
    (steps, upgrades): (usize, bool),
) -> Option<Outcome> {
    let port = server.port();
    if upgrades && !server.upgrade() {
        return None;
    }
    let clients = Clients::start(port);
    let mut long = Long::begin(port, SOCKETS, large.clone());
    clients.go_on(BETWEEN);
    for step in 1..=steps {
        if step.is_multiple_of(SOCKET_EVERY) {
            long.open_socket();
        }
        let word = format!("word-{upgrades}-{step}");
        if upgrades {
            server.upgrade();
        }
        server.reload(&word);
        wait_for_word(port, &word, || server.log());
        long.step(step);
        clients.go_on(BETWEEN);
    }
    let lost = long.end();
    Some(Outcome::of(&clients.end(), lost))
}

/// Both kinds of replacement of one server, as lines of a table.
fn measure(
    server: &mut dyn Replaceable,
    large: &Arc<Vec<u8>>,
    lines: &mut Vec<String>,
) -> [Option<Outcome>; 2] {
    [(RELOADS, false), (UPGRADES, true)].map(|(steps, upgrades)| {
        let kind = if upgrades { "upgrades" } else { "reloads" };
        let began = std::time::Instant::now();
        let outcome = under_load(server, large, (steps, upgrades));
        lines.push(match &outcome {
            None => format!("{:<13} {kind:<9} has none", server.name()),
            Some(seen) => format!(
                "{:<13} {kind:<9} {:>8} {:>11} {:>10} {:>10} {:>10} {:>12} {:>6.0} s  {}",
                server.name(),
                seen.served,
                seen.lost_kept,
                seen.lost_new,
                seen.lost_sockets,
                seen.lost_downloads,
                seen.closed_idle,
                began.elapsed().as_secs_f64(),
                seen.first.as_deref().unwrap_or_default(),
            ),
        });
        outcome
    })
}

/// Measures a server that must lose nothing, and checks that nothing is left of its old processes.
fn measure_ours(server: &mut dyn Replaceable, large: &Arc<Vec<u8>>, lines: &mut Vec<String>) {
    for outcome in measure(server, large, lines) {
        let seen = outcome.expect("it has both");
        let name = server.name();
        assert_eq!(
            seen.failed(),
            0,
            "{name}: {:?}\n{}",
            seen.first,
            server.log()
        );
    }
    let gone = || server.old_processes().is_empty();
    eventually("the end of the old processes", gone, || {
        format!("{:?}\n{}", server.old_processes(), server.log())
    });
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn a_hundred_reloads_and_twenty_upgrades_lose_nothing() {
    let (upstream, large) = (echo(), Arc::new(pattern(LARGE)));
    let mut lines = vec![format!(
        "{:<13} {:<9} {:>8} {:>11} {:>10} {:>10} {:>10} {:>12}",
        "", "", "served", "lost (kept)", "lost (new)", "WebSockets", "downloads", "closed idle"
    )];
    let mut ours: [Box<dyn Replaceable>; 2] = [
        Box::new(Sluice::start(upstream.port, &large)),
        Box::new(NginxLike::sluice(upstream.port, &large)),
    ];
    for server in &mut ours {
        measure_ours(server.as_mut(), &large, &mut lines);
    }
    drop(ours);
    if let Some(program) = installed::nginx() {
        let mut nginx = NginxLike::nginx(&program, upstream.port, &large);
        let [reloads, _] = measure(&mut nginx, &large, &mut lines);
        // As its documentation promises of a reload: old worker processes continue to serve their requests.
        let seen = reloads.expect("it reloads");
        assert_eq!([seen.lost_sockets, seen.lost_downloads], [0, 0]);
    }
    if let Some(program) = installed::caddy() {
        let mut caddy = Caddy::start(&program, upstream.port, &large);
        let [reloads, _] = measure(&mut caddy, &large, &mut lines);
        let seen = reloads.expect("it reloads");
        assert!(seen.served > 0, "{:?}", seen.first);
    }
    println!("{}", lines.join("\n"));
}
