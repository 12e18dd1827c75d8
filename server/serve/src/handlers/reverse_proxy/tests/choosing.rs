//! Which upstream gets which request.

use super::*;

fn bodies(proxy: &Proxy, count: usize) -> Vec<String> {
    (0..count)
        .map(|_| String::from_utf8(proxy.ask(GET).body).unwrap())
        .collect()
}

fn policy(policy: Value) -> Value {
    json!({ "load_balancing": { "selection_policy": policy } })
}

#[test]
fn requests_take_turns() {
    let (a, b) = (Fake::called("a"), Fake::called("b"));
    let proxy = Proxy::with(&[&a, &b], policy(json!({ "policy": "round_robin" })));
    let got = bodies(&proxy, 10);
    assert_eq!(got.iter().filter(|body| *body == "a").count(), 5);
    assert!(got.windows(2).all(|pair| pair[0] != pair[1]), "{got:?}");
}

#[test]
fn the_first_gets_everything_and_random_spreads() {
    let (a, b) = (Fake::called("a"), Fake::called("b"));
    let proxy = Proxy::with(&[&a, &b], policy(json!({ "policy": "first" })));
    assert!(bodies(&proxy, 5).iter().all(|body| body == "a"));
    let proxy = Proxy::with(&[&a, &b], json!({}));
    let got = bodies(&proxy, 60);
    assert!(got.contains(&"a".into()) && got.contains(&"b".into()));
}

#[test]
fn the_least_busy_gets_the_next() {
    let slow = Fake::new(|mut peer| {
        peer.head();
        peer.head();
    });
    let quick = Fake::called("quick");
    let settings = policy(json!({ "policy": "least_conn" }));
    let proxy = Proxy::with(&[&slow, &quick], settings);
    let mut waiting: Vec<Client> = Vec::new();
    // As soon as one request hangs at the slow one, all others go to the other.
    while slow.accepted() == 0 {
        let mut client = proxy.connect();
        client.send(GET);
        thread::sleep(Duration::from_millis(20));
        waiting.push(client);
    }
    assert_eq!(bodies(&proxy, 10), vec!["quick"; 10]);
    assert_eq!(slow.accepted(), 1);
}
