//! Active health checks of dynamic upstreams, from every source.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{Server, eventually};
use crate::push::engines::Etcd;
use crate::support::dns::{Dns, Record};
use crate::support::redis_server::RedisServer;
use crate::upstream::Upstream;

/// An upstream that says its name, and whose health the test decides.
struct Checked {
    upstream: Upstream,
    is_well: Arc<AtomicBool>,
}

impl Checked {
    fn start(name: &'static str) -> Checked {
        let is_well = Arc::new(AtomicBool::new(true));
        let seen = is_well.clone();
        let upstream = Upstream::start(move |mut wire| {
            while let Some(head) = wire.head() {
                let is_check = head[0].contains("/health");
                let status = match is_check && !seen.load(Ordering::SeqCst) {
                    true => "500 Internal Server Error",
                    false => "200 OK",
                };
                let length = name.len();
                let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{name}");
                if wire.try_send(text).is_err() {
                    return;
                }
            }
        });
        Checked { upstream, is_well }
    }

    fn port(&self) -> u16 {
        self.upstream.port
    }
}

fn two() -> [Checked; 2] {
    [Checked::start("one"), Checked::start("two")]
}

/// Checks that the second upstream of `source` gets requests only while its health checks succeed.
fn follows_health(source: &str, [_one, two]: &[Checked; 2]) {
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy {{\n\t\tdynamic {source}\n\t\tlb_policy round_robin\n\
         \t\thealth_uri /health\n\t\thealth_interval 20ms\n\t}}\n}}\n"
    ));
    let respond = |names: &[&str]| {
        let seen: HashSet<String> = (0..6).map(|_| server.ask("/").text()).collect();
        seen == names.iter().map(|name| (*name).to_owned()).collect()
    };
    eventually("both", || respond(&["one", "two"]), || server.stderr());
    two.is_well.store(false, Ordering::SeqCst);
    eventually("only the first", || respond(&["one"]), || server.stderr());
    two.is_well.store(true, Ordering::SeqCst);
    eventually(
        "both again",
        || respond(&["one", "two"]),
        || server.stderr(),
    );
}

#[test]
fn checks_eject_upstreams_of_etcd() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let upstreams = two();
    for (name, upstream) in ["a", "b"].into_iter().zip(&upstreams) {
        let (key, value) = (
            format!("/app/{name}"),
            format!("127.0.0.1:{}", upstream.port()),
        );
        etcd.control(&["put", &key, &value]);
    }
    let source = format!(
        "etcd {{\n\t\t\tendpoints 127.0.0.1:{}\n\t\t\tprefix /app\n\t\t}}",
        etcd.port
    );
    follows_health(&source, &upstreams);
}

#[test]
fn checks_eject_upstreams_of_redis() {
    let Some(redis) = RedisServer::start(&[]) else {
        return;
    };
    let upstreams = two();
    for (name, upstream) in ["a", "b"].into_iter().zip(&upstreams) {
        let command = format!("HSET app {name} 127.0.0.1:{}", upstream.port());
        assert_eq!(redis.ask(&command, 1), [":1"]);
    }
    let source = format!(
        "redis {{\n\t\t\tstore {}\n\t\t\tkey app\n\t\t}}",
        redis.url()
    );
    follows_health(&source, &upstreams);
}

#[test]
fn checks_eject_upstreams_of_address_records() {
    let upstreams = two();
    let dns = Dns::knowing(vec![
        ("one.test.", Record::Address(Ipv4Addr::LOCALHOST)),
        ("two.test.", Record::Address(Ipv4Addr::LOCALHOST)),
    ]);
    let sources = ["one", "two"].into_iter().zip(&upstreams);
    let sources = sources.map(|(name, upstream)| {
        let (port, address) = (upstream.port(), dns.address);
        format!("\t\t\ta {name}.test {port} {{\n\t\t\t\tresolvers {address}\n\t\t\t}}\n")
    });
    let sources: String = sources.collect();
    follows_health(&format!("multi {{\n{sources}\t\t}}"), &upstreams);
}

#[test]
fn checks_eject_upstreams_of_service_records() {
    let upstreams = two();
    let [one, two] = &upstreams;
    let dns = Dns::knowing(vec![
        (
            "_app._tcp.test.",
            Record::Service(one.port(), 1, "host.test"),
        ),
        (
            "_app._tcp.test.",
            Record::Service(two.port(), 1, "host.test"),
        ),
        ("host.test.", Record::Address(Ipv4Addr::LOCALHOST)),
    ]);
    let resolvers = format!("{{\n\t\t\tresolvers {}\n\t\t}}", dns.address);
    // The transport resolves the hosts of the records.
    let source = format!("srv _app._tcp.test {resolvers}\n\t\ttransport http {resolvers}");
    follows_health(&source, &upstreams);
}
