use super::*;
use crate::log::Level;

use sluice_model::Config;

fn built(json: &str) -> Result<Subscriptions, Vec<EventsError>> {
    let text = format!(r#"{{"apps":{{"events":{json}}}}}"#);
    let config = Config::from_json(&text).expect("it is JSON");
    Subscriptions::build(config.apps.events.as_ref())
}

fn event(name: &'static str, module: &'static str) -> Event {
    Event {
        name,
        module,
        data: vec![
            ("identifier", "a.test".into()),
            ("renewal", true.into()),
            ("sans", json!(["a.test", "b.test"])),
        ],
    }
}

#[test]
fn handlers_are_chosen_by_name_and_module() {
    let exec = |command: &str| format!(r#"[{{"handler":"exec","command":"{command}"}}]"#);
    let subscriptions = built(&format!(
        r#"{{"subscriptions":[
            {{"handlers":{}}},
            {{"events":["started","stopping"],"handlers":{}}},
            {{"modules":["tls"],"handlers":{}}},
            {{"modules":["http.handlers"],"events":["healthy"],"handlers":{}}}]}}"#,
        exec("all"),
        exec("ends"),
        exec("tls"),
        exec("health")
    ))
    .unwrap();
    let of = |name, module| -> Vec<String> {
        let handlers = subscriptions.of(&event(name, module));
        handlers.iter().map(|one| one.target().to_owned()).collect()
    };
    assert_eq!(of("started", ""), ["all", "ends"]);
    assert_eq!(of("cert_obtained", "tls"), ["all", "tls"]);
    assert_eq!(of("x", "tls.issuance"), ["all", "tls"]);
    assert_eq!(of("x", "tls2"), ["all"]);
    let of_health = of("healthy", "http.handlers.reverse_proxy");
    assert_eq!(of_health, ["all", "health"]);
    assert_eq!(of("unhealthy", "http.handlers.reverse_proxy"), ["all"]);
}

#[test]
fn mistakes_are_reported_with_their_places() {
    let errors = built(
        r#"{"subscriptions":[{}, {"handlers":[{"handler":"nats"},{"handler":"exec"},
            {"handler":"exec","command":"a","abort_codes":[1]},{"handler":"exec","command":"a","timeout":-1},
            {"handler":"webhook","url":"ftp://a"},{"handler":"webhook","url":"http://a","headers":{"a b":"c"}}]}]}"#,
    )
    .unwrap_err();
    let places: Vec<&str> = errors.iter().map(|error| &*error.place).collect();
    let expected: Vec<String> = (0..6)
        .map(|at| format!("subscriptions[1].handlers[{at}]"))
        .collect();
    assert_eq!(places[0], "subscriptions[0]");
    assert_eq!(places[1..], expected);
    assert!(errors[1].problem.contains("`nats` is a plugin"));
    assert!(errors[3].problem.contains("abort_codes"));
}

#[test]
fn placeholders_are_those_of_caddy() {
    let emitted = Emitted {
        event: event("cert_obtained", "tls"),
        id: "7".to_owned(),
        at: Duration::from_millis(1_000_000_000_250),
    };
    for (text, expected) in [
        (
            "{event.name} {event.module} {event.id}",
            "cert_obtained tls 7",
        ),
        (
            "{event.data.identifier}:{event.data.renewal}",
            "a.test:true",
        ),
        ("{event.data.sans}", r#"["a.test","b.test"]"#),
        ("{event.data.nothing}{event.other}{nothing}|", "|"),
        (
            "{event.time_unix} {event.time}",
            "1000000000 2001-09-09T01:46:40.250Z",
        ),
        (r"\{event.name} {", "{event.name} {"),
        ("", ""),
    ] {
        assert_eq!(placeholders::expanded(text, &emitted), expected, "{text}");
    }
    let whole: Value = serde_json::from_str(&placeholders::expanded("{event}", &emitted)).unwrap();
    assert_eq!(whole["data"]["identifier"], "a.test");
    let data: Value =
        serde_json::from_str(&placeholders::expanded("{event.data}", &emitted)).unwrap();
    assert_eq!(data["renewal"], true);
}

#[test]
fn numbers_of_events_are_random_uuids() {
    let [one, two] = [(); 2].map(|()| Emitted::now(event("a", "")).id);
    assert_ne!(one, two);
    let parts: Vec<usize> = one.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12], "{one}");
    assert!(
        one[14..].starts_with('4') && "89ab".contains(&one[19..20]),
        "{one}"
    );
}

/// A folder in which handlers leave files.
fn folder(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("sluice-events-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn events(json: &str) -> Events {
    let events = Events::new(Log::start(Level::Error).unwrap());
    events.replace(Arc::new(built(json).unwrap()));
    events
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn commands_run_in_their_folder_in_order_if_they_are_waited_for() {
    let folder = folder("order");
    let events = events(&format!(
        r#"{{"subscriptions":[{{"handlers":[
            {{"handler":"exec","command":"sh","args":["-c","echo one $0 >> out","{{event.name}}"],"dir":"{0}","foreground":true}},
            {{"handler":"exec","command":"sh","args":["-c","echo two >> out"],"dir":"{0}","foreground":true}},
            {{"handler":"exec","command":"/no/such/program","foreground":true}},
            {{"handler":"exec","command":"sh","args":["-c","echo three >> out; exit 1"],"dir":"{0}"}}]}}]}}"#,
        folder.display()
    ));
    events.emit(event("a", ""));
    events.finish(LONG);
    let out = std::fs::read_to_string(folder.join("out")).unwrap();
    assert_eq!(out, "one a\ntwo\nthree\n");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_command_that_takes_too_long_is_killed_with_what_it_started() {
    let folder = folder("late");
    let events = events(&format!(
        r#"{{"subscriptions":[{{"handlers":[{{"handler":"exec","command":"sh","timeout":"2s",
            "args":["-c","sleep 1000 & echo $! > pid; wait"],"dir":"{}"}}]}}]}}"#,
        folder.display()
    ));
    events.emit(event("a", ""));
    events.finish(LONG);
    let pid = std::fs::read_to_string(folder.join("pid")).unwrap();
    // It was killed, but may take a moment to end, and nobody may have reaped it yet.
    let is_gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.contains(") Z"))
    };
    let end = std::time::Instant::now() + LONG;
    while !is_gone() {
        assert!(std::time::Instant::now() < end, "{pid} still runs");
        thread::yield_now();
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_flood_of_events_is_bounded_and_does_not_wait() {
    let folder = folder("flood");
    let fifo = folder.join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    // Each waits until somebody writes to the pipe.
    let events = events(&format!(
        r#"{{"subscriptions":[{{"handlers":[{{"handler":"exec","command":"sh",
            "args":["-c","read line < {}; echo done >> {}"]}}]}}]}}"#,
        fifo.display(),
        folder.join("out").display()
    ));
    let count = EVENTS_QUEUED_MAX + EVENT_RUNS_MAX + 100;
    for _ in 0..count {
        events.emit(event("a", ""));
    }
    // All that may run do, and the queue is full: the others are lost.
    while events.0.lock().running < EVENT_RUNS_MAX {
        thread::yield_now();
    }
    {
        let state = events.0.lock();
        assert_eq!(state.running, EVENT_RUNS_MAX);
        assert!(
            (EVENTS_QUEUED_MAX - EVENT_RUNS_MAX - 1..=EVENTS_QUEUED_MAX)
                .contains(&state.queue.len())
        );
    }
    // What waits is dropped, so that the test ends; what runs gets its line.
    events.0.lock().queue.clear();
    let open = |folder: &std::path::Path| {
        use std::io::Write;
        let mut pipe = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(folder)
            .unwrap();
        pipe.write_all("x\n".repeat(4 * EVENT_RUNS_MAX).as_bytes())
            .unwrap();
        pipe
    };
    let _pipe = open(&fifo);
    events.finish(LONG);
    let done = std::fs::read_to_string(folder.join("out")).unwrap();
    let done = done.lines().count();
    assert!((1..=2 * EVENT_RUNS_MAX).contains(&done), "{done}");
    std::fs::remove_dir_all(folder).unwrap();
}
