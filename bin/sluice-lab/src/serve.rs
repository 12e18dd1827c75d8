//! `lab serve`: the command line of the test upstreams.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};

use sluice_load::backend::http::{Faults, Respond};
use sluice_load::backend::streams::Stream;
use sluice_load::backend::{Corpus, counts, fastcgi, floor, http, relay, socket, streams};
use sluice_load::machine;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::quantity::{parse_bytes, parse_duration};
use sluice_load::random::made_body;

/// Minimum interval of events: without it, a stream would take a whole CPU.
const EVENTS_EVERY_MIN: Duration = Duration::from_micros(100);

/// Options of `lab serve`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Kind of server
    #[command(subcommand)]
    kind: Kind,
    /// Address to listen on: 127.0.0.1:8080 or unix:/path
    #[arg(long, short = 'l', global = true, default_value = "127.0.0.1:8081")]
    listen: String,
    /// Write the number of connections and requests to this file, twenty times a second
    #[arg(long, global = true)]
    counts: Option<PathBuf>,
}

#[derive(Subcommand, Clone, Debug)]
enum Kind {
    /// Minimal server: the same response to any input, without parsing
    Null(Body),
    /// Minimal proxy: one upstream connection per client, bytes copied without parsing
    Relay {
        /// Upstream address
        to: String,
    },
    /// An HTTP server with a fixed response, slow or faulty on request
    Respond(RespondOptions),
    /// A FastCGI responder with a fixed response
    Fastcgi(Body),
    /// A WebSocket server that echoes every message
    Websocket,
    /// A server of server-sent events (text/event-stream)
    Events(EventOptions),
}

/// The response body.
#[derive(Args, Clone, Debug)]
struct Body {
    /// Response body
    #[arg(long, default_value = "Hello, world!")]
    body: String,
    /// Read the response body from a file
    #[arg(long, conflicts_with = "body_bytes")]
    body_file: Option<PathBuf>,
    /// Generate a response body of this many bytes
    #[arg(long, value_parser = parse_bytes)]
    body_bytes: Option<u64>,
    /// Content-Type
    #[arg(long, default_value = "text/plain")]
    content_type: String,
    /// Close the connection after each response
    #[arg(long)]
    close: bool,
}

#[derive(Args, Clone, Debug)]
struct EventOptions {
    /// Interval between two events
    #[arg(long, value_parser = parse_duration, default_value = "100ms")]
    every: Duration,
    /// Bytes of data in each event
    #[arg(long, value_parser = parse_bytes, default_value = "64")]
    event_bytes: u64,
    /// End a stream after this many events; 0 for never
    #[arg(long, default_value_t = 0)]
    count: u64,
}

#[derive(Args, Clone, Debug)]
struct RespondOptions {
    #[command(flatten)]
    body: Body,
    /// Delay before each response
    #[arg(long, value_parser = parse_duration, default_value = "0s")]
    delay: Duration,
    /// Make the delay random (exponential) with the given mean
    #[arg(long)]
    random_delay: bool,
    /// Work on this many requests at a time, each for its delay; others wait (default: unlimited)
    #[arg(long)]
    concurrency: Option<usize>,
    /// Additional delay before the first response of each connection: the cost of connecting to a distant server
    #[arg(long, value_parser = parse_duration, default_value = "0s")]
    first_delay: Duration,
    /// Respond to JSON-RPC requests for this many different blocks instead, with bodies of 1.5 KB to 1.4 MB
    #[arg(long, value_name = "COUNT")]
    corpus: Option<usize>,
    /// Share of requests that get status 500, from 0 to 1
    #[arg(long, default_value_t = 0.0)]
    errors: f64,
    /// Share of requests whose connection is reset
    #[arg(long, default_value_t = 0.0)]
    resets: f64,
    /// Share of requests whose connection is closed in the middle of the body
    #[arg(long, default_value_t = 0.0)]
    cuts: f64,
    /// Random seed
    #[arg(long, default_value_t = 7)]
    seed: u64,
}

impl Body {
    fn bytes(&self) -> Result<Arc<[u8]>, Refused> {
        match (&self.body_file, self.body_bytes) {
            (Some(path), _) => {
                let read = fs::read(path);
                let read =
                    read.map_err(|error| Refused::new(format!("{}: {error}", path.display())))?;
                Ok(read.into())
            }
            (None, Some(count)) => Ok(made_body(count, 7).into()),
            (None, None) => Ok(self.body.as_bytes().into()),
        }
    }
}

/// Runs `lab serve` until the process is terminated.
pub fn run(options: &Options) -> Outcome {
    machine::raise_open_files();
    let broke = |error: std::io::Error| Refused::new(format!("{}: {error}", options.listen));
    let listener = socket::listen(&options.listen).map_err(broke)?;
    let counter = counts::Counter::new(options.counts.clone());
    let served = match &options.kind {
        Kind::Null(body) => {
            let response = http::response(&body.bytes()?, &body.content_type, 200, body.close);
            floor::serve(&listener, &response, body.close, counter)
        }
        Kind::Relay { to } => relay::serve(&listener, to, counter),
        Kind::Respond(respond) => {
            let shares = [respond.errors, respond.resets, respond.cuts];
            if shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
                return Err(Refused::new("a share is a number from 0 to 1"));
            }
            let respond = Respond {
                body: respond.body.bytes()?,
                content_type: respond.body.content_type.clone(),
                close: respond.body.close,
                delay: respond.delay,
                random_delay: respond.random_delay,
                concurrency: respond.concurrency,
                first_delay: respond.first_delay,
                corpus: respond.corpus.map(Corpus::make),
                faults: Faults {
                    errors: respond.errors,
                    resets: respond.resets,
                    cuts: respond.cuts,
                },
                seed: respond.seed,
            };
            http::serve(&listener, &respond, counter)
        }
        Kind::Websocket => streams::serve(&listener, &Stream::Echo, counter),
        Kind::Events(events) => {
            let stream = Stream::Events {
                every: events.every.max(EVENTS_EVERY_MIN),
                bytes: events.event_bytes as usize,
                count: events.count,
            };
            streams::serve(&listener, &stream, counter)
        }
        Kind::Fastcgi(body) => {
            fastcgi::serve(&listener, &body.bytes()?, &body.content_type, counter)
        }
    };
    served.map_err(broke)?;
    Ok(Completion::Yes)
}
