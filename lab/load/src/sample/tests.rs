//! Resource usage of processes with known behaviour.

use std::process::{Command, Stdio};
use std::sync::Arc;

use super::*;

/// A shell that burns CPU time in itself, in a child, and in a child that it waits for.
const BURN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

#[test]
fn a_line_is_read_even_with_brackets_in_the_name() {
    let line = "7 (a) b) S 3 7 7 0 -1 4194304 11 0 12 0 100 50 30 20 20 0 4 0 999 1000 25 0";
    let sample = ProcessSample::parse(line).unwrap();
    assert_eq!((sample.parent, sample.begun, sample.threads), (3, 999, 4));
    assert_eq!((sample.own.user, sample.own.system), (100, 50));
    assert_eq!((sample.children.user, sample.children.system), (30, 20));
    assert_eq!(sample.faults, (11, 12));
    assert!(ProcessSample::parse("nothing").is_none());
}

#[test]
fn children_belong_to_the_tree_and_keep_their_time_when_they_end() {
    let script = format!("({BURN}); ({BURN}) & sleep 0.3; {BURN}; wait; sleep 2");
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let roots = Roots {
        subject: vec![shell.id()],
        ..Roots::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let begin = Instant::now();
    let watching = thread::spawn(move || watch(&roots, &flag));
    // Until the shell sleeps: three burns are done then, whatever else the machine does.
    let waited = |shell: u32| ProcessSample::read(shell).is_some_and(|p| p.children.user > 0);
    while begin.elapsed() < Duration::from_secs(20) && !waited(shell.id()) {
        thread::sleep(Duration::from_millis(20));
    }
    // The last burn, of which the samples are to see a part.
    thread::sleep(Duration::from_millis(900));
    let end = Instant::now();
    stop.store(true, Ordering::Release);
    let samples = watching.join().unwrap();
    let truth = ProcessSample::read(shell.id()).unwrap();
    let _ = shell.kill();
    let _ = shell.wait();
    let costs = samples.over(begin, end);
    let measured = costs.subject.cpu_user_s + costs.subject.cpu_system_s;
    let whole = truth.own.plus(truth.children);
    let known = whole.user_s() + whole.system_s();
    assert!(
        measured >= known * 0.6 - 0.05 && measured <= known * 1.6 + 0.1,
        "{measured} of {known}"
    );
    assert!(
        costs.subject.processes_max >= 2,
        "{}",
        costs.subject.processes_max
    );
    assert!(costs.subject.rss_peak_bytes > 100_000);
    assert!(costs.backend.is_none());
}

#[test]
fn the_window_is_read_off_between_samples() {
    let begin = Instant::now();
    let sample = |ms: u64, user: u64| Sample {
        at: begin + Duration::from_millis(ms),
        subject: TreeSample {
            ticks: Ticks { user, system: 0 },
            rss_bytes: user,
            ..TreeSample::default()
        },
        backend: TreeSample::default(),
        generator: TreeSample::default(),
        machine: MachineSample::default(),
    };
    let list = vec![
        sample(0, 0),
        sample(100, 100),
        sample(200, 300),
        sample(300, 300),
    ];
    let samples = Samples {
        list,
        has_backend: false,
    };
    let costs = samples.over(
        begin + Duration::from_millis(50),
        begin + Duration::from_millis(150),
    );
    // Half of the first 100 ticks and half of the next 200.
    assert!((costs.subject.cpu_user_s - 150.0 / process::ticks_per_s()).abs() < 1e-6);
    assert_eq!(costs.subject.rss_peak_bytes, 100);
    assert_eq!(costs.subject.points[0].at_ms, 50);
    // Without a sample inside, those around it count, and never 0.
    let at = |ms| begin + Duration::from_millis(ms);
    let peak = |from, to| samples.over(at(from), at(to)).subject.rss_peak_bytes;
    assert_eq!((peak(110, 190), peak(150, 201)), (300, 300));
    assert_eq!((peak(1, 2), peak(400, 500)), (100, 300));
}
