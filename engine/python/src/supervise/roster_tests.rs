use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn rules(workers: usize) -> Rules {
    Rules {
        workers,
        start_timeout: Some(SECOND * 10),
        drain_timeout: SECOND * 100,
        exit_timeout: SECOND * 30,
        hang_timeout: SECOND * 5,
        failures_max: 3,
        backoff: Backoff {
            first: SECOND,
            max: SECOND * 8,
        },
        outage_max: SECOND * 2,
        stable_after: SECOND * 20,
        draining_max: 2,
    }
}

fn at(seconds: u64) -> Moment {
    Moment::new(SECOND * seconds as u32)
}

fn all(roster: &mut Roster) -> Vec<Action> {
    std::iter::from_fn(|| roster.next_action()).collect()
}

fn spawn(number: u64, index: usize) -> Action {
    Action::Spawn { number, index }
}

/// A roster whose processes 1 to `workers` are ready.
fn running(workers: usize) -> Roster {
    let mut roster = Roster::new(rules(workers), 1);
    roster.renew(at(0));
    (1..=workers as u64).for_each(|number| roster.ready(number, at(1)));
    all(&mut roster);
    roster
}

#[test]
fn all_processes_start_together_and_serve_when_all_are_ready() {
    let mut roster = Roster::new(rules(2), 1);
    roster.renew(at(0));
    assert_eq!(all(&mut roster), [spawn(1, 0), spawn(2, 1)]);
    assert_eq!(roster.deadline(), Some(at(10)));
    roster.ready(2, at(1));
    assert_eq!(all(&mut roster), []);
    roster.ready(1, at(2));
    assert_eq!(
        all(&mut roster),
        [Action::Publish(vec![1, 2]), Action::Renewed]
    );
    assert_eq!(roster.deadline(), None);
}

#[test]
fn one_failure_at_the_first_start_fails_all() {
    let mut roster = Roster::new(rules(2), 1);
    roster.renew(at(0));
    all(&mut roster);
    roster.exited(2, at(1));
    let kill = Action::Kill(1, Death::DrainTimeout);
    assert_eq!(all(&mut roster), [kill, Action::Failed]);
    roster.exited(1, at(1));
    assert_eq!(all(&mut roster), []);
    // A reload tries again.
    roster.renew(at(5));
    assert_eq!(all(&mut roster), [spawn(3, 0), spawn(4, 1)]);
}

#[test]
fn a_process_that_does_not_start_in_time_is_killed() {
    let mut roster = Roster::new(rules(1), 1);
    roster.renew(at(0));
    all(&mut roster);
    roster.expire(at(9));
    assert_eq!(all(&mut roster), []);
    roster.expire(at(10));
    assert_eq!(all(&mut roster), [Action::Kill(1, Death::StartTimeout)]);
    roster.exited(1, at(11));
    assert_eq!(all(&mut roster), [Action::Failed]);
}

#[test]
fn a_stable_process_that_crashes_is_replaced_at_once() {
    let mut roster = running(2);
    roster.exited(1, at(50));
    assert_eq!(all(&mut roster), [spawn(3, 0), Action::Publish(vec![2])]);
    roster.ready(3, at(51));
    assert_eq!(all(&mut roster), [Action::Publish(vec![3, 2])]);
}

/// Crashes the process of slot 0 again and again; gives how long each restart waited. Process 2 is in slot 1, if there is
/// one, and serves.
fn crash(roster: &mut Roster, workers: usize) -> Vec<Duration> {
    let serving = |number| match workers {
        1 => vec![number],
        _ => vec![number, 2],
    };
    let (mut now, mut waits) = (2, Vec::new());
    let mut number = 1;
    for next in workers as u64 + 1..20 {
        roster.exited(number, at(now));
        if !all(roster).contains(&spawn(next, 0)) {
            let due = roster.deadline().unwrap();
            waits.push(due.since(at(now)));
            roster.expire(due);
            now = due.since_start().as_secs() + 1;
            assert_eq!(all(roster), [spawn(next, 0)]);
        }
        roster.ready(next, at(now));
        assert_eq!(all(roster), [Action::Publish(serving(next))]);
        number = next;
    }
    waits
}

#[test]
fn one_that_crashes_again_and_again_waits_longer_and_is_never_given_up() {
    let waits = crash(&mut running(2), 2);
    assert_eq!(waits.len(), 16, "the first restart is immediate");
    assert!(waits[0] <= SECOND && waits[15] >= SECOND * 4 && waits[15] <= SECOND * 8);
}

#[test]
fn the_only_one_never_waits_for_long() {
    let waits = crash(&mut running(1), 1);
    assert_eq!(waits.len(), 17, "the first restart is immediate");
    assert!(waits.iter().all(|wait| *wait <= SECOND * 2), "{waits:?}");
    assert_eq!(waits[16], SECOND * 2);
}

#[test]
fn the_last_one_that_crashes_does_not_wait_for_the_others() {
    let mut roster = running(2);
    let mut number = [1, 2];
    let mut waits = Vec::new();
    for round in 0..6 {
        // Both crash before they are stable.
        let now = at(2 + 20 * round);
        roster.exited(number[0], now);
        roster.exited(number[1], now);
        let mut actions = all(&mut roster);
        if !actions
            .iter()
            .any(|action| matches!(action, Action::Spawn { .. }))
        {
            waits.push(roster.deadline().expect("one waits").since(now));
        }
        let later = at(2 + 20 * round + 10);
        roster.expire(later);
        actions.extend(all(&mut roster));
        for action in actions {
            if let Action::Spawn { number: new, index } = action {
                number[index] = new;
                roster.ready(new, later);
            }
        }
        all(&mut roster);
    }
    assert_eq!(waits.len(), 5, "the first restart is immediate");
    assert!(waits.iter().all(|wait| *wait <= SECOND * 2), "{waits:?}");
}

#[test]
fn a_worker_whose_starts_fail_is_given_up_and_the_last_one_fails_the_group() {
    let mut roster = running(2);
    for (index, number) in [(0, 1), (1, 2)] {
        roster.exited(number, at(100));
        let mut failures = 0;
        loop {
            let found = all(&mut roster);
            if let Some(Action::Spawn { number, .. }) = found.first() {
                failures += 1;
                roster.exited(*number, at(100));
            } else if found.contains(&Action::GivenUp { index }) {
                assert_eq!(found.contains(&Action::Failed), index == 1);
                break;
            } else {
                let due = roster.deadline().unwrap();
                roster.expire(due);
            }
        }
        assert_eq!(failures, 3);
    }
}

#[test]
fn a_recycled_process_serves_until_its_replacement_is_ready() {
    let mut roster = running(2);
    assert!(roster.recycle(1, at(60)));
    assert!(!roster.recycle(1, at(61)), "once");
    assert_eq!(all(&mut roster), [spawn(3, 0)]);
    roster.ready(3, at(62));
    assert_eq!(
        all(&mut roster),
        [Action::Drain(1), Action::Publish(vec![3, 2])]
    );
    roster.drained(1, at(63));
    roster.drained(1, at(63));
    assert_eq!(all(&mut roster), [Action::Dismiss(1)]);
    roster.expire(at(93));
    assert_eq!(all(&mut roster), [Action::Kill(1, Death::DrainTimeout)]);
    roster.exited(1, at(94));
    assert_eq!(all(&mut roster), []);
}

#[test]
fn a_replacement_that_does_not_start_leaves_the_old_one_and_is_tried_later() {
    let mut roster = running(1);
    assert!(roster.recycle(1, at(60)));
    roster.exited(2, at(61));
    assert!(!roster.recycle(1, at(61)));
    assert!(roster.recycle(1, at(62)));
    assert_eq!(all(&mut roster), [spawn(2, 0), spawn(3, 0)]);
    // The old one crashes meanwhile.
    roster.exited(1, at(63));
    assert_eq!(all(&mut roster), [Action::Publish(vec![])]);
    roster.ready(3, at(64));
    assert_eq!(all(&mut roster), [Action::Publish(vec![3])]);
}

#[test]
fn a_hanging_process_is_replaced_at_once_and_killed_later() {
    let mut roster = running(1);
    roster.hung(1, at(60));
    roster.hung(1, at(61));
    let published = Action::Publish(vec![]);
    assert_eq!(all(&mut roster), [Action::Drain(1), spawn(2, 0), published]);
    roster.ready(2, at(62));
    all(&mut roster);
    roster.expire(at(65));
    assert_eq!(all(&mut roster), [Action::Kill(1, Death::DrainTimeout)]);
    roster.kill(1, Death::RequestTimeout);
    assert_eq!(all(&mut roster), [], "it is dead already");
}

#[test]
fn a_reload_replaces_all_when_all_are_ready() {
    let mut roster = running(2);
    roster.renew(at(60));

    assert_eq!(all(&mut roster), [spawn(3, 0), spawn(4, 1)]);
    roster.ready(4, at(61));
    assert!(!roster.recycle(1, at(61)), "it is replaced anyway");
    roster.ready(3, at(62));
    assert_eq!(
        all(&mut roster),
        [
            Action::Publish(vec![3, 4]),
            Action::Renewed,
            Action::Drain(1),
            Action::Drain(2)
        ]
    );
}

#[test]
fn a_reload_that_fails_keeps_the_old_processes() {
    let mut roster = running(2);
    roster.renew(at(60));
    all(&mut roster);
    roster.exited(4, at(61));
    let kill = Action::Kill(3, Death::DrainTimeout);
    assert_eq!(all(&mut roster), [kill, Action::NotRenewed]);

    // Old ones that crash are still replaced.
    roster.exited(2, at(70));
    assert_eq!(all(&mut roster), [spawn(5, 1), Action::Publish(vec![1])]);
}

#[test]
fn a_reload_during_a_reload_starts_over() {
    let mut roster = running(1);
    roster.renew(at(60));
    roster.renew(at(61));
    let kill = Action::Kill(2, Death::DrainTimeout);
    assert_eq!(all(&mut roster), [spawn(2, 0), kill, spawn(3, 0)]);
    roster.ready(2, at(62));
    roster.exited(2, at(62));
    assert_eq!(all(&mut roster), []);
    roster.ready(3, at(63));
    assert_eq!(
        all(&mut roster),
        [Action::Publish(vec![3]), Action::Renewed, Action::Drain(1)]
    );
}

#[test]
fn old_processes_are_not_collected_without_end() {
    let mut roster = running(1);
    for number in 2..8 {
        roster.renew(at(60));
        roster.ready(number, at(61));
    }
    let killed: Vec<Action> = all(&mut roster)
        .into_iter()
        .filter(|action| matches!(action, Action::Kill(..)))
        .collect();
    let kill = |number| Action::Kill(number, Death::DrainTimeout);
    assert_eq!(killed, [kill(1), kill(2), kill(3), kill(4)]);
}

#[test]
fn a_stop_ends_everything_within_its_time() {
    let mut roster = running(2);
    roster.recycle(1, at(60));
    all(&mut roster);
    roster.stop(at(61), SECOND * 5);
    assert_eq!(
        all(&mut roster),
        [
            Action::Drain(1),
            Action::Drain(2),
            Action::Kill(3, Death::DrainTimeout),
            Action::Publish(vec![])
        ]
    );
    roster.exited(3, at(62));
    roster.drained(1, at(62));
    assert_eq!(all(&mut roster), [Action::Dismiss(1)]);
    roster.exited(1, at(63));
    assert!(!roster.is_done());
    roster.expire(at(66));
    assert_eq!(all(&mut roster), [Action::Kill(2, Death::DrainTimeout)]);
    roster.exited(2, at(66));
    assert!(roster.is_done());
    roster.renew(at(67));
    assert_eq!(all(&mut roster), []);
}

#[test]
fn one_that_was_asked_to_end_by_others_is_replaced() {
    let mut roster = running(1);
    roster.leaving(1, at(50));
    let published = Action::Publish(vec![]);
    assert_eq!(all(&mut roster), [Action::Drain(1), spawn(2, 0), published]);
}
