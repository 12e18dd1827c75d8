//! What requests cost the server, as counts that are the same on every run: instructions, allocations and system calls
//! per request. The server runs under valgrind's callgrind, which counts them; a busy machine changes nothing.

mod callgrind;
mod client;
mod figures;
mod kinds;
mod lab;
mod server;
mod upstream;

use std::path::{Path, PathBuf};
use std::process::Command;

use callgrind::Counts;
use figures::Figures;
use kinds::{KINDS, Kind, TAUGHT};
use server::{Server, Under};

/// The file with the committed figures, relative to the root.
const COMMITTED: &str = "xtask/costs.toml";

/// The environment variable that names the program to measure, as for `bench.py`.
const PROGRAM: &str = "SLUICE_BIN";

/// The one that names the lab, which sends requests over HTTP/3 and those of a training. By default it stands beside the
/// program.
pub const LAB: &str = "SLUICE_LAB_BIN";

/// The programs that take part.
struct Programs {
    /// The one to measure.
    server: PathBuf,
    /// The load generator for HTTP/3.
    lab: PathBuf,
}

/// Measures the kinds of requests called `names`, all of them if it is empty, and prints them beside the committed
/// figures. With `BLESS=1` they become the committed ones.
pub fn print(root: &Path, names: &[&str]) -> bool {
    if let Some(unknown) = names
        .iter()
        .find(|name| !KINDS.iter().any(|kind| kind.name == **name))
    {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        eprintln!(
            "no kind of request is called `{unknown}`; there are {}",
            known.join(", ")
        );
        return false;
    }
    match measure_all(root, names) {
        Ok(()) => true,
        Err(reason) => {
            eprintln!("cost: {reason}");
            false
        }
    }
}

fn measure_all(root: &Path, names: &[&str]) -> Result<(), String> {
    let chosen: Vec<&Kind> = (KINDS.iter())
        .filter(|kind| names.is_empty() || names.contains(&kind.name))
        .collect();
    let programs = programs(root, chosen.iter().any(|kind| kind.protocol.needs_lab()))?;
    let path = root.join(COMMITTED);
    let mut figures = Figures::read(&path)?;
    let folder = root.join("target/cost");
    println!(
        "per request                 instructions    before        allocations    system calls, clock reads"
    );
    for kind in chosen {
        let counts = measure(&programs, &folder.join(kind.name), kind)?;
        println!("{}", line(kind.name, &counts, figures.of(kind.name)));
        figures.set(kind.name, counts);
    }
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        figures.write(&path)?;
    }
    Ok(())
}

/// The programs: the named ones, or what `cargo build --release` makes. The lab is built only if it is needed.
fn programs(root: &Path, needs_lab: bool) -> Result<Programs, String> {
    let lab = std::env::var_os(LAB).map(PathBuf::from);
    let beside = |server: PathBuf| Programs {
        lab: lab
            .clone()
            .unwrap_or_else(|| server.with_file_name("sluice-lab")),
        server,
    };
    if let Some(server) = std::env::var_os(PROGRAM) {
        return Ok(beside(server.into()));
    }
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--package", "sluice"]);
    if needs_lab && lab.is_none() {
        build.args(["--package", "sluice-lab"]);
    }
    match build.current_dir(root).status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("`cargo build --release` failed: {status}")),
        Err(error) => return Err(format!("`cargo` cannot be started: {error}")),
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root.join("target"));
    Ok(beside(target.join("release/sluice")))
}

fn measure(programs: &Programs, folder: &Path, kind: &Kind) -> Result<Counts, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", kind.name);
    let upstream = upstream::start().map_err(failed)?;
    let server = Server::start(&programs.server, folder, kind, upstream, &Under::Callgrind)?;
    let send = |count| client::send(&programs.lab, server.port(), kind, count).map_err(failed);
    send(kind.requests / 5 + 1)?;
    server.begin_counting()?;
    if !kind.protocol.needs_lab() {
        send(kind.requests)?;
        return server.counts(kind.requests);
    }
    // The lab's handshakes cost as much as hundreds of requests: what one request costs with them is taken off.
    send(1)?;
    let opening = server.counts(kind.requests)?;
    send(kind.requests + 1)?;
    Ok(server.counts(kind.requests)?.without(opening))
}

/// Sends requests of every kind to `program`, a build with LLVM's instruments, which leaves its counts in `profiles`.
/// `generator` is `sluice-lab`.
pub fn train(
    program: &Path,
    generator: &Path,
    folder: &Path,
    profiles: &Path,
) -> Result<(), String> {
    for kind in KINDS.iter().chain(TAUGHT) {
        let upstream = upstream::start().map_err(|error| format!("{}: {error}", kind.name))?;
        let under = Under::Instruments {
            profiles: profiles.to_owned(),
        };
        let server = Server::start(program, &folder.join(kind.name), kind, upstream, &under)?;
        lab::load(generator, kind, server.port())
            .map_err(|error| format!("{}: {error}", kind.name))?;
        server.stop()?;
    }
    Ok(())
}

/// A line of the table. A change below a thousandth is not shown: runs differ by about as much.
fn line(name: &str, now: &Counts, before: Option<Counts>) -> String {
    let was = before.map_or_else(
        || "new".to_owned(),
        |before| {
            let share = now.instructions / before.instructions - 1.0;
            match share.abs() < 0.001 {
                true => format!("{:.0}", before.instructions),
                false => format!("{:.0} ({:+.1} %)", before.instructions, share * 100.0),
            }
        },
    );
    let column = |now: f64, before: Option<f64>| match before {
        Some(before) if (now - before).abs() >= 0.05 => format!("{now:.1} ({before:.1})"),
        Some(_) | None => format!("{now:.1}"),
    };
    format!(
        "{name:24} {:>15.0}    {was:18} {:>8} {:>15}",
        now.instructions,
        column(now.allocations, before.map(|before| before.allocations)),
        column(now.system_calls, before.map(|before| before.system_calls)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_what_has_changed() {
        let counts = |instructions, allocations| Counts {
            instructions,
            allocations,
            system_calls: 3.0,
        };
        let now = counts(8100.0, 1.0);
        assert!(line("fixed", &now, None).contains("new"));
        assert!(line("fixed", &now, Some(counts(8100.4, 1.0))).contains("8100  "));
        let grown = line("fixed", &now, Some(counts(8000.0, 0.0)));
        assert!(
            grown.contains("8000 (+1.2 %)") && grown.contains("1.0 (0.0)"),
            "{grown}"
        );
    }
}
