//! Upstreams from a hash in Redis (`dynamic redis`).

use std::collections::HashSet;

use crate::harness::{Server, eventually};
use crate::support::redis_server::RedisServer;
use crate::upstream::Upstream;

#[test]
fn upstreams_of_a_hash_come_and_go_and_outlive_the_store() {
    let Some(mut redis) = RedisServer::start(&[]) else {
        return;
    };
    let named = |name: &str| {
        let length = name.len();
        Upstream::responding(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}"
        ))
    };
    let (one, two) = (named("one"), named("two"));
    let set = |name: &str, port: u16| {
        let reply = redis.ask(&format!("HSET backends {name} 127.0.0.1:{port}"), 1);
        assert!(reply[0].starts_with(':'), "{reply:?}");
    };
    let server = Server::start(&format!(
        "{{\n\tadmin off\n}}\n:{{port}} {{\n\treverse_proxy {{\n\t\tdynamic redis {{\n\t\t\tstore {}\n\t\t\tkey backends\n\
         \t\t\trefresh 1s\n\t\t}}\n\t\tlb_policy round_robin\n\t}}\n}}\n",
        redis.url()
    ));
    assert_eq!(server.ask("/").status, 503, "the hash is empty");
    set("a", one.port);
    assert_eq!(redis.ask("HSET backends b nonsense", 1), [":1"]);
    let responds = |names: &[&str]| {
        let seen: HashSet<String> = (0..4).map(|_| server.ask("/").text()).collect();
        seen == names.iter().map(|name| (*name).to_owned()).collect()
    };
    eventually("the first", || responds(&["one"]), || server.stderr());
    set("b", two.port);
    eventually("both", || responds(&["one", "two"]), || server.stderr());
    assert_eq!(redis.ask("HDEL backends a", 1), [":1"]);
    eventually("the second", || responds(&["two"]), || server.stderr());
    redis.stop();
    for _ in 0..20 {
        assert_eq!(server.ask("/").text(), "two", "the last reply stays in use");
    }
    server.wait_for_words("cannot read upstreams from Redis; the last ones stay in use");
    redis.restart();
    server.wait_for_words("upstreams are read from Redis again");
}
