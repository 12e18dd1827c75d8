//! What the command line changes in an experiment, and the experiment as the result has it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Options;
use crate::agent::AgentSpec;
use crate::cell_filter::Only;
use crate::file::{Claim, File, NATIVE, RestPart};
use sluice_audit::limits::BLOCKS_MIN;
use sluice_load::generator::probe::sha256;
use sluice_load::generator::warmup::Warmup;
use sluice_load::result::{Beside, Experiment, Saying};

/// Durations and levels of `--quick`. It has as few blocks as a confidence interval needs.
const QUICK_DURATION: Duration = Duration::from_millis(1_500);
const QUICK_WARMUP: Duration = Duration::from_millis(500);
const QUICK_LEVELS: usize = 3;

/// How long a quick run waits for responses in flight at the end; what takes longer counts as unanswered.
const QUICK_DRAIN: Duration = Duration::from_millis(1_500);

/// Applies the command line to the file. Returns the changes in sentences.
pub(super) fn change(file: &mut File, options: &Options) -> Vec<String> {
    let mut changes = Vec::new();
    if options.quick {
        changes.push(quick(file));
    }
    if let Some(blocks) = options.repeats {
        file.repeat.blocks = blocks.max(1);
        changes.push(format!("--repeats {blocks}"));
    }
    if let Some(duration) = options.duration {
        file.load.duration = duration;
        changes.push(format!("--duration {} s", duration.as_secs_f64()));
    }
    if let Some(warmup) = options.warmup {
        file.load.warmup = warmup;
        changes.push(format!("--warmup {warmup}"));
    }
    if let Some(rest) = options.rest {
        file.load.rest.idle = rest;
        changes.push(format!("--rest {} s", rest.as_secs_f64()));
    }
    if let Some(clients) = &options.clients {
        file.matrix.clients.clone_from(clients);
        file.wanted.clear();
        changes.push(format!("--clients {clients:?}"));
    }
    if !options.engines.is_empty() {
        let names = options.engines.iter().map(|tool| tool.name().to_string());
        file.matrix.engine = [NATIVE.to_string()].into_iter().chain(names).collect();
        changes.push(format!("--engine {}", file.matrix.engine[1..].join(",")));
    }
    if let Some(order) = options.order {
        file.repeat.order = order;
        changes.push(format!("--order {order:?}").to_lowercase());
    }
    if let Some(pin) = options.pin {
        file.place.pin = pin;
        changes.push(format!("--pin {pin:?}").to_lowercase());
    }
    if !options.agents.is_empty() {
        file.place.agents.clone_from(&options.agents);
        let names: Vec<String> = options.agents.iter().map(AgentSpec::name).collect();
        changes.push(format!("--agent {}", names.join(" --agent ")));
    }
    if let Some(servers) = &options.servers {
        file.place.servers = Some(servers.clone());
        changes.push(format!("--servers {}", servers.name()));
    }
    if let Some(address) = options.address {
        file.place.address = Some(address);
        changes.push(format!("--address {address}"));
    }
    if let Some(upstreams) = &options.upstreams {
        file.place.upstreams = Some(upstreams.clone());
        changes.push(format!("--upstreams {}", upstreams.name()));
    }
    if let Some(address) = options.upstream_address {
        file.place.upstream_address = Some(address);
        changes.push(format!("--upstream-address {address}"));
    }
    if !options.only.is_empty() {
        changes.push(format!("--only '{}'", options.only));
    }
    changes
}

/// Reduces the file to a run of minutes. Returns a sentence for the report.
fn quick(file: &mut File) -> String {
    file.repeat.blocks = file.repeat.blocks.min(BLOCKS_MIN);
    file.repeat.again = file.repeat.again.min(1);
    let of_file = &file.quick;
    let duration = of_file.duration.unwrap_or(QUICK_DURATION);
    file.load.duration = file.load.duration.min(duration);
    file.load.warmup = match (file.load.warmup, of_file.warmup) {
        (Warmup::Time(time), Some(Warmup::Time(quick))) => Warmup::Time(time.min(quick)),
        (_, Some(quick)) => quick,
        (Warmup::Time(time), None) => Warmup::Time(time.min(QUICK_WARMUP)),
        (requests, None) => requests,
    };
    file.load.rest = RestPart::default();
    let drain = file.load.drain.unwrap_or(file.load.timeout);
    file.load.drain = Some(drain.min(QUICK_DRAIN));
    let levels = &file.matrix.clients;
    if let Some(clients) = file.quick.clients.take() {
        file.matrix.clients = clients;
        file.test.values_mut().for_each(|test| test.clients = None);
    } else if levels.len() > QUICK_LEVELS {
        // Few machines can handle the highest level; the ends and the middle of the rest show the shape.
        let rest = &levels[..levels.len() - 1];
        file.matrix.clients = vec![rest[0], rest[rest.len() / 2 - 1], rest[rest.len() - 1]];
    }
    let mut summary = format!(
        "--quick: {} blocks of {} s at {:?} clients",
        file.repeat.blocks,
        file.load.duration.as_secs_f64(),
        file.matrix.clients
    );
    if let Some(config) = file.quick.config.take() {
        summary += &format!(", of configurations {}", config.join(", "));
        file.matrix.config = config;
    }
    if let Some(test) = file.quick.test.take() {
        summary += &format!(", of tests {}", test.join(", "));
        file.matrix.test = test;
    }
    if !file.quick.cells.is_empty() {
        summary += ", with the cells that [quick] names";
        // They were validated when the file was parsed.
        let conditions = file.quick.cells.iter();
        file.wanted = conditions.filter_map(|one| Only::parse(one).ok()).collect();
    }
    summary
}

/// The parts of the file that a result includes.
pub(super) fn experiment(
    file: &File,
    name: &str,
    text: String,
    changes: Vec<String>,
) -> Experiment {
    let mut claims = BTreeMap::new();
    let mut sayings = BTreeMap::new();
    for (name, claim) in &file.claims {
        let means = match claim {
            Claim::Formula(formula) => Some(formula),
            Claim::Worded(worded) => {
                let saying = Saying {
                    says: worded.says.clone(),
                    words: worded.words.clone(),
                    cpus: worded.cpus,
                };
                sayings.insert(name.clone(), saying);
                worded.means.as_ref()
            }
        };
        claims.extend(means.map(|means| (name.clone(), means.clone())));
    }
    let beside = file.beside.iter().map(|one| Beside {
        printed: one.printed.clone(),
        here: one.here.clone(),
    });
    Experiment {
        file: name.into(),
        sha256: sha256(text.as_bytes()),
        text,
        table_shape: file.table.shape.clone(),
        claims,
        sayings,
        beside: beside.collect(),
        changes,
    }
}
