use std::time::Duration;

use sluice_policy::HashBy;
use sluice_policy::limits::NODE_PAUSE;

use super::*;
use crate::limits::CACHE_PEER_LOAD_PERCENT;

const NOW: Moment = Moment::START;

/// Nodes `a`, `b` and `c`, of which this one is `a`.
fn peers() -> Peers {
    let node = |name: &str| Node {
        name: name.into(),
        proxy: None,
        state: Arc::default(),
    };
    Peers {
        own: 0,
        nodes: ["a", "b", "c"].map(node).into(),
        seal: Seal::new("a secret of the nodes"),
        policy: Policy::Hash {
            by: HashBy::Uri,
            fallback: Box::new(Policy::First),
            bound: Some(CACHE_PEER_LOAD_PERCENT),
        },
        turn: Turn::new(),
        log: None,
        label: "sluice-a".into(),
    }
}

fn keys() -> impl Iterator<Item = String> {
    (0..300).map(|number| format!("http://a.test/{number}"))
}

fn owners(peers: &Peers, now: Moment) -> Vec<usize> {
    keys()
        .map(|key| peers.choose(key.as_bytes(), now, 0))
        .collect()
}

fn leases(peers: &Peers, node: usize, count: usize) -> Vec<Lease> {
    let load = &peers.nodes[node].state.load;
    (0..count).map(|_| Lease::new(load)).collect()
}

#[test]
fn only_the_keys_of_a_node_that_is_away_move() {
    let peers = peers();
    let before = owners(&peers, NOW);
    for node in 0..3 {
        let share = before.iter().filter(|owner| **owner == node).count();
        assert!((60..140).contains(&share), "{node} owns {share} of 300");
    }
    let left = peers.nodes[1]
        .state
        .presence
        .note_failure(Missed::Unreachable, NOW);
    assert_eq!(left, Change::Left);
    for (before, after) in before.iter().zip(owners(&peers, NOW)) {
        assert!(after == *before || *before == 1);
        assert_ne!(after, 1);
    }
    let later = NOW + NODE_PAUSE;
    assert_eq!(owners(&peers, later), before, "it may be back");
    let key = keys().zip(&before).find(|(_, owner)| **owner == 1);
    let key = key.expect("it owns some").0;
    assert_eq!(peers.owner(key.as_bytes(), later), 1);
    let next = peers.owner(key.as_bytes(), later + Duration::from_millis(1));
    assert_ne!(next, 1, "one request finds out");
}

#[test]
fn keys_of_a_busy_node_move_to_their_next_owner() {
    let peers = peers();
    let before = owners(&peers, NOW);
    let few = leases(&peers, 1, CACHE_PEER_LOAD_FREE);
    assert_eq!(owners(&peers, NOW), before, "a handful says nothing");
    let more = leases(&peers, 1, 10);
    assert!(!owners(&peers, NOW).contains(&1));
    let even = [0, 2].map(|node| leases(&peers, node, CACHE_PEER_LOAD_FREE + 10));
    assert_eq!(owners(&peers, NOW), before, "all are equally busy");
    drop((few, more, even));
    assert_eq!(owners(&peers, NOW), before);
}

#[test]
fn requests_of_a_node_to_another_one_are_bounded() {
    let peers = peers();
    let full = [0, 1, 2].map(|node| leases(&peers, node, CACHE_PEER_REQUESTS_MAX));
    assert!(owners(&peers, NOW).iter().all(|owner| *owner == peers.own));
    drop(full);
    assert!(owners(&peers, NOW).contains(&1));
}
