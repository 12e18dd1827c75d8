//! The command `audit`: its options, input and output, and its exit code.

use std::io::Read;
use std::path::Path;

use clap::{Args, ValueEnum};

use sluice_audit::evidence::Sheet;
use sluice_audit::finding::Weight;
use sluice_audit::limits::REPORT_BYTES_MAX;
use sluice_audit::read::{Format, Hints, read};
use sluice_audit::{audit, ours, print, studies};
use sluice_load::outcome::{Completion, Outcome, Refused};

/// Options of `lab audit`.
#[derive(Debug, Args)]
pub struct Options {
    /// A study (000 to 004), a result of `sluice-lab`, the output of wrk, hey, ab, k6, h2load, oha, vegeta or
    /// rpc-bench, a Markdown or CSV table, or `-` for stdin
    what: String,
    /// Input format (default: detected from content)
    #[arg(long, value_name = "KIND")]
    from: Option<String>,
    /// Length of the measured window in seconds, if the input lacks it
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    /// Number of clients of a closed loop, if the input lacks it
    #[arg(long, value_name = "N")]
    clients: Option<f64>,
    /// Bytes of one response, if the input lacks them
    #[arg(long, value_name = "N")]
    bytes: Option<f64>,
    /// Capacity of the network between load generator and server
    #[arg(long, value_name = "GBIT/S")]
    network: Option<f64>,
    /// Throughput of the load generator against a null server
    #[arg(long, value_name = "REQUESTS/S")]
    ceiling: Option<f64>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Shape::Text)]
    format: Shape,
    /// Exit with 1 if figures contradict each other
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// For a terminal
    Text,
    /// For a report or an issue
    Markdown,
    /// For programs
    Json,
}

/// Runs `lab audit`.
pub fn run(options: &Options) -> Outcome {
    let mut sheet = load(options).map_err(Refused)?;
    let conditions = &mut sheet.conditions;
    conditions.network_bits = options
        .network
        .map(|gigabits| gigabits * 1e9)
        .or(conditions.network_bits);
    conditions.generator_rate = options.ceiling.or(conditions.generator_rate);
    let findings = audit(&sheet);
    let text = match options.format {
        Shape::Text => print::text(&sheet, &findings),
        Shape::Markdown => print::markdown(&sheet, &findings),
        Shape::Json => print::json(&sheet, &findings),
    };
    print!("{text}");
    let contradicts = findings
        .iter()
        .any(|finding| finding.weight == Weight::Contradiction);
    Ok(if options.strict && contradicts {
        Completion::No
    } else {
        Completion::Yes
    })
}

fn load(options: &Options) -> Result<Sheet, String> {
    if let Some(study) = studies::study(&options.what) {
        return Ok(study?.sheet);
    }
    let format = format(options.from.as_deref())?;
    let text = text_of(&options.what)?;
    if let Some(sheet) = ours::read(&text) {
        return sheet.map_err(|error| format!("{}: {error}", options.what));
    }
    let hints = Hints {
        seconds: options.seconds,
        clients: options.clients,
        bytes: options.bytes,
    };
    let mut sheet =
        read(&text, format, &hints).map_err(|error| format!("{}: {error}", options.what))?;
    sheet.title = options.what.clone();
    Ok(sheet)
}

/// The format with this name; `None` to detect it.
pub fn format(name: Option<&str>) -> Result<Option<Format>, String> {
    let unknown = |name: &str| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        let names = names.join(", ");
        format!("unknown input format `{name}` (known: {names})")
    };
    let of_name = |name: &str| Format::of_name(name).ok_or_else(|| unknown(name));
    name.map(of_name).transpose()
}

/// The text of a file, of `result.json` in a folder, or of standard input for `-`.
pub fn text_of(what: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let limit = REPORT_BYTES_MAX + 1;
    let read = if what == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        let path = Path::new(what);
        let path = if path.is_dir() {
            path.join("result.json")
        } else {
            path.to_path_buf()
        };
        std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| format!("{what}: {error} (studies: {})", studies::IDS.join(", ")))?;
    if bytes.len() as u64 > REPORT_BYTES_MAX {
        return Err(format!(
            "{what}: larger than {} MiB",
            REPORT_BYTES_MAX >> 20
        ));
    }
    String::from_utf8(bytes).map_err(|_| format!("{what}: no text"))
}
