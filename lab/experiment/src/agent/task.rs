//! The load of one agent, as it is sent: everything that a plan has, without what belongs to the machine.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::folder::Folder;
use sluice_load::generator::Plan;
use sluice_load::generator::barrier::Barrier;
use sluice_load::generator::expect::{BodyExpect, Expect};
use sluice_load::generator::held_connections::Beside;
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::generator::kind::Kind;
use sluice_load::generator::mix::Mix;
use sluice_load::generator::request::{Draft, Prepared};
use sluice_load::generator::scenario::Scenario;
use sluice_load::generator::target::{Address, HttpVersion, Reach, Target};
use sluice_load::generator::trust::{self, TlsOptions};
use sluice_load::machine;
use sluice_load::result::Mode;

/// The load of one agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    url: String,
    /// For the `Host` header: the URL may have the address at which this machine reaches the server.
    authority: String,
    /// For TLS, likewise.
    name: String,
    version: HttpVersion,
    tls: TlsTask,
    requests: Vec<RequestTask>,
    parts: Vec<(String, u32)>,
    part_of: Vec<usize>,
    scenario: Option<Scenario>,
    mode: Mode,
    connections: usize,
    depth: usize,
    requests_per_connection_max: Option<u64>,
    threads: Option<usize>,
    warmup: Duration,
    duration: Duration,
    drain: Duration,
    timeout: Duration,
    failure_pause: Duration,
    seed: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct TlsTask {
    insecure: bool,
    /// The certificates of `--ca`.
    ca: Option<String>,
    version: Option<String>,
    resume: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct RequestTask {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    /// In base64.
    body: String,
    close: bool,
    status: u16,
    expect: BodyTask,
    fields: Vec<(String, Option<String>)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum BodyTask {
    Any,
    Length(u64),
    /// The body in base64, compared in every n-th response.
    Exact(String, u64),
}

/// Seeds of agents differ, so that they do not all send the same in the same order.
const SEED_STEP: u64 = 1_000_003;

impl Task {
    /// The share of agent number `agent` of `of`, of a load that [`refusal`] allows. `threads` is what the user asked for,
    /// if anything.
    pub fn of(
        plan: &Plan,
        tls: &TlsOptions,
        threads: Option<usize>,
        agent: usize,
        of: usize,
    ) -> Result<Self, String> {
        let upto = |agent: usize| plan.connections * agent / of;
        let scenario = plan.scenario.as_ref().map(|one| one.share(agent, of));
        let connections = match &scenario {
            Some(scenario) => scenario.clients_max(),
            None => upto(agent + 1) - upto(agent),
        };
        let mode = match (&scenario, plan.mode) {
            (Some(scenario), _) => scenario.mode(),
            (None, Mode::Closed) => Mode::Closed,
            (None, Mode::Open { rate, poisson }) => Mode::Open {
                rate: rate / of as f64,
                poisson,
            },
        };
        let read = |path: &PathBuf| {
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        Ok(Task {
            url: plan.target.url.clone(),
            authority: plan.target.authority.clone(),
            name: plan.target.name.clone(),
            version: plan.target.protocol.version(),
            tls: TlsTask {
                insecure: tls.insecure,
                ca: tls.ca.as_ref().map(read).transpose()?,
                version: tls.version.clone(),
                resume: tls.resume,
            },
            requests: plan.requests.iter().map(RequestTask::of).collect(),
            parts: plan.mix.parts.clone(),
            part_of: plan.mix.part_of.to_vec(),
            scenario,
            mode,
            connections,
            depth: plan.depth,
            requests_per_connection_max: plan.requests_per_connection_max,
            threads,
            warmup: plan.warmup,
            duration: plan.duration,
            drain: plan.drain,
            timeout: plan.timeout,
            failure_pause: plan.failure_pause,
            seed: plan.seed.wrapping_add(agent as u64 * SEED_STEP),
        })
    }

    /// How long the load may take, from the beginning of its window to its figures.
    pub fn length(&self) -> Duration {
        self.duration + self.drain
    }

    /// Its share of connections, and of the rate of an open loop.
    pub fn share(&self) -> (usize, Option<f64>) {
        let rate = match self.mode {
            Mode::Closed => None,
            Mode::Open { rate, .. } => Some(rate),
        };
        (self.connections, rate)
    }

    /// The plan of the load on this machine. Certificates are written to `folder`.
    pub fn plan(
        self,
        reach: Reach,
        folder: &Folder,
        interrupt: Interrupt,
        barrier: Arc<Barrier>,
    ) -> Result<Plan, String> {
        let target =
            Target::parse(&self.url, self.version, None, reach).map_err(|error| error.text)?;
        let target = Target {
            authority: self.authority,
            name: self.name,
            ..target
        };
        let ca = match &self.tls.ca {
            None => None,
            Some(text) => {
                let path = folder.path().join("ca.pem");
                fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
                Some(path)
            }
        };
        let tls = TlsOptions {
            insecure: self.tls.insecure,
            ca,
            version: self.tls.version,
            resume: self.tls.resume,
        };
        let requests = self.requests.iter().map(|request| request.prepare(&target));
        let requests: Result<Vec<Prepared>, String> = requests.collect();
        let requests = requests?;
        if requests.is_empty() || self.part_of.iter().any(|part| *part >= self.parts.len()) {
            return Err("the task has no requests, or parts that do not exist".to_string());
        }
        let threads = self
            .threads
            .unwrap_or((machine::processors().len() / 2).max(1));
        Ok(Plan {
            tls: trust::prepare(&tls, &target)?,
            target,
            requests,
            mix: Mix {
                parts: self.parts,
                part_of: self.part_of.into(),
            },
            scenario: self.scenario.map(Arc::new),
            mode: self.mode,
            connections: self.connections,
            depth: self.depth.max(1),
            requests_per_connection_max: self.requests_per_connection_max,
            threads,
            cpus: Vec::new(),
            requests_max: None,
            warmup: self.warmup,
            warmup_requests: None,
            duration: self.duration,
            drain: self.drain,
            timeout: self.timeout,
            failure_pause: self.failure_pause,
            seed: self.seed,
            kind: Kind::Requests,
            beside: Beside::default(),
            interrupt,
            barrier: Some(barrier),
        })
    }
}

/// Why `of` agents cannot generate a load, if they cannot.
pub fn refusal(plan: &Plan, of: usize) -> Option<String> {
    let limits = [
        (
            matches!(plan.target.address, Address::Unix(_)),
            "a unix socket",
        ),
        (plan.requests_max.is_some(), "a number of requests (-n)"),
        (!plan.kind.is_requests(), "WebSocket or events"),
        (plan.beside.is_some(), "idle connections or slow readers"),
        (!plan.cpus.is_empty(), "chosen CPUs (--cpus)"),
    ];
    if let Some((_, what)) = limits.iter().find(|(given, _)| *given) {
        return Some(format!("agents do not support {what}"));
    }
    let least = |agent: usize| match &plan.scenario {
        Some(scenario) => scenario.share(agent, of).clients_max(),
        None => plan.connections * (agent + 1) / of - plan.connections * agent / of,
    };
    (0..of).any(|agent| least(agent) == 0).then(|| {
        format!(
            "{} connections cannot be divided between {of} agents",
            plan.connections
        )
    })
}

impl RequestTask {
    fn of(prepared: &Prepared) -> Self {
        let draft = prepared.draft();
        RequestTask {
            method: draft.method,
            path: draft.path,
            headers: draft.fields,
            body: STANDARD.encode(&draft.body),
            close: draft.close,
            status: prepared.expect.status,
            expect: match &prepared.expect.body {
                BodyExpect::Any => BodyTask::Any,
                BodyExpect::Length(length) => BodyTask::Length(*length),
                BodyExpect::Exact { bytes, every } => {
                    BodyTask::Exact(STANDARD.encode(bytes), *every)
                }
            },
            fields: prepared.expect.fields.clone(),
        }
    }

    fn prepare(&self, target: &Target) -> Result<Prepared, String> {
        let decode = |text: &String| {
            let bytes = STANDARD.decode(text);
            bytes.map_err(|error| format!("a body is not base64: {error}"))
        };
        let body = match &self.expect {
            BodyTask::Any => BodyExpect::Any,
            BodyTask::Length(length) => BodyExpect::Length(*length),
            BodyTask::Exact(body, every) => BodyExpect::Exact {
                bytes: decode(body)?.into(),
                every: *every,
            },
        };
        let draft = Draft {
            method: self.method.clone(),
            path: self.path.clone(),
            fields: self.headers.clone(),
            body: decode(&self.body)?.into(),
            close: self.close,
        };
        let expect = Expect {
            status: self.status,
            body,
            fields: self.fields.clone(),
        };
        draft.prepare(target, expect)
    }
}
