//! Builds the buffering limits from the model, and logs when a body cannot be buffered.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;

use sluice_message::Moment;
use sluice_model::http::RouteOrigin;
use sluice_model::proxy::{BodyBuffers, ReverseProxy as Config};
use sluice_net::Worker;
use sluice_net::spool::Folder;
use sluice_policy::buffering::Bounds;

use super::{Buffering, ReadAhead, Spooling};
use crate::limits::{
    BUFFER_FILE_BYTES_MAX, BUFFER_LOG_PAUSE, BUFFER_REQUEST_BYTES, BUFFER_WRITE_BYTES,
    BUFFER_WRITE_BYTES_RANGE,
};
use crate::reverse_proxy::group::Shared;
use sluice_observe::log::Log;
use sluice_pipeline::build::Builder;
use sluice_pipeline::refusal::Refusal;

/// The limits for one kind of bodies.
pub struct Rules {
    pub(super) bounds: Bounds,
    pub(super) folder: Arc<Folder>,
    log: Option<Log>,
}

/// When a worker last logged that bodies cannot be buffered.
#[derive(Default)]
struct LastLogged(Cell<Option<Moment>>);

impl Rules {
    /// Reads the settings; `usual` are the bytes in memory and in a file where they say nothing.
    pub fn build(
        config: &BodyBuffers,
        usual: (u64, u64),
        builder: &Builder<'_>,
    ) -> Result<Arc<Rules>, Refusal> {
        let (memory, file_max) = usual;
        let or = |value: u64, usual: u64| if value == 0 { usual } else { value };
        let write = or(config.write, BUFFER_WRITE_BYTES);
        let (least, most) = (
            *BUFFER_WRITE_BYTES_RANGE.start(),
            *BUFFER_WRITE_BYTES_RANGE.end(),
        );
        Ok(Arc::new(Rules {
            bounds: Bounds {
                memory_max: or(config.memory, memory),
                memory_kept: 0,
                write_bytes: write.clamp(least, most),
                file_max: config.file_max.unwrap_or(file_max),
            },
            folder: temporary_folder(&config.folder, &config.origin, builder)?,
            log: builder.log.cloned(),
        }))
    }

    /// Rules for a test.
    #[cfg(test)]
    pub(super) fn with(bounds: Bounds, folder: Arc<Folder>) -> Rules {
        let log = None;
        Rules {
            bounds,
            folder,
            log,
        }
    }

    /// Logs that a temporary file cannot be written, with limited frequency.
    pub(super) fn log_failure(&self, worker: &Worker, error: &std::io::Error) {
        self.log_error(worker, &error.to_string());
    }

    /// Logs that there are too many temporary files, with limited frequency.
    pub(super) fn log_limit(&self, worker: &Worker) {
        self.log_error(worker, "too many temporary files, or too much in them");
    }

    fn log_error(&self, worker: &Worker, why: &str) {
        let last = worker.local::<LastLogged>();
        let now = worker.clock.coarse();
        let is_known = |logged: Moment| now.since(logged) < BUFFER_LOG_PAUSE;
        if last.0.get().is_some_and(is_known) {
            return;
        }
        last.0.set(Some(now));
        if let Some(log) = &self.log {
            let message = "a body is forwarded without a temporary file";
            log.warn("http.handlers.reverse_proxy", message)
                .shown("folder", self.folder.path().display())
                .text("error", why)
                .send();
        }
    }
}

impl Buffering {
    /// Parses the settings.
    pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Buffering, Refusal> {
        let request_bytes = bytes("request_buffers", config.request_buffers)?;
        let response_bytes = bytes("response_buffers", config.response_buffers)?;
        if config.buffer_folder.is_empty() {
            return Ok(Buffering {
                request_bytes,
                response_bytes,
                ..Buffering::default()
            });
        }
        let rules = |memory: usize, file_max| {
            let buffers = BodyBuffers {
                memory: memory as u64,
                folder: config.buffer_folder.clone(),
                ..BodyBuffers::default()
            };
            let rules = Rules::build(&buffers, (BUFFER_REQUEST_BYTES, file_max), builder);
            Some(rules).filter(|_| memory > 0).transpose()
        };
        Ok(Buffering {
            spooling: rules(request_bytes, u64::MAX)?.map(|rules| Spooling {
                rules,
                always: true,
            }),
            ahead: rules(response_bytes, BUFFER_FILE_BYTES_MAX)?.map(|rules| ReadAhead {
                rules,
                usually: true,
                obeys: false,
            }),
            ..Buffering::default()
        })
    }
}

fn bytes(name: &str, bytes: i64) -> Result<usize, Refusal> {
    usize::try_from(bytes).map_err(|_| {
        Refusal::new(format!(
            "`{name}` without a limit is refused: one client could fill the memory"
        ))
        .with_help("give a size, such as `4MiB`")
    })
}

/// The folder for temporary files. A configured folder has to be usable at startup, and belongs to the user that the
/// workers run as.
pub fn temporary_folder(
    path: &str,
    origin: &RouteOrigin,
    builder: &Builder<'_>,
) -> Result<Arc<Folder>, Refusal> {
    if path.is_empty() {
        return Ok(Folder::new(usual_folder()));
    }
    let Some(recorder) = builder.recorder else {
        return Ok(Folder::new(path));
    };
    builder.shared.get::<Shared>().folder(path, |folder| {
        let prepared = folder
            .prepare()
            .and_then(|_| recorder.stores().hand_over(folder.path()));
        prepared.map_err(|error| {
            let what = format!("no temporary file can be made in `{}`: {error}", path);
            let help = "name a folder that the server may write to, or remove the line";
            Refusal {
                written: origin.route(),
                ..Refusal::new(what).with_help(help)
            }
        })
    })
}

/// The default folder for temporary files: not `/tmp`, which often is a tmpfs.
fn usual_folder() -> PathBuf {
    match std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None if std::path::Path::new("/var/tmp").is_dir() => PathBuf::from("/var/tmp"),
        None => std::env::temp_dir(),
    }
}
