//! The Python applications of this process, which outlive configurations; and those that a configuration waits for.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluice_diag::OriginId;
use sluice_python::{Application, Fact, Groups, Level, Notice};

use sluice_observe::Recorder;
use sluice_observe::log::{self, Log};
use sluice_observe::metrics::PythonDurations;
use sluice_pipeline::build::{Builder, Slots};
use sluice_pipeline::refusal::Refusal;

/// The name of the logger.
pub(super) const LOGGER: &str = "http.handlers.python";

/// All applications of the process; none before the first configuration that has one.
#[derive(Default)]
struct Host(Mutex<Option<Groups>>);

/// The groups of this process. The first call starts a thread.
///
/// # Errors
///
/// The thread cannot be started.
pub(super) fn groups(recorder: &Arc<Recorder>) -> Result<Groups, Refusal> {
    let host = recorder.shared::<Host>();
    let mut groups = host.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(groups) = &*groups {
        return Ok(groups.clone());
    }
    let log = recorder.log().clone();
    let started = Groups::new(
        recorder.workers(),
        Arc::new(move |notice| report(&log, notice)),
    );
    let started =
        started.map_err(|error| Refusal::new(format!("a thread cannot be started: {error}")))?;
    recorder.hub().set_python(started.clone());
    Ok(groups.insert(started).clone())
}

/// Ends all applications of the process: they have `grace` to finish their requests.
pub fn shut_down(recorder: &Recorder, grace: Duration) {
    let host = recorder.shared::<Host>();
    let groups = host.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(groups) = groups {
        groups.shutdown(grace);
    }
}

/// Writes a notice of the supervisor to the log.
fn report(log: &Log, notice: &Notice<'_>) {
    let level = match notice.level {
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warn => log::Level::Warn,
        Level::Error => log::Level::Error,
    };
    let mut entry = log
        .entry(level, LOGGER, notice.message)
        .text("python_app", notice.application);
    if let Some(worker) = notice.worker {
        entry = entry.integer("worker", worker as u64);
    }
    if let Some(pid) = notice.pid {
        entry = entry.integer("pid", u64::from(pid));
    }
    for (name, fact) in notice.facts {
        entry = match fact {
            Fact::Text(text) => entry.text(name, text),
            Fact::Number(number) => entry.integer(name, *number),
        };
    }
    entry.send();
}

/// The applications that a configuration has started and not yet waited for.
#[derive(Clone, Default)]
pub(super) struct Starting(Rc<RefCell<Vec<Waited>>>);

struct Waited {
    application: Application,
    /// Where it is in the configuration.
    place: String,
    written: Option<OriginId>,
}

impl Starting {
    /// Has the configuration wait for `application`, which the current handler of `builder` needs.
    pub(super) fn add(builder: &Builder<'_>, application: &Application) {
        let starting = builder.shared.get::<Starting>();
        starting.0.borrow_mut().push(Waited {
            application: application.clone(),
            place: builder.place().to_owned(),
            written: builder.written(),
        });
    }
}

/// Waits until the applications of a configuration are ready. They started in parallel while it was built.
///
/// # Errors
///
/// One refusal for each that does not start; the first one ends the waiting for those that are not ready yet.
pub fn wait_until_ready(shared: &Slots) -> Result<(), Refusal> {
    let starting = shared.get::<Starting>();
    for waited in starting.0.take() {
        waited.application.wait_ready().map_err(|failure| {
            let settings = waited.application.settings();
            let message = format!(
                "the Python application `{}` does not start: {}",
                settings.module, failure.message
            );
            let traceback = failure.traceback.as_deref().unwrap_or_default();
            Refusal {
                place: waited.place,
                written: waited.written,
                detail: traceback.trim_end().to_owned(),
                ..Refusal::new(message).with_help(help(&failure.stage, traceback))
            }
        })?;
    }
    Ok(())
}

/// What to do about a failure at this stage of a start. A traceback says more than we could.
fn help(stage: &str, traceback: &str) -> &'static str {
    match stage {
        _ if !traceback.is_empty() => "",
        "interpreter" => "install Python 3.9 or newer, or name it with `venv` or `python_path`",
        "import" => {
            "check the application's name, `working_dir` (where it is imported from) and `venv` (where its packages are)"
        }
        "lifespan" => "the application refused to start; `lifespan off` does not ask it",
        "accelerator" => {
            "install the wheel `sluice-worker` of this version of sluice for this interpreter, or write `accelerator auto`"
        }
        "timeout" => "allow more time with `start_timeout`",
        _ => "",
    }
}

/// The histogram of one directive; none where nothing is counted.
pub(super) struct Durations(Option<Arc<PythonDurations>>);

impl Durations {
    /// A histogram for the application called `name`.
    pub(super) fn build(builder: &Builder<'_>, name: &str) -> Durations {
        let live = builder.recorder.filter(|_| builder.is_live());
        Durations(live.map(|recorder| recorder.hub().python_durations(name, recorder.workers())))
    }

    /// Counts the time from the dispatch of a request to the head of its response.
    pub(super) fn add(&self, worker: usize, took: Duration) {
        if let Some(durations) = &self.0 {
            durations.add(worker, took);
        }
    }
}
