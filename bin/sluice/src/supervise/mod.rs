//! The life cycle of a server: handles signals, admin requests and changed files one at a time, and reloads or stops.
//! `sluice-serve` serves the requests.

mod admin_orders;
pub mod binary_upgrade;
mod connection_limit_log;
pub mod fleet;
mod insight;
mod origin;
pub mod pidfile;
mod process_settings;
mod pull;
mod readiness;
mod remote_admin;
mod signals;
mod upgrade;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime};

use sluice_admin::document::Document;
use sluice_admin::limits::ORDERS_MAX;
use sluice_admin::{Address, Current, Denied, Endpoint, Order, Orders, write_autosaved};
use sluice_diag::Written;
use sluice_model::Config;
use sluice_net::Conditions;
use sluice_net::sys::limits::raise_open_files;
use sluice_net::sys::process::{Signal, Signals};
use sluice_observe::events::Event as ServerEvent;
use sluice_observe::log::{Level, Log, Severity};
use sluice_observe::panics;
use sluice_serve::fleet::{Follower, Offered, Reply};
use sluice_serve::handover::Secrets;
use sluice_serve::process::{Options, Server};

use binary_upgrade::{Inherited, Predecessor, Program, Said};
use connection_limit_log::Files;

use crate::Exit;
use crate::admin_client::default_address;
use crate::folders;
use crate::load::{ADJACENT, Loaded};
use crate::messages::{Failed, MessageFormat, print_report};
use crate::nginx::notices;
use crate::watch::Watched;
pub use origin::Origin;
use pidfile::Pidfile;
pub use process_settings::worker_count;
use pull::{Edits, PullOutcome, Pulled, Puller};
use readiness::Readiness;
pub use signals::Manners;
use signals::{Listening, Wish};
pub use upgrade::READY_TIMEOUT;
use upgrade::Upgrade;

/// How long to wait for the last log lines to be written.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Stands for an unlimited grace period, so that its end can still be computed.
const GRACE_WITHOUT_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// A server to run.
pub struct Job {
    /// The configuration.
    pub origin: Origin,
    /// Whether to watch its files.
    pub watch: bool,
    /// The PID file, if any.
    pub pidfile: Option<PathBuf>,
    /// Called once requests are served.
    pub ready: Box<dyn FnOnce() -> Result<(), Failed>>,
    /// The format of diagnostics.
    pub format: MessageFormat,
    /// The meaning of signals.
    pub manners: Manners,
    /// What was inherited from the process that this one replaces; [`run`] takes it itself.
    pub inherited: Inherited,
}

/// An event that a running server handles.
pub enum Event {
    /// A request of the admin endpoint.
    Order(Order),
    /// A signal.
    Signal(Signal, Wish),
    /// Configuration files have changed.
    Changed,
    /// A text that the fleet is to run.
    Offered(Box<Offered>, Reply),
    /// A configuration that `admin.config.load` has fetched.
    Pulled(Box<Pulled>, SyncSender<PullOutcome>),
    /// The new process of a binary upgrade has said something, or is too late.
    SuccessorSaid(Result<Said, String>),
    /// It has exited; its status can be taken.
    SuccessorEnded,
}

/// Runs a server until it is stopped.
pub fn run(job: Job) -> Result<Exit, Failed> {
    let signals = Signals::hold().map_err(Failed::new)?;
    let mut inherited = Inherited::take()?.unwrap_or_default();
    let loaded = match inherited.config.take() {
        Some(loaded) => Ok(loaded),
        None => job.origin.load(job.format),
    };
    let loaded = inherited.reported(loaded)?;
    print_report(&loaded.report, job.format);
    run_loaded(Job { inherited, ..job }, loaded, signals)
}

/// Like [`run`], with a configuration that is already loaded. The caller prints warnings.
pub fn run_loaded(job: Job, loaded: Loaded, signals: Signals) -> Result<Exit, Failed> {
    let reporter = job.inherited.reporter();
    let done = run_with_log(job, loaded, signals);
    if let (Err(failed), Some(reporter)) = (&done, reporter) {
        reporter.report(failed);
    }
    done
}

fn run_with_log(mut job: Job, loaded: Loaded, signals: Signals) -> Result<Exit, Failed> {
    // Before the process changes its directory.
    let program = Program::of_this_process()?;
    let asked = loaded.config.apps.process.clone().unwrap_or_default();
    let workers = worker_count(usize::try_from(asked.workers).unwrap_or(0))?;
    if job.pidfile.is_none() && !asked.pid_file.is_empty() {
        job.pidfile = Some(PathBuf::from(&asked.pid_file));
    }
    // Before threads are started: the environment can still be changed, and threads inherit the rest.
    let denied = process_settings::prepare(&asked)?;
    let files_max = raise_open_files().map_err(Failed::new)?;
    let mut conditions = process_settings::conditions(&asked)?;
    let log = Log::start(Level::Info).map_err(Failed::new)?;
    panics::report_to(log.clone()).map_err(Failed::new)?;
    conditions.slots = connection_limit_log::slot_limit(
        &asked,
        &log,
        Files {
            max: files_max,
            workers,
        },
    );
    let options = Options {
        workers,
        files_max,
        data_dir: folders::data(),
        log: log.clone(),
        conditions,
        handed: std::mem::take(&mut job.inherited.sockets),
        secrets: match job.inherited.secrets.take() {
            Some(secrets) => secrets,
            None => Secrets::random().map_err(Failed::new)?,
        },
    };
    let outcome = serve(job, loaded, options, (signals, program), &denied);
    log.finish(LAST_LINES);
    outcome.map(|()| Exit::Done)
}

fn serve(
    job: Job,
    loaded: Loaded,
    options: Options,
    (signals, program): (Signals, Program),
    denied: &[String],
) -> Result<(), Failed> {
    let log = options.log.clone();
    let (sender, events) = sync_channel(ORDERS_MAX);
    let ending = Arc::new(AtomicBool::new(false));
    let pidfile = Pidfile::default();
    // Before the server starts, which may take long: a second signal ends that as well.
    let listening = Listening {
        signals,
        manners: job.manners,
        sender: sender.clone(),
        ending: ending.clone(),
        pidfile: pidfile.clone(),
        log: log.clone(),
    };
    listening.start()?;
    let (server, mut read) = start(&job, loaded, options)?;
    if job.manners == Manners::Nginx {
        notices::begun(&log);
    }
    let Inherited {
        admin,
        predecessor,
        remote,
        is_from_api,
        ..
    } = job.inherited;
    if is_from_api {
        read.edits = Edits::ByApi;
    }
    let start = Start {
        origin: job.origin,
        manners: job.manners,
        program,
        admin,
        remote,
    };
    let mut process = Process::begin(server, log, read, start, (&sender, &pidfile))?;
    if job.watch || matches!(process.origin, Origin::Nothing) {
        process.watch(sender)?;
    }
    if let Origin::Fleet(member) = &process.origin {
        let member = member.clone();
        process.join_fleet(&member)?;
    }
    for what in denied {
        let entry = process
            .log
            .warn("", "a process setting was denied by the system");
        entry.text("error", what).send();
    }
    if let Some(path) = &job.pidfile {
        write_pidfile(&pidfile, path)?;
    }
    (job.ready)()?;
    if let Some((counted, taken)) = predecessor.and_then(Predecessor::report_ready) {
        process.server.add_counted(counted);
        taken.report();
    }
    process.readiness.ready();
    let why = process.work(&events);
    ending.store(true, Ordering::Release);
    process.end(&why);
    pidfile.remove();
    Ok(())
}

/// Starts the server. A node of a fleet that cannot start with the text of the fleet goes back to its local copy.
fn start(job: &Job, loaded: Loaded, options: Options) -> Result<(Server, Read), Failed> {
    let spare = Options {
        data_dir: options.data_dir.clone(),
        log: options.log.clone(),
        conditions: options.conditions.clone(),
        handed: Vec::new(),
        secrets: options.secrets.clone(),
        ..options
    };
    let begin = |loaded, options| {
        let (config, read) = Read::of(loaded);
        let started = Server::start(config, &read.files, options);
        let written = read.written.clone();
        let refused = |refusals| job.origin.refused(refusals, written.as_deref(), job.format);
        started.map_err(refused).map(|server| (server, read))
    };
    begin(loaded, options).or_else(|failed| match job.origin.fall_back(&failed, job.format) {
        Some(loaded) => begin(loaded, spare),
        None => Err(failed),
    })
}

fn write_pidfile(pidfile: &Pidfile, path: &Path) -> Result<(), Failed> {
    pidfile
        .write(path)
        .map_err(|error| Failed::new(format!("cannot write {}: {error}", path.display())))
}

/// Checks whether a server could run a configuration.
pub fn validate(loaded: &Loaded, format: MessageFormat) -> Result<(), Failed> {
    if let Some(process) = &loaded.config.apps.process {
        process_settings::conditions(process)?;
    }
    let log = Log::start(Level::Error).map_err(Failed::new)?;
    let options = Options {
        workers: 1,
        files_max: 0,
        data_dir: folders::data(),
        log: log.clone(),
        conditions: Conditions::default(),
        handed: Vec::new(),
        secrets: Secrets::default(),
    };
    let verdict = sluice_serve::process::validate(&loaded.config, &loaded.files, &options);
    log.finish(LAST_LINES);
    if let Some(admin) = &loaded.config.admin {
        Address::of(Some(admin), &default_address()).map_err(Failed::new)?;
        remote_admin::address(Some(admin)).map_err(Failed::new)?;
    }
    verdict.map_err(|refusals| Failed::refusals(refusals, loaded.written.as_deref(), format))
}

/// Why the server stops.
#[derive(Debug)]
enum Stop {
    /// Drain the connections.
    Signal(Signal),
    /// Close the connections immediately.
    Halt(Signal),
    Order,
    /// A new process serves; requests may go on for this time, or as the configuration says.
    Replaced(Option<Duration>),
}

struct Process {
    server: Server,
    endpoint: Option<Endpoint>,
    /// The admin endpoint for other machines.
    remote: Option<Endpoint>,
    orders: Orders,
    current: Current,
    origin: Origin,
    read: Read,
    watched: Option<Watched>,
    /// Follows the configuration of the fleet.
    follower: Option<Follower>,
    /// Fetches another configuration.
    puller: Option<Puller>,
    log: Log,
    manners: Manners,
    pidfile: Pidfile,
    readiness: Readiness,
    program: Program,
    /// The binary upgrade in progress.
    upgrade: Option<Upgrade>,
    /// Sockets of the admin endpoint for other machines, until it opens.
    remote_handed: Vec<OwnedFd>,
    sender: SyncSender<Event>,
}

/// What a process begins with, beside its server.
struct Start {
    origin: Origin,
    manners: Manners,
    program: Program,
    /// Sockets of the admin endpoint of the process that this one replaces.
    admin: Vec<OwnedFd>,
    /// Those of its endpoint for other machines.
    remote: Vec<OwnedFd>,
}

/// The configuration files as they were loaded.
#[derive(Clone, Debug)]
struct Read {
    files: Vec<String>,
    /// When reading them began.
    at: SystemTime,
    /// What clients of the admin endpoint see of the configuration.
    document: Document,
    /// The positions of the running configuration's routes in these files.
    written: Option<Arc<Written>>,
    /// Whether it has changed or was replaced since, and by whom.
    edits: Edits,
}

impl Read {
    /// The configuration and its files, without texts and warnings: they are not needed as long as the server runs.
    fn of(loaded: Loaded) -> (Config, Read) {
        let read = Read {
            files: loaded.files,
            at: loaded.read_at,
            document: loaded.document,
            written: loaded.written,
            edits: Edits::None,
        };
        (loaded.config, read)
    }
}

impl Process {
    fn begin(
        server: Server,
        log: Log,
        read: Read,
        start: Start,
        (sender, pidfile): (&SyncSender<Event>, &Pidfile),
    ) -> Result<Process, Failed> {
        let own = sender.clone();
        let orders = Orders::new(move |order| {
            own.try_send(Event::Order(order))
                .map_err(|error| match error {
                    TrySendError::Full(_) => {
                        "too many requests to the admin endpoint are waiting; try again".to_owned()
                    }
                    TrySendError::Disconnected(_) => "the server is shutting down".to_owned(),
                })
        });
        let current = Current::default();
        // Before the admin endpoint opens.
        let insight = insight::of(&server, &read.files, read.written.as_ref());
        current.replace(server.config(), read.document.clone(), insight);
        current.set_counts(insight::counts(&server));
        let mut process = Process {
            server,
            endpoint: None,
            remote: None,
            orders,
            current,
            origin: start.origin,
            read,
            watched: None,
            follower: None,
            puller: None,
            readiness: Readiness::new(&log),
            log,
            manners: start.manners,
            pidfile: pidfile.clone(),
            program: start.program,
            upgrade: None,
            remote_handed: start.remote,
            sender: sender.clone(),
        };
        let config = process.server.config();
        if let Err(error) = process.open_endpoint(&config, start.admin) {
            // If the default address is in use, as by a second server on this machine, run without the endpoint.
            if config
                .admin
                .as_ref()
                .is_some_and(|admin| !admin.listen.is_empty())
            {
                process.server.drain(Duration::ZERO);
                return Err(Failed::new(error).help("choose another address, or `admin off`"));
            }
            process
                .log
                .warn("admin", "admin endpoint is disabled")
                .text("error", error)
                .send();
        }
        process.publish();
        Ok(process)
    }

    /// Opens, moves or closes the admin endpoint as `config` says.
    fn open_endpoint(&mut self, config: &Config, handed: Vec<OwnedFd>) -> Result<(), String> {
        let admin = config.admin.as_ref();
        let wanted = Address::of(admin, &default_address()).map_err(|error| error.to_string())?;
        remote_admin::address(admin)?;
        match (wanted, &mut self.endpoint) {
            (None, None) => {}
            (None, endpoint @ Some(_)) => {
                // In a separate thread, because the endpoint is still sending the response to the request that disabled
                // it.
                if let Some(endpoint) = endpoint.take() {
                    thread::spawn(|| endpoint.close());
                }
            }
            (Some(address), Some(endpoint)) => {
                endpoint
                    .change(address, admin)
                    .map_err(|error| error.to_string())?;
            }
            (Some(address), None) => {
                let endpoint = Endpoint::start(
                    address,
                    admin,
                    self.orders.clone(),
                    self.current.clone(),
                    handed,
                );
                let endpoint = endpoint.map_err(|error| error.to_string())?;
                let address = endpoint.address().to_string();
                self.log
                    .info("admin", "admin endpoint started")
                    .text("address", address)
                    .send();
                self.endpoint = Some(endpoint);
            }
        }
        Ok(())
    }

    /// Publishes the running configuration: to the admin endpoint, the log and the saved configuration.
    fn publish(&mut self) {
        let config = self.server.config();
        let insight = insight::of(&self.server, &self.read.files, self.read.written.as_ref());
        let document = self.read.document.clone();
        self.current.replace(config.clone(), document, insight);
        self.open_remote();
        if let Some(watched) = &self.watched {
            watched.replace(&self.watched_files(), self.read.at);
        }
        if self.manners == Manners::Nginx {
            notices::serving(&self.log);
        }
        self.log
            .info("", "serving")
            .text("version", env!("CARGO_PKG_VERSION"))
            .texts("listen", self.server.listening().iter().cloned())
            .texts("config", self.read.files.first().cloned())
            .send();
        self.save(&config);
        self.pull();
        // Code that was only needed to load the configuration need not stay in memory.
        sluice_net::sys::code::let_go();
    }

    /// Saves the configuration for `--resume`.
    fn save(&self, config: &Config) {
        // As in Caddy, one that was fetched is fetched again after a start.
        if self.origin.is_kept(config) && self.read.edits != Edits::Fetched {
            let path = folders::autosave();
            let text = self.read.document.text(config);
            if let Err(error) = write_autosaved(&path, &text) {
                self.log
                    .warn(
                        "config",
                        "the configuration could not be saved for --resume",
                    )
                    .text("file", path.to_string_lossy().as_bytes())
                    .shown("error", error)
                    .send();
            }
        }
    }

    /// The configuration files; if there is none yet, the default file.
    fn watched_files(&self) -> Vec<String> {
        match self.origin {
            Origin::Nothing if self.read.files.is_empty() => vec![ADJACENT.to_owned()],
            Origin::Nothing
            | Origin::Source(_)
            | Origin::Nginx(_)
            | Origin::CommandLine(_)
            | Origin::Fleet(_)
            | Origin::Saved(..) => self.read.files.clone(),
        }
    }

    fn watch(&mut self, sender: SyncSender<Event>) -> Result<(), Failed> {
        let watched = Watched::new(&self.watched_files(), self.read.at);
        // If the queue is full, a reload is due anyway.
        let log_outcome = move || {
            !matches!(
                sender.try_send(Event::Changed),
                Err(TrySendError::Disconnected(_))
            )
        };
        watched.start(log_outcome).map_err(Failed::new)?;
        self.watched = Some(watched);
        Ok(())
    }

    /// Handles events until one of them stops the server.
    fn work(&mut self, events: &Receiver<Event>) -> Stop {
        loop {
            match events.recv() {
                Ok(Event::Signal(signal, wish)) => {
                    if let Some(stop) = self.on_signal(signal, wish) {
                        return stop;
                    }
                }
                Ok(Event::Changed) => self.reload("watch"),
                Ok(Event::Offered(offered, reply)) => self.take_offered(&offered, reply),
                Ok(Event::Pulled(pulled, reply)) => self.take_pulled(&pulled, &reply),
                Ok(Event::SuccessorSaid(said)) => {
                    if let Some(stop) = self.on_said(said) {
                        return stop;
                    }
                }
                Ok(Event::SuccessorEnded) => self.on_successor_ended(),
                Ok(Event::Order(Order::Upgrade(order))) => self.start_upgrade((*order).into()),
                Ok(Event::Order(Order::Load(order))) => self.load(*order),
                Ok(Event::Order(Order::Change(order))) => self.change(*order),
                Ok(Event::Order(Order::Reload(reply))) => self.reload_for(reply),
                Ok(Event::Order(Order::Stop(reply))) => {
                    reply.send(Ok(()));
                    return Stop::Order;
                }
                // The signal thread holds a sender as long as the process lives.
                Err(RecvError) => return Stop::Order,
            }
        }
    }

    fn on_signal(&mut self, signal: Signal, wish: Wish) -> Option<Stop> {
        if self.manners == Manners::Nginx {
            notices::received(&self.log, signal);
        }
        match wish {
            Wish::Stop => return Some(Stop::Signal(signal)),
            Wish::Halt => return Some(Stop::Halt(signal)),
            Wish::Reload => self.reload(signal.as_str()),
            Wish::Reopen => self.reopen_logs(),
            Wish::Upgrade => self.start_upgrade(upgrade::Request::default()),
            Wish::Withdraw => self.withdraw(),
            // The signal thread handles these.
            Wish::Abort | Wish::Nothing => {}
        }
        None
    }

    fn reopen_logs(&self) {
        self.log.outputs().reopen();
        if let Origin::Nginx(invocation) = &self.origin {
            invocation.redirect_error(&self.server.config());
        }
        self.log.info("", "reopening logs").send();
    }

    /// SIGWINCH: stops accepting connections while the new process accepts them. A reload resumes. In the foreground
    /// the signal means that the terminal was resized, so it is ignored there, as in nginx.
    fn withdraw(&mut self) {
        let Origin::Nginx(invocation) = &self.origin else {
            return;
        };
        if !invocation.is_in_background() {
            return;
        }
        match self.server.withdraw() {
            Ok(()) => self.log.info("", "no longer accepting connections").send(),
            Err(error) => {
                let entry = self.log.error("", "cannot keep the listening sockets");
                entry.shown("error", error).send();
            }
        }
    }

    /// Reloads the configuration; on any error the old one stays in effect.
    fn reload(&mut self, trigger: &str) {
        if self.postpone_reload(trigger) {
            return;
        }
        if let Some(follower) = &self.follower {
            return follower.retry();
        }
        self.readiness.reloading();
        let loaded = self.origin.reload();
        // The outcome is logged.
        let _ = self.replace_by(loaded, trigger);
    }

    /// Replaces the configuration by one that was loaded, and logs the outcome.
    fn replace_by(&mut self, loaded: Result<Loaded, Failed>, trigger: &str) -> Result<(), Denied> {
        let outcome = match loaded {
            Ok(loaded) => {
                self.warn_of(&loaded);
                let (config, read) = Read::of(loaded);
                let was_edited = self.read.edits == Edits::ByApi;
                let outcome = self.replace(config, read, true, trigger);
                if was_edited && outcome.is_ok() {
                    self.log
                        .warn(
                            "config",
                            "changes made through the admin endpoint are discarded",
                        )
                        .text("trigger", trigger)
                        .send();
                }
                outcome
            }
            Err(failed) => Err(admin_orders::unreadable(&failed)),
        };
        self.log_outcome(trigger, &outcome);
        outcome
    }

    /// Logs the outcome of a reload.
    fn log_outcome(&self, trigger: &str, outcome: &Result<(), Denied>) {
        self.readiness.ready();
        insight::note_reload(&self.server, trigger, outcome);
        match outcome {
            Ok(()) => self
                .log
                .info("config", "configuration loaded")
                .text("trigger", trigger)
                .send(),
            Err(denied) => self
                .log
                .entry(
                    Severity::Emergency,
                    "config",
                    "configuration rejected; the old one stays in use",
                )
                .text("trigger", trigger)
                .text("error", &denied.why)
                .send(),
        }
    }

    fn replace(
        &mut self,
        config: Config,
        read: Read,
        forced: bool,
        trigger: &str,
    ) -> Result<(), Denied> {
        let before = self.server.config();
        if !forced && *before == config {
            self.rename(read);
            return Ok(());
        }
        self.open_endpoint(&config, Vec::new())
            .map_err(Denied::bad)?;
        if let Err(refusals) = self.server.replace(config, &read.files) {
            let denied = admin_orders::refused(&refusals);
            // Return to the old address, which worked until now.
            if let Err(error) = self.open_endpoint(&before, Vec::new()) {
                self.log
                    .error("admin", "admin endpoint lost")
                    .text("error", error)
                    .send();
            }
            return Err(denied);
        }
        self.read = read;
        self.publish();
        let recorder = self.server.recorder();
        let config = self.read.files.first().cloned().unwrap_or_default();
        recorder.events().emit(ServerEvent {
            name: "config_reloaded",
            module: "",
            data: vec![("trigger", trigger.into()), ("config", config.into())],
        });
        Ok(())
    }

    /// The configuration stays as it is, but its document may name objects otherwise.
    fn rename(&mut self, read: Read) {
        if self.read.document == read.document {
            return;
        }
        self.read.document = read.document;
        if read.edits != Edits::None {
            self.read.edits = read.edits;
        }
        let config = self.server.config();
        let insight = insight::of(&self.server, &self.read.files, self.read.written.as_ref());
        self.current
            .replace(config.clone(), self.read.document.clone(), insight);
        self.save(&config);
    }

    /// The grace period for running requests.
    fn grace(&self, why: &Stop) -> Duration {
        let http = self.server.config().apps.http.clone();
        let is_given = http.is_some_and(|http| http.grace_period != Default::default());
        match (why, self.manners) {
            (Stop::Halt(_), _) => Duration::ZERO,
            (Stop::Replaced(Some(grace)), _) => *grace,
            // As with a reload: requests go on as long as they take, unless the configuration limits that.
            (Stop::Replaced(None), _) if !is_given => GRACE_WITHOUT_LIMIT,
            // Without `worker_shutdown_timeout`, nginx waits without limit.
            (_, Manners::Nginx) if !is_given => GRACE_WITHOUT_LIMIT,
            _ => self.server.grace_period(),
        }
    }

    fn end(mut self, why: &Stop) {
        if self.is_succeeded() {
            self.pass_on();
            self.release_successor();
        } else {
            self.cancel_upgrade();
            self.readiness.stopping();
        }
        self.server.emit_stopping();
        self.leave_fleet(why);
        let grace = self.grace(why);
        let delay = match why {
            Stop::Halt(_) | Stop::Replaced(_) => Duration::ZERO,
            Stop::Signal(_) | Stop::Order => self.server.shutdown_delay(),
        };
        if !delay.is_zero() {
            self.log
                .info("", "stopping after a delay")
                .duration("shutdown_delay", delay)
                .send();
            self.server.announce_stop(delay);
            // A second signal ends the process immediately, here too.
            thread::sleep(delay);
        }
        let entry = self
            .log
            .info("", "stopping")
            .duration("grace_period", grace);
        match why {
            Stop::Signal(signal) | Stop::Halt(signal) => {
                entry.text("signal", signal.as_str()).send()
            }
            Stop::Order | Stop::Replaced(_) => entry.text("signal", "").send(),
        }
        let endpoints = self.endpoint.into_iter().chain(self.remote);
        let closing: Vec<_> = endpoints
            .map(|endpoint| thread::spawn(|| endpoint.close()))
            .collect();
        let cut_off = self.server.drain(grace);
        for closing in closing {
            // The thread has panicked or finished; either way it is over.
            let _ = closing.join();
        }
        self.log
            .info("", "stopped")
            .integer("connections_cut_off", cut_off)
            .send();
        if self.manners == Manners::Nginx {
            notices::ended(&self.log);
        }
    }
}
