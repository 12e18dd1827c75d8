//! `sluice upstream`: shows the upstreams of a running server, and directs one of them.

use serde_json::{Value, json};
use sluice_admin::limits::EJECT_SECONDS_MAX;
use sluice_message::uri::encode_path;
use sluice_model::Duration;

use crate::Exit;
use crate::admin_client::{Client, Place};
use crate::messages::{Failed, MessageFormat};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    place: Place,
}

/// What happens to an upstream.
#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the upstreams (the default).
    List,
    /// Send an upstream no new requests, except those that a cookie binds to it.
    Drain(Target),
    /// Send an upstream requests again.
    Ready(Target),
    /// Send an upstream no requests for some time, not even those that a cookie binds to it.
    Eject {
        /// Address of the upstream, as the list shows it.
        upstream: String,
        /// For how long, up to 1h; 0s ends an ejection.
        #[arg(long = "for", value_name = "DURATION", value_parser = seconds, default_value = "30s")]
        seconds: u32,
    },
    /// Change the weight or the maximum number of requests of an upstream.
    Set {
        #[command(flatten)]
        target: Target,
        /// Its weight; `configured` for that of the configuration.
        #[arg(long, value_name = "N", value_parser = number)]
        weight: Option<Number>,
        /// The maximum number of requests at a time; `configured` for that of the configuration.
        #[arg(long, value_name = "N", value_parser = number)]
        max_requests: Option<Number>,
    },
}

#[derive(clap::Args, Debug)]
struct Target {
    /// Address of the upstream, as the list shows it.
    upstream: String,
    /// Keep it across reloads of the configuration.
    #[arg(long)]
    keep: bool,
}

/// Whole seconds; a part of one counts as one.
fn seconds(text: &str) -> Result<u32, String> {
    let read = Duration::parse(text).ok();
    let nanos = read.and_then(|duration| u64::try_from(duration.0).ok());
    let seconds = nanos.map(|nanos| nanos.div_ceil(1_000_000_000));
    let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
    seconds
        .filter(|seconds| *seconds <= EJECT_SECONDS_MAX)
        .ok_or_else(|| "use a duration up to 1h, such as 30s or 5m".to_owned())
}

/// A number, or the configured one.
#[derive(Clone, Copy, Debug)]
struct Number(Option<u32>);

fn number(text: &str) -> Result<Number, String> {
    match text {
        "configured" => Ok(Number(None)),
        text => match text.parse() {
            Ok(0) | Err(_) => Err("use a number from 1, or `configured`".to_owned()),
            Ok(number) => Ok(Number(Some(number))),
        },
    }
}

impl Args {
    /// Prints the upstreams, or the one that was directed.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let client = Client::new(self.place.address(format)?);
        let shown = match self.action.unwrap_or(Action::List) {
            Action::List => client.get(PATH, "application/json")?,
            Action::Drain(target) => direct(&client, &target, json!({ "state": "draining" }))?,
            Action::Ready(target) => direct(&client, &target, json!({ "state": "ready" }))?,
            Action::Eject { upstream, seconds } => {
                let seconds = match seconds {
                    0 => Value::Null,
                    seconds => json!(seconds),
                };
                let target = Target {
                    upstream,
                    keep: false,
                };
                direct(&client, &target, json!({ "eject_seconds": seconds }))?
            }
            Action::Set {
                target,
                weight,
                max_requests,
            } => {
                let mut direction = json!({});
                for (name, number) in [("weight", weight), ("max_requests", max_requests)] {
                    if let Some(Number(number)) = number {
                        direction[name] = json!(number);
                    }
                }
                if direction == json!({}) {
                    return Err(
                        Failed::new("nothing to set").help("give `--weight` or `--max-requests`")
                    );
                }
                direct(&client, &target, direction)?
            }
        };
        let shown: Value = serde_json::from_slice(&shown)
            .map_err(|error| Failed::new(format!("the server sent no JSON: {error}")))?;
        print(&shown);
        Ok(Exit::Done)
    }
}

const PATH: &str = "/reverse_proxy/upstreams";

fn direct(client: &Client, target: &Target, mut direction: Value) -> Result<Vec<u8>, Failed> {
    if target.keep {
        direction["keep"] = json!(true);
    }
    let mut path = format!("{PATH}/").into_bytes();
    encode_path(target.upstream.as_bytes(), &mut path);
    let path = String::from_utf8_lossy(&path);
    client.patch(&path, "application/json", direction.to_string().as_bytes())
}

/// A line for each upstream.
fn print(upstreams: &Value) {
    let one = [upstreams.clone()];
    let list = upstreams.as_array().map_or(&one[..], Vec::as_slice);
    let rows: Vec<[String; 7]> = list.iter().map(row).collect();
    let heads = [
        "ADDRESS", "STATE", "HEALTHY", "REQUESTS", "FAILS", "MAX", "WEIGHT",
    ];
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String; 7]| {
        let cells = cells.iter().zip(&widths);
        let padded: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    say!("{}", line(&heads.map(str::to_owned)));
    for row in &rows {
        say!("{}", line(row));
    }
}

/// The cells of one upstream. A number that is not counted or not directed is `-`.
fn row(upstream: &Value) -> [String; 7] {
    let text = |name: &str| match &upstream[name] {
        Value::Null => "-".to_owned(),
        Value::String(text) => sluice_diag::shown(text),
        other => other.to_string(),
    };
    let healthy = match upstream["healthy"].as_bool() {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => "-".to_owned(),
    };
    [
        text("address"),
        match upstream["ejected_for"].as_f64() {
            Some(left) => format!("ejected for {left:.0} s"),
            None => text("state"),
        },
        healthy,
        text("num_requests"),
        text("fails"),
        text("max_requests"),
        text("weight"),
    ]
}
