//! Access log files: buffered and compressed lines, and file names with variables.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use sluice_net::sys::process::Signal;

use super::prefix::Prefix;
use super::setup;
use crate::client::exchange;
use crate::harness::{Folder, Server, eventually};

fn ask_of(port: u16, host: &str, target: &str) -> u16 {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    exchange(port, request).status
}

const HELD: &str = "
pid logs/nginx.pid;
error_log logs/error.log;
events {}
http {
log_format own $arg_n;
access_log held.log own buffer=64k;
access_log timed.log own buffer=64k flush=10ms;
access_log packed.log.gz own gzip=9 flush=10ms;
access_log small.log own buffer=1;
access_log plain.log own;
server { listen 127.0.0.1:{port}; return 200 ok; }
}
";

fn unpacked(folder: &Folder, name: &str) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(folder.path().join(name)).expect("it is there");
    // The last gzip member may be incomplete.
    let _ = MultiGzDecoder::new(file).read_to_string(&mut text);
    text
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A partly filled buffer is flushed periodically, before the file is reopened, and at the end.
#[test]
fn lines_are_held_back_and_compressed() {
    let prefix = Prefix::new();
    prefix.configure(HELD, "");
    let (code, said) = prefix.said(&[]);
    assert_eq!(code, Some(0), "{said}");
    let pid = prefix.pid().expect("it serves");
    let folder = &prefix.folder;
    let ask = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let status = ask_of(prefix.port, "a", &format!("/?n={number}"));
            assert_eq!(status, 200);
        }
    };
    let wait = |count: usize| {
        for name in ["timed.log", "small.log", "plain.log"] {
            let text = || folder.read(name);
            eventually(name, || text().lines().count() == count, text);
        }
        let text = || unpacked(folder, "packed.log.gz");
        eventually("pieces", || text().lines().count() == count, text);
    };
    ask(0..3);
    wait(3);
    ask(3..5);
    wait(5);
    let all = ["0", "1", "2", "3", "4"];
    for name in ["timed.log", "small.log", "plain.log"] {
        assert_eq!(sorted(&folder.read(name)), all, "{name}");
    }
    assert_eq!(sorted(&unpacked(folder, "packed.log.gz")), all);
    assert_eq!(folder.read("held.log"), "", "64k are not full");

    // As logrotate does it.
    let path = |name: &str| folder.path().join(name);
    std::fs::rename(path("held.log"), path("held.log.1")).expect("it is there");
    assert_eq!(prefix.said(&["-s", "reopen"]).0, Some(0));
    let old = || folder.read("held.log.1");
    let is_whole = || old().lines().count() == 5;
    eventually("the buffer in the old file", is_whole, old);
    let is_new = || path("held.log").exists();
    eventually("a new file", is_new, || prefix.errors());
    ask(5..7);
    wait(7);
    assert_eq!(folder.read("held.log"), "");
    assert_eq!(prefix.said(&["-s", "quit"]).0, Some(0));
    prefix.wait_for_end(pid);
    assert_eq!(sorted(&folder.read("held.log")), ["5", "6"]);
    assert_eq!(old().lines().count(), 5);
    assert_eq!(unpacked(folder, "packed.log.gz").lines().count(), 7);
    assert_eq!(prefix.errors(), "");
}

const NAMED: &str = "
error_log {folder}/error.log;
events {}
http {
log_format own $arg_n;
server {
listen 127.0.0.1:{port}; server_name ~^(?<site>[a-z]+)$;
root {folder}/www/$site;
access_log {folder}/logs/$site.log own if=$arg_n;
access_log {folder}/all.log own;
location /kept { open_log_file_cache max=2 valid=1h; return 200 ok; }
location /gone { access_log {folder}/none/$arg_n own; return 200 ok; }
location / { return 200 ok; }
}
}
";

#[test]
fn lines_name_their_files() {
    let setup = setup(NAMED);
    setup.folder().write("logs/one.log", "before\n");
    for site in ["one", "two"] {
        setup.folder().write(&format!("www/{site}/a"), "");
    }
    let server = setup.start();
    for (host, target) in [
        ("one", "/?n=1"),
        ("two", "/?n=2"),
        ("other", "/?n=3"),
        ("one", "/"),
        ("one", "/kept?n=4"),
        ("two", "/kept?n=5"),
        ("two", "/gone?n=6"),
    ] {
        assert_eq!(ask_of(server.port, host, target), 200, "{host} {target}");
    }
    let read = |name: &str| server.folder.read(name);
    let has = |name: &'static str, count: usize| {
        let text = || read(name);
        eventually(name, || text().lines().count() == count, text);
    };
    has("logs/one.log", 3);
    has("logs/two.log", 2);
    has("all.log", 6);
    assert_eq!(sorted(&read("logs/one.log")), ["1", "4", "before"]);
    assert_eq!(sorted(&read("logs/two.log")), ["2", "5"]);
    let folder = server.folder.path().display().to_string();
    let errors = || read("error.log");
    for (level, message) in [
        (
            "error",
            format!(
                "testing \"{folder}/www/other\" existence failed (2: No such file or directory) while logging request"
            ),
        ),
        (
            "crit",
            format!(
                "open() \"{folder}/none/6\" failed (2: No such file or directory) while logging request"
            ),
        ),
    ] {
        eventually("a failure", || errors().contains(&message), errors);
        let line = errors()
            .lines()
            .find(|line| line.contains(&message))
            .map(str::to_owned);
        assert!(
            line.is_some_and(|line| line.contains(&format!("[{level}] "))),
            "{}",
            errors()
        );
    }
    assert!(!server.folder.path().join("logs/other.log").exists());

    moved_files_are_left(&server);
}

/// An open file that is moved still receives lines, until the configuration changes.
fn moved_files_are_left(server: &Server) {
    let read = |name: &str| server.folder.read(name);
    let has = |name: &'static str, count: usize| {
        let text = || read(name);
        eventually(name, || text().lines().count() == count, text);
    };
    let errors = || read("error.log");
    let path = |name: &str| server.folder.path().join(name);
    std::fs::rename(path("logs/one.log"), path("logs/one.old")).expect("it is there");
    assert_eq!(ask_of(server.port, "one", "/kept?n=7"), 200);
    has("logs/one.old", 4);
    server.signal(Signal::Hangup);
    let is_closed = || {
        let links = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs");
        let mut names = links
            .flatten()
            .flat_map(|link| std::fs::read_link(link.path()));
        !names.any(|name| name == path("logs/one.old"))
    };
    eventually("it is closed", is_closed, errors);
    assert_eq!(ask_of(server.port, "one", "/kept?n=8"), 200);
    has("logs/one.log", 1);
    assert_eq!(read("logs/one.log"), "8\n");
}

/// However many names clients produce, few files stay open.
#[test]
fn open_files_are_bounded() {
    let conf = "
error_log {folder}/error.log;
events {}
http {
log_format own $status;
open_log_file_cache max=3 inactive=1h valid=1h;
server {
listen 127.0.0.1:{port}; root {folder};
access_log {folder}/logs/$arg_n.log own;
location / { return 200 ok; }
}
}
";
    let setup = setup(conf);
    setup.folder().write("logs/a", "");
    let server = setup.start();
    for number in 0..40 {
        assert_eq!(ask_of(server.port, "a", &format!("/?n={number}")), 200);
    }
    let logs = server.folder.path().join("logs");
    let count = || std::fs::read_dir(&logs).expect("it is there").count();
    eventually("forty logs", || count() == 41, || count().to_string());
    let links = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs");
    let open = || {
        let names = links()
            .flatten()
            .flat_map(|link| std::fs::read_link(link.path()));
        names.filter(|name| name.starts_with(&logs)).count()
    };
    eventually("three are open", || open() == 3, || open().to_string());
    assert_eq!(server.folder.read("error.log"), "");
}
