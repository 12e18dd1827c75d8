use super::*;
use crate::random::Random;
use alloc::vec;

fn at(millis: u64) -> Moment {
    Moment::START + Duration::from_millis(millis)
}

fn passive(fail_duration: u64, max_fails: u32) -> PassivePolicy {
    PassivePolicy {
        fail_duration: Duration::from_millis(fail_duration),
        max_fails,
        ..PassivePolicy::default()
    }
}

#[test]
fn failures_count_until_they_are_forgotten() {
    let health = PassiveHealth::new(&passive(100, 2));
    assert!(health.is_healthy(at(0)));
    health.fail(at(0));
    assert_eq!((health.is_healthy(at(1)), health.fails(at(1))), (true, 1));
    health.fail(at(60));
    assert_eq!(
        (health.is_healthy(at(60)), health.fails(at(60))),
        (false, 2)
    );
    assert!(!health.is_healthy(at(99)));
    assert_eq!(
        (health.is_healthy(at(100)), health.fails(at(100))),
        (true, 1)
    );
    health.fail(at(150));
    assert!(!health.is_healthy(at(159)));
    assert!(health.is_healthy(at(160)));
    assert_eq!(health.fails(at(300)), 0);
}

#[test]
fn without_a_duration_nothing_is_counted() {
    let health = PassiveHealth::new(&passive(0, 1));
    health.fail(at(0));
    assert_eq!((health.is_healthy(at(0)), health.fails(at(0))), (true, 0));
}

#[test]
fn passive_health_follows_a_list_of_failures() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let max_fails = 1 + random.below(5) as u32;
        let duration = 1 + random.below(200);
        let health = PassiveHealth::new(&passive(duration, max_fails));
        let (mut now, mut failures) = (0, vec![]);
        for _ in 0..200 {
            now += random.below(40);
            if random.below(2) == 0 {
                health.fail(at(now));
                failures.push(now);
            }
            let remembered = failures
                .iter()
                .filter(|&&failure| now - failure < duration)
                .count();
            let healthy = remembered < max_fails as usize;
            assert_eq!(health.is_healthy(at(now)), healthy, "seed {seed} at {now}");
            assert_eq!(
                health.fails(at(now)) as usize,
                remembered.min(max_fails as usize)
            );
        }
    }
}

#[test]
fn responses_count_as_failures_by_status_or_latency() {
    let policy = PassivePolicy {
        unhealthy_statuses: vec![429, 5],
        unhealthy_latency: Duration::from_millis(100),
        unhealthy_request_count: 3,
        ..PassivePolicy::default()
    };
    let fast = Duration::from_millis(99);
    for (status, failure) in [
        (200, false),
        (429, true),
        (428, false),
        (500, true),
        (599, true),
    ] {
        assert_eq!(
            policy.is_failure(Status::new(status).unwrap(), fast),
            failure,
            "{status}"
        );
    }
    assert!(policy.is_failure(Status::OK, Duration::from_millis(100)));
    assert!(!PassivePolicy::default().is_failure(Status::BAD_GATEWAY, Duration::MAX));
    assert_eq!((policy.is_full(2), policy.is_full(3)), (false, true));
    assert!(!PassivePolicy::default().is_full(u32::MAX));
}

fn active(passes: u32, fails: u32) -> ActivePolicy {
    ActivePolicy {
        interval: Duration::from_millis(100),
        timeout: Duration::from_millis(30),
        passes,
        fails,
        expect_status: None,
        initial: Initial::Healthy,
    }
}

#[test]
fn checks_start_on_time_and_time_out() {
    let mut check = ActiveCheck::new(active(1, 1), at(10));
    assert_eq!(
        (check.deadline(), check.expire(at(9)), check.is_healthy()),
        (at(10), None, true)
    );
    assert_eq!(check.expire(at(10)), Some(CheckEvent::Start));
    assert_eq!(check.deadline(), at(40));
    assert_eq!(check.receive(CheckResult::Passed, at(20)), None);
    assert_eq!(
        check.deadline(),
        at(110),
        "the interval runs from the beginning of the last check"
    );
    assert_eq!(check.expire(at(110)), Some(CheckEvent::Start));
    assert_eq!(check.expire(at(139)), None);
    assert_eq!(check.expire(at(140)), Some(CheckEvent::Down));
    assert_eq!(
        check.receive(CheckResult::Passed, at(141)),
        None,
        "it was given up"
    );
    assert!(!check.is_healthy());
    assert_eq!(check.expire(at(500)), Some(CheckEvent::Start));
    assert_eq!(
        check.receive(CheckResult::Passed, at(501)),
        Some(CheckEvent::Up)
    );
}

#[test]
fn only_results_in_a_row_change_health() {
    let mut check = ActiveCheck::new(active(2, 3), at(0));
    let mut now = at(0);
    let mut result = |result| {
        now = check.deadline().max(now);
        assert_eq!(check.expire(now), Some(CheckEvent::Start));
        check.receive(result, now)
    };
    use CheckResult::{Failed, Passed};
    for outcome in [Failed, Failed, Passed, Failed, Failed] {
        assert_eq!(result(outcome), None);
    }
    assert_eq!(result(Failed), Some(CheckEvent::Down));
    for outcome in [Failed, Passed, Failed, Passed] {
        assert_eq!(result(outcome), None);
    }
    assert_eq!(result(Passed), Some(CheckEvent::Up));
}

#[test]
fn a_late_check_is_not_followed_by_two() {
    let policy = ActivePolicy {
        timeout: Duration::from_millis(500),
        ..active(1, 1)
    };
    let mut check = ActiveCheck::new(policy, at(0));
    assert_eq!(check.expire(at(0)), Some(CheckEvent::Start));
    assert_eq!(check.receive(CheckResult::Passed, at(450)), None);
    assert_eq!(check.expire(at(450)), Some(CheckEvent::Start));
    assert_eq!(check.receive(CheckResult::Passed, at(451)), None);
    assert_eq!(check.deadline(), at(550));
}

#[test]
fn statuses_pass_as_expected() {
    let status = |code| Status::new(code).unwrap();
    let any = ActivePolicy::default();
    assert!(any.is_pass(status(204)) && !any.is_pass(status(302)) && !any.is_pass(status(500)));
    let class = ActivePolicy {
        expect_status: Some(3),
        ..any.clone()
    };
    assert!(class.is_pass(status(302)) && !class.is_pass(status(200)));
    let exact = ActivePolicy {
        expect_status: Some(418),
        ..any
    };
    assert!(exact.is_pass(status(418)) && !exact.is_pass(status(419)));
}

#[test]
fn the_end_of_an_illness_is_known() {
    let at = |secs: u64| Moment::START + Duration::from_secs(secs);
    let policy = PassivePolicy {
        fail_duration: Duration::from_secs(10),
        max_fails: 2,
        ..PassivePolicy::default()
    };
    let health = PassiveHealth::new(&policy);
    assert_eq!(health.recovered_at(), None);
    health.fail(at(5));
    assert_eq!(health.recovered_at(), None, "one failure is no illness");
    health.fail(at(9));
    assert_eq!(health.recovered_at(), Some(at(15)));
    assert!(!health.is_healthy(at(14)) && health.is_healthy(at(15)));
    health.fail(at(30));
    assert_eq!(
        health.recovered_at(),
        None,
        "the failure before it is forgotten"
    );
    assert_eq!(
        PassiveHealth::new(&PassivePolicy::default()).recovered_at(),
        None
    );
}

#[test]
fn failures_take_out_no_more_than_a_share() {
    let policy = |ejected_max_percent| PassivePolicy {
        ejected_max_percent,
        ..PassivePolicy::default()
    };
    for (percent, count, max) in [
        (100, 4, 4),
        (50, 4, 2),
        (50, 5, 2),
        (10, 4, 1),
        (1, 1, 1),
        (99, 1, 1),
    ] {
        let found = policy(percent).ejected_max(count);
        assert_eq!(found, max, "{percent} % of {count}");
    }
    let at = |seconds| Moment::START + Duration::from_secs(seconds);
    let all = [(at(3), 'a'), (at(1), 'b'), (at(2), 'c'), (at(2), 'd')];
    for (max, last) in [
        (1, Some((at(1), 'b'))),
        (2, Some((at(2), 'c'))),
        (3, Some((at(2), 'd'))),
        (4, None),
        (9, None),
    ] {
        assert_eq!(last_ejected(&mut all.clone(), max), last, "{max}");
    }
    assert_eq!(last_ejected(&mut [(at(1), 'a')], 1), None);
}

#[test]
fn the_latest_failure_is_remembered() {
    let policy = PassivePolicy {
        fail_duration: Duration::from_secs(10),
        max_fails: 2,
        ..PassivePolicy::default()
    };
    let health = PassiveHealth::new(&policy);
    assert!(health.is_on() && health.latest_failure().is_none());
    for seconds in [1, 2, 5] {
        let now = Moment::START + Duration::from_secs(seconds);
        health.fail(now);
        assert_eq!(health.latest_failure(), Some(now));
    }
    let none = PassiveHealth::new(&PassivePolicy::default());
    none.fail(Moment::START);
    assert!(!none.is_on() && none.latest_failure().is_none());
}

#[test]
fn failures_of_another_process_are_added_in_their_order() {
    let of = || PassiveHealth::new(&passive(100, 2));
    let (before, after) = (of(), of());
    before.fail(at(10));
    before.fail(at(20));
    assert_eq!(before.remembered(at(50)), [at(10), at(20)]);
    assert_eq!(before.remembered(at(115)), [at(20)]);
    // One of its own, which is later than those.
    after.fail(at(30));
    after.add(&before.remembered(at(40)), at(40));
    assert_eq!(after.remembered(at(50)), [at(20), at(30)]);
    assert!(!after.is_healthy(at(119)) && after.is_healthy(at(120)));
    // A time that has not come yet is taken for now.
    let ahead = of();
    ahead.add(&[at(1000), at(1000)], at(40));
    assert!(!ahead.is_healthy(at(139)) && ahead.is_healthy(at(140)));
    // Without a policy nothing is remembered.
    let off = PassiveHealth::new(&passive(0, 2));
    off.add(&[at(1)], at(2));
    assert!(off.is_healthy(at(2)) && off.remembered(at(2)).is_empty());
}
