//! `sluice upgrade-binary`: replaces a running server by a new process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::Exit;
use crate::admin_client::{Client, Place};
use crate::messages::{Failed, MessageFormat};
use crate::supervise::READY_TIMEOUT;

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Program to start (default: the file at the path of the running one).
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Time that the new process may take until it serves.
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    ready_timeout: String,
    /// Time that requests may go on in the old process (default: `grace_period` of the configuration, else no limit).
    #[arg(long, value_name = "DURATION")]
    grace_period: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// How much longer to wait for the outcome than the server waits for the new process.
const MARGIN: Duration = Duration::from_secs(30);

impl Args {
    /// Returns once the new process serves, or has failed and the old one goes on.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let address = self.place.address(format)?;
        let (body, timeout) = self.request()?;
        Client::new(address).waiting(timeout + MARGIN).post(
            "/upgrade",
            "application/json",
            body.to_string().as_bytes(),
            &[],
        )?;
        say!("The new process serves; the old one finishes its requests");
        Ok(Exit::Done)
    }

    /// The body of the request, and how long the new process may take.
    fn request(&self) -> Result<(Value, Duration), Failed> {
        let mut body = Map::new();
        let ready_timeout = duration("--ready-timeout", &self.ready_timeout)?;
        body.insert("ready_timeout".into(), self.ready_timeout.as_str().into());
        if let Some(grace) = &self.grace_period {
            duration("--grace-period", grace)?;
            body.insert("grace_period".into(), grace.as_str().into());
        }
        if let Some(binary) = &self.binary {
            body.insert("binary".into(), whole(binary)?.into());
        }
        Ok((body.into(), ready_timeout.max(READY_TIMEOUT)))
    }
}

fn whole(path: &Path) -> Result<String, Failed> {
    let whole = std::path::absolute(path).map_err(Failed::new)?;
    let text = whole.into_os_string().into_string();
    text.map_err(|path| Failed::new(format!("`{}` is not valid UTF-8", path.display())))
}

fn duration(flag: &str, text: &str) -> Result<Duration, Failed> {
    let read = serde_json::from_value::<sluice_model::Duration>(text.into());
    let nanos = read.ok().and_then(|given| u64::try_from(given.0).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| {
        Failed::new(format!("`{text}` is not a duration"))
            .help(format!("write it as `{flag} 90s` or `{flag} 5m`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("-x", "90s").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("-x", "0s").unwrap(), Duration::ZERO);
        for wrong in ["", "soon", "-1s"] {
            assert!(duration("-x", wrong).is_err(), "{wrong}");
        }
    }
}
