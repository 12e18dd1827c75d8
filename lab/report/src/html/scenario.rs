//! Phases and sessions of a scenario, and the machines that generated a load together: sums over all blocks of a cell.

use super::{listed, table_html};
use crate::view::Seen;
use sluice_audit::finding::{count, number, percent};
use sluice_load::result::{
    Distribution, Histogram, Load, LoadMachine, LoadPhase, LoadSession, Mode,
};

/// The tables of a cell; nothing for the same load all the time from one machine.
pub fn write(seen: &Seen<'_>, out: &mut String) {
    let loads: Vec<&Load> = seen.cell.blocks.iter().map(|block| &block.load).collect();
    let Some(first) = loads.first() else {
        return;
    };
    let level = match first.asked.mode {
        Mode::Closed => "clients",
        Mode::Open { .. } => "sessions/s",
    };
    let headings = [
        "phase",
        "from",
        "length",
        level,
        "successful",
        "per second",
        "failed",
        "median",
        "p99",
    ];
    let rows = first.phases.iter().enumerate();
    table(out, &headings, rows.map(|(at, one)| phase(&loads, at, one)));
    let headings = [
        "session",
        "weight",
        "completed",
        "failed",
        "unfinished",
        "median",
        "p99",
    ];
    let rows = first.sessions.iter().enumerate();
    table(
        out,
        &headings,
        rows.map(|(at, one)| session(&loads, at, one)),
    );
    let headings = [
        "machine",
        "CPU",
        "connections",
        "successful",
        "failed",
        "busiest thread",
        "clock ahead",
        "± at most",
    ];
    let rows = first.machines.iter().enumerate();
    table(
        out,
        &headings,
        rows.map(|(at, one)| machine(&loads, at, one)),
    );
}

fn table(out: &mut String, headings: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        let headings: Vec<String> = headings.iter().map(|one| one.to_string()).collect();
        out.push_str(&table_html(&headings, &rows));
    }
}

/// Latencies of all blocks.
fn merged<'a>(latencies: impl Iterator<Item = &'a Distribution>) -> Distribution {
    let mut all = Histogram::new();
    latencies
        .filter_map(|latency| latency.hdr.as_ref())
        .for_each(|hdr| all.merge(hdr));
    Distribution::of(all)
}

fn phase(loads: &[&Load], at: usize, first: &LoadPhase) -> Vec<String> {
    let all = || loads.iter().filter_map(|load| load.phases.get(at));
    let ok: u64 = all().map(|one| one.ok).sum();
    let seconds: f64 = all().map(|one| one.duration_s).sum();
    let latency = merged(all().map(|one| &one.latency));
    let level = match first.from == first.to {
        true => number(first.from),
        false => format!("{} to {}", number(first.from), number(first.to)),
    };
    vec![
        first.name.clone(),
        format!("{} s", number(first.begin_s)),
        format!("{} s", number(first.duration_s)),
        level,
        count(ok as f64),
        number(ok as f64 / seconds.max(1e-9)),
        count(all().map(|one| one.failed).sum::<u64>() as f64),
        listed(&latency, 50.0),
        listed(&latency, 99.0),
    ]
}

fn session(loads: &[&Load], at: usize, first: &LoadSession) -> Vec<String> {
    let all = || loads.iter().filter_map(|load| load.sessions.get(at));
    let sum = |what: fn(&LoadSession) -> u64| count(all().map(what).sum::<u64>() as f64);
    let duration = merged(all().map(|one| &one.duration));
    vec![
        first.name.clone(),
        first.weight.to_string(),
        sum(|one| one.completed),
        sum(|one| one.failed),
        sum(|one| one.unfinished),
        listed(&duration, 50.0),
        listed(&duration, 99.0),
    ]
}

fn machine(loads: &[&Load], at: usize, first: &LoadMachine) -> Vec<String> {
    let all = || loads.iter().filter_map(|load| load.machines.get(at));
    let most = |what: fn(&LoadMachine) -> f64| all().map(what).fold(0.0, f64::max);
    vec![
        first.name.clone(),
        format!("{} × {}", first.cpus, first.cpu_model),
        count(first.connections as f64),
        count(all().map(|one| one.ok).sum::<u64>() as f64),
        count(all().map(|one| one.failed).sum::<u64>() as f64),
        percent(most(|one| one.busiest)),
        format!("{:.3} ms", first.clock_offset_s * 1e3),
        format!("{:.3} ms", most(|one| one.clock_bound_s) * 1e3),
    ]
}
