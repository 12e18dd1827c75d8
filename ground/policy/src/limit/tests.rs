use alloc::format;
use alloc::vec::Vec;

use super::*;
use crate::random::Random;

fn at(millis: u64) -> Moment {
    Moment::START + Duration::from_millis(millis)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What each of the moments, in milliseconds, leads to: allowed, or how many milliseconds to wait.
fn outcomes(rate: Rate, moments: &[u64]) -> Vec<Result<(), u64>> {
    let mut meter = rate.meter();
    let wait = |wait: Duration| u64::try_from(wait.as_millis()).unwrap();
    moments
        .iter()
        .map(|moment| rate.take(&mut meter, at(*moment)).map_err(wait))
        .collect()
}

#[test]
fn a_window_slides() {
    let rate = Rate::sliding(2, secs(1)).unwrap();
    assert_eq!(
        outcomes(rate, &[100, 600, 700, 1_099, 1_100, 1_101, 1_600]),
        [Ok(()), Ok(()), Err(400), Err(1), Ok(()), Err(499), Ok(())]
    );
}

#[test]
fn tokens_come_back_evenly_and_are_saved_up_to_the_burst() {
    // One each 100 ms, three at once.
    let rate = Rate::bucket(10, secs(1), 3).unwrap();
    assert_eq!(
        outcomes(
            rate,
            &[
                0, 0, 0, 0, 99, 100, 150, 200, 10_000, 10_000, 10_000, 10_000
            ]
        ),
        [
            Ok(()),
            Ok(()),
            Ok(()),
            Err(100),
            Err(1),
            Ok(()),
            Err(50),
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Err(100)
        ]
    );
    let smooth = Rate::bucket(10, secs(1), 1).unwrap();
    assert_eq!(outcomes(smooth, &[0, 0, 100]), [Ok(()), Err(100), Ok(())]);
}

#[test]
fn a_bucket_reports_how_far_ahead_events_are() {
    let mut zone = Zone::new(Rate::bucket(10, secs(1), 4).unwrap(), 1 << 20);
    let ahead: Vec<u128> = (0..4)
        .map(|_| zone.take(b"a", at(0)).ahead.as_millis())
        .collect();
    assert_eq!(ahead, [0, 100, 200, 300]);
    assert_eq!(zone.look(b"a", at(0)), Some(Duration::from_millis(100)));
    assert_eq!(zone.look(b"a", at(100)), None, "and looking counts nothing");
    assert_eq!(zone.look(b"b", at(0)), None);
    assert_eq!(
        (zone.take(b"a", at(150)).ahead.as_millis(), zone.len()),
        (250, 1)
    );
}

#[test]
fn rates_that_are_none_are_refused() {
    assert_eq!(Rate::sliding(0, secs(1)), Err(RateError::NoEvents));
    assert_eq!(Rate::sliding(1, Duration::ZERO), Err(RateError::Window));
    assert_eq!(Rate::sliding(1, Duration::MAX), Err(RateError::Window));
    assert_eq!(Rate::bucket(1, secs(1), 0), Err(RateError::NoBurst));
}

/// The plain rule beside the one that is used: the events allowed in the window before each moment are counted.
#[test]
fn no_window_ever_holds_more_than_allowed() {
    let mut random = Random::new(7);
    for events in [1, 3, 50, SLICES_MAX as u32 + 904] {
        let window = secs(10);
        let rate = Rate::sliding(events, window).unwrap();
        let (mut meter, mut now, mut allowed) = (rate.meter(), Moment::START, VecDeque::new());
        let mut refused = 0;
        for _ in 0..40_000 {
            now = now + Duration::from_nanos(random.below(10_000_000_000 / u64::from(events)));
            while allowed
                .front()
                .is_some_and(|first: &Moment| now.since(*first) >= window)
            {
                allowed.pop_front();
            }
            let taken = rate.take(&mut meter, now);
            let by_the_rule = allowed.len() < events as usize;
            if events as usize <= SLICES_MAX {
                assert_eq!(taken.is_ok(), by_the_rule, "{events} events, seed 7");
            } else {
                assert!(by_the_rule || taken.is_err(), "{events} events, seed 7");
            }
            match taken {
                Ok(()) => allowed.push_back(now),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 1_000, "{events} events: {refused}");
        assert!(meter.bytes() <= 2 * SLICES_MAX * size_of::<Slice>());
    }
}

#[test]
fn a_bucket_gives_its_rate_in_the_long_run() {
    let rate = Rate::bucket(7, secs(1), 20).unwrap();
    let mut meter = rate.meter();
    let allowed = (0..100_000)
        .filter(|millis| rate.take(&mut meter, at(*millis)).is_ok())
        .count();
    assert_eq!(allowed, 7 * 100 + 20 - 1);
}

#[test]
fn late_readings_of_the_clock_do_no_harm() {
    let rate = Rate::sliding(2, secs(1)).unwrap();
    assert_eq!(
        outcomes(rate, &[500, 400, 450, 1_499, 1_500]),
        [Ok(()), Ok(()), Err(1_050), Err(1), Ok(())]
    );
    let rate = Rate::bucket(1, secs(1), 1).unwrap();
    assert_eq!(
        outcomes(rate, &[500, 400, 1_500]),
        [Ok(()), Err(1_100), Ok(())]
    );
}

#[test]
fn keys_are_counted_apart() {
    let mut zone = Zone::new(Rate::sliding(1, secs(1)).unwrap(), 1 << 20);
    assert_eq!(zone.take(b"a", at(0)).refused, None);
    assert_eq!(zone.take(b"b", at(0)).refused, None);
    assert_eq!(
        zone.take(b"a", at(1)).refused,
        Some(Duration::from_millis(999))
    );
    assert_eq!(zone.len(), 2);
}

#[test]
fn memory_is_bounded_and_returning_clients_are_remembered() {
    const BYTES_MAX: usize = 64 * 1024;
    let mut zone = Zone::new(Rate::sliding(2, secs(3_600)).unwrap(), BYTES_MAX);
    let (mut forgotten, mut refused) = (0, 0);
    for stranger in 0..20_000 {
        forgotten += zone
            .take(format!("stranger {stranger}").as_bytes(), at(stranger))
            .forgotten;
        let outcome = zone.take(b"regular", at(stranger));
        refused += u32::from(outcome.refused.is_some());
        assert!(zone.bytes() <= BYTES_MAX, "{}", zone.bytes());
    }
    assert_eq!(
        refused,
        20_000 - 2,
        "the one who comes again is not forgotten"
    );
    assert!(forgotten > 19_000, "{forgotten}");
    assert!(zone.len() > 100, "{}", zone.len());
}

#[test]
fn keys_that_no_longer_count_go_by_themselves() {
    let mut zone = Zone::new(Rate::bucket(1, secs(1), 1).unwrap(), 1 << 20);
    for key in 0..1_000_u32 {
        zone.take(&key.to_be_bytes(), at(0));
    }
    assert_eq!(zone.len(), 1_000);
    for _ in 0..1_000 {
        let outcome = zone.take(b"another", at(2_000));
        assert_eq!(outcome.forgotten, 0, "their events did not count any more");
    }
    assert_eq!(zone.len(), 1);
    assert!(zone.slots.len() <= 1_001, "places are used again");
}

/// Any order of keys gives what separate meters give, as long as nothing is forgotten.
#[test]
fn a_zone_is_a_meter_for_each_key() {
    let rate = Rate::sliding(3, secs(1)).unwrap();
    let mut zone = Zone::new(rate, usize::MAX);
    let mut meters: Vec<Meter> = (0..20).map(|_| rate.meter()).collect();
    let mut random = Random::new(11);
    for step in 0..50_000 {
        let key = random.below(20) as usize;
        let now = at(step * 7);
        let expected = rate.take(&mut meters[key], now).err();
        let outcome = zone.take(format!("{key}").as_bytes(), now);
        assert_eq!(outcome.refused, expected, "step {step}, seed 11");
    }
}

/// The limit holds over both processes of a binary upgrade.
#[test]
fn a_zone_continues_what_another_has_counted() {
    let sliding = Rate::sliding(3, secs(10)).unwrap();
    let coarse = Rate::sliding(100_000, secs(10)).unwrap();
    let bucket = Rate::bucket(1, secs(1), 3).unwrap();
    for rate in [sliding, bucket] {
        let mut old = Zone::new(rate, 10_000);
        let mut new = Zone::new(rate, 10_000);
        assert_eq!(old.take(b"a", at(1000)).refused, None);
        assert_eq!(old.take(b"a", at(1001)).refused, None);
        // The new one has begun to count itself.
        assert_eq!(new.take(b"a", at(1002)).refused, None);
        for (key, marks) in old.marks(at(1003)) {
            new.merge(&key, &marks, at(1003));
        }
        assert!(new.take(b"a", at(1004)).refused.is_some(), "{rate:?}");
        assert_eq!(new.take(b"b", at(1004)).refused, None);
        assert_eq!(new.take(b"a", at(11_100)).refused, None, "it is over");
    }
    let mut old = Zone::new(coarse, 100_000);
    for _ in 0..99_999 {
        assert_eq!(old.take(b"a", at(1000)).refused, None);
    }
    let mut new = Zone::new(coarse, 100_000);
    for (key, marks) in old.marks(at(1000)) {
        new.merge(&key, &marks, at(1000));
    }
    assert_eq!(new.take(b"a", at(1001)).refused, None);
    assert!(new.take(b"a", at(1002)).refused.is_some());
    assert!(old.marks(at(30_000)).is_empty(), "nothing counts any more");
}

#[test]
fn continuing_a_zone_takes_no_more_memory_than_it_may() {
    let rate = Rate::sliding(3, secs(10)).unwrap();
    let mut old = Zone::new(rate, 1_000_000);
    for key in 0..100u32 {
        old.take(&key.to_be_bytes(), at(1000));
    }
    let mut new = Zone::new(rate, 2_000);
    for (key, marks) in old.marks(at(1000)) {
        new.merge(&key, &marks, at(1000));
    }
    assert!(new.bytes() <= 2_000 && !new.is_empty());
}
