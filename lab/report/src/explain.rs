//! Explains one cell: its bottleneck, its failures, and what they mean for its figures.

use std::fmt::Write;

use super::text::{duration, size};
use super::view::axes;
use crate::limits::CHOICES_MAX;
use sluice_audit::finding::{count, number, percent, resolved};
use sluice_audit::statistics::order::median;
use sluice_load::generator::limits::LATE_MAX;
use sluice_load::result::{Block, Cell, Distribution, FailureClass, Latencies, Mode, RunResult};

/// Finds a cell by its ID or a prefix of it, or by axes such as `subject=nginx,clients=200`.
pub fn find<'a>(result: &'a RunResult, what: &str) -> Result<&'a Cell, String> {
    let wanted: Option<Vec<(&str, &str)>> = what
        .split(',')
        .map(|part| part.trim().split_once('='))
        .collect();
    let fits = |cell: &&Cell| match &wanted {
        Some(wanted) => wanted.iter().all(|(axis, value)| cell.axis(axis) == *value),
        None => cell.id.starts_with(what),
    };
    let found: Vec<&Cell> = result.cells.iter().filter(fits).collect();
    if let [cell] = found[..] {
        return Ok(cell);
    }
    let listed = if found.is_empty() {
        result.cells.iter().collect()
    } else {
        found.clone()
    };
    let mut text = format!(
        "{} cells are called `{what}`:",
        if found.is_empty() {
            "no".to_string()
        } else {
            found.len().to_string()
        }
    );
    for cell in listed.iter().take(CHOICES_MAX) {
        let _ = write!(text, "\n  {}  {}", cell.id, axes(cell));
    }
    Err(text)
}

/// The explanation of a cell.
pub fn explain(result: &RunResult, cell: &Cell) -> String {
    let mut out = format!("{}: {}\n", cell.id, axes(cell));
    if cell.blocks.is_empty() {
        let _ = writeln!(out, "{}", super::markdown::state_words(&cell.state));
        return out;
    }
    let mut paragraph = |heading: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = write!(out, "\n{heading}\n");
            lines.iter().for_each(|line| {
                let _ = writeln!(out, "  {line}");
            });
        }
    };
    paragraph("Throughput and latency", gave(cell));
    paragraph("Bottleneck", bounds(result, cell));
    paragraph("Failures", failed(cell));
    paragraph("Remarks", known(cell));
    paragraph(
        "Server log",
        cell.blocks
            .iter()
            .flat_map(|block| block.log.iter().cloned())
            .collect(),
    );
    out
}

fn over(cell: &Cell, figure: impl Fn(&Block) -> Option<f64>) -> Option<f64> {
    median(&cell.blocks.iter().filter_map(figure).collect::<Vec<f64>>())
}

fn gave(cell: &Cell) -> Vec<String> {
    let mut lines = Vec::new();
    let rate = over(cell, |block| Some(block.load.ok_per_s())).unwrap_or(0.0);
    lines.push(format!(
        "{} successful responses per second over {}",
        number(rate),
        match cell.blocks.len() {
            1 => "1 block".to_string(),
            blocks => format!("{blocks} blocks"),
        }
    ));
    let latency = |percent: f64| {
        over(cell, |block| block.load.latency.total.percentile(percent))
            .map(|ns| format!("p{percent} {}", duration(ns / 1e6)))
    };
    let said: Vec<String> = [50.0, 90.0, 99.0].into_iter().filter_map(latency).collect();
    if !said.is_empty() {
        lines.push(format!("latency {}", said.join(", ")));
    }
    let part = |of: fn(&Latencies) -> Option<&Distribution>| {
        over(cell, |block| of(&block.load.latency)?.percentile(99.0)).map(|ns| ns / 1e6)
    };
    if let (Some(wait), Some(service)) =
        (part(|of| of.wait.as_ref()), part(|of| of.service.as_ref()))
    {
        lines.push(format!(
            "p99 of its parts: {} from due to sent, {} from sent to the response",
            duration(wait),
            duration(service)
        ));
    }
    if let Some(cpu) = over(cell, Block::cpu_us_per_ok) {
        lines.push(format!(
            "{} µs of CPU time for each: one fully used core can serve {} per second",
            resolved(cpu, over(cell, Block::cpu_us_step)),
            count(1e6 / cpu)
        ));
    }
    let memory = over(cell, |block| {
        block
            .resources
            .as_ref()
            .map(|r| r.subject.rss_peak_bytes as f64)
    });
    let connections = over(cell, |block| {
        let asked = block.load.asked.connections as u64;
        Some(block.load.connections.clients.unwrap_or(asked) as f64)
    });
    let connections = connections.unwrap_or(0.0);
    if let Some(memory) = memory {
        lines.push(format!(
            "{} of memory at most, {} for each of {} connections",
            size(memory),
            size(memory / connections.max(1.0)),
            count(connections)
        ));
    }
    lines
}

/// Utilization from which a resource counts as the bottleneck.
const FULL: f64 = 0.9;

fn bounds(result: &RunResult, cell: &Cell) -> Vec<String> {
    let mut lines = Vec::new();
    let used = |block: &Block| {
        let tree = &block.resources.as_ref()?.subject;
        (block.load.window_s > 0.0)
            .then(|| (tree.cpu_user_s + tree.cpu_system_s) / block.load.window_s)
    };
    let given = match result.machine.placement.get("subject") {
        Some(cpus) if !cpus.is_empty() => cpus.len(),
        _ => result.machine.cpus.max(1),
    } as f64;
    if let Some(used) = over(cell, used) {
        let system = over(cell, |block| {
            let tree = &block.resources.as_ref()?.subject;
            let all = tree.cpu_user_s + tree.cpu_system_s;
            (all > 0.0).then(|| tree.cpu_system_s / all)
        });
        let kernel = system.map_or(String::new(), |share| {
            format!(", {} of it in the kernel", percent(share))
        });
        let word = if used >= FULL * given {
            "the server's CPUs were saturated"
        } else {
            "the server's CPUs were not saturated"
        };
        lines.push(format!(
            "{word}: {} of {} in use{kernel}",
            number(used),
            count(given)
        ));
    }
    lines.extend(upstream_machine(result, cell));
    if let Some(busiest) = over(cell, |block| {
        block.load.generator.as_ref().map(|g| g.busiest)
    }) {
        let word = if busiest >= FULL {
            "the generator was saturated"
        } else {
            "the generator was not the bottleneck"
        };
        lines.push(format!(
            "{word}: its busiest thread was busy {} of the time",
            percent(busiest)
        ));
    }
    lines.extend(sleeps(cell));
    lines.extend(queue(cell));
    lines.extend(upstream(cell));
    lines.extend(moved(cell));
    let overflow: u64 = cell
        .blocks
        .iter()
        .filter_map(|block| block.resources.as_ref())
        .map(|r| r.system.listen_overflows)
        .sum();
    if overflow > 0 {
        lines.push(format!("a listen queue overflowed {} times: clients retried those connections after a second or more", count(overflow as f64)));
    }
    let steal = over(cell, |block| {
        block.resources.as_ref().map(|r| r.system.steal)
    })
    .unwrap_or(0.0);
    if steal > 0.02 {
        lines.push(format!(
            "the hypervisor gave {} of the time to other guests",
            percent(steal)
        ));
    }
    lines
}

/// How much the upstreams used of a machine of their own.
fn upstream_machine(result: &RunResult, cell: &Cell) -> Option<String> {
    let given = result.upstream_machine.as_ref()?.cpus.max(1) as f64;
    let used = over(cell, |block| {
        let tree = block.resources.as_ref()?.backend.as_ref()?;
        (block.load.window_s > 0.0)
            .then(|| (tree.cpu_user_s + tree.cpu_system_s) / block.load.window_s)
    })?;
    let word = if used >= FULL * given {
        "the CPUs of the upstreams' machine were saturated"
    } else {
        "the CPUs of the upstreams' machine were not saturated"
    };
    Some(format!(
        "{word}: {} of {} in use",
        number(used),
        count(given)
    ))
}

/// Bytes per second that are worth a line: below it neither a disk nor a network is a bottleneck.
const MOVED_REPORTED_MIN: f64 = 1_048_576.0;

/// What the server wrote to disks, and what network cards carried.
fn moved(cell: &Cell) -> Vec<String> {
    let per_second = |bytes: fn(&Block) -> Option<u64>| {
        let rate = over(cell, |block| {
            let bytes = bytes(block)? as f64;
            (block.load.window_s > 0.0).then(|| bytes / block.load.window_s)
        });
        rate.filter(|rate| *rate >= MOVED_REPORTED_MIN).map(size)
    };
    let disk = per_second(|block| block.resources.as_ref()?.subject.disk_write_bytes);
    let cards = per_second(|block| block.resources.as_ref()?.system.network_bytes);
    let disk = disk.map(|rate| format!("the server wrote {rate} a second to disks"));
    let cards = cards.map(|rate| format!("network cards carried {rate} a second, both ways"));
    disk.into_iter().chain(cards).collect()
}

/// Sleeps per second from which a generator counts as waiting for the server.
const SLEEPS_REPORTED_MIN: f64 = 1_000.0;

/// Which side waits for the other: a generator that often sleeps had read everything before the next response arrived.
fn sleeps(cell: &Cell) -> Option<String> {
    let sleeps = over(cell, |block| {
        let slept = block.resources.as_ref()?.generator.switches_voluntary as f64;
        (block.load.window_s > 0.0).then(|| slept / block.load.window_s)
    })?;
    (sleeps >= SLEEPS_REPORTED_MIN).then(|| {
        format!(
            "the generator slept {} times a second, waiting for responses",
            count(sleeps)
        )
    })
}

/// In a closed loop at its limit, latency is clients divided by rate and carries no further information.
fn queue(cell: &Cell) -> Option<String> {
    let block = cell.blocks.first()?;
    if block.load.asked.scenario.is_some() {
        // Clients think, and their number changes.
        return None;
    }
    if block.load.asked.mode != Mode::Closed {
        let lag = over(cell, |block| {
            block.load.generator.as_ref()?.send_lag.percentile(99.0)
        })?;
        let within = duration(lag / 1e6);
        return Some(match lag > LATE_MAX.as_nanos() as f64 {
            false => format!("requests left on time: 99 % within {within} of when they were due"),
            true => format!(
                "requests left late: 1 % more than {within} after they were due, so latencies are in part the generator's own"
            ),
        });
    }
    let clients = (block.load.asked.connections * block.load.asked.depth.max(1)) as f64;
    let rate = over(cell, |block| Some(block.load.ok_per_s())).filter(|rate| *rate > 0.0)?;
    let mean = over(cell, |block| block.load.latency.total.mean_ns)? / 1e6;
    let implied = clients / rate * 1000.0;
    let near = (mean / implied - 1.0).abs() < 0.15;
    near.then(|| {
        format!(
            "{} clients in a closed loop at {}/s wait {} each: the mean latency is that of the queue, not of an idle server; measure it with a fixed rate",
            count(clients),
            number(rate),
            duration(implied)
        )
    })
}

fn upstream(cell: &Cell) -> Option<String> {
    let dials = over(cell, |block| {
        let counts = block.resources.as_ref()?.backend_counts.as_ref()?;
        (counts.requests > 0).then(|| counts.accepted as f64 / counts.requests as f64)
    })?;
    Some(match dials {
        d if d > 0.5 => format!(
            "it opened {} upstream connections for each request: none are reused",
            number(d)
        ),
        d if d > 0.05 => format!(
            "upstream connections are reused for {} requests each",
            number(1.0 / d)
        ),
        _ => "upstream connections are reused".to_string(),
    })
}

fn failed(cell: &Cell) -> Vec<String> {
    let count_of = |class: FailureClass| -> u64 {
        cell.blocks
            .iter()
            .flat_map(Block::failures)
            .filter(|failures| failures.class == class)
            .map(|failures| failures.count)
            .sum()
    };
    let example = |class: FailureClass| {
        let all = cell.blocks.iter().flat_map(Block::failures);
        let mut of_class = all.filter(|failures| failures.class == class);
        of_class.find_map(|failures| failures.example.clone())
    };
    let classes = FailureClass::ALL
        .into_iter()
        .filter(|class| count_of(*class) > 0);
    classes
        .map(|class| {
            let ours = if class.is_ours() {
                " (on the measuring side: the cell says nothing about the server)"
            } else {
                ""
            };
            let example = example(class).map_or(String::new(), |text| format!(", such as: {text}"));
            format!(
                "{} {}{ours}{example}",
                count(count_of(class) as f64),
                class.words()
            )
        })
        .collect()
}

fn known(cell: &Cell) -> Vec<String> {
    let marks = cell.blocks.iter().flat_map(|block| {
        block
            .marks
            .iter()
            .map(|mark| format!("block {}: {}", block.number, mark.text))
    });
    let checks = cell
        .blocks
        .iter()
        .flat_map(|block| &block.checks)
        .filter(|check| check.holds != Some(true));
    let checks = checks.map(|check| {
        let word = if check.holds.is_none() {
            "could not be seen"
        } else {
            "does not hold"
        };
        format!("{} {word}: {}", check.claim, check.seen)
    });
    let mut lines: Vec<String> = marks.chain(checks).collect();
    lines.dedup();
    let not_measured: Vec<String> = cell
        .blocks
        .iter()
        .flat_map(|block| block.load.engine.not_measured.iter().cloned())
        .collect();
    if let Some(engine) = cell
        .blocks
        .first()
        .map(|block| &block.load.engine)
        .filter(|engine| !engine.not_measured.is_empty())
    {
        lines.push(format!(
            "not measured by {}: {}",
            engine.name,
            not_measured[..engine.not_measured.len()].join(", ")
        ));
    }
    lines
}
