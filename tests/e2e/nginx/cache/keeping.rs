//! The cache when clients disconnect, processes end and disks are full.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use sluice_net::sys::process::Signal;

use super::{Origin, caching, conf, counted, eventually_stored, get, pair, seen, start};
use crate::client::Client;
use crate::harness::{Folder, Server, eventually};
use crate::nginx::setup;
use crate::support::abilities::skipped;

/// More than all buffers on the way hold.
const LARGE: usize = 8 << 20;

/// An upstream that sends the second half of a large response on demand.
fn halves() -> (Origin, Sender<()>) {
    let (go_on, may_go_on): (Sender<()>, Receiver<()>) = channel();
    let may_go_on = Mutex::new(may_go_on);
    let origin = Origin::start(move |wire, _, before| {
        let half = vec![b'x'; LARGE / 2];
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\nCache-Control: max-age=600\r\n\r\n"
        );
        if wire.try_send(head).is_err() || wire.try_send(&half).is_err() {
            return;
        }
        if before == 0 {
            let _ = may_go_on.lock().expect("no test panics in it").recv();
        }
        let _ = wire.try_send(&half);
    });
    (origin, go_on)
}

/// Sends a request, reads the head and a part of the body, and disconnects.
fn ask_and_leave(server: &Server) {
    let mut client = Client::connect(server.port);
    client.send("GET /large HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(
        client
            .head()
            .expect("an answer")
            .starts_with("HTTP/1.1 200")
    );
}

#[test]
fn a_response_is_stored_completely_although_its_client_disconnects() {
    let (origin, go_on) = halves();
    let server = start(caching(origin.upstream.port, ""));
    ask_and_leave(&server);
    go_on.send(()).expect("the upstream is there");
    eventually_stored(&server, 1);
    let hit = get(&server, "/large");
    assert_eq!((hit.field("X-Cache"), hit.body.len()), (Some("HIT"), LARGE));
    assert!(hit.body.iter().all(|byte| *byte == b'x'));
    assert_eq!(origin.count("/large"), 1);
}

#[test]
fn a_truncated_response_is_not_stored() {
    let origin = Origin::start(|wire, _, before| {
        let _ = wire.try_send(
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nCache-Control: max-age=600\r\n\r\n",
        );
        let _ = wire.try_send(if before == 0 { "short" } else { "0123456789" });
        if before == 0 {
            let _ = wire.stream().shutdown(std::net::Shutdown::Both);
        }
    });
    let server = start(caching(origin.upstream.port, ""));
    let mut client = Client::connect(server.port);
    client.send("GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(
        client.try_response().is_err(),
        "it breaks off for the client, too"
    );
    assert_eq!(seen(&get(&server, "/a")), pair("MISS", "0123456789"));
    assert_eq!(seen(&get(&server, "/a")), pair("HIT", "0123456789"));
}

fn at(folder: &Folder, origin: u16) -> Server {
    let path = folder.path().join("cache").display().to_string();
    let server = start(setup(&conf(&path, origin, "")));
    eventually(
        "a loaded index",
        || counted(&server, "sluice_cache_loading") == 0,
        || server.stderr(),
    );
    server
}

#[test]
fn cached_responses_survive_a_restart() {
    let origin = Origin::describing(&[
        ("/a", "Cache-Control: max-age=600"),
        ("/b", "Cache-Control: max-age=600|Vary: X-V"),
    ]);
    let folder = Folder::new();
    let mut server = at(&folder, origin.upstream.port);
    for path in ["/a", "/b"] {
        assert_eq!(seen(&get(&server, path)).0, "MISS");
    }
    server.signal(Signal::Terminate);
    server.wait_for_end();
    let server = at(&folder, origin.upstream.port);
    assert_eq!(counted(&server, "sluice_cache_entries"), 2);
    for path in ["/a", "/b"] {
        assert_eq!(seen(&get(&server, path)), pair("HIT", &format!("{path} 0")));
    }
}

#[test]
fn a_killed_process_leaves_no_partial_responses() {
    let (origin, go_on) = halves();
    let folder = Folder::new();
    let server = at(&folder, origin.upstream.port);
    ask_and_leave(&server);
    let filling = folder.path().join("cache/.filling");
    eventually(
        "a file under way",
        || count(&filling) == 1,
        || server.stderr(),
    );
    // Killed, so that it cannot clean up.
    drop(server);
    assert_eq!(count(&filling), 1);
    let server = at(&folder, origin.upstream.port);
    eventually(
        "a folder that is clean",
        || count(&filling) == 0,
        || server.stderr(),
    );
    assert_eq!(counted(&server, "sluice_cache_entries"), 0);
    go_on.send(()).expect("the upstream is there");
    for had in ["MISS", "HIT"] {
        let response = get(&server, "/large");
        assert_eq!(
            (response.field("X-Cache"), response.body.len()),
            (Some(had), LARGE)
        );
        eventually_stored(&server, 1);
    }
}

fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// A small file system, unmounted on drop; `None` if it may not be mounted.
struct Small<'a>(&'a Path);

impl<'a> Small<'a> {
    fn mount(path: &'a Path) -> Option<Small<'a>> {
        let options = ["-t", "tmpfs", "-o", "size=64k", "none"];
        let mounted = Command::new("mount").args(options).arg(path).output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Small(path))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_disk_that_is_full_or_gone_breaks_no_request() {
    let large = "y".repeat(300_000);
    let length = large.len();
    let origin = Origin::start(move |wire, _, _| {
        super::say(wire, "200 OK", "Cache-Control: max-age=600", &large);
    });
    let folder = Folder::new();
    let cache = folder.path().join("cache");
    std::fs::create_dir_all(&cache).expect("the folder is writable");
    let small = Small::mount(&cache);
    let server = at(&folder, origin.upstream.port);
    if small.is_none() {
        // Without permission to mount, the folder is removed instead.
        std::fs::remove_dir(cache.join(".filling")).expect("it is empty");
        std::fs::write(cache.join(".filling"), "").expect("the folder is writable");
    }
    for _ in 0..3 {
        let response = get(&server, "/large");
        assert_eq!(
            (
                response.status,
                response.field("X-Cache"),
                response.body.len()
            ),
            (200, Some("MISS"), length)
        );
    }
    assert!(counted(&server, "sluice_cache_failures_total") >= 3);
    assert_eq!(counted(&server, "sluice_cache_stored_total"), 0);
    // The log has a thread of its own.
    server.wait_for_words("cannot store a response in the cache");
    let said = server
        .stderr()
        .matches("cannot store a response in the cache")
        .count();
    assert_eq!(
        said,
        1,
        "the log is told once in a while:\n{}",
        server.stderr()
    );
    if small.is_some() {
        assert_eq!(count(&cache.join(".filling")), 0, "nothing is left behind");
    }
}

/// Folders are created by the user that starts the server, and written by the workers' user.
#[test]
fn workers_of_another_user_store_what_they_are_sent() {
    if !sluice_net::sys::identity::is_root() {
        skipped("only root can serve as another user");
        return;
    }
    let origin = Origin::describing(&[("/a", "Cache-Control: max-age=600")]);
    let text = conf("{folder}/cache", origin.upstream.port, "");
    let server = start(setup(&format!("user nobody nogroup;\n{text}")));
    assert_eq!(seen(&get(&server, "/a")), pair("MISS", "/a 0"));
    eventually_stored(&server, 1);
    assert_eq!(seen(&get(&server, "/a")), pair("HIT", "/a 0"));
}
