//! Nodes that are one cache together: `proxy_cache_peers` and `proxy_cache_purge_storage`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rustls::version::TLS13;

use super::{Origin, ask, counted, get, say, target};
use crate::client::{Client, Response};
use crate::harness::{Folder, Server, Setup, eventually, finish, free_port, sluice, text};
use crate::push::engines::Etcd;
use crate::stores::{Kind, SharedStore};
use crate::support::redis_server::RedisServer;
use crate::tls;
use crate::upstream::Upstream;

const NAMES: [&str; 3] = ["a", "b", "c"];
const SECRET: &str = "what the nodes of a test know";

/// Nodes of one cache, of which some may be down.
struct Fleet {
    folder: Folder,
    ports: [u16; 3],
    nodes: Vec<Option<Server>>,
    origin: u16,
    /// Lines in `http`.
    lines: String,
    /// How long the owner of a key may take.
    timeout: &'static str,
}

impl Fleet {
    /// None of them runs yet.
    fn new(origin: &Origin, lines: &str) -> Fleet {
        Fleet {
            folder: Folder::new(),
            ports: [(); 3].map(|()| free_port()),
            nodes: vec![None, None, None],
            origin: origin.upstream.port,
            lines: lines.to_owned(),
            // Nothing is slow unless a test says so.
            timeout: "60s",
        }
    }

    fn running(origin: &Origin, lines: &str) -> Fleet {
        let mut fleet = Fleet::new(origin, lines);
        (0..3).for_each(|number| fleet.start(number));
        fleet
    }

    /// Starts a node, or starts it again with the files that it has.
    fn start(&mut self, number: usize) {
        self.start_with(number, SECRET);
    }

    fn start_with(&mut self, number: usize, secret: &str) {
        let name = NAMES[number];
        let nodes = NAMES.iter().zip(self.ports);
        let nodes: String = nodes
            .map(|(name, port)| format!(" {name}=http://127.0.0.1:{port}"))
            .collect();
        let cache = self.cache(number).display().to_string();
        let (origin, timeout, lines) = (self.origin, self.timeout, &self.lines);
        let mut setup = Setup::bare().args(&["--config", "nginx.conf"]);
        setup.port = self.ports[number];
        let conf = setup.fill(&format!(
            "events {{}}\nhttp {{\nmap $request_method $is_purge {{ default 0; PURGE 1; }}\n\
             proxy_cache_path {cache} levels=1:2 keys_zone=one:1m;\n\
             proxy_cache_peers{nodes} node={name} timeout={timeout} \"secret={secret}\";\n{lines}\n\
             server {{\nlisten 127.0.0.1:{{port}};\nadd_header X-Node {name};\n\
             add_header X-Cache $upstream_cache_status;\nproxy_cache one;\nproxy_cache_lock on;\n\
             proxy_cache_lock_age 1h;\nproxy_cache_lock_timeout 1h;\n\
             location / {{ proxy_pass http://127.0.0.1:{origin}; }}\n}}\n}}\n"
        ));
        setup.folder().write("nginx.conf", conf);
        self.nodes[number] = Some(setup.start());
    }

    fn cache(&self, number: usize) -> PathBuf {
        self.folder.path().join(NAMES[number])
    }

    fn node(&self, number: usize) -> &Server {
        self.nodes[number].as_ref().expect("it runs")
    }

    fn kill(&mut self, number: usize) {
        self.nodes[number] = None;
    }

    fn get(&self, number: usize, path: &str) -> Response {
        get(self.node(number), path)
    }

    /// A path that the node `owner` owns, as the node `via` knows it. It is fetched.
    fn owned_by(&self, owner: usize, via: usize) -> String {
        let is_owned = |path: &String| {
            let response = self.get(via, path);
            assert_eq!(response.status, 200);
            members(&response)[0].starts_with(&format!("sluice-{};", NAMES[owner]))
        };
        let mut paths = (0..200).map(|number| format!("/owned/{number}"));
        paths.find(is_owned).expect("each node owns a third")
    }

    fn sum(&self, metric: &str) -> u64 {
        let running = self.nodes.iter().flatten();
        running.map(|node| labelled(node, metric)).sum()
    }
}

/// The value of a metric, of which the beginning of the labels is given.
fn labelled(server: &Server, sample: &str) -> u64 {
    let page = server.metrics();
    let mut values = page.lines().filter(|line| {
        let mut parts = sample.split('*');
        parts.all(|part| line.contains(part))
            && line.starts_with(sample.split('{').next().unwrap_or(""))
    });
    let value = values
        .next()
        .and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {sample} in {page}"))
}

fn peer_requests(outcome: &str) -> String {
    format!("sluice_cache_peer_requests_total{{*outcome=\"{outcome}\"")
}

/// The members of `Cache-Status`, the cache next to the upstream first.
fn members(response: &Response) -> Vec<String> {
    let lines = response.head.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("Cache-Status").then_some(value)
    });
    lines
        .flat_map(|value| value.split(", "))
        .map(str::to_owned)
        .collect()
}

/// An upstream whose responses may be cached for an hour. They name the target and the current version.
fn versions() -> (Origin, Arc<AtomicUsize>) {
    let version = Arc::new(AtomicUsize::new(1));
    let current = version.clone();
    let origin = Origin::start(move |wire, head, _| {
        let version = current.load(Ordering::SeqCst);
        let fields = "Cache-Control: max-age=3600\r\nETag: \"x\"\r\nX-Accel-Limit-Rate: 1000000";
        say(
            wire,
            "200 OK",
            fields,
            &format!("{} v{version}", target(head)),
        );
    });
    (origin, version)
}

fn requests(origin: &Origin) -> usize {
    origin.asked.lock().expect("no test panics in it").len()
}

#[test]
fn a_hundred_objects_are_fetched_once_by_all_nodes_together() {
    let (origin, _) = versions();
    let fleet = Fleet::running(&origin, "");
    thread::scope(|scope| {
        for (number, name) in NAMES.into_iter().enumerate() {
            let fleet = &fleet;
            scope.spawn(move || {
                let mut client = Client::connect(fleet.ports[number]);
                for object in 0..100 {
                    let path = format!("/{object}");
                    let response = client.get(&path);
                    assert_eq!(response.status, 200, "{}", response.head);
                    assert_eq!(response.text(), format!("{path} v1"));
                    // Another node must not have changed the response for a client.
                    let nodes = response.head.matches("X-Node: ").count();
                    assert_eq!((nodes, response.field("X-Node")), (1, Some(name)));
                    assert!(!response.head.contains("Sluice-Cache-Peer"));
                    let last = members(&response).pop().expect("it names the node");
                    assert!(last.starts_with(&format!("sluice-{name}; ")), "{last}");
                }
            });
        }
    });
    for outcome in ["missed", "refused", "stranger"] {
        assert_eq!(fleet.sum(&peer_requests(outcome)), 0, "{outcome}");
    }
    assert_eq!(requests(&origin), 100);
    assert_eq!(fleet.sum("sluice_cache_entries{"), 100);
    for node in 0..3 {
        let owned = labelled(fleet.node(node), "sluice_cache_entries{");
        assert!((10..=60).contains(&owned), "{owned} of 100");
    }
    let forwarded = fleet.sum(&peer_requests("forwarded"));
    assert_eq!(forwarded, 200, "each object by two nodes");
    assert_eq!(fleet.sum(&peer_requests("served")), forwarded);
}

#[test]
fn cache_status_names_the_nodes() {
    let (origin, _) = versions();
    let fleet = Fleet::running(&origin, "");
    let path = fleet.owned_by(1, 0);
    let hit = members(&fleet.get(1, &path));
    assert!(hit[0].starts_with("sluice-b; hit; ttl=3"), "{hit:?}");
    assert_eq!(hit.len(), 1);
    let forwarded = fleet.get(2, &path);
    let both = members(&forwarded);
    assert!(both[0].starts_with("sluice-b; hit; ttl=3"), "{both:?}");
    assert_eq!(both[1], "sluice-c; fwd=miss; fwd-status=200; detail=b");
    assert_eq!(forwarded.field("X-Cache"), Some("HIT"));
    assert!(forwarded.field("Age").is_some(), "{}", forwarded.head);
    let path = format!("{path}?new");
    let owner = members(&fleet.get(0, &path));
    let missed = "fwd=miss; fwd-status=200; stored";
    assert!(owner[0].ends_with(missed), "{owner:?}");
}

#[test]
fn heads_ranges_and_conditions_go_through_the_owner() {
    let (origin, _) = versions();
    let fleet = Fleet::running(&origin, "");
    let path = fleet.owned_by(1, 0);
    let whole = format!("{path} v1");
    let via = fleet.node(2);
    let part = ask(via, "GET", &path, "Range: bytes=1-3\r\n");
    assert_eq!((part.status, part.text()), (206, whole[1..4].to_owned()));
    let range = format!("bytes 1-3/{}", whole.len());
    assert_eq!(part.field("Content-Range"), Some(&*range));
    let beyond = ask(via, "GET", &path, "Range: bytes=1000-\r\n");
    assert_eq!(beyond.status, 416);
    let range = format!("bytes */{}", whole.len());
    assert_eq!(beyond.field("Content-Range"), Some(&*range));
    let same = ask(via, "GET", &path, "If-None-Match: \"x\"\r\n");
    assert_eq!((same.status, same.field("ETag")), (304, Some("\"x\"")));
    let head = ask(via, "HEAD", &path, "");
    let length = whole.len().to_string();
    assert_eq!(
        (head.status, head.field("Content-Length")),
        (200, Some(&*length))
    );
    assert_eq!(origin.count(&path), 1);
}

#[test]
fn an_unsafe_request_drops_the_response_of_the_owner() {
    let (origin, version) = versions();
    let fleet = Fleet::running(&origin, "");
    let path = fleet.owned_by(1, 0);
    version.store(2, Ordering::SeqCst);
    assert_eq!(fleet.get(2, &path).text(), format!("{path} v1"));
    let posted = ask(fleet.node(2), "POST", &path, "Content-Length: 3\r\n\r\nabc");
    assert_eq!(posted.status, 200);
    let last = || fleet.get(0, &path).text();
    eventually("a new response", || last() == format!("{path} v2"), last);
}

#[test]
fn a_purge_on_one_node_reaches_all_and_those_that_were_away() {
    let Some(etcd) = Etcd::start() else { return };
    let endpoint = format!("127.0.0.1:{}", etcd.port);
    reaches_all(&format!("etcd endpoints={endpoint} prefix=/test"));
}

#[test]
fn a_purge_reaches_all_nodes_through_postgres() {
    let Some(postgres) = SharedStore::start(Kind::Postgres) else {
        return;
    };
    reaches_all(&format!(
        "postgres host=127.0.0.1 port={} user=web password=secret dbname=certs sslmode=disable",
        postgres.port()
    ));
}

fn reaches_all(storage: &str) {
    let (origin, version) = versions();
    let lines = format!("proxy_cache_purge_storage {storage};\nproxy_cache_purge $is_purge;");
    let mut fleet = Fleet::running(&origin, &lines);
    let paths = [0, 1, 2].map(|owner| fleet.owned_by(owner, 0));
    version.store(2, Ordering::SeqCst);
    for path in &paths {
        let began = Instant::now();
        assert_eq!(ask(fleet.node(0), "PURGE", path, "").status, 204);
        for node in 0..3 {
            let shown = || fleet.get(node, path).text();
            eventually("a new response", || shown() == format!("{path} v2"), shown);
        }
        println!("purged everywhere after {:?}", began.elapsed());
    }
    let of_c = &paths[2];
    let mut others = (0..100).map(|number| format!("/more/{number}"));
    let kept = others.find(|path| members(&fleet.get(2, path)).len() == 1);
    let kept = kept.expect("node c owns a third");
    fleet.kill(2);
    version.store(3, Ordering::SeqCst);
    assert_eq!(ask(fleet.node(1), "PURGE", of_c, "").status, 204);
    fleet.start(2);
    let shown = fleet.get(2, of_c).text();
    assert_eq!(shown, format!("{of_c} v3"), "what was purged is not used");
    eventually(
        "the node to catch up",
        || counted(fleet.node(2), "sluice_cache_purges_following") == 1,
        || fleet.node(2).stderr(),
    );
    assert_eq!(
        fleet.get(2, &kept).text(),
        format!("{kept} v2"),
        "what was not purged is"
    );
    // All keys with this beginning.
    version.store(4, Ordering::SeqCst);
    assert_eq!(ask(fleet.node(0), "PURGE", "/*", "").status, 204);
    let shown = || fleet.get(1, &kept).text();
    eventually("a new response", || shown() == format!("{kept} v4"), shown);
}

#[test]
fn a_purge_without_its_storage_fails_and_applies_to_this_node() {
    let Some(mut redis) = RedisServer::start(&[]) else {
        return;
    };
    let (origin, version) = versions();
    let fleet = Fleet::running(
        &origin,
        &format!(
            "proxy_cache_purge_storage redis host=127.0.0.1 port={};\nproxy_cache_purge $is_purge;",
            redis.port
        ),
    );
    let path = fleet.owned_by(1, 0);
    version.store(2, Ordering::SeqCst);
    assert_eq!(ask(fleet.node(0), "PURGE", &path, "").status, 204);
    let shown = || fleet.get(2, &path).text();
    eventually("a new response", || shown() == format!("{path} v2"), shown);
    redis.stop();
    version.store(3, Ordering::SeqCst);
    assert_eq!(ask(fleet.node(1), "PURGE", &path, "").status, 503);
    assert_eq!(fleet.get(1, &path).text(), format!("{path} v3"));
    fleet
        .node(1)
        .wait_for_words("the storage of purges is away");
    redis.restart();
    fleet
        .node(1)
        .wait_for_words("the storage of purges is back");
    version.store(4, Ordering::SeqCst);
    assert_eq!(ask(fleet.node(0), "PURGE", &path, "").status, 204);
    eventually("a new response", || shown() == format!("{path} v4"), shown);
}

#[test]
fn the_death_of_an_owner_fails_no_request() {
    let (origin, _) = versions();
    let mut fleet = Fleet::running(&origin, "");
    let path = fleet.owned_by(1, 0);
    fleet.kill(1);
    let response = fleet.get(0, &path);
    assert_eq!(
        (response.status, response.text()),
        (200, format!("{path} v1"))
    );
    let status = members(&response).pop().expect("it names the node");
    let away = "; detail=\"b is away\"";
    assert!(
        status.starts_with("sluice-a; fwd=miss; fwd-status=200") && status.ends_with(away),
        "{status}"
    );
    fleet.node(0).wait_for_words("a node of the cache is away");
    for object in 0..50 {
        for node in [0, 2] {
            let response = fleet.get(node, &format!("/{object}"));
            assert_eq!(response.status, 200, "{}", response.head);
        }
    }
    let owners: BTreeSet<String> = (0..50)
        .map(|object| members(&fleet.get(0, &format!("/{object}"))))
        .map(|members| members[0].chars().take("sluice-a".len()).collect())
        .collect();
    let others = ["sluice-a", "sluice-c"].map(str::to_owned);
    assert_eq!(owners, BTreeSet::from(others));
    fleet.start(1);
    // Each request has a new key, a third of which are of this node.
    let owner = || {
        let response = fleet.get(0, &format!("{path}?{}", requests(&origin)));
        members(&response)[0].clone()
    };
    eventually(
        "the node to be back",
        || owner().starts_with("sluice-b"),
        owner,
    );
    fleet.node(0).wait_for_words("a node of the cache is back");
}

#[test]
fn marks_of_strangers_are_ignored() {
    let (origin, _) = versions();
    let mut fleet = Fleet::running(&origin, "");
    let path = fleet.owned_by(1, 0);
    let digest = "0".repeat(64);
    for errand in ["get", "drop"] {
        let mark = format!("Sluice-Cache-Peer: a {errand} {digest} {digest}\r\n");
        let response = ask(fleet.node(1), "GET", &path, &mark);
        assert_eq!(
            (response.status, response.text()),
            (200, format!("{path} v1"))
        );
        assert_eq!(
            response.field("X-Node"),
            Some("b"),
            "it has the filters of a client"
        );
        assert_eq!(
            response.field("X-Cache"),
            Some("HIT"),
            "{errand} has no effect"
        );
        assert_eq!(response.field("Sluice-Cache-Peer"), None);
    }
    assert_eq!(labelled(fleet.node(1), &peer_requests("stranger")), 2);
    assert_eq!(labelled(fleet.node(1), &peer_requests("served")), 1);
    assert_eq!(
        origin
            .last(&path)
            .iter()
            .filter(|line| line.starts_with("Sluice"))
            .count(),
        0
    );
    // Nodes with different secrets neither trust one another nor send requests in a circle.
    fleet.kill(1);
    fleet.start_with(1, "another secret of some length");
    for object in 0..30 {
        for node in 0..3 {
            let path = format!("/{object}");
            let response = fleet.get(node, &path);
            assert_eq!(
                (response.status, response.text()),
                (200, format!("{path} v1"))
            );
        }
        assert!(origin.count(&format!("/{object}")) <= 3);
    }
    assert!(labelled(fleet.node(1), &peer_requests("stranger")) > 0);
    assert!(labelled(fleet.node(0), &peer_requests("refused")) > 0);
}

#[test]
fn a_node_that_does_not_respond_is_waited_for_until_the_deadline() {
    let (origin, _) = versions();
    let mut fleet = Fleet::new(&origin, "");
    fleet.timeout = "1s";
    let silent = Upstream::start(|mut wire| while wire.head().is_some() {});
    // Something else has the port of a node.
    let other = Upstream::echo();
    fleet.ports = [fleet.ports[0], silent.port, other.port];
    fleet.start(0);
    let mut seen = BTreeSet::new();
    for object in 0..60 {
        let path = format!("/{object}");
        let response = fleet.get(0, &path);
        assert_eq!(
            (response.status, response.text()),
            (200, format!("{path} v1"))
        );
        let status = members(&response).pop().expect("it names the node");
        seen.extend(
            status
                .split_once("detail=")
                .map(|(_, detail)| detail.to_owned()),
        );
    }
    let details = ["\"b is away\"", "\"c refuses\""].map(str::to_owned);
    assert_eq!(seen, BTreeSet::from(details));
    let missed = labelled(fleet.node(0), &peer_requests("missed"));
    assert!(
        (3..10).contains(&missed),
        "{missed}: it is left out after some"
    );
    fleet.node(0).wait_for_words("a node of the cache is away");
}

#[test]
fn a_node_that_is_not_listed_and_a_short_secret_are_refused() {
    let port = free_port();
    for (settings, expected) in [
        (
            "node=x secret=0123456789abcdef",
            "this node is `x`, which the cache does not list",
        ),
        (
            "node=a secret=short",
            "the `secret` of a cache has less than 16 bytes",
        ),
    ] {
        let folder = Folder::new();
        let cache = folder.path().join("cache").display().to_string();
        folder.write(
            "nginx.conf",
            format!(
                "events {{}}\nhttp {{\nproxy_cache_path {cache} keys_zone=one:1m;\n\
                 proxy_cache_peers a=http://127.0.0.1:1 b=http://127.0.0.1:2 {settings};\n\
                 server {{\nlisten 127.0.0.1:{port};\nproxy_cache one;\n\
                 location / {{ proxy_pass http://127.0.0.1:3; }}\n}}\n}}\n"
            ),
        );
        let mut command = sluice(&folder);
        command.env("SLUICE_ADMIN", format!("localhost:{}", free_port()));
        let output = finish(command.args(["run", "--config", "nginx.conf"]));
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains(expected),
            "{said}"
        );
    }
}

#[test]
fn nodes_may_speak_tls() {
    let (origin, _) = versions();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let ports = [free_port(), free_port()];
    let folder = Folder::new();
    let servers: Vec<Server> = (0..2)
        .map(|number| {
            let name = NAMES[number];
            let cache = folder.path().join(name).display().to_string();
            let mut setup = Setup::bare().args(&["--config", "nginx.conf"]);
            setup.port = ports[number];
            setup.folder().write("site.pem", made.cert.pem());
            setup.folder().write("site.key", made.signing_key.serialize_pem());
            let conf = setup.fill(&format!(
                "events {{}}\nhttp {{\nproxy_cache_path {cache} keys_zone=one:1m;\n\
                 proxy_cache_peers a=https://127.0.0.1:{} b=https://127.0.0.1:{} node={name} trusted=site.pem \"secret={SECRET}\";\n\
                 server {{\nlisten 127.0.0.1:{{port}} ssl;\nssl_certificate site.pem;\nssl_certificate_key site.key;\n\
                 proxy_cache one;\nlocation / {{ proxy_pass http://127.0.0.1:{}; }}\n}}\n}}\n",
                ports[0], ports[1], origin.upstream.port
            ));
            setup.folder().write("nginx.conf", conf);
            setup.start()
        })
        .collect();
    let client = tls::trusting(made.cert.der().clone(), &[&TLS13]);
    for object in 0..20 {
        for server in &servers {
            let mut wire = tls::connect(&client, server.port, "localhost").expect("a connection");
            let path = format!("/{object}");
            let (head, body) = tls::get(&mut wire, "localhost", &path);
            assert!(head[0].contains(" 200 "), "{head:?}");
            assert_eq!(body, format!("{path} v1"));
        }
    }
    assert_eq!(requests(&origin), 20, "the scheme is the same for both");
}
