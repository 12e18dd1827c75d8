//! The handlers of events: a command that runs, or a request that is sent.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sluice_dns::fetch::{FetchOptions, Fetcher};
use sluice_model::events::{EventHandler, ExecEvent, WebhookEvent};
use sluice_net::sys::process::kill_group;
use ureq::http::{HeaderName, Request, Uri};

use super::Emitted;
use super::placeholders::expanded;
use crate::limits::{EVENT_EXEC_TIMEOUT, EVENT_LOOK, EVENT_WEBHOOK_TIMEOUT};

/// A handler that was built.
#[derive(Debug)]
pub(super) enum Handler {
    Exec {
        config: ExecEvent,
        timeout: Duration,
    },
    Webhook {
        config: WebhookEvent,
        timeout: Duration,
    },
}

/// What is wrong, and what to do.
type Refused = (String, &'static str);

impl Handler {
    pub(super) fn build(config: &EventHandler) -> Result<Handler, Refused> {
        match config {
            EventHandler::Exec(config) => exec(config),
            EventHandler::Webhook(config) => webhook(config),
            EventHandler::Other(_) => Err((
                format!("event handler `{}` is a plugin", config.module()),
                "use `exec` or `webhook`",
            )),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Handler::Exec { .. } => "exec",
            Handler::Webhook { .. } => "webhook",
        }
    }

    /// What it runs or calls.
    pub(super) fn target(&self) -> &str {
        match self {
            Handler::Exec { config, .. } => &config.command,
            Handler::Webhook { config, .. } => &config.url,
        }
    }

    /// Whether the next handler waits for its end.
    pub(super) fn is_foreground(&self) -> bool {
        match self {
            Handler::Exec { config, .. } => config.foreground,
            Handler::Webhook { config, .. } => config.foreground,
        }
    }

    /// Runs it, and waits for its end.
    pub(super) fn run(&self, emitted: &Emitted) -> Result<(), String> {
        match self {
            Handler::Exec { config, timeout } => {
                let child = begin(config, emitted).map_err(|error| error.to_string())?;
                finish(child, *timeout)
            }
            Handler::Webhook { config, timeout } => call(config, *timeout, emitted),
        }
    }
}

fn given(duration: sluice_model::Duration, default: Duration) -> Result<Duration, Refused> {
    match u64::try_from(duration.0) {
        Ok(0) => Ok(default),
        Ok(nanos) => Ok(Duration::from_nanos(nanos)),
        Err(_) => Err((
            "the timeout is negative".to_owned(),
            "write a duration such as `30s`",
        )),
    }
}

fn exec(config: &ExecEvent) -> Result<Handler, Refused> {
    if config.command.is_empty() {
        return Err((
            "`exec` has no command".to_owned(),
            "name a program in `command`",
        ));
    }
    if !config.abort_codes.is_empty() {
        return Err((
            "`abort_codes` is not supported: handlers cannot cancel what happens".to_owned(),
            "remove it",
        ));
    }
    Ok(Handler::Exec {
        timeout: given(config.timeout, EVENT_EXEC_TIMEOUT)?,
        config: config.clone(),
    })
}

fn webhook(config: &WebhookEvent) -> Result<Handler, Refused> {
    let uri: Option<Uri> = config.url.parse().ok();
    let is_http = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https"));
    if !uri.is_some_and(|uri| is_http(&uri) && uri.host().is_some()) {
        return Err((
            format!("`{}` is not a URL that events can be sent to", config.url),
            "write it as `https://example.com/hook`",
        ));
    }
    let is_wrong = |name: &&String| HeaderName::from_bytes(name.as_bytes()).is_err();
    if let Some(name) = config.headers.keys().find(is_wrong) {
        return Err((
            format!("`{name}` is not a header name"),
            "write it as `header Authorization \"Bearer …\"`",
        ));
    }
    Ok(Handler::Webhook {
        timeout: given(config.timeout, EVENT_WEBHOOK_TIMEOUT)?,
        config: config.clone(),
    })
}

/// Starts a command in a process group of its own. Its output goes where that of the server goes.
fn begin(config: &ExecEvent, emitted: &Emitted) -> io::Result<Child> {
    let mut command = Command::new(&config.command);
    // Not in the name of the program, which would let events choose it.
    command.args(config.args.iter().map(|arg| expanded(arg, emitted)));
    if !config.dir.is_empty() {
        command.current_dir(&config.dir);
    }
    command.stdin(Stdio::null()).process_group(0).spawn()
}

/// Waits for the end of a command; kills it with all that it started if it takes too long.
fn finish(mut child: Child, timeout: Duration) -> Result<(), String> {
    let until = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return judged(status),
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            kill_group(&mut child);
            return Err(format!(
                "it was killed because it took longer than {timeout:?}"
            ));
        }
        thread::sleep(EVENT_LOOK.min(left));
    }
}

fn judged(status: ExitStatus) -> Result<(), String> {
    match status.success() {
        true => Ok(()),
        false => Err(status.to_string()),
    }
}

fn call(config: &WebhookEvent, timeout: Duration, emitted: &Emitted) -> Result<(), String> {
    let mut request = Request::post(&config.url).header("Content-Type", "application/json");
    for (name, value) in &config.headers {
        request = request.header(name, expanded(value, emitted));
    }
    let body = emitted.to_json().to_string().into_bytes();
    let request = request.body(body).map_err(|error| error.to_string())?;
    let fetcher = Fetcher::new(&FetchOptions {
        timeout,
        ..FetchOptions::default()
    });
    let response = fetcher.send(request)?;
    match response.status().is_success() {
        true => Ok(()),
        false => Err(format!("the response has status {}", response.status())),
    }
}
