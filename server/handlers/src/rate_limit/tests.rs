use std::thread;

use sluice_observe::metrics::{CountedZone, Hub};

use super::zones::NEVER_POISONED;
use super::*;

fn sliding(events: u32, seconds: u64) -> Rate {
    Rate::sliding(events, Duration::from_secs(seconds)).unwrap()
}

#[test]
fn all_workers_together_get_no_more_than_the_limit() {
    let zone = Arc::new(SharedZone::new("z", sliding(1_000, 3_600)));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let zone = zone.clone();
            thread::spawn(move || {
                (0..5_000)
                    .filter(|_| zone.take(b"one").refused.is_none())
                    .count()
            })
        })
        .collect();
    let allowed: usize = workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .sum();
    assert_eq!(allowed, 1_000);
    let totals = zone.totals();
    assert_eq!(
        (totals.asked, totals.refused, totals.keys),
        (40_000, 39_000, 1)
    );
}

#[test]
fn a_zone_outlives_its_configuration_and_no_longer() {
    let (zones, hub) = (Zones::default(), Hub::default());
    let old = zones.zone(("z", sliding(1, 3_600)), String::new(), &hub);
    assert_eq!(old.take(b"k").refused, None);
    let new = zones.zone(("z", sliding(1, 3_600)), String::new(), &hub);
    drop(old);
    assert!(new.take(b"k").refused.is_some(), "a reload forgets nothing");
    assert_eq!(
        zones
            .zone(("z", sliding(2, 3_600)), String::new(), &hub)
            .take(b"k")
            .refused,
        None,
        "another rate"
    );
    drop(new);
    assert_eq!(
        zones
            .zone(("z", sliding(1, 3_600)), String::new(), &hub)
            .take(b"k")
            .refused,
        None
    );
    let kept = zones.0.lock().expect(NEVER_POISONED);
    assert!(kept.values().all(|zone| zone.strong_count() == 0));
}

#[test]
fn networks_are_one_key_where_that_is_wanted() {
    let prefixes = AddressPrefixes::build(24, 64, (32, 128)).unwrap();
    for (address, network) in [
        ("192.0.2.77", "192.0.2.0"),
        ("::ffff:192.0.2.77", "192.0.2.0"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
    ] {
        assert_eq!(prefixes.of(address.parse().unwrap()).to_string(), network);
    }
    let all = AddressPrefixes::build(0, 0, (32, 128)).unwrap();
    assert_eq!(
        all.of("2001:db8::1".parse().unwrap()).to_string(),
        "2001:db8::1"
    );
}
