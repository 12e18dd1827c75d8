//! Several nodes and a store in virtual time.

use alloc::collections::BTreeMap;

use alloc::vec::Vec;

use super::*;
use crate::limit::{Mode, Rate};
use crate::random::Random;

const KEY: &[u8] = b"client";

/// A store as its script counts: a sliding window in slices.
struct Store {
    events: u32,
    window: u64,
    slice: u64,
    counted: BTreeMap<u64, u32>,
    total: u32,
    asked: u32,
}

impl Store {
    fn new(events: u32, window: Duration, slice: Duration) -> Store {
        Store {
            events,
            window: window.as_micros() as u64,
            slice: (slice.as_micros() as u64).max(1),
            counted: BTreeMap::new(),
            total: 0,
            asked: 0,
        }
    }

    fn reply(&mut self, ask: &Ask, micros: u64) -> Grant {
        self.asked += 1;
        let (slice, window) = (self.slice, self.window);
        let end = |number: u64| number * slice + slice - 1 + window;
        if let Some(counted) = self.counted.get_mut(&ask.back_slice) {
            let back = ask.back.min(*counted);
            *counted -= back;
            self.total -= back;
        }
        while let Some(oldest) = self.counted.first_entry()
            && (end(*oldest.key()) <= micros || *oldest.get() == 0)
        {
            self.total -= oldest.remove();
        }
        let events = ask.want.min(self.events - self.total);
        let number = micros / slice;
        if events > 0 {
            *self.counted.entry(number).or_default() += events;
            self.total += events;
        }
        let wait = self
            .counted
            .keys()
            .next()
            .map_or(0, |oldest| end(*oldest) - micros);
        Grant {
            events,
            wait: Duration::from_micros(wait),
            slice: number,
            ahead: Duration::ZERO,
        }
    }
}

/// When events were allowed, over all nodes, and how often the store was asked.
struct Run {
    allowed: Vec<u64>,
    arrived: u32,
    asked: u32,
}

/// Offers `per_second` events to each of the nodes for `seconds`; the store is 300 µs away.
fn run(mode: Mode, (events, window): (u32, Duration), per_second: &[u32], seconds: u64) -> Run {
    const AWAY: u64 = 300;
    let rate = Rate::sliding(events, window).expect("a rate");
    let sharing = Sharing::new(mode, &rate);
    let slice = match mode {
        Mode::Exact => Duration::from_micros(1),
        Mode::Leased => window / 128,
    };
    let mut store = Store::new(events, window, slice);
    let mut nodes: Vec<Zone> = per_second
        .iter()
        .map(|_| Zone::new(rate, 1 << 20))
        .collect();
    let mut random = Random::new(7);
    let mut run = Run {
        allowed: Vec::new(),
        arrived: 0,
        asked: 0,
    };
    // What happens next: arrivals, and replies on their way.
    let mut arrivals: Vec<u64> = per_second.iter().map(|_| 0).collect();
    let mut replies: Vec<(u64, usize, Ask, Grant, bool)> = Vec::new();
    let moment = |micros: u64| Moment::new(Duration::from_micros(1_000_000 + micros));
    loop {
        let node = (0..nodes.len())
            .min_by_key(|node| arrivals[*node])
            .expect("a node");
        let reply = (0..replies.len()).min_by_key(|at| replies[*at].0);
        if let Some(at) = reply.filter(|at| replies[*at].0 <= arrivals[node]) {
            let (now, node, ask, grant, spends) = replies.swap_remove(at);
            let outcome = nodes[node].settle(&sharing, KEY, (&ask, grant), spends);
            if spends && outcome.refused.is_none() {
                run.allowed.push(now);
            }
            continue;
        }
        let now = arrivals[node];
        if now > seconds * 1_000_000 {
            break;
        }
        let spacing = 1_000_000 / u64::from(per_second[node]);
        arrivals[node] = now + spacing / 2 + random.below(spacing + 1);
        run.arrived += 1;
        let mut ask_store = |ask: Ask, spends: bool| {
            let grant = store.reply(&ask, 1_000_000 + now + AWAY / 2);
            replies.push((now + AWAY, node, ask, grant, spends));
        };
        match nodes[node].decide(&sharing, KEY, moment(now)) {
            Decision::Allowed { refill, .. } => {
                run.allowed.push(now);
                if let Some(ask) = refill {
                    ask_store(ask, false);
                }
            }
            Decision::Refused(wait) => assert!(wait > Duration::ZERO),
            Decision::Ask(ask) => ask_store(ask, true),
        }
    }
    run.asked = store.asked;
    run.allowed.sort_unstable();
    run
}

/// The most events in any window of this length.
fn most(allowed: &[u64], window: u64) -> usize {
    let in_window =
        |(at, start): (usize, &u64)| allowed.partition_point(|event| *event < start + window) - at;
    allowed.iter().enumerate().map(in_window).max().unwrap_or(0)
}

#[test]
fn exact_nodes_together_allow_what_the_limit_is() {
    let run = run(
        Mode::Exact,
        (1_000, Duration::from_secs(1)),
        &[1_000; 3],
        10,
    );
    let per_second = run.allowed.len() as f64 / 10.0;
    assert!(
        (990.0..=1_000.0 + 100.0).contains(&per_second),
        "{per_second}"
    );
    // The store's moment is half a round trip away from the node's.
    assert!(most(&run.allowed, 1_000_000 - 300) <= 1_000);
    // A refused event asks at most once for each that is allowed.
    assert!(
        run.asked < 2 * run.allowed.len() as u32,
        "{} of {}",
        run.asked,
        run.arrived
    );
}

#[test]
fn leasing_nodes_stay_near_the_limit_and_ask_seldom() {
    for loads in [&[1_000; 3][..], &[2_500, 400, 100], &[3_000]] {
        let run = run(Mode::Leased, (1_000, Duration::from_secs(1)), loads, 20);
        // The first window may be filled at once, so there are 20 of them and a part.
        let per_second = (run.allowed.len() as f64 - 1_000.0) / 19.0;
        assert!(
            (950.0..=1_050.0).contains(&per_second),
            "{loads:?}: {per_second}"
        );
        let most = most(&run.allowed, 1_000_000);
        assert!(most <= 1_050, "{loads:?}: {most} in a window");
        let share = f64::from(run.asked) / run.allowed.len() as f64;
        assert!(share < 0.5, "{loads:?}: {share} questions for each event");
    }
}

#[test]
fn what_is_not_used_of_a_lease_is_given_back() {
    // Bursts of 20 events, minutes apart, of 2000 events an hour: all of them are allowed if little is lost.
    let rate = Rate::sliding(2_000, Duration::from_secs(3_600)).expect("a rate");
    let sharing = Sharing::new(Mode::Leased, &rate);
    let mut store = Store::new(2_000, Duration::from_secs(3_600), Duration::from_secs(28));
    let mut zone = Zone::new(rate, 1 << 20);
    let mut allowed = 0;
    for burst in 0..80_u64 {
        for event in 0..20_u64 {
            let micros = 1_000_000 + burst * 30_000_000 + event * 100;
            let now = Moment::new(Duration::from_micros(micros));
            match zone.decide(&sharing, KEY, now) {
                Decision::Allowed { refill, .. } => {
                    allowed += 1;
                    if let Some(ask) = refill {
                        let grant = store.reply(&ask, micros);
                        zone.settle(&sharing, KEY, (&ask, grant), false);
                    }
                }
                Decision::Refused(_) => {}
                Decision::Ask(ask) => {
                    let grant = store.reply(&ask, micros);
                    let outcome = zone.settle(&sharing, KEY, (&ask, grant), true);
                    allowed += u32::from(outcome.refused.is_none());
                }
            }
        }
    }
    assert_eq!(allowed, 80 * 20);
    // A node holds a batch of 20 and half of one before at most.
    let counted = store.total;
    assert!(counted <= allowed + 30, "{counted} counted for {allowed}");
}

#[test]
fn a_refusal_of_the_store_holds_until_its_time() {
    let rate = Rate::bucket(10, Duration::from_secs(1), 5).expect("a rate");
    let sharing = Sharing::new(Mode::Exact, &rate);
    let mut zone = Zone::new(rate, 1 << 20);
    let at = |millis: u64| Moment::new(Duration::from_millis(1_000 + millis));
    let Decision::Ask(ask) = zone.decide(&sharing, KEY, at(0)) else {
        panic!("it asks first");
    };
    let grant = Grant {
        wait: Duration::from_millis(80),
        ..Grant::default()
    };
    let outcome = zone.settle(&sharing, KEY, (&ask, grant), true);
    assert_eq!(outcome.refused, Some(Duration::from_millis(80)));
    assert_eq!(
        zone.decide(&sharing, KEY, at(50)),
        Decision::Refused(Duration::from_millis(30))
    );
    assert_eq!(
        zone.foresee(&sharing, KEY, at(50)),
        Some(Duration::from_millis(30))
    );
    assert!(matches!(
        zone.decide(&sharing, b"other", at(50)),
        Decision::Ask(_)
    ));
    assert!(matches!(
        zone.decide(&sharing, KEY, at(80)),
        Decision::Ask(_)
    ));
}

#[test]
fn a_question_without_a_reply_is_asked_again() {
    let rate = Rate::sliding(1_000, Duration::from_secs(1)).expect("a rate");
    let sharing = Sharing::new(Mode::Leased, &rate);
    let mut zone = Zone::new(rate, 1 << 20);
    let now = Moment::new(Duration::from_secs(1));
    let Decision::Ask(first) = zone.decide(&sharing, KEY, now) else {
        panic!("it asks first");
    };
    let Decision::Ask(second) = zone.decide(&sharing, KEY, now) else {
        panic!("and does not wait for another's reply");
    };
    assert!(first.fetches && !second.fetches && second.want == 1);
    zone.give_up(KEY, &first);
    let Decision::Ask(third) = zone.decide(&sharing, KEY, now) else {
        panic!("it asks again");
    };
    assert!(third.fetches);
}

#[test]
fn an_event_that_is_given_back_does_not_count() {
    let window = Rate::sliding(3, Duration::from_secs(60)).expect("a rate");
    let bucket = Rate::bucket(1, Duration::from_secs(60), 3).expect("a rate");
    let now = Moment::new(Duration::from_secs(100));
    for rate in [window, bucket] {
        let mut zone = Zone::new(rate, 1 << 20);
        let allowed = |zone: &mut Zone| zone.take(KEY, now).refused.is_none();
        assert!((0..3).all(|_| allowed(&mut zone)) && !allowed(&mut zone));
        zone.give_back(KEY);
        zone.give_back(b"unknown");
        assert!(allowed(&mut zone) && !allowed(&mut zone), "{rate:?}");
        (0..5).for_each(|_| zone.give_back(KEY));
        assert!((0..3).all(|_| allowed(&mut zone)) && !allowed(&mut zone));
    }
}
