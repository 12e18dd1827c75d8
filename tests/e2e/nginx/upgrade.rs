//! SIGUSR2 and SIGWINCH: a new binary replaces the running one, and no client notices.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use sluice_net::sys::process::{Signal, send};

use super::prefix::{Prefix, SITE, is_alive};
use crate::client::ask;
use crate::harness::eventually;
use crate::support::abilities::can_run;
use crate::support::wire::Wire;

/// Clients that send requests continuously, each on a connection of its own.
struct Clients {
    ending: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Clients {
    fn start(port: u16) -> Clients {
        let ending = Arc::new(AtomicBool::new(false));
        let served = Arc::new(AtomicU64::new(0));
        let threads = (0..4).map(|_| {
            let (ending, served) = (ending.clone(), served.clone());
            thread::spawn(move || {
                while !ending.load(Ordering::Acquire) {
                    let response = ask(port, "/");
                    assert_eq!(response.status, 200);
                    served.fetch_add(1, Ordering::AcqRel);
                }
            })
        });
        let threads = threads.collect();
        Clients {
            ending,
            served,
            threads,
        }
    }

    /// Waits until more requests have got a response.
    fn go_on(&self) {
        let until = self.served.load(Ordering::Acquire) + 20;
        let are_served = || self.served.load(Ordering::Acquire) >= until;
        eventually("answers", are_served, String::new);
    }

    /// Stops them; fails if a request got no response.
    fn finish(self) {
        self.ending.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().expect("every request was answered");
        }
    }
}

fn pid_in(prefix: &Prefix, name: &str) -> Option<u32> {
    prefix.folder.read(name).trim().parse().ok()
}

/// Waits until a successor of `old` has written its PID, and returns it.
pub fn wait_for_successor(prefix: &Prefix, old: u32) -> u32 {
    let other = || prefix.pid().filter(|pid| *pid != old);
    eventually("the successor", || other().is_some(), || prefix.errors());
    other().expect("it was there")
}

#[test]
fn a_successor_takes_over_without_a_lost_request() {
    let prefix = Prefix::new();
    assert_eq!(prefix.said(&[]).0, Some(0));
    let old = prefix.pid().expect("it runs");
    let clients = Clients::start(prefix.port);
    clients.go_on();
    prefix.configure(SITE, "two");
    send(old, Signal::User2).expect("it runs");
    let new = wait_for_successor(&prefix, old);
    assert_eq!(pid_in(&prefix, "logs/nginx.pid.oldbin"), Some(old));
    clients.go_on();
    send(old, Signal::Window).expect("it runs");
    // Only the new one responds, with its own configuration.
    eventually(
        "the word of the old one",
        || prefix.errors().contains("no longer accepting connections"),
        || prefix.errors(),
    );
    for _ in 0..20 {
        assert_eq!(ask(prefix.port, "/").text(), "two");
    }
    send(old, Signal::Quit).expect("it runs");
    prefix.wait_for_end(old);
    clients.go_on();
    clients.finish();
    assert!(is_alive(new));
    assert_eq!(prefix.pid(), Some(new));
    assert_eq!(
        pid_in(&prefix, "logs/nginx.pid.oldbin"),
        None,
        "it is removed"
    );
    // The successor can be upgraded, too.
    send(new, Signal::User2).expect("it runs");
    let third = wait_for_successor(&prefix, new);
    send(new, Signal::Terminate).expect("it runs");
    prefix.wait_for_end(new);
    assert_eq!(ask(prefix.port, "/").text(), "two");
    assert!(is_alive(third));
}

/// An operator, or a script, may send SIGQUIT as soon as the new process is there. The old one drains for as long as its requests
/// take, and the new one obeys signals meanwhile.
#[test]
fn the_old_process_may_be_ended_before_it_hears_of_the_new_one() {
    let prefix = Prefix::new();
    // More than the buffers of the kernel take.
    prefix.folder.write("html/large", vec![b'x'; 24_000_000]);
    assert_eq!(prefix.said(&[]).0, Some(0));
    let old = prefix.pid().expect("it runs");
    let mut download = Wire::connect(prefix.port);
    download.send("GET /files/large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(download.head().is_some());
    send(old, Signal::User2).expect("it runs");
    eventually(
        "the new process",
        || prefix.errors().contains("start new binary process"),
        || prefix.errors(),
    );
    send(old, Signal::Quit).expect("it runs");
    let new = wait_for_successor(&prefix, old);
    prefix.configure(SITE, "two");
    send(new, Signal::Hangup).expect("it runs");
    eventually(
        "the new configuration",
        || ask(prefix.port, "/").text() == "two",
        || prefix.errors(),
    );
    assert!(is_alive(old), "it has a download");
    assert_eq!(download.take(u64::MAX).len(), 24_000_000);
    prefix.wait_for_end(old);
    assert_eq!(prefix.pid(), Some(new));
}

/// Rollback: the old one accepts connections again, and the new one exits.
#[test]
fn the_old_process_continues_when_the_upgrade_is_cancelled() {
    let prefix = Prefix::new();
    assert_eq!(prefix.said(&[]).0, Some(0));
    let old = prefix.pid().expect("it runs");
    let clients = Clients::start(prefix.port);
    send(old, Signal::User2).expect("it runs");
    let new = wait_for_successor(&prefix, old);
    send(old, Signal::Window).expect("it runs");
    eventually(
        "the word of the old one",
        || prefix.errors().contains("no longer accepting connections"),
        || prefix.errors(),
    );
    clients.go_on();
    prefix.configure(SITE, "three");
    send(old, Signal::Hangup).expect("it runs");
    eventually(
        "the reload",
        || prefix.errors().contains("configuration loaded"),
        || prefix.errors(),
    );
    send(new, Signal::Quit).expect("it runs");
    // The PID file has its old name again once the new process is gone.
    eventually(
        "the number of the old one",
        || prefix.pid() == Some(old),
        || prefix.errors(),
    );
    clients.go_on();
    clients.finish();
    assert_eq!(ask(prefix.port, "/").text(), "three");
}

#[test]
fn a_successor_that_fails_changes_nothing() {
    let prefix = Prefix::new();
    assert_eq!(prefix.said(&[]).0, Some(0));
    let old = prefix.pid().expect("it runs");
    prefix.configure("events {}\nhttp { foo; }\n", "");
    send(old, Signal::User2).expect("it runs");
    eventually(
        "the end of the new one",
        || {
            prefix
                .errors()
                .contains("the new process of the binary upgrade has exited")
        },
        || prefix.errors(),
    );
    eventually(
        "the number of the old one",
        || prefix.pid() == Some(old),
        || prefix.errors(),
    );
    assert_eq!(ask(prefix.port, "/").text(), "one");
}

/// sluice replaces a running nginx: what users do on the day they switch.
#[test]
fn it_takes_over_from_nginx() {
    let nginx = Path::new("/usr/sbin/nginx");
    if !can_run(&nginx.to_string_lossy(), &["-v"]) {
        return;
    }
    let prefix = Prefix::new();
    let program = prefix.folder.path().join("nginx");
    std::fs::copy(nginx, &program).expect("it can be copied");
    let folder = prefix.folder.path().to_string_lossy().into_owned();
    let mut command = std::process::Command::new(&program);
    let status = command
        .args(["-p", &folder, "-c", "nginx.conf"])
        .stderr(std::process::Stdio::null())
        .status();
    assert!(status.expect("it starts").success());
    eventually("the number", || prefix.pid().is_some(), || prefix.errors());
    let old = prefix.pid().expect("it runs");
    let clients = Clients::start(prefix.port);
    clients.go_on();
    // The program is replaced, as a package would do it.
    std::fs::remove_file(&program).expect("it is there");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sluice"), &program).expect("writable");
    prefix.configure(SITE, "two");
    send(old, Signal::User2).expect("it runs");
    let new = wait_for_successor(&prefix, old);
    send(old, Signal::Quit).expect("it runs");
    prefix.wait_for_end(old);
    clients.go_on();
    clients.finish();
    assert_eq!(ask(prefix.port, "/").field("Server"), Some("sluice"));
    assert!(is_alive(new));
}
