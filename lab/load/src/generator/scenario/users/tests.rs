//! What a thread does that notices the end of the window late.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::generator::scenario::{Phase, Session, StepExpect, Template};
use crate::generator::tests::plan;
use crate::result::Load;

fn step(name: &str, think: Duration) -> Step {
    Step {
        name: name.into(),
        method: "GET".into(),
        path: Template::parse("/x", |_| None).unwrap(),
        headers: Vec::new(),
        body: Template::default(),
        think_min: think,
        think_max: think,
        expect: StepExpect {
            status: 200,
            body: None,
            length: None,
            headers: Vec::new(),
        },
    }
}

/// One session of two steps, with a pause of `think` between them.
fn scenario(pace: Pace, think: Duration) -> Scenario {
    Scenario {
        name: "late".into(),
        pace,
        phases: vec![Phase {
            name: "only".into(),
            duration: Duration::from_nanos(1_000),
            from: 1.0,
            to: 1.0,
        }],
        variables: Vec::new(),
        sessions: vec![Session {
            name: "visit".into(),
            weight: 1,
            cookies: false,
            new_connection: false,
            steps: vec![step("one", think), step("two", Duration::ZERO)],
        }],
    }
}

/// Lets the first step of a session end at `end`, with a window until 1,000 ns whose end the thread has not noticed.
/// Returns the requests that are on their way afterwards, and the figures.
fn end_first_step_at(end: Ns, pace: Pace, think: Duration) -> (bool, Load) {
    let mut plan = plan("127.0.0.1:9".parse().unwrap(), None);
    let scenario = scenario(pace, think);
    plan.scenario = Some(Arc::new(scenario.clone()));
    let signals = Signals::default();
    let shared = Shared {
        plan: &plan,
        signals: &signals,
        clock: Clock::start(),
    };
    let share = Share {
        thread: 0,
        threads: 1,
        connections: 1,
        connections_before: 0,
        requests: None,
    };
    let mut users = Users::new(shared, share, &scenario).unwrap();
    users.record.open_window(Window {
        begin: 0,
        end: 1_000,
    });
    users.begin_schedule(0, 0);
    users.stage = Stage::Inside { cpu: 0 };
    users.idle.clear();
    users.users[0].doing = Doing::Waits { due: 500 };
    let done = Done {
        due: 500,
        sent: 500,
        first: end,
        request: Some(0),
        outcome: Ok(0),
        what: What::Flight,
    };
    users.finished(0, done, end);
    // As in the loop of the thread: what is due begins, and then it notices the end.
    users.arrivals = None;
    users.begin_due();
    users.end_window(users.clock.now());
    let asks = matches!(
        users.users[0].doing,
        Doing::Connects { .. } | Doing::Waits { .. }
    );
    let mut load = Load::default();
    users.record.fill(&mut load, Default::default());
    (asks, load)
}

#[test]
fn no_step_begins_after_the_end_of_the_window_however_late_it_is_noticed() {
    let sessions = Pace::Sessions {
        clients_max: 1,
        poisson: false,
    };
    for pace in [sessions, Pace::Clients] {
        for think in [Duration::ZERO, Duration::from_nanos(100)] {
            for end in [999, 1_000, 1_001] {
                let (asks, load) = end_first_step_at(end, pace, think);
                // Only the step that is due inside the window is sent.
                let is_inside = end == 999 && think.is_zero();
                assert_eq!(asks, is_inside, "{pace:?} {think:?} {end}");
                let unfinished = load.sessions[0].unfinished;
                assert_eq!(
                    unfinished,
                    u64::from(!is_inside),
                    "{pace:?} {think:?} {end}"
                );
            }
        }
    }
}

#[test]
fn a_session_that_ends_after_the_window_is_unfinished() {
    for end in [SessionEnd::Completed, SessionEnd::Failed] {
        for (now, ended) in [(0, 0), (10, 1), (999, 1), (1_000, 0), (5_000, 0)] {
            let mut record = Recorder::of_scenario(&scenario(Pace::Clients, Duration::ZERO));
            record.open_window(Window {
                begin: 10,
                end: 1_000,
            });
            record.session(0, end, 5, now);
            let mut load = Load::default();
            record.fill(&mut load, Default::default());
            let session = &load.sessions[0];
            assert_eq!(session.completed + session.failed, ended, "{end:?} {now}");
            let unfinished = u64::from(now >= 1_000);
            assert_eq!(session.unfinished, unfinished, "{end:?} {now}");
        }
    }
}
