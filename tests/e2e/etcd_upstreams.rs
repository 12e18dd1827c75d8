//! Upstreams below a prefix of etcd (`dynamic etcd`).

use std::collections::HashSet;

use sluice_net::sys::process::Signal;

use crate::harness::{Folder, Server, Setup, eventually};
use crate::push::engines::Etcd;
use crate::upstream::Upstream;

fn named(name: &str) -> Upstream {
    let length = name.len();
    Upstream::responding(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}"
    ))
}

fn put(etcd: &Etcd, name: &str, value: &str) {
    etcd.control(&["put", &format!("/services/app/{name}"), value]);
}

fn caddyfile(etcd: &Etcd, more: &str) -> String {
    format!(
        "{{\n\tadmin localhost:{{admin}}\n\tmetrics\n}}\n:{{port}} {{\n\treverse_proxy {{\n\t\tdynamic etcd {{\n\
         \t\t\tendpoints 127.0.0.1:{}\n\t\t\tprefix /services/app\n\t\t}}\n\t\tlb_policy round_robin\n{more}\t}}\n}}\n",
        etcd.port
    )
}

/// A node whose copies lie in `data`.
fn node(etcd: &Etcd, data: &Folder) -> Server {
    let data = data.path().display().to_string();
    let setup = Setup::new(&caddyfile(etcd, ""));
    setup.env("XDG_DATA_HOME", &data).start()
}

fn responds(server: &Server, names: &[&str]) -> bool {
    let seen: HashSet<String> = (0..4).map(|_| server.ask("/").text()).collect();
    seen == names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn upstreams_below_a_prefix_come_and_go_and_outlive_etcd() {
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    let (one, two, three) = (named("one"), named("two"), named("three"));
    let etcd_port = etcd.port;
    let at = |upstream: &Upstream| format!("127.0.0.1:{}", upstream.port);
    put(&etcd, "a", &at(&one));
    let data = Folder::new();
    let server = node(&etcd, &data);
    assert_eq!(server.ask("/").text(), "one", "the first request waits");
    put(&etcd, "nonsense", "nothing");
    let endpoint = format!(r#"{{"Op":0,"Addr":"{}","Metadata":null}}"#, at(&two));
    put(&etcd, "b", &endpoint);
    let shown = |names: &[&str]| {
        let what = names.join(" and ");
        eventually(&what, || responds(&server, names), || server.stderr());
    };
    shown(&["one", "two"]);
    etcd.control(&["del", "/services/app/a"]);
    shown(&["two"]);
    let sample = |name: &str, value: u64| {
        let port = etcd_port;
        format!("{name}{{source=\"etcd://127.0.0.1:{port}/services/app\"}} {value}")
    };
    server.wait_for_sample(&sample("sluice_upstream_list_size", 1));
    server.wait_for_sample(&sample("sluice_upstream_list_up", 1));
    etcd.stop();
    server.wait_for_words("cannot read upstreams from etcd; the last ones stay in use");
    server.wait_for_sample(&sample("sluice_upstream_list_up", 0));
    for _ in 0..20 {
        assert_eq!(server.ask("/").text(), "two", "the last list stays in use");
    }
    // A reload and a restart need no etcd either.
    server.write(&caddyfile(
        &etcd,
        "\t\theader_down X-Configuration second\n",
    ));
    server.signal(Signal::Hangup);
    let is_second = || server.ask("/").field("X-Configuration") == Some("second");
    eventually("the reload", is_second, || server.stderr());
    assert!(responds(&server, &["two"]));
    let another = node(&etcd, &data);
    assert!(responds(&another, &["two"]), "{}", another.stderr());
    etcd.resume();
    server.wait_for_words("upstreams are read from etcd again");
    another.wait_for_words("upstreams are read from etcd again");
    put(&etcd, "c", &at(&three));
    for server in [&server, &another] {
        let responds = || responds(server, &["two", "three"]);
        eventually("the third", responds, || server.stderr());
    }
}

#[test]
fn without_upstreams_below_the_prefix_the_fixed_ones_are_used() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let (fixed, found) = (named("fixed"), named("found"));
    let server = Server::start(&caddyfile(
        &etcd,
        &format!("\t\tto 127.0.0.1:{}\n", fixed.port),
    ));
    assert_eq!(server.ask("/").text(), "fixed");
    put(&etcd, "a", &format!("127.0.0.1:{}", found.port));
    let is_found = || server.ask("/").text() == "found";
    eventually("the upstream of etcd", is_found, || server.stderr());
    etcd.control(&["del", "--prefix", "/services/app/"]);
    let is_fixed = || server.ask("/").text() == "fixed";
    eventually("the fixed one", is_fixed, || server.stderr());
}
