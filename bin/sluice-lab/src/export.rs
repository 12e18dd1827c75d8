//! The commands `import`, `export`, `merge` and `show`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use sluice_audit::read::Hints;
use sluice_experiment::import::{self, Source};
use sluice_experiment::scenario::openapi::{self, Changes};
use sluice_experiment::scenario::{self, har};
use sluice_load::generator::trust::TlsOptions;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::post;
use sluice_load::result::RunResult;
use sluice_report::load::load;
use sluice_report::summary::summary;
use sluice_report::{csv, export, markdown, merge, otlp};

use crate::{audit, hit};

/// Options of `lab export`.
#[derive(Debug, Args)]
pub struct ExportOptions {
    /// A result, or the folder with its `result.json`
    result: PathBuf,
    /// Format
    #[arg(long, value_enum)]
    format: Format,
    /// Output file (default: standard output)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// OTLP: send the metrics to this collector instead (default: OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or
    /// OTEL_EXPORTER_OTLP_ENDPOINT with /v1/metrics, if --out is not given either)
    #[arg(long, value_name = "URL", conflicts_with = "out")]
    to: Option<String>,
    /// OTLP: trust the certificates in this file instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Formats of other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One line per block
    Csv,
    /// Figures of cells and blocks without distributions and courses over time, in JSON
    Summary,
    /// HDR histogram log with the latencies of each block
    Hlog,
    /// Metrics for a push gateway or a textfile collector
    Prometheus,
    /// Metrics for an OpenTelemetry collector, in JSON
    Otlp,
}

/// Runs `lab export`.
pub fn export(options: &ExportOptions) -> Outcome {
    let result = load(&options.result).map_err(Refused)?;
    let text = match options.format {
        Format::Csv => csv::write(&result),
        Format::Summary => summary(&result).to_string() + "\n",
        Format::Hlog => export::hlog(&result),
        Format::Prometheus => export::prometheus(&result),
        Format::Otlp => {
            let text = otlp::otlp(&result).to_string();
            let collector = match &options.out {
                Some(_) => None,
                None => options.to.clone().or_else(collector),
            };
            if let Some(url) = collector {
                return send(&url, text, options);
            }
            text + "\n"
        }
    };
    if options.format != Format::Otlp && (options.to.is_some() || options.ca.is_some()) {
        return Err(Refused::new("--to and --ca need --format otlp"));
    }
    match &options.out {
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Refused(format!("{}: {error}", path.display())))?,
        None => print!("{text}"),
    }
    Ok(Completion::Yes)
}

/// The collector that the environment names, by the rules of OpenTelemetry.
fn collector() -> Option<String> {
    let of = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    of("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT").or_else(|| {
        let base = of("OTEL_EXPORTER_OTLP_ENDPOINT")?;
        Some(format!("{}/v1/metrics", base.trim_end_matches('/')))
    })
}

/// Headers of the environment, `name=value,name=value` with percent-encoded values: credentials, which do not belong on a
/// command line.
fn collector_headers() -> Vec<(String, String)> {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let lists = [
        of("OTEL_EXPORTER_OTLP_HEADERS"),
        of("OTEL_EXPORTER_OTLP_METRICS_HEADERS"),
    ];
    let pairs = lists.iter().flat_map(|list| list.split(','));
    let pairs = pairs.filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.trim().to_string(), decoded(value.trim())));
    pairs.collect()
}

/// Percent-decodes a text.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        match byte.filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends metrics to a collector.
fn send(url: &str, text: String, options: &ExportOptions) -> Outcome {
    let mut fields = vec![("Content-Type".to_string(), "application/json".to_string())];
    fields.extend(collector_headers());
    let tls = TlsOptions {
        ca: options.ca.clone(),
        ..TlsOptions::default()
    };
    let response = post::post(url, fields, text.into_bytes(), &tls).map_err(Refused)?;
    let failed = |text: String| Err(Refused(format!("{url}: {text}")));
    if !(200..300).contains(&response.status) {
        let body = String::from_utf8_lossy(&response.body);
        let body: String = body.chars().take(200).collect();
        return failed(format!("status {}: {}", response.status, body.trim()));
    }
    match otlp::rejected(&response.body) {
        Some(reason) => failed(reason),
        None => {
            eprintln!("sent to {url}");
            Ok(Completion::Yes)
        }
    }
}

/// Options of `lab import`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ImportOptions {
    #[command(subcommand)]
    scenario: Option<ImportScenario>,
    /// Output of wrk, hey, ab, k6, h2load, oha, vegeta or rpc-bench, or a Markdown or CSV table; each file is a subject of
    /// its name
    #[arg(required = true)]
    files: Vec<String>,
    /// Input format (default: detected from content)
    #[arg(long, value_name = "KIND")]
    from: Option<String>,
    /// Length of the measured window in seconds, if the input lacks it
    #[arg(long, value_name = "N")]
    seconds: Option<f64>,
    /// Number of clients of a closed loop, if the input lacks it
    #[arg(long, value_name = "N")]
    clients: Option<f64>,
    /// Output file
    #[arg(long, value_name = "FILE", required = true)]
    out: Option<PathBuf>,
}

/// Sources of scenarios.
#[derive(Debug, Subcommand)]
enum ImportScenario {
    /// Convert a recording of a browser (HTTP Archive) to a scenario
    Har {
        /// The recording
        file: PathBuf,
        /// Take the requests to this host (default: that of the first request)
        #[arg(long)]
        host: Option<String>,
        /// Output file (default: standard output)
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Convert an OpenAPI 3 description in JSON or YAML to a scenario
    Openapi {
        /// The description
        file: PathBuf,
        /// Take operations that may change data (POST, PUT, PATCH, DELETE) as well
        #[arg(long)]
        changes: bool,
        /// Output file (default: standard output)
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

/// Converts a description of requests to a scenario file, and reports what it omits.
fn import_scenario(from: &ImportScenario) -> Outcome {
    let text_of = |file: &Path| -> Result<(String, String), Refused> {
        let text = scenario::read_text(file).map_err(Refused)?;
        Ok((file.display().to_string(), text))
    };
    let (written, out) = match from {
        ImportScenario::Har { file, host, out } => {
            let (name, text) = text_of(file)?;
            (har::convert(&name, &text, host.as_deref()), out)
        }
        ImportScenario::Openapi { file, changes, out } => {
            let (name, text) = text_of(file)?;
            let changes = match changes {
                true => Changes::Take,
                false => Changes::Omit,
            };
            (openapi::convert(&name, &text, changes), out)
        }
    };
    let written = written.map_err(Refused)?;
    match out {
        Some(path) => {
            is_new(path)?;
            std::fs::write(path, written.text())
                .map_err(|error| Refused(format!("{}: {error}", path.display())))?;
        }
        None => print!("{}", written.text()),
    }
    eprintln!("{} requests", written.steps.len());
    written
        .omissions()
        .iter()
        .for_each(|line| eprintln!("{line}"));
    Ok(Completion::Yes)
}

/// Runs `lab import`.
pub fn import(options: &ImportOptions) -> Outcome {
    if let Some(scenario) = &options.scenario {
        return import_scenario(scenario);
    }
    let out = options.out.as_deref().unwrap_or(Path::new("result.json"));
    is_new(out)?;
    let format = audit::format(options.from.as_deref()).map_err(Refused)?;
    let source = |file: &String| {
        let name = Path::new(file).file_stem().unwrap_or_default();
        Ok(Source {
            name: name.to_string_lossy().into_owned(),
            text: audit::text_of(file)?,
        })
    };
    let sources: Result<Vec<Source>, String> = options.files.iter().map(source).collect();
    let hints = Hints {
        seconds: options.seconds,
        clients: options.clients,
        bytes: None,
    };
    let result = import::import(&sources.map_err(Refused)?, format, &hints).map_err(Refused)?;
    hit::write(out, &result)?;
    Ok(Completion::Yes)
}

/// Options of `lab merge`.
#[derive(Debug, Args)]
pub struct MergeOptions {
    /// Results of the same experiment on the same machine, or their folders
    #[arg(required = true, num_args = 2..)]
    results: Vec<PathBuf>,
    /// Output file
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Merge results of different machines, experiments or engines; a note says so
    #[arg(long)]
    force: bool,
}

/// Runs `lab merge`.
pub fn merge(options: &MergeOptions) -> Outcome {
    is_new(&options.out)?;
    let results: Result<Vec<RunResult>, String> =
        options.results.iter().map(|path| load(path)).collect();
    let merged = merge::merge(results.map_err(Refused)?, options.force);
    let merged = merged.map_err(|error| Refused(format!("{error}; --force merges them anyway")))?;
    hit::write(&options.out, &merged)?;
    Ok(Completion::Yes)
}

/// Options of `lab show`.
#[derive(Debug, Args)]
pub struct ShowOptions {
    /// A result, or the folder with its `result.json`
    result: PathBuf,
    /// Use the table layout of a study (000 to 004)
    #[arg(long, value_name = "STUDY")]
    shape: Option<String>,
}

/// Runs `lab show`.
pub fn show(options: &ShowOptions) -> Outcome {
    let result = load(&options.result).map_err(Refused)?;
    print!("{}", markdown::write(&result, options.shape.as_deref()));
    Ok(Completion::Yes)
}

/// Refuses to replace a file.
fn is_new(path: &Path) -> Result<(), Refused> {
    match path.exists() {
        true => Err(Refused(format!("{} already exists", path.display()))),
        false => Ok(()),
    }
}
