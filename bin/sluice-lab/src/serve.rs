//! `lab serve`: the command line of the backends.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};

use sluice_load::backend::http::{Faults, Respond};
use sluice_load::backend::streams::Stream;
use sluice_load::backend::{Corpus, counts, fastcgi, floor, http, relay, socket, streams};
use sluice_load::machine;
use sluice_load::outcome::{Answer, Outcome, Refused};
use sluice_load::quantity::{parse_bytes, parse_duration};
use sluice_load::random::made_body;

/// Between two events at least: without, a stream would take a whole processor.
const EVENTS_EVERY_MIN: Duration = Duration::from_micros(100);

/// Options of `lab serve`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What to be
    #[command(subcommand)]
    kind: Kind,
    /// Where to listen: 127.0.0.1:8080 or unix:/path
    #[arg(long, short = 'l', global = true, default_value = "127.0.0.1:8081")]
    listen: String,
    /// Writes connections and requests so far to this file, twenty times a second
    #[arg(long, global = true)]
    counts: Option<PathBuf>,
}

#[derive(Subcommand, Clone, Debug)]
enum Kind {
    /// The floor: the same answer to whatever arrives, nothing parsed
    Null(Body),
    /// The floor of proxies: an upstream connection for each client, bytes copied, nothing parsed
    Relay {
        /// Where bytes go
        to: String,
    },
    /// An HTTP server with a fixed answer, slow or faulty on request
    Respond(RespondOptions),
    /// A FastCGI responder with a fixed answer
    Fastcgi(Body),
    /// A WebSocket server that sends every message back
    Websocket,
    /// A server of events (text/event-stream)
    Events(EventOptions),
}

/// The body of the answer.
#[derive(Args, Clone, Debug)]
struct Body {
    /// Its text
    #[arg(long, default_value = "Hello, world!")]
    body: String,
    /// A file with it instead
    #[arg(long, conflicts_with = "body_bytes")]
    body_file: Option<PathBuf>,
    /// So many made-up bytes instead
    #[arg(long, value_parser = parse_bytes)]
    body_bytes: Option<u64>,
    /// Content-Type
    #[arg(long, default_value = "text/plain")]
    content_type: String,
    /// Closes after each answer
    #[arg(long)]
    close: bool,
}

#[derive(Args, Clone, Debug)]
struct EventOptions {
    /// Between two events
    #[arg(long, value_parser = parse_duration, default_value = "100ms")]
    every: Duration,
    /// Bytes of data of each
    #[arg(long, value_parser = parse_bytes, default_value = "64")]
    event_bytes: u64,
    /// Ends a stream after so many; 0 never
    #[arg(long, default_value_t = 0)]
    count: u64,
}

#[derive(Args, Clone, Debug)]
struct RespondOptions {
    #[command(flatten)]
    body: Body,
    /// Waits so long before each answer
    #[arg(long, value_parser = parse_duration, default_value = "0s")]
    delay: Duration,
    /// The delay is a mean of random ones (exponential)
    #[arg(long)]
    random_delay: bool,
    /// Waits so long before the first answer of each connection: what a new connection costs to a server that is far
    #[arg(long, value_parser = parse_duration, default_value = "0s")]
    first_delay: Duration,
    /// Answers questions of JSON-RPC for so many different blocks instead, with bodies of 1.5 KB to 1.4 MB
    #[arg(long, value_name = "COUNT")]
    corpus: Option<usize>,
    /// Answers with 500 in this share of requests, from 0 to 1
    #[arg(long, default_value_t = 0.0)]
    errors: f64,
    /// Resets the connection in this share of requests
    #[arg(long, default_value_t = 0.0)]
    resets: f64,
    /// Ends the connection in the middle of the body in this share of requests
    #[arg(long, default_value_t = 0.0)]
    cuts: f64,
    /// Start value of what is random
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

/// Carries out `lab serve`: serves until it is ended.
pub fn run(options: &Options) -> Outcome {
    machine::raise_open_files();
    let broke = |error: std::io::Error| Refused::new(format!("{}: {error}", options.listen));
    let listener = socket::listen(&options.listen).map_err(broke)?;
    let counter = counts::Counter::new(options.counts.clone());
    let served = match &options.kind {
        Kind::Null(body) => {
            let answer = http::answer(&body.bytes()?, &body.content_type, 200, body.close);
            floor::serve(&listener, &answer, body.close, counter)
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
    Ok(Answer::Yes)
}
