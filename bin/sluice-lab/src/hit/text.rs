//! The printed report of `lab hit`: the load, the results, and how certain they are.

use std::fmt::Write;

use sluice_audit::finding::{percent, resolved};
use sluice_audit::ours;
use sluice_experiment::thresholds::{FailIf, Finding};
use sluice_load::outcome::Refused;
use sluice_load::quantity::{bytes, thousands, time};
use sluice_load::result::{Block, Cell, Distribution, Histogram, Load, Mode};
use sluice_report::view::Stat;

/// Percentiles that are printed, if the sample supports them.
const SHOWN: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// The lab's own engine.
const NATIVE: &str = "native";

/// Utilization above which the load generator may be what is measured.
const BUSY_MAX: f64 = 0.85;

/// The whole report.
pub fn report(load: &Load) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_report(load, &mut text);
    text
}

fn write_report(load: &Load, out: &mut String) -> std::fmt::Result {
    let asked = &load.asked;
    write_asked(load, out)?;
    let per_s = |count: u64| thousands(count as f64 / load.window_s.max(1e-9));
    let words = words(&asked.protocol);
    writeln!(
        out,
        "  {:14}{:>12}   {}/s   {}/s received",
        words.responses,
        thousands(load.ok as f64),
        per_s(load.ended_ok),
        bytes(load.transfer.received_bytes as f64 / load.window_s.max(1e-9))
    )?;
    write_failures(load, out)?;
    if let Some(due) = load.due {
        writeln!(out, "  due           {:>12}", thousands(due as f64))?;
    }
    writeln!(out)?;
    let origin = match asked.mode {
        Mode::Closed => words.total,
        Mode::Open { .. } => "total (from when due)",
    };
    write_times(origin, Some(&load.latency.total), out)?;
    if !matches!(asked.mode, Mode::Closed) {
        write_times("  waited until sent", load.latency.wait.as_ref(), out)?;
        write_times("  from when sent", load.latency.service.as_ref(), out)?;
    }
    let first_byte = load
        .latency
        .first_byte
        .as_ref()
        .filter(|_| words.has_first_byte);
    write_times("first byte", first_byte, out)?;
    write_times("connect", load.latency.connect.as_ref(), out)?;
    write_times("TLS handshake", load.latency.tls.as_ref(), out)?;
    write_times(words.opening, load.latency.opening.as_ref(), out)?;
    for part in &load.parts {
        let (ok, failed) = (thousands(part.ok as f64), thousands(part.failed as f64));
        writeln!(
            out,
            "  {} (weight {}): {ok} successful, {failed} failed",
            part.name, part.weight
        )?;
        write_times("    total", Some(&part.latency), out)?;
    }
    write_scenario(load, out)?;
    write_machines(load, out)?;
    writeln!(out)?;
    if load.engine.name != NATIVE {
        return write_foreign(load, out);
    }
    write_connections(load, out)?;
    write_held(load, out)?;
    write_generator(load, out)
}

/// Phases and sessions of a scenario.
fn write_scenario(load: &Load, out: &mut String) -> std::fmt::Result {
    let unit = match load.asked.mode {
        Mode::Closed => "clients",
        Mode::Open { .. } => "sessions/s",
    };
    for phase in &load.phases {
        let level = match phase.from == phase.to {
            true => format!("{} {unit}", phase.from),
            false => format!("{} to {} {unit}", phase.from, phase.to),
        };
        let per_s = phase.ok as f64 / phase.duration_s.max(1e-9);
        writeln!(
            out,
            "  phase {} ({} s, {level}): {} successful, {}/s, {} failed",
            phase.name,
            phase.duration_s,
            thousands(phase.ok as f64),
            thousands(per_s),
            thousands(phase.failed as f64)
        )?;
        write_times("    total", Some(&phase.latency), out)?;
    }
    for session in &load.sessions {
        writeln!(
            out,
            "  session {} (weight {}): {} completed, {} failed, {} unfinished",
            session.name,
            session.weight,
            thousands(session.completed as f64),
            thousands(session.failed as f64),
            thousands(session.unfinished as f64)
        )?;
        write_times("    whole session", Some(&session.duration), out)?;
    }
    Ok(())
}

/// What each of several machines did.
fn write_machines(load: &Load, out: &mut String) -> std::fmt::Result {
    for machine in &load.machines {
        writeln!(
            out,
            "  {}: {} connections, {} successful, {} failed, {:.0} % busy, clock {:+.3} ms (± {:.3} ms)",
            machine.name,
            thousands(machine.connections as f64),
            thousands(machine.ok as f64),
            thousands(machine.failed as f64),
            machine.busiest * 100.0,
            machine.clock_offset_s * 1e3,
            machine.clock_bound_s * 1e3
        )?;
    }
    Ok(())
}

/// The load that was requested, and whether it ended early.
fn write_asked(load: &Load, out: &mut String) -> std::fmt::Result {
    let asked = &load.asked;
    if let Some(name) = &asked.scenario {
        writeln!(out, "  scenario `{name}`")?;
    }
    let mode = match asked.mode {
        Mode::Open { rate, .. } if asked.scenario.is_some() => {
            format!("open loop of {}/s on average", thousands(rate))
        }
        Mode::Closed => "closed loop".to_string(),
        Mode::Open { rate, poisson } => {
            let gaps = if poisson { " in random gaps" } else { "" };
            format!("open loop of {}/s{gaps}", thousands(rate))
        }
    };
    writeln!(out, "{} {}", asked.method, asked.url)?;
    let warmup = load.warmup_words();
    writeln!(
        out,
        "  {}, {mode}, {} connections, depth {}, {} threads, {:.2} s {warmup}",
        asked.protocol, asked.connections, asked.depth, asked.threads, load.window_s
    )?;
    if load.interrupted {
        let of = match asked.requests_max {
            Some(count) => format!("{} requests", thousands(count as f64)),
            None => format!("{:.0} s", asked.duration_s),
        };
        writeln!(
            out,
            "  interrupted: these are the figures until then, of {of}"
        )?;
    }
    writeln!(out, "  verified in every response: {}\n", asked.verify)?;
    Ok(())
}

/// One block in a line.
pub fn block_line(url: &str, block: &Block, of: usize) -> String {
    let load = &block.load;
    let mut text = format!(
        "[{}/{of}] {url} {:>9}/s",
        block.number + 1,
        thousands(load.ok_per_s())
    );
    for percent in [50.0, 99.0] {
        if let Some(ns) = load
            .latency
            .total
            .percentile(percent)
            .filter(|ns| *ns > 0.0)
        {
            text += &format!("  p{percent} {}", time(ns));
        }
    }
    if let Some(us) = block.cpu_us_per_ok() {
        text += &format!("  CPU {} us", resolved(us, block.cpu_us_step()));
    }
    for mark in &block.marks {
        text += &format!("  [{}]", mark.text);
    }
    if load.interrupted {
        text += "  [interrupted, does not count]";
    }
    text + "\n"
}

/// A target over its blocks: rates and costs as medians with intervals, latencies merged, failures pooled.
pub fn summary(cell: &Cell) -> String {
    let mut out = format!("{}, {} blocks\n", cell.axis("subject"), cell.blocks.len());
    if cell.blocks.is_empty() {
        return out;
    }
    let row = ours::row(cell);
    let stat = |figure: &str| {
        let values = row.blocks.iter().filter_map(|row| row.figure(figure));
        Stat::of(&values.collect::<Vec<f64>>())
    };
    // Writing to a string does not fail.
    if let Some(rate) = stat("goodput") {
        let ends = rate.ends().map_or(String::new(), |(low, high)| {
            format!(
                ", 95 % interval {} to {}/s",
                thousands(low),
                thousands(high)
            )
        });
        let spread = rate.uncertainty();
        let _ = writeln!(
            out,
            "  successful    {:>12}/s  {spread}{ends}",
            thousands(rate.point)
        );
    }
    let counts = cell.blocks.iter().map(Block::counts);
    let (ok, failed) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let share = percent(failed as f64 / (ok + failed).max(1) as f64);
    let (failed, all) = (thousands(failed as f64), thousands((ok + failed) as f64));
    let _ = writeln!(out, "  failed        {failed:>12} of {all}, {share}");
    for (class, count) in &row.failures {
        let count = thousands(*count as f64);
        let _ = writeln!(out, "    {count:>23}   {}", class.words());
    }
    let mut merged = Histogram::new();
    let hdrs = cell
        .blocks
        .iter()
        .filter_map(|block| block.load.latency.total.hdr.as_ref());
    hdrs.for_each(|hdr| merged.merge(hdr));
    let _ = write_times(
        "latency, all blocks",
        Some(&Distribution::of(merged)),
        &mut out,
    );
    if let Some(cpu) = stat("cpu_us") {
        let shown = resolved(cpu.point, row.cpu_us_step);
        let _ = writeln!(
            out,
            "  CPU per response      {shown} us  {}",
            cpu.uncertainty()
        );
    }
    out
}

/// Prints the conditions of `--fail` that hold. Returns whether there are any; an error if a figure is missing.
pub fn failed_conditions(conditions: &[FailIf], cell: &Cell) -> Result<bool, Refused> {
    let mut any = false;
    for condition in conditions {
        match condition.check(cell) {
            Finding::Passed => {}
            Finding::Failed(text) => {
                any = true;
                println!("failed: {}: {text}", cell.axis("subject"));
            }
            Finding::Unknown(text) => {
                let subject = cell.axis("subject");
                return Err(Refused::new(format!(
                    "--fail cannot be decided for {subject}: {text}"
                )));
            }
        }
    }
    Ok(any)
}

/// The words for requests and responses, depending on the protocol.
struct Words {
    responses: &'static str,
    total: &'static str,
    opening: &'static str,
    has_first_byte: bool,
}

fn words(protocol: &str) -> Words {
    let (responses, total, opening, has_first_byte) = if protocol.starts_with("websocket") {
        ("echoes", "round trip", "upgrade", false)
    } else if protocol.starts_with("server-sent") {
        ("events", "gap between events", "first event", false)
    } else {
        ("successful", "total", "opening", true)
    };
    Words {
        responses,
        total,
        opening,
        has_first_byte,
    }
}

/// Connections held open beside the load.
fn write_held(load: &Load, out: &mut String) -> std::fmt::Result {
    let Some(held) = &load.held else {
        return Ok(());
    };
    for (name, wanted, open) in [
        ("idle", held.idle, held.idle_open),
        ("slow readers", held.slow, held.slow_open),
    ] {
        if wanted > 0 {
            let (wanted, open) = (thousands(wanted as f64), thousands(open as f64));
            write!(out, "  held: {open} of {wanted} {name} open until the end")?;
            if name != "idle" {
                let all = bytes(held.slow_received_bytes as f64);
                write!(out, ", {all} in {} responses read", held.slow_responses)?;
            }
            writeln!(out)?;
        }
    }
    for (class, count) in &held.lost {
        writeln!(
            out,
            "    {:>23}   {}",
            thousands(*count as f64),
            class.words()
        )?;
    }
    if let (Some(without), Some(with)) = (held.rss_without_bytes, held.rss_with_bytes) {
        write!(
            out,
            "  memory of the server: {} without them, {} with them",
            bytes(without as f64),
            bytes(with as f64)
        )?;
        match held.rss_each_bytes() {
            Some(each) => writeln!(out, ", {} each", bytes(each))?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

/// Describes an external load generator, and what it does not measure.
fn write_foreign(load: &Load, out: &mut String) -> std::fmt::Result {
    let engine = &load.engine;
    let version = engine.version.as_deref().unwrap_or("of unknown version");
    writeln!(out, "  load generator: {} ({version})", engine.name)?;
    writeln!(out, "  not measured: {}", engine.not_measured.join(", "))
}

fn write_failures(load: &Load, out: &mut String) -> std::fmt::Result {
    let share = load.failed_share() * 100.0;
    writeln!(
        out,
        "  failed        {:>12}   {share:.2} %",
        thousands(load.failed() as f64)
    )?;
    for failures in &load.failures {
        let statuses: Vec<String> = failures
            .statuses
            .iter()
            .map(|(status, count)| format!("{count} x {status}"))
            .collect();
        let example = failures.example.as_deref().unwrap_or_default();
        let detail = if statuses.is_empty() {
            example.to_string()
        } else {
            statuses.join(", ")
        };
        writeln!(
            out,
            "    {:>23}   {} ({detail})",
            thousands(failures.count as f64),
            failures.class.words()
        )?;
    }
    Ok(())
}

fn write_times(name: &str, of: Option<&Distribution>, out: &mut String) -> std::fmt::Result {
    let Some(of) = of.filter(|of| of.count > 0) else {
        return Ok(());
    };
    write!(out, "  {name:22}")?;
    if let Some(min) = of.min_ns {
        write!(out, "min {}  ", time(min))?;
    }
    if let Some(mean) = of.mean_ns {
        write!(out, "mean {}", time(mean))?;
    }
    for percent in SHOWN {
        if let Some((_, ns)) = of.percentiles.iter().find(|(at, _)| *at == percent) {
            write!(out, "  p{percent} {}", time(*ns))?;
        }
    }
    match of.max_ns {
        Some(max) => writeln!(out, "  max {}", time(max)),
        None => writeln!(out),
    }
}

fn write_connections(load: &Load, out: &mut String) -> std::fmt::Result {
    let connections = &load.connections;
    let each = connections.responses as f64 / (connections.opened.max(1)) as f64;
    write!(
        out,
        "  connections: {} opened, {} failed, {} closed by the server, {each:.1} responses each",
        thousands(connections.opened as f64),
        thousands(connections.failed as f64),
        thousands(connections.closed_by_server as f64)
    )?;
    if let (Some(version), Some(cipher)) = (&connections.tls_version, &connections.cipher) {
        write!(out, ", {version} {cipher}")?;
    }
    if let Some(resumed) = connections.resumed {
        write!(out, ", {} resumed", thousands(resumed as f64))?;
    }
    writeln!(out)?;
    let censored = &load.censored;
    if censored.in_flight > 0 {
        writeln!(
            out,
            "  in flight when the window ended: {}, the oldest for {}; without a response: {}",
            censored.in_flight,
            time(censored.oldest_ns as f64),
            censored.without_response
        )?;
    }
    Ok(())
}

fn write_generator(load: &Load, out: &mut String) -> std::fmt::Result {
    let Some(generator) = &load.generator else {
        return Ok(());
    };
    write!(
        out,
        "  generator: busiest thread {:.0} % busy",
        generator.busiest * 100.0
    )?;
    if let Some(lag) = generator.loop_lag.percentile(99.0) {
        write!(out, ", loop iteration p99 {}", time(lag))?;
    }
    if generator.send_lag.count > 0
        && let (Some(lag), Some(max)) = (
            generator.send_lag.percentile(99.0),
            generator.send_lag.max_ns,
        )
    {
        write!(out, ", sent late p99 {} max {}", time(lag), time(max))?;
    }
    writeln!(out)?;
    if generator.busiest > BUSY_MAX {
        writeln!(
            out,
            "  the generator was saturated: throughput and latency are its own; use more --threads or less load"
        )?;
    }
    Ok(())
}
