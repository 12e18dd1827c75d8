//! `lab hit`: loads one URL and reports the results. A better wrk or hey for a single target.

pub mod drive;
mod mix;
mod options;
mod repeats;
mod text;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

pub use options::Options;

use self::drive::Generators;
use crate::interrupt::on_signal;
use crate::live::Live;
use sluice_experiment::adapter::{self, Task};
use sluice_experiment::{scenario, single};
use sluice_load::generator::expect::{BodyExpect, Expect};
use sluice_load::generator::held_connections::Beside;
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::generator::kind::{self, Kind};
use sluice_load::generator::limits::BODY_KEPT_MAX;
use sluice_load::generator::link::Tls;
use sluice_load::generator::mix::Mix;
use sluice_load::generator::probe::{Probe, sha256};
use sluice_load::generator::request::{Draft, Prepared};
use sluice_load::generator::target::{HttpVersion, Target};
use sluice_load::generator::{Plan, trust};
use sluice_load::machine;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::random::made_body;
use sluice_load::result::{Asked, Block, Load, Mode, RunResult};

use options::Verify;

/// Default length of a WebSocket message: typical of chats and games.
const MESSAGE_BYTES: u64 = 64;

/// Runs `lab hit`.
pub fn run(options: &Options) -> Outcome {
    refuse_for_engine(options)?;
    let interrupt = on_signal()?;
    if options.blocks() > 1 || options.against.is_some() {
        return repeats::run(options, &interrupt);
    }
    let (plan, response) = prepare(options)?;
    let plan = Plan { interrupt, ..plan };
    let started = SystemTime::now();
    let began = Instant::now();
    let mut block = match options.engine {
        Some(tool) => Block {
            load: adapter::run(tool, &task(options, &plan)).map_err(Refused)?,
            ..Block::default()
        },
        None => {
            let mut live = Live::new();
            single::view(&plan, &mut live, Duration::ZERO);
            let mut generators = Generators::connect(options)?;
            generators.block(options, &plan, 0, &mut live)?
        }
    };
    // Ctrl-C reaches another program as well, which then prints what it has.
    block.load.interrupted |= plan.interrupt.is_set();
    block.load.response = Some(response.first_response());
    print!("{}", text::report(&block.load));
    let verdict = verdict(&block.load);
    let url = &plan.target.url;
    let cell = single::cell(&plan, url, url, vec![block]);
    let failed = text::failed_conditions(&options.fail, &cell)?;
    if let Some(path) = &options.json {
        write(
            path,
            &single::of_cells(vec![cell], &plan, started, began.elapsed()),
        )?;
    }
    Ok(match failed {
        true if verdict == Completion::Yes => Completion::No,
        true | false => verdict,
    })
}

/// Writes a result to a file.
pub fn write(path: &Path, result: &RunResult) -> Result<(), Refused> {
    let text = serde_json::to_vec(result).map_err(|error| Refused::new(error.to_string()))?;
    fs::write(path, text).map_err(|error| Refused::new(format!("{}: {error}", path.display())))
}

/// Rejects options that external load generators do not support, before any request is sent.
fn refuse_for_engine(options: &Options) -> Result<(), Refused> {
    let limits = [
        (options.unix.is_some(), "--unix"),
        (options.requests.is_some(), "--requests"),
        (options.is_websocket(), "--websocket"),
        (options.sse, "--sse"),
        (options.idle > 0, "--idle"),
        (options.slow > 0, "--slow"),
        (options.ca.is_some(), "--ca"),
        (options.tls_version.is_some(), "--tls-version"),
        (options.cpus.is_some(), "--cpus"),
        (options.against.is_some(), "a second target"),
        (options.repeats.is_some(), "--repeats"),
    ];
    match limits.iter().find(|(given, _)| *given) {
        Some((_, option)) if options.engine.is_some() => {
            let text = format!("{option} works only with the lab's own load generator");
            Err(Refused::new(text))
        }
        _ => Ok(()),
    }
}

/// The same load as a task for an external load generator.
fn task(options: &Options, plan: &Plan) -> Task {
    Task {
        asked: Asked {
            verify: "what the program checks, usually the status".into(),
            ..plan.asked()
        },
        fields: options.header.clone(),
        host: None,
        insecure: options.insecure,
    }
}

/// Whether any request succeeded.
fn verdict(load: &Load) -> Completion {
    if load.interrupted {
        Completion::Interrupted
    } else if load.ended_ok == 0 {
        Completion::No
    } else {
        Completion::Yes
    }
}

/// The load, and a response that was verified.
pub fn prepare(options: &Options) -> Result<(Plan, Probe), Refused> {
    if options.connections == 0 || options.depth == 0 {
        return Err(Refused::new("--connections and --depth must be at least 1"));
    }
    if options.warmup.requests().is_some() {
        let others = [
            (options.scenario.is_some(), "--scenario"),
            (!options.agent.is_empty(), "--agent"),
            (options.engine.is_some(), "--engine"),
        ];
        if let Some((_, option)) = others.iter().find(|(given, _)| *given) {
            return Err(Refused(format!(
                "{option} warms up for a time, not for a number of requests: give --warmup as in 2s"
            )));
        }
    }
    let (version, unix) = (options.version(), options.unix.clone());
    let target = Target::parse(&options.url, version, unix, options.reach())
        .map_err(|error| Refused::new(error.text))?;
    let tls = trust::prepare(&options.tls(), &target).map_err(Refused::new)?;
    let draft = draft(options, &target)?;
    let (kind, bare) = kind(options, &draft, &target)?;
    let mut plan = plan(options, target, tls, kind, bare)?;
    if let Some(path) = &options.scenario {
        let scenario = scenario::read(path).map_err(Refused)?;
        scenario::apply(&mut plan, scenario)
            .map_err(|error| Refused(format!("{}: {error}", path.display())))?;
    }
    fits(&plan)?;
    let ask = || {
        kind::ask(&plan).map_err(|fault| {
            let words = fault.class.words();
            Refused::new(format!(
                "{} does not respond: {words} ({})",
                options.url, fault.text
            ))
        })
    };
    let first = ask()?;
    if !plan.kind.is_requests() {
        return Ok((plan, first));
    }
    if plan.scenario.is_some() {
        let wanted = plan.requests[0].expect.status;
        if first.status != wanted {
            return Err(Refused(format!(
                "the target responds to the first step with status {} instead of {wanted}",
                first.status
            )));
        }
        return Ok((plan, first));
    }
    if let Some(path) = &options.urls {
        let (requests, mix) = mix::read(path, options, &plan)?;
        return Ok((
            Plan {
                requests,
                mix,
                ..plan
            },
            first,
        ));
    }
    let expect = expect(options, &first, ask)?;
    let requests = vec![Prepared {
        expect,
        ..plan.requests[0].clone()
    }];
    Ok((Plan { requests, ..plan }, first))
}

/// Refuses more connections than there can be open files.
fn fits(plan: &Plan) -> Result<(), Refused> {
    let open_files = machine::raise_open_files();
    let connections = plan.connections + plan.beside.idle + plan.beside.slow;
    if connections as u64 + 64 > open_files {
        return Err(Refused(format!(
            "{connections} connections need more than the {open_files} open files allowed here; see `sluice-lab doctor`"
        )));
    }
    Ok(())
}

/// The kind of exchange on each connection, and its first request.
fn kind(options: &Options, draft: &Draft, target: &Target) -> Result<(Kind, Prepared), Refused> {
    if options.idle + options.slow > 0 {
        let text = match target.protocol.version() {
            HttpVersion::Http1 => None,
            HttpVersion::Http2 => Some("--idle and --slow need HTTP/1.1: remove --h2"),
            HttpVersion::Http3 => Some("--idle and --slow need HTTP/1.1: remove --h3"),
        };
        if let Some(text) = text {
            return Err(Refused::new(text));
        }
    }
    let made = if options.is_websocket() {
        let message = match draft.body.is_empty() {
            true => made_body(MESSAGE_BYTES, options.seed).into(),
            false => draft.body.clone(),
        };
        kind::websocket(draft, target, message, options.seed)
    } else if options.sse {
        kind::events(draft, target)
    } else {
        let request = draft.prepare(target, Expect::default());
        request.map(|request| (Kind::Requests, request))
    };
    made.map_err(Refused::new)
}

/// The load, with a request whose expected response is not known yet.
fn plan(
    options: &Options,
    target: Target,
    tls: Option<Tls>,
    kind: Kind,
    request: Prepared,
) -> Result<Plan, Refused> {
    let mode = match options.rate {
        None => Mode::Closed,
        Some(rate) => Mode::Open {
            rate,
            poisson: options.poisson,
        },
    };
    let cpus = options.cpus.clone().unwrap_or_default();
    let threads = options.threads.unwrap_or_else(|| match cpus.len() {
        0 => (machine::processors().len() / 2).max(1),
        count => count,
    });
    Ok(Plan {
        target,
        tls,
        requests: vec![request],
        mix: Mix::default(),
        scenario: None,
        mode,
        connections: options.connections,
        depth: options.depth,
        requests_per_connection_max: match options.close {
            true => Some(1),
            false => options.requests_per_connection,
        },
        threads,
        cpus,
        requests_max: options.requests,
        warmup: options.warmup.most(),
        warmup_requests: options.warmup.requests(),
        duration: options.duration,
        drain: options.drain.unwrap_or(options.timeout),
        timeout: options.timeout,
        failure_pause: options.failure_pause,
        seed: options.seed,
        kind,
        beside: Beside {
            idle: options.idle,
            slow: options.slow,
            slow_bytes_per_s: options.slow_rate,
        },
        interrupt: Interrupt::default(),
        barrier: None,
    })
}

fn draft(options: &Options, target: &Target) -> Result<Draft, Refused> {
    let body: Arc<[u8]> = match (&options.body, options.body_bytes) {
        (Some(_), Some(_)) => {
            return Err(Refused::new(
                "--body and --body-bytes cannot be used together",
            ));
        }
        (Some(text), None) => match text.strip_prefix('@') {
            Some(path) => fs::read(path)
                .map_err(|error| Refused::new(format!("{path}: {error}")))?
                .into(),
            None => text.as_bytes().into(),
        },
        (None, Some(count)) => made_body(count, options.seed).into(),
        (None, None) => Arc::from(&b""[..]),
    };
    let mut fields = Vec::new();
    for line in &options.header {
        let (name, value) = line.split_once(':').ok_or_else(|| {
            Refused::new(format!("`{line}` is not a header: write 'Name: value'"))
        })?;
        fields.push((name.trim().to_string(), value.trim().to_string()));
    }
    let has_body = !body.is_empty();
    let method = options.method.clone().unwrap_or_else(|| match has_body {
        true => "POST".into(),
        false => "GET".into(),
    });
    Ok(Draft {
        method,
        path: target.path.clone(),
        fields,
        body,
        close: options.close,
    })
}

/// The expected response: from the options, and otherwise whatever is the same in two responses of the target.
fn expect(
    options: &Options,
    first: &Probe,
    again: impl Fn() -> Result<Probe, Refused>,
) -> Result<Expect, Refused> {
    let status = match options.expect_status {
        Some(status) => status,
        None if first.status < 400 => first.status,
        None => {
            let text = format!(
                "the target responds with status {}; use --expect-status {} if that is correct",
                first.status, first.status
            );
            return Err(Refused::new(text));
        }
    };
    if first.status != status {
        let text = format!(
            "the target responds with status {} instead of {status}",
            first.status
        );
        return Err(Refused::new(text));
    }
    let exact = |bytes: &[u8]| BodyExpect::Exact {
        bytes: Arc::from(bytes),
        every: options.verify_every,
    };
    let body = match &options.verify {
        Verify::Status => BodyExpect::Any,
        Verify::Length => BodyExpect::Length(first.body.len() as u64),
        Verify::LengthIs(length) => BodyExpect::Length(*length),
        Verify::Body => exact(&first.body),
        Verify::Sha256(wanted) => {
            let found = sha256(&first.body);
            if !found.eq_ignore_ascii_case(wanted) {
                let text = format!("the body has SHA-256 {found} instead of {wanted}");
                return Err(Refused::new(text));
            }
            exact(&first.body)
        }
        Verify::Auto => {
            let second = again()?;
            if first.body == second.body && first.body.len() <= BODY_KEPT_MAX {
                exact(&first.body)
            } else if first.body.len() == second.body.len() {
                BodyExpect::Length(first.body.len() as u64)
            } else {
                BodyExpect::Any
            }
        }
    };
    Ok(Expect {
        status,
        body,
        fields: Vec::new(),
    })
}
