//! The load of a cell: its target, its requests with the expected responses, and who generates it.

use std::fs;
use std::sync::Arc;

use super::{NoBlock, Stage, TRUSTED, in_url};
use crate::adapter::Task;
use crate::agent::Fleet;
use crate::file::{File, Rate, Talk, Test};
use crate::plan::CellPlan;
use crate::progress::Progress;
use crate::single::{Driver, Sampled, Watch, load_and_watch, tool_and_watch};
use sluice_load::generator::Plan;
use sluice_load::generator::expect::{BodyExpect, Expect};
use sluice_load::generator::held_connections::Beside;
use sluice_load::generator::kind::{self, Kind};
use sluice_load::generator::mix::Mix;
use sluice_load::generator::request::{Draft, Prepared};
use sluice_load::generator::target::{Reach, Target};
use sluice_load::generator::trust::{self, TlsOptions};
use sluice_load::random::made_body;
use sluice_load::result::{Asked, CellState, Mode};

impl Stage {
    /// Runs the load with the engine of the cell.
    pub(super) fn load(
        &self,
        (file, cell): (&File, &CellPlan),
        plan: &Plan,
        watch: Watch<'_>,
        fleet: Option<&mut Fleet>,
        live: &mut dyn Progress,
    ) -> Result<Sampled, NoBlock> {
        if let Some(fleet) = fleet {
            return self.load_by_agents((file, cell), plan, watch, fleet, live);
        }
        let failed = |error: std::io::Error| match self.has_lost_agent() {
            true => NoBlock::Agents(error.to_string()),
            false => CellState::DidNotStart(format!("the load generator failed: {error}")).into(),
        };
        let Some(tool) = cell.engine else {
            return load_and_watch(plan, watch, live).map_err(failed);
        };
        let mut fields = Vec::new();
        let headers = file
            .load
            .headers
            .iter()
            .chain(&file.test[&cell.test].headers);
        fields.extend(headers.map(|(name, value)| format!("{name}: {value}")));
        let task = Task {
            asked: Asked {
                verify: "what the program checks, usually the status".into(),
                ..plan.asked()
            },
            fields,
            host: file.test[&cell.test]
                .host
                .is_some()
                .then(|| plan.target.authority.clone()),
            // The certificate is the lab's own.
            insecure: plan.tls.is_some(),
        };
        if plan.warmup_requests.is_some() {
            let text = format!(
                "{} warms up for a time, not for a number of requests",
                tool.name()
            );
            return Err(CellState::Skipped(text).into());
        }
        // What a program does not support is known before it runs.
        tool.steps(&task, self.dir()).map_err(CellState::Skipped)?;
        if plan.scenario.is_some()
            || !plan.kind.is_requests()
            || plan.beside.is_some()
            || plan.requests.len() > 1
        {
            let name = tool.name();
            let text = format!("{name} sends one request again and again, and nothing else");
            return Err(CellState::Skipped(text).into());
        }
        tool_and_watch(tool, plan, &task, watch, live).map_err(failed)
    }

    /// Who generates a load, and the load as it is generated there. Agents of other machines have CPUs of their own, so the
    /// placement of this one is not theirs.
    pub(crate) fn driver<'a>(
        &self,
        test: &Test,
        plan: &Plan,
        fleet: Option<&'a mut Fleet>,
    ) -> (Driver<'a>, Plan) {
        let plan = plan.clone();
        match fleet {
            None => (Driver::Here, plan),
            Some(fleet) => {
                let driver = Driver::Agents {
                    fleet,
                    tls: self.tls(test),
                    threads: None,
                };
                let cpus = Vec::new();
                (driver, Plan { cpus, ..plan })
            }
        }
    }

    /// Runs the load on agents.
    fn load_by_agents(
        &self,
        (file, cell): (&File, &CellPlan),
        plan: &Plan,
        watch: Watch<'_>,
        fleet: &mut Fleet,
        live: &mut dyn Progress,
    ) -> Result<Sampled, NoBlock> {
        let (mut driver, plan) = self.driver(&file.test[&cell.test], plan, Some(fleet));
        if let Some(text) = driver.refusal(&plan) {
            return Err(CellState::Skipped(text).into());
        }
        let sampled = driver.sampled(&plan, watch, live);
        sampled.map_err(|error| NoBlock::Agents(error.to_string()))
    }

    /// The load of a cell.
    pub(super) fn plan(&self, file: &File, cell: &CellPlan, seed: u64) -> Result<Plan, String> {
        let test = &file.test[&cell.test];
        let mut target = self.target(test)?;
        if let Some(host) = &test.host {
            target.authority = self.fill(host, file, cell)?;
        }
        let trusted = self.tls(test);
        let rate = match test.rate(&file.load) {
            None => None,
            Some(Rate::PerSecond(rate)) => Some(*rate),
            // Not known yet where no load follows, and where a search chooses the rate.
            Some(Rate::OfLimit { .. }) => self.rates.get(&cell.id).copied(),
        };
        let mode = match rate {
            None => Mode::Closed,
            Some(rate) => Mode::Open {
                rate,
                poisson: file.load.poisson,
            },
        };
        let each_max = test
            .requests_per_connection
            .or(file.load.requests_per_connection);
        let (kind, requests) = self.requests(file, test, &target, each_max, seed)?;
        let mut plan = Plan {
            tls: trust::prepare(&trusted, &target)?,
            requests,
            mix: Mix::default(),
            scenario: None,
            target,
            mode,
            connections: cell.clients,
            depth: test.depth.unwrap_or(file.load.depth),
            requests_per_connection_max: each_max,
            threads: self.load_cpus.len().max(1),
            cpus: self.load_cpus.clone(),
            requests_max: None,
            warmup: file.load.warmup.most(),
            warmup_requests: file.load.warmup.requests(),
            duration: file.load.duration,
            drain: file.load.drain.unwrap_or(file.load.timeout),
            timeout: file.load.timeout,
            failure_pause: file.load.failure_pause,
            seed,
            kind,
            beside: Beside {
                idle: test.idle.unwrap_or(file.load.idle),
                slow: file.load.slow_readers,
                slow_bytes_per_s: file.load.slow_rate,
            },
            interrupt: self.interrupt.clone(),
            barrier: None,
        };
        if let Some(scenario) = &test.loaded {
            scenario.probe(&plan.target)?;
            plan.mode = scenario.mode();
            plan.duration = scenario.duration();
            plan.scenario = Some(scenario.clone());
        }
        Ok(plan)
    }

    /// The server under test, as its clients reach it.
    fn target(&self, test: &Test) -> Result<Target, String> {
        let scheme = if test.tls { "https" } else { "http" };
        // The certificate is for `localhost`; without TLS an address saves everybody a name lookup.
        let host = if test.tls { "localhost" } else { "127.0.0.1" };
        let parse = |host: &str, reach| {
            let url = format!("{scheme}://{host}:{}{}", self.port(), test.path);
            Target::parse(&url, test.version(), None, reach).map_err(|error| error.text)
        };
        let Some(address) = self.address else {
            return parse(host, Reach::Loopback);
        };
        // What the server sees is the same as without an address. The machine of the servers has checked that it is its own.
        Ok(Target {
            authority: format!("{host}:{}", self.port()),
            name: host.into(),
            ..parse(&in_url(address), Reach::Anywhere)?
        })
    }

    /// The lab's own certificates are the only ones that clients trust.
    fn tls(&self, test: &Test) -> TlsOptions {
        TlsOptions {
            ca: test.tls.then(|| self.dir().join(TRUSTED)),
            version: test.tls_version.clone(),
            resume: test.tls_resume,
            insecure: false,
        }
    }

    /// The requests of a test, each with its expected response.
    fn requests(
        &self,
        file: &File,
        test: &Test,
        target: &Target,
        each_max: Option<u64>,
        seed: u64,
    ) -> Result<(Kind, Vec<Prepared>), String> {
        let fields = file.load.headers.iter().chain(&test.headers);
        let body: Arc<[u8]> = match &test.body {
            Some(body) => body.as_bytes().into(),
            None => made_body(test.body_bytes, seed).into(),
        };
        let draft = Draft {
            method: test.method.clone().unwrap_or_else(|| "GET".into()),
            path: target.path.clone(),
            fields: fields
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            body,
            close: each_max == Some(1),
        };
        let talk = match test.talk {
            Talk::Requests => None,
            Talk::Websocket => Some(kind::websocket(&draft, target, draft.body.clone(), seed)?),
            Talk::Events => Some(kind::events(&draft, target)?),
        };
        if let Some((kind, request)) = talk {
            return Ok((kind, vec![request]));
        }
        if !test.corpus {
            let request = draft.prepare(target, self.expect(file, test)?)?;
            return Ok((Kind::Requests, vec![request]));
        }
        let every = test.expect.every.unwrap_or(1).max(1);
        let questions = self.corpus.questions();
        let prepared = questions.map(|(question, bytes)| {
            let draft = Draft {
                method: "POST".into(),
                body: question.into(),
                ..draft.clone()
            };
            let expect = Expect {
                status: test.expect.status,
                body: BodyExpect::Exact { bytes, every },
                fields: Vec::new(),
            };
            draft.prepare(target, expect)
        });
        let prepared: Result<Vec<Prepared>, String> = prepared.collect();
        Ok((Kind::Requests, prepared?))
    }

    fn expect(&self, file: &File, test: &Test) -> Result<Expect, String> {
        let part = &test.expect;
        let bytes: Option<Arc<[u8]>> = if let Some(body) = &part.body {
            Some(body.as_bytes().into())
        } else if let Some(path) = &part.file {
            let path = self.dir().join(path);
            let read = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Some(read.into())
        } else if let Some(name) = &part.body_of {
            let backend = file.backend.iter().find(|backend| &backend.name == name);
            let body = backend.and_then(|backend| backend.body.as_ref());
            body.map(|body| body.as_bytes().into())
        } else {
            None
        };
        let every = part.every.unwrap_or(1).max(1);
        Ok(Expect {
            status: part.status,
            body: bytes.map_or(BodyExpect::Any, |bytes| BodyExpect::Exact { bytes, every }),
            fields: Vec::new(),
        })
    }
}
