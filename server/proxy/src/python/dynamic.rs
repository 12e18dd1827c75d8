//! Applications that placeholders select: started with the first request for them, and ended when they have been idle for
//! long or others need their place.

use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sluice_message::{Moment, Status};
use sluice_net::{Worker, clock, tasks};
use sluice_python::Groups;

use super::Chosen;
use super::recipe::{Recipe, Texts};
use crate::limits::{PYTHON_FAILED_PAUSE, PYTHON_SWEEP_EVERY};
use sluice_observe::log::Log;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::values::At;

/// The applications of one directive.
pub(super) struct Dynamic {
    recipe: Recipe,
    /// The configured name, if there is one.
    name: String,
    /// The registry; `None` if the configuration is only validated or explained.
    groups: Option<Groups>,
    max: usize,
    idle_timeout: Duration,
    state: Mutex<State>,
    log: Option<Log>,
    itself: Weak<Dynamic>,
}

#[derive(Default)]
struct State {
    running: HashMap<Texts, Arc<Running>>,
    /// When those that did not start may be tried again.
    failed: HashMap<Texts, Moment>,
    /// Whether a task looks for idle ones.
    is_swept: bool,
}

/// An application that was started.
struct Running {
    chosen: Chosen,
    is_ready: AtomicBool,
    /// When it was last in use; now, while somebody holds it.
    last_used: Mutex<Moment>,
}

/// An application in use: it is not ended meanwhile.
pub(super) struct Used(Arc<Running>);

impl Used {
    pub(super) fn chosen(&self) -> &Chosen {
        &self.0.chosen
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        *lock(&self.0.last_used) = clock::now();
    }
}

impl Dynamic {
    /// The applications of `recipe`: at most `max` at a time, each until nobody has asked for it for `idle_timeout`.
    pub(super) fn new(
        recipe: Recipe,
        name: &str,
        groups: Option<Groups>,
        (max, idle_timeout): (usize, Duration),
        log: Option<Log>,
    ) -> Arc<Dynamic> {
        Arc::new_cyclic(|itself| Dynamic {
            recipe,
            name: name.to_owned(),
            groups,
            max,
            idle_timeout,
            state: Mutex::default(),
            log,
            itself: itself.clone(),
        })
    }

    /// The name of the application for a request.
    pub(super) fn name_for(&self, exchange: &Exchange) -> Result<String, Fault> {
        let texts = self.recipe.expand(&At(exchange))?;
        Ok(name(&self.name, &texts))
    }

    /// The application for a request, started if necessary.
    ///
    /// # Errors
    ///
    /// 400 if a value of the request does not fit, 404 if its folder does not exist, 503 if all places are in use or the
    /// application does not start.
    pub(super) async fn obtain(&self, exchange: &mut Exchange) -> Result<Used, Fault> {
        let texts = self.recipe.expand(&At(exchange))?;
        let used = self.find_or_start(&texts, &exchange.worker)?;
        if !used.0.is_ready.load(Ordering::Acquire) {
            let application = &used.0.chosen.application;
            let started = poll_fn(|cx| application.poll_ready(cx)).await;
            if started.is_err() {
                self.forget(&texts, &used.0);
                return Err(super::failure::does_not_start(exchange));
            }
            used.0.is_ready.store(true, Ordering::Release);
        }
        Ok(used)
    }

    fn find_or_start(&self, texts: &Texts, worker: &Rc<Worker>) -> Result<Used, Fault> {
        let now = clock::now();
        let mut state = lock(&self.state);
        if let Some(running) = state.running.get(texts) {
            return Ok(Used(running.clone()));
        }
        state.failed.retain(|_, until| *until > now);
        if state.failed.contains_key(texts) {
            let message = "the application did not start a moment ago";
            return Err(Fault::new(Status::SERVICE_UNAVAILABLE, message));
        }
        if let Some(folder) = &texts.working_dir
            && !folder.is_dir()
        {
            let message = "the folder of the application does not exist";
            return Err(Fault::new(Status::NOT_FOUND, message));
        }
        if state.running.len() >= self.max {
            state.make_room().ok_or_else(|| {
                let message = "all applications are in use (`max_dynamic_apps`)";
                Fault::new(Status::SERVICE_UNAVAILABLE, message)
            })?;
        }
        let running = Arc::new(self.start(texts, now)?);
        state.running.insert(texts.clone(), running.clone());
        if !std::mem::replace(&mut state.is_swept, true) {
            let (least, most) = (*PYTHON_SWEEP_EVERY.start(), *PYTHON_SWEEP_EVERY.end());
            let every = self.idle_timeout.clamp(least, most);
            tasks::in_background(sweep(self.itself.clone(), worker.clone(), every));
        }
        Ok(Used(running))
    }

    fn start(&self, texts: &Texts, now: Moment) -> Result<Running, Fault> {
        let Some(groups) = &self.groups else {
            return Err(super::failure::not_started());
        };
        let settings = self.recipe.settings(texts, &name(&self.name, texts));
        let settings =
            settings.map_err(|refusal| Fault::new(Status::SERVICE_UNAVAILABLE, refusal.message))?;
        Ok(Running {
            chosen: Chosen::new(groups.obtain(settings)),
            is_ready: AtomicBool::new(false),
            last_used: Mutex::new(now),
        })
    }

    /// Drops an application that did not start.
    fn forget(&self, texts: &Texts, running: &Arc<Running>) {
        let mut state = lock(&self.state);
        let is_known = |known: &Arc<Running>| Arc::ptr_eq(known, running);
        if state.running.get(texts).is_some_and(is_known) {
            state.running.remove(texts);
            // As many as may run: more are not remembered, and are started again instead.
            if state.failed.len() < self.max {
                let until = clock::now() + PYTHON_FAILED_PAUSE;
                state.failed.insert(texts.clone(), until);
            }
        }
    }

    /// Ends those that have been idle for too long. Returns whether some are left.
    fn end_idle(&self) -> bool {
        let now = clock::now();
        let mut state = lock(&self.state);
        state.running.retain(|_, running| {
            let keeps = running.is_busy() || now.since(running.idle_since()) < self.idle_timeout;
            if !keeps && let Some(log) = &self.log {
                log.info(super::host::LOGGER, "idle application is stopped")
                    .text("python_app", running.chosen.name.as_bytes())
                    .send();
            }
            keeps
        });
        state.is_swept = !state.running.is_empty();
        state.is_swept
    }
}

impl State {
    /// Drops the application that has been idle for longest; `None` if all are in use.
    fn make_room(&mut self) -> Option<()> {
        let idle = self
            .running
            .iter()
            .filter(|(_, running)| !running.is_busy());
        let oldest = idle.min_by_key(|(_, running)| running.idle_since());
        let texts = oldest.map(|(texts, _)| texts.clone())?;
        self.running.remove(&texts);
        Some(())
    }
}

impl Running {
    /// Whether a request holds it besides the table.
    fn is_busy(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    fn idle_since(&self) -> Moment {
        *lock(&self.last_used)
    }
}

/// Looks for idle applications from time to time, as long as there are any and their configuration is in use.
async fn sweep(dynamic: Weak<Dynamic>, worker: Rc<Worker>, every: Duration) {
    let timer = worker.timers.timer();
    loop {
        timer.set(&worker.clock, every);
        poll_fn(|cx| timer.poll_expired(cx)).await;
        match dynamic.upgrade() {
            Some(dynamic) if dynamic.end_idle() => {}
            Some(_) | None => return,
        }
    }
}

/// What an application is called in logs and metrics: its configured name, otherwise itself, behind its folder.
pub(super) fn name(configured: &str, texts: &Texts) -> String {
    if !configured.is_empty() {
        return configured.to_owned();
    }
    let folder = texts.working_dir.as_deref().and_then(|dir| dir.file_name());
    match folder {
        Some(folder) => format!("{}/{}", folder.to_string_lossy(), texts.module),
        None => texts.module.clone(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
