//! `lab hit`: loads one URL and says what it found. A better wrk or hey for a single target.

mod options;
mod text;

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use options::Options;

use crate::adapter::{self, Task};
use crate::cli::{Answer, Outcome, Refused};
use crate::live::Live;
use crate::load::expect::{BodyExpect, Expect};
use crate::load::limits::BODY_KEPT_MAX;
use crate::load::probe::{Probe, probe, sha256};
use crate::load::request::{Draft, Prepared};
use crate::load::target::{Address, Reach, Target};
use crate::load::{self, Plan, trust};
use crate::machine;
use crate::result::{Asked, Block, Cell, CellState, FailureClass, Load, Mode, RunResult, SCHEMA};
use crate::sample::{Roots, owner};

use options::Verify;

/// Carries out `lab hit`.
pub fn run(options: &Options) -> Outcome {
    let open_files = machine::raise_open_files();
    if options.connections as u64 + 64 > open_files {
        let text = format!(
            "{} connections need more open files than the {open_files} that are allowed here; see `sluice-lab doctor`",
            options.connections
        );
        return Err(Refused::new(text));
    }
    let (plan, answer) = prepare(options)?;
    let started = SystemTime::now();
    let began = Instant::now();
    let mut load = match options.engine {
        Some(tool) => adapter::run(tool, &task(options, &plan)?).map_err(Refused)?,
        None => {
            let mut live = Live::new();
            view(&plan, &mut live, Duration::ZERO);
            load::run(&plan, &mut |stage| live.look(&stage))
                .map_err(|error| Refused::new(format!("the load broke off: {error}")))?
        }
    };
    load.answer = Some(answer.answered());
    print!("{}", text::report(&load));
    if let Some(path) = &options.json {
        let result = result(load.clone(), options, started, began.elapsed());
        let text = serde_json::to_vec(&result).map_err(|error| Refused::new(error.to_string()))?;
        fs::write(path, text)
            .map_err(|error| Refused::new(format!("{}: {error}", path.display())))?;
    }
    Ok(verdict(&load))
}

/// The same task for another program. What none of them can do is refused here, the rest by the adapter.
fn task(options: &Options, plan: &Plan) -> Result<Task, Refused> {
    let limits = [
        (options.unix.is_some(), "--unix"),
        (options.requests.is_some(), "--requests"),
        (options.ca.is_some(), "--ca"),
        (options.tls_version.is_some(), "--tls-version"),
        (options.cpus.is_some(), "--cpus"),
    ];
    if let Some((_, option)) = limits.iter().find(|(given, _)| *given) {
        let text = format!("{option} is for the lab's own engine only");
        return Err(Refused::new(text));
    }
    Ok(Task {
        asked: Asked {
            verify: "whatever the program looks at, mostly the status".into(),
            ..plan.asked()
        },
        fields: options.header.clone(),
        insecure: options.insecure,
    })
}

/// Whether the target did at all what it was to do.
fn verdict(load: &Load) -> Answer {
    if load.ended_ok == 0 {
        Answer::No
    } else {
        Answer::Yes
    }
}

/// What to ask, and the answer that was found right.
pub fn prepare(options: &Options) -> Result<(Plan, Probe), Refused> {
    let reach = match options.i_own_this_host {
        true => Reach::Anywhere,
        false => Reach::Loopback,
    };
    let target = Target::parse(&options.url, options.h2, options.unix.clone(), reach)
        .map_err(|error| Refused::new(error.text))?;
    let tls = trust::prepare(&options.tls(), &target).map_err(Refused::new)?;
    let draft = draft(options, &target)?;
    let bare = draft
        .prepare(&target, Expect::default())
        .map_err(Refused::new)?;
    let ask = || {
        probe(&target, tls.as_ref(), &bare).map_err(|fault| {
            let words = fault.class.words();
            Refused::new(format!(
                "{} gives no answer: {words} ({})",
                options.url, fault.text
            ))
        })
    };
    let first = ask()?;
    let expect = expect(options, &first, ask)?;
    let requests = vec![Prepared {
        expect,
        ..bare.clone()
    }];
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
    let plan = Plan {
        target,
        tls,
        requests,
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
        warmup: options.warmup,
        duration: options.duration,
        drain: options.drain.unwrap_or(options.timeout),
        timeout: options.timeout,
        failure_pause: options.failure_pause,
        seed: options.seed,
    };
    Ok((plan, first))
}

fn draft(options: &Options, target: &Target) -> Result<Draft, Refused> {
    let body: Arc<[u8]> = match (&options.body, options.body_bytes) {
        (Some(_), Some(_)) => {
            return Err(Refused::new("--body and --body-bytes exclude each other"));
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
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| Refused::new(format!("`{line}` is no field: write 'Name: value'")))?;
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

/// A body of that many bytes that no compression shortens much, the same for the same start value.
pub fn made_body(count: u64, seed: u64) -> Vec<u8> {
    let mut chance = crate::random::Random::new(seed);
    (0..count)
        .map(|_| b'a' + (chance.bits() >> 56) as u8 % 26)
        .collect()
}

/// What a right answer is: what the options say, and where they do not, what the target answers twice alike.
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
                "the target answers with status {}; say --expect-status {} if that is right",
                first.status, first.status
            );
            return Err(Refused::new(text));
        }
    };
    if first.status != status {
        let text = format!(
            "the target answers with status {} instead of {status}",
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

/// The live view of a load that is one step. `subject` are the processes of the server, where they are known.
pub fn view(plan: &Plan, live: &mut Live, behind: Duration) {
    let name = match plan.mode {
        Mode::Closed => format!("{}, {} connections", plan.target.url, plan.connections),
        Mode::Open { rate, .. } => {
            let rate = crate::quantity::thousands(rate);
            format!("{}, {rate}/s due", plan.target.url)
        }
    };
    live.begin(&name, plan.warmup + plan.duration, behind);
    let subject = match &plan.target.address {
        Address::Tcp(address) if address.ip().is_loopback() => owner::listeners(address.port()),
        Address::Tcp(_) | Address::Unix(_) => Vec::new(),
    };
    live.watch(&Roots {
        subject,
        backend: Vec::new(),
    });
}

/// The result as a file carries it: one cell with one block.
pub fn result(load: Load, options: &Options, started: SystemTime, took: Duration) -> RunResult {
    let unix = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let started_unix_ms = unix.as_millis() as u64;
    let axes = [
        ("subject", options.url.clone()),
        ("test", options.url.clone()),
        ("clients", options.connections.to_string()),
    ];
    let unusable = FailureClass::ALL
        .into_iter()
        .any(|class| class.is_ours() && load.failed_in(class) > 0);
    let notes = unusable.then(|| "this side ran out of ports or descriptors".to_string());
    RunResult {
        schema: SCHEMA.into(),
        name: "hit".into(),
        title: options.url.clone(),
        command: std::env::args().collect(),
        started_unix_ms,
        duration_s: took.as_secs_f64(),
        seed: options.seed,
        machine: machine::look(),
        cells: vec![Cell {
            id: sha256(options.url.as_bytes())[..12].into(),
            axes: axes.map(|(name, value)| (name.to_string(), value)).into(),
            state: CellState::Measured,
            blocks: vec![Block {
                started_unix_ms,
                load,
                ..Block::default()
            }],
        }],
        notes: notes.into_iter().collect(),
        ..RunResult::default()
    }
}
