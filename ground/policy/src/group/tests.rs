use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use sluice_message::Moment;

use super::*;

#[derive(Default)]
struct Now {
    tried: Vec<usize>,
    in_flight: RefCell<Vec<u32>>,
}

impl Servers for Now {
    fn was_tried(&self, index: usize) -> bool {
        self.tried.contains(&index)
    }
    fn in_flight(&self, index: usize) -> u32 {
        self.in_flight.borrow().get(index).copied().unwrap_or(0)
    }
}

const EQUAL: [u32; 4] = [1, 1, 1, 1];
const WEIGHTS: [u32; 4] = [3, 1, 2, 5];

fn servers(weights: &[u32]) -> Vec<Server> {
    let server = |(index, weight): (usize, &u32)| Server {
        name: format!("127.0.0.1:{}", 18480 + index),
        weight: *weight,
        max_fails: 1,
        fail_timeout: Duration::from_secs(10),
        requests_max: 0,
        is_down: false,
        is_backup: false,
        is_draining: false,
        slow_start: Duration::ZERO,
    };
    weights.iter().enumerate().map(server).collect()
}

fn group(method: Method, weights: &[u32]) -> Group {
    Group::new(method, &servers(weights)).unwrap()
}

fn without_second(method: Method) -> Group {
    let mut servers = servers(&EQUAL);
    servers[1].is_down = true;
    Group::new(method, &servers).unwrap()
}

fn at(seconds: u64) -> Moment {
    Moment::START + Duration::from_secs(seconds)
}

/// The numbers of the servers that the keys lead to.
fn lead<K: AsRef<[u8]>>(group: &Group, keys: impl IntoIterator<Item = K>) -> String {
    let choose = |key: K| group.choose(&Now::default(), key.as_ref(), 1, at(100));
    let chosen = keys.into_iter().map(|key| choose(key).unwrap());
    chosen.map(|index| format!("{index}")).collect()
}

fn keys() -> impl Iterator<Item = String> {
    (0..60).map(|n| format!("key-{n}"))
}

/// The bytes that `ip_hash` uses of an address: the first three of IPv4.
fn addresses() -> impl Iterator<Item = Vec<u8>> {
    let four = (0..50u32).map(|i| {
        let ip = [(i * 37) % 223 + 1, (i * 91) % 256, (i * 13) % 256, i].map(|n| n as u8);
        crate::group::address_key(IpAddr::V4(Ipv4Addr::from(ip))).to_vec()
    });
    let six = (0..20u16).map(|i| {
        let ip = Ipv6Addr::new(0x2001, 0xdb8, i, 0, 0, 0, 0, i * 7);
        crate::group::address_key(IpAddr::V6(ip)).to_vec()
    });
    four.chain(six)
}

#[test]
fn keys_lead_where_they_lead_in_nginx() {
    for (method, weights, expected) in [
        (
            Method::Hash,
            EQUAL,
            "301221030312300321210321123030301221030321033012121230032121",
        ),
        (
            Method::Hash,
            WEIGHTS,
            "210330303000223132223330322330300323313333033023211331003033",
        ),
        (
            Method::ConsistentHash,
            EQUAL,
            "113321122233112100221012123213201213322102112302132322200233",
        ),
        (
            Method::ConsistentHash,
            WEIGHTS,
            "300320223233113203033232020013300233033132312333132332223330",
        ),
    ] {
        let group = group(method, &weights);
        assert_eq!(lead(&group, keys()), expected, "as nginx 1.22 answered");
    }
    for (method, expected) in [
        (
            Method::Hash,
            "300220030302300320200320023030300220030320033002020230032020",
        ),
        (
            Method::ConsistentHash,
            "323323022233032300220002023203200233322202322302232322200233",
        ),
    ] {
        let group = without_second(method);
        assert_eq!(lead(&group, keys()), expected, "with the second down");
    }
}

#[test]
fn addresses_lead_where_they_lead_in_nginx() {
    let group = group(Method::IpHash, &EQUAL);
    let expected = "2023130131202312013020231231313313020020202202313030123012301230123012";
    assert_eq!(
        lead(&group, addresses()),
        expected,
        "as nginx 1.22 answered"
    );
    let group = super::Group::new(Method::IpHash, &servers(&WEIGHTS)).unwrap();
    let expected = "2303022233300021323323330002323230302023133330010010333200332103332003";
    assert_eq!(lead(&group, addresses()), expected);
    let group = without_second(Method::IpHash);
    let expected = "2023030032202332033020230232333333020020202202323030023032303230223002";
    assert_eq!(lead(&group, addresses()), expected);
}

#[test]
fn turns_are_those_of_nginx() {
    let none = || (0..22).map(|_| b"");
    assert_eq!(
        lead(&group(Method::RoundRobin, &EQUAL), none()),
        "0123012301230123012301"
    );
    assert_eq!(
        lead(&group(Method::RoundRobin, &WEIGHTS), none()),
        "3023130320330231303203"
    );
    let empty_key = group(Method::Hash, &EQUAL);
    assert_eq!(lead(&empty_key, none()), "0123012301230123012301");
}

#[test]
fn a_failed_server_is_asked_again_by_one_request() {
    let group = group(Method::RoundRobin, &[1, 2, 2]);
    let ask = |now| group.choose(&Now::default(), b"", 0, at(now)).unwrap();
    assert_eq!(ask(100), 1);
    group.fail(1, at(100));
    let left: Vec<usize> = (0..6).map(|_| ask(105)).collect();
    assert_eq!(
        left.iter().filter(|index| **index == 2).count(),
        4,
        "{left:?}"
    );
    assert!(!left.contains(&1));
    assert_eq!(group.fails(1), 1);
    // After its time it is asked once, until that request has told how it went.
    let later: Vec<usize> = (0..20).map(|_| ask(111)).collect();
    assert_eq!(later.iter().filter(|index| **index == 1).count(), 1);
    group.succeed(1);
    assert_eq!(group.fails(1), 0);
    assert!((0..10).any(|_| ask(112) == 1));
}

#[test]
fn where_all_are_left_out_one_is_tried_again_after_a_pause() {
    let group = group(Method::RoundRobin, &EQUAL[..2]);
    let after = |millis| at(100) + Duration::from_millis(millis);
    let choose = |now| group.choose(&Now::default(), b"", 1, now);
    group.fail(1, at(99));
    group.fail(0, at(100));
    // The one that failed first is tried first, by one request; the other once its own pause is over.
    assert_eq!(group.foresee(&Now::default(), b"", after(0)), Some(1));
    assert_eq!(choose(after(0)), Some(1));
    assert_eq!(choose(after(0)), None);
    assert_eq!(choose(after(49)), None);
    assert_eq!((choose(after(50)), choose(after(50))), (Some(0), Some(1)));
    assert_eq!(choose(after(50)), None);
    // A server that responds again is available to all clients.
    group.succeed(0);
    assert_eq!((choose(after(51)), choose(after(51))), (Some(0), Some(0)));
}

#[test]
fn pauses_double_with_each_failure_and_never_pass_a_second() {
    let mut servers = servers(&EQUAL[..2]);
    servers[1].is_down = true;
    let group = Group::new(Method::LeastConn, &servers).unwrap();
    let mut now = at(100);
    for millis in [50, 100, 200, 400, 800, 1000, 1000, 1000] {
        group.fail(0, now);
        let early = now + Duration::from_millis(millis - 1);
        assert_eq!(group.choose(&Now::default(), b"", 1, early), None);
        now = now + Duration::from_millis(millis);
        assert_eq!(group.choose(&Now::default(), b"", 1, now), Some(0));
    }
    (0..100).for_each(|_| group.fail(0, now));
    let second = now + Duration::from_secs(1);
    assert_eq!(group.choose(&Now::default(), b"", 1, second), Some(0));
}

#[test]
fn who_is_left_out_comes_after_who_stands_by_and_is_no_busier_than_allowed() {
    let mut servers = servers(&EQUAL[..3]);
    servers[2].is_backup = true;
    servers[0].requests_max = 1;
    let group = Group::new(Method::Hash, &servers).unwrap();
    group.fail(0, at(100));
    group.fail(1, at(101));
    let choose = |servers: &Now| group.choose(servers, b"key", 1, at(103));
    assert_eq!(choose(&Now::default()), Some(2));
    let mut tried = Now::default();
    tried.tried.push(2);
    *tried.in_flight.borrow_mut() = vec![1];
    assert_eq!(choose(&tried), Some(1), "the first is full");
    tried.tried.push(1);
    assert_eq!(choose(&tried), None, "nobody is asked twice");
}

#[test]
fn max_fails_allows_some_failures_and_0_ignores_all() {
    let mut list = servers(&EQUAL);
    list[0].max_fails = 3;
    list[1].max_fails = 0;
    let group = Group::new(Method::RoundRobin, &list).unwrap();
    for _ in 0..2 {
        group.fail(0, at(1));
        group.fail(1, at(1));
    }
    assert!(group.is_healthy(0, at(2)) && group.is_healthy(1, at(2)));
    group.fail(0, at(2));
    group.fail(1, at(2));
    assert!(!group.is_healthy(0, at(3)) && group.is_healthy(1, at(3)));
    assert!(group.is_healthy(0, at(13)));
    let one = super::Group::new(Method::RoundRobin, &servers(&[1])).unwrap();
    one.fail(0, at(1));
    assert_eq!(one.choose(&Now::default(), b"", 0, at(1)), Some(0));
}

#[test]
fn backup_upstreams_come_last() {
    let mut list = servers(&EQUAL);
    list[2].is_backup = true;
    list[3].is_backup = true;
    let group = Group::new(Method::RoundRobin, &list).unwrap();
    assert_eq!(group.tries(), 4);
    assert_eq!(lead(&group, (0..6).map(|_| b"")), "010101");
    group.fail(0, at(100));
    group.fail(1, at(100));
    assert_eq!(lead(&group, (0..6).map(|_| b"")), "232323");
    let tried = Now {
        tried: vec![2, 3],
        ..Now::default()
    };
    assert_eq!(group.choose(&tried, b"", 0, at(100)), None);
}

#[test]
fn busy_servers_are_spared() {
    let mut list = servers(&[1, 1, 4]);
    list[0].requests_max = 2;
    let least = Group::new(Method::LeastConn, &list).unwrap();
    let now = |busy: &[u32]| Now {
        in_flight: RefCell::new(busy.to_vec()),
        ..Now::default()
    };
    let choose = |group: &Group, busy: &[u32]| group.choose(&now(busy), b"", 9, at(1));
    assert_eq!(
        choose(&least, &[1, 1, 3]),
        Some(2),
        "three of four are less"
    );
    assert_eq!(choose(&least, &[0, 1, 1]), Some(0));
    assert_eq!(choose(&least, &[2, 3, 20]), Some(1), "the first is full");
    let turns = Group::new(Method::RoundRobin, &list).unwrap();
    for _ in 0..10 {
        assert_ne!(choose(&turns, &[2, 0, 0]), Some(0));
    }
    let two = Group::new(Method::RandomTwo, &servers(&EQUAL)).unwrap();
    for seed in 0..200 {
        let chosen = two.choose(&now(&[9, 0, 0, 0]), b"", seed, at(1));
        assert_ne!(chosen, Some(0), "the other one is always less busy");
    }
}

#[test]
fn chance_goes_by_weight() {
    for method in [Method::Random, Method::RandomTwo] {
        let group = group(method, &WEIGHTS);
        let mut shares = [0u32; 4];
        for seed in 0..11_000 {
            let chosen = group.choose(&Now::default(), b"", seed, at(1)).unwrap();
            shares[chosen] += 1;
        }
        assert!(shares[3] > shares[0] && shares[0] > shares[2], "{shares:?}");
        assert!(shares[2] > shares[1], "{shares:?}");
        if method == Method::Random {
            let is_near = |index: usize| shares[index].abs_diff(WEIGHTS[index] * 1000) < 300;
            assert!((0..4).all(is_near), "{shares:?}");
        }
    }
}

#[test]
fn no_upstream_is_chosen_from_an_empty_group() {
    for method in [
        Method::RoundRobin,
        Method::LeastConn,
        Method::IpHash,
        Method::Hash,
        Method::ConsistentHash,
        Method::Random,
        Method::RandomTwo,
    ] {
        let mut list = servers(&EQUAL);
        list.iter_mut().for_each(|server| server.is_down = true);
        let down = Group::new(method, &list).unwrap();
        assert_eq!(down.choose(&Now::default(), b"key", 1, at(1)), None);
        let none = Group::new(method, &[]).unwrap();
        assert_eq!(none.choose(&Now::default(), b"key", 1, at(1)), None);
        let all_tried = Now {
            tried: vec![0, 1, 2, 3],
            ..Now::default()
        };
        let up = group(method, &EQUAL);
        assert_eq!(up.choose(&all_tried, b"key", 1, at(1)), None);
        let but_one = Now {
            tried: vec![0, 1, 3],
            ..Now::default()
        };
        assert_eq!(up.choose(&but_one, b"key", 1, at(1)), Some(2), "{method:?}");
    }
}

#[test]
fn a_ring_has_a_limit() {
    let heavy = servers(&[7_000]);
    assert_eq!(
        Group::new(Method::ConsistentHash, &heavy).unwrap_err(),
        TooMany::Points(7_000 * 160)
    );
    assert!(Group::new(Method::Hash, &heavy).is_ok());
}

#[test]
fn servers_that_stay_keep_their_failures_and_their_turns() {
    let group = group(Method::RoundRobin, &[1, 1]);
    group.fail(1, at(100));
    let mut servers = servers(&[1, 1, 1]);
    servers.remove(0);
    let renewed = group.renewed(&servers, &[Some(1), None]).unwrap();
    assert_eq!((renewed.fails(0), renewed.fails(1)), (1, 0));
    assert!(!renewed.is_healthy(0, at(100)) && renewed.is_healthy(1, at(100)));
    // What is noted of a server counts for both: requests of before are still on their way.
    group.fail(1, at(101));
    assert_eq!(renewed.fails(0), 2);
    let chosen = renewed.choose(&Now::default(), &[], 1, at(101));
    assert_eq!(chosen, Some(1));
}

fn timed(waiting_counts: Waiting) -> Group {
    group(
        Method::LeastTime(Timed::Header, waiting_counts),
        &EQUAL[..2],
    )
}

fn next(group: &Group, now: Moment) -> Option<usize> {
    group.choose(&Now::default(), &[], 1, now)
}

#[test]
fn the_one_that_is_expected_to_be_done_first_is_chosen() {
    let group = timed(Waiting::Ignored);
    // Before anything is known they take turns; and so do those that are about as fast.
    let first = [next(&group, at(100)), next(&group, at(100))];
    assert_eq!(first, [Some(0), Some(1)]);
    group.note_time(0, Duration::from_millis(12));
    group.note_time(1, Duration::from_millis(3));
    assert_eq!([next(&group, at(100)), next(&group, at(100))], first);
    group.note_time(0, Duration::from_millis(900));
    for _ in 0..5 {
        assert_eq!(next(&group, at(101)), Some(1));
    }
    // Two requests of 20 ms are done before one of 56 ms, and three are not.
    let with = |busy: u32| Now {
        in_flight: RefCell::new(vec![0, busy]),
        ..Now::default()
    };
    assert_eq!(group.choose(&with(1), &[], 1, at(101)), Some(1));
    assert_eq!(group.choose(&with(3), &[], 1, at(101)), Some(0));
}

#[test]
fn a_slow_one_gets_another_chance_and_weights_count() {
    let group = timed(Waiting::Ignored);
    assert_eq!(next(&group, at(100)), Some(0));
    group.note_time(0, Duration::from_millis(100));
    for seconds in 101..110 {
        assert_eq!(next(&group, at(seconds)), Some(1), "{seconds}");
    }
    // 100, 50, 25 and then 12 ms: as fast as the other.
    let later: Vec<_> = (130..150)
        .map(|seconds| next(&group, at(seconds)))
        .collect();
    assert!(later.contains(&Some(0)), "{later:?}");
    let heavy = self::group(
        Method::LeastTime(Timed::LastByte, Waiting::Ignored),
        &[5, 1],
    );
    heavy.note_time(0, Duration::from_millis(70));
    heavy.note_time(1, Duration::from_millis(30));
    assert_eq!(next(&heavy, at(1)), Some(0));
}

#[test]
fn a_hanging_server_counts_as_slow_before_its_response() {
    for (waiting_counts, expected) in [(Waiting::Count, Some(1)), (Waiting::Ignored, Some(0))] {
        let group = timed(waiting_counts);
        group.note_time(1, Duration::from_millis(30));
        group.wait(0, at(1));
        assert_eq!(next(&group, at(4)), expected, "{waiting_counts:?}");
        group.end_wait(0, at(1));
        assert_eq!(next(&group, at(4)), Some(0));
    }
}

#[test]
fn a_draining_server_gets_only_what_is_bound_to_it() {
    let mut servers = servers(&EQUAL);
    servers[1].is_draining = true;
    for method in [Method::RoundRobin, Method::LeastConn, Method::Random] {
        let group = Group::new(method, &servers).unwrap();
        for seed in 0..100 {
            let chosen = group.choose(&Now::default(), b"", seed, at(100));
            assert!(chosen.is_some_and(|index| index != 1), "{method:?}");
        }
        assert!(group.take(1, &Now::default(), at(100)));
        assert_eq!(group.tries(), 3);
    }
}

#[test]
fn a_server_that_is_back_gets_its_share_little_by_little() {
    let mut servers = servers(&[1, 1]);
    servers[1].slow_start = Duration::from_secs(100);
    for method in [Method::RoundRobin, Method::LeastConn] {
        let group = Group::new(method, &servers).unwrap();
        let shares = |now: u64| {
            let chosen = (0..1000).filter_map(|_| group.choose(&Now::default(), b"", 1, at(now)));
            chosen.filter(|index| *index == 1).count()
        };
        assert_eq!(shares(100), 500, "{method:?}: nothing has failed yet");
        group.fail(1, at(100));
        assert_eq!(shares(101), 0, "{method:?}");
        // It is tried again, and responds.
        assert!((0..3).any(|_| group.choose(&Now::default(), b"", 1, at(120)) == Some(1)));
        group.succeed(1);
        let growing = [125, 145, 170, 219].map(shares);
        assert!(growing.is_sorted(), "{method:?}: {growing:?}");
        if method == Method::RoundRobin {
            assert!((30..=70).contains(&growing[0]), "{growing:?}");
            assert!((300..=360).contains(&growing[2]), "{growing:?}");
        }
        assert!((499..=501).contains(&shares(221)), "{method:?}");
    }
}

/// Servers of which the first drains and the second has another weight.
struct Directed {
    drains_first: bool,
    weight_of_second: Option<u32>,
}

impl Servers for Directed {
    fn was_tried(&self, _index: usize) -> bool {
        false
    }
    fn in_flight(&self, _index: usize) -> u32 {
        1
    }
    fn is_draining(&self, index: usize) -> bool {
        self.drains_first && index == 0
    }
    fn weight(&self, index: usize) -> Option<u32> {
        self.weight_of_second.filter(|_| index == 1)
    }
}

#[test]
fn directions_come_before_the_configuration() {
    for method in [Method::RoundRobin, Method::LeastConn] {
        let group = group(method, &[2, 1, 1]);
        let shares = |servers: &Directed| {
            let mut shares = [0; 3];
            for seed in 0..120 {
                shares[group.choose(servers, b"", seed, at(100)).unwrap()] += 1;
            }
            shares
        };
        let draining = Directed {
            drains_first: true,
            weight_of_second: None,
        };
        assert_eq!(shares(&draining)[0], 0, "{method:?}");
        // A request that is bound to it still goes there.
        assert!(group.take(0, &draining, at(100)));
        let heavy = Directed {
            drains_first: true,
            weight_of_second: Some(3),
        };
        let [_, second, third] = shares(&heavy);
        if method == Method::RoundRobin {
            assert_eq!((second, third), (90, 30));
        } else {
            assert!(second > third, "{second} {third}");
        }
        let as_configured = Directed {
            drains_first: false,
            weight_of_second: None,
        };
        assert!(shares(&as_configured)[0] > 0);
    }
}

#[test]
fn failures_go_on_in_another_process_and_end_in_time() {
    let of = || group(Method::RoundRobin, &[1, 1]);
    let (before, after, other) = (of(), of(), of());
    assert_eq!(before.failing(0), None);
    before.fail(0, at(100));
    let failing = before.failing(0).expect("it fails");
    assert!(!before.is_healthy(0, at(100)) && after.is_healthy(0, at(100)));
    after.resume_failing(0, failing);
    assert!(!after.is_healthy(0, at(109)));
    assert!(after.is_healthy(0, at(111)));
    // What it has learned itself is newer.
    other.fail(0, at(109));
    other.resume_failing(0, failing);
    assert_eq!(other.failing(0).map(|[fails, ..]| fails), Some(1));
    assert!(!other.is_healthy(0, at(111)));
}
