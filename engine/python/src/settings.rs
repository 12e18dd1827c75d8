//! The settings of an application. Two applications with equal settings share one group of processes.

use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use sluice_net::sys::identity::Identity;

use crate::limits;

/// The interface between server and application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// PEP 3333.
    Wsgi,
    /// ASGI 3.
    Asgi,
    /// ESGI 0.1-draft: synchronous, under gevent.
    Esgi,
    /// RSGI 1.
    Rsgi,
    /// ASGI or WSGI, as the worker finds out from the application.
    Auto,
}

/// Whether ASGI's lifespan protocol is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lifespan {
    /// A failure at startup fails the worker.
    On,
    /// The application is not asked.
    #[default]
    Off,
    /// Used if the application supports it.
    Auto,
}

/// The event loop of an ASGI or RSGI application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EventLoop {
    /// uvloop where it can be imported, otherwise asyncio.
    #[default]
    Auto,
    /// uvloop; it is an error if it cannot be imported.
    Uvloop,
    /// asyncio.
    Asyncio,
    /// gevent, also for WSGI: a greenlet for each request.
    Gevent,
}

/// Whether the extension module `sluice_accelerator` replaces the worker's innermost loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Accelerator {
    /// Where the application's environment has it.
    #[default]
    Auto,
    /// The application does not start without it.
    On,
    /// Never.
    Off,
}

/// A resource limit of each process (setrlimit(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Processes and threads of the user.
    Processes,
    /// Address space in bytes.
    AddressSpace,
    /// Open files.
    OpenFiles,
    /// CPU time in seconds.
    CpuSeconds,
    /// Size of a file in bytes.
    FileSize,
    /// Size of a core file in bytes.
    CoreFile,
    /// Stack in bytes.
    Stack,
    /// Locked memory in bytes.
    LockedMemory,
    /// Data segment in bytes.
    Data,
}

/// All settings of an application, after placeholders were expanded and files with variables were read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The name in logs, metrics and the admin API.
    pub name: String,
    /// The interface.
    pub interface: Interface,
    /// `package.module:variable`.
    pub module: String,
    /// Whether the variable is a function that returns the application.
    pub factory: bool,
    /// The interpreter; otherwise that of `venv`, otherwise `python3` from PATH.
    pub python: Option<PathBuf>,
    /// A virtual environment.
    pub venv: Option<PathBuf>,
    /// The working directory, which is also the first entry of `sys.path`.
    pub working_dir: Option<PathBuf>,
    /// Environment variables beside those of the server.
    pub env: Vec<(String, String)>,
    /// A fixed prefix of `SCRIPT_NAME` and `root_path`.
    pub root_path: String,
    /// Number of worker processes.
    pub workers: usize,
    /// Maximum number of threads per process (WSGI).
    pub threads: usize,
    /// Maximum number of requests in flight per process (ASGI, ESGI, RSGI).
    pub concurrency: usize,
    /// Maximum number of waiting requests.
    pub queue_size: usize,
    /// How long a request waits for a worker.
    pub queue_timeout: Duration,
    /// How long a process may take to start; `None` for no limit.
    pub start_timeout: Option<Duration>,
    /// How long a request may take before its worker is replaced; `None` for no limit.
    pub request_timeout: Option<Duration>,
    /// Number of requests after which a process is replaced; `None` for no limit.
    pub max_requests: Option<u64>,
    /// Up to so many requests more, by chance, so that processes are not replaced all at once.
    pub max_requests_jitter: u64,
    /// Resident memory in bytes above which a process is replaced; `None` for no limit.
    pub max_rss: Option<u64>,
    /// Whether one process imports the application and forks the workers.
    pub preload: bool,
    /// Whether ASGI's lifespan protocol is used.
    pub lifespan: Lifespan,
    /// The event loop.
    pub event_loop: EventLoop,
    /// Whether the extension module is used.
    pub accelerator: Accelerator,
    /// The user of the processes; `None` for that of this process. Changing it needs root.
    pub user: Option<Identity>,
    /// Resource limits of each process.
    pub rlimits: Vec<(Resource, u64)>,
    /// Whether processes are replaced when a Python file under `working_dir` changes.
    pub autoreload: bool,
    /// How long an old process may take to finish its requests after it was replaced.
    pub drain_timeout: Duration,
    /// How many starts in a row may fail before a worker is given up.
    pub failures_max: u32,
    /// Bytes of one direction of a request that may be on their way (flow control).
    pub window: u32,
    /// Bytes of WebSocket messages that processes may hold for the application.
    pub messages_bytes_max: u64,
}

impl Settings {
    /// The defaults for an application.
    pub fn new(name: &str, interface: Interface, module: &str) -> Settings {
        Settings {
            name: name.to_owned(),
            interface,
            module: module.to_owned(),
            factory: false,
            python: None,
            venv: None,
            working_dir: None,
            env: Vec::new(),
            root_path: String::new(),
            workers: 1,
            threads: limits::THREADS,
            concurrency: limits::CONCURRENCY,
            queue_size: limits::QUEUE_SIZE,
            queue_timeout: limits::QUEUE_TIMEOUT,
            start_timeout: Some(limits::START_TIMEOUT),
            request_timeout: None,
            max_requests: None,
            max_requests_jitter: 0,
            max_rss: None,
            preload: false,
            lifespan: Lifespan::Off,
            event_loop: EventLoop::Auto,
            accelerator: Accelerator::Auto,
            user: None,
            rlimits: Vec::new(),
            autoreload: false,
            drain_timeout: limits::DRAIN_TIMEOUT,
            failures_max: limits::FAILURES_MAX,
            window: limits::WINDOW_BYTES,
            messages_bytes_max: limits::MESSAGES_BYTES_MAX,
        }
    }

    /// A number that differs between different settings and is the same in every process and version with the same
    /// fields.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// FNV-1a: unlike the standard library's hasher, it promises to stay the same.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_a_setting_changes_the_fingerprint() {
        let base = Settings::new("a", Interface::Wsgi, "app:app");
        assert_eq!(base.fingerprint(), base.clone().fingerprint());
        let changes: [fn(&mut Settings); 6] = [
            |s| s.module = "app:other".to_owned(),
            |s| s.interface = Interface::Asgi,
            |s| s.env.push(("A".to_owned(), "1".to_owned())),
            |s| s.workers = 2,
            |s| s.request_timeout = Some(Duration::from_secs(1)),
            |s| s.rlimits.push((Resource::OpenFiles, 100)),
        ];
        let mut seen = vec![base.fingerprint()];
        for change in changes {
            let mut other = base.clone();
            change(&mut other);
            assert!(!seen.contains(&other.fingerprint()), "{other:?}");
            seen.push(other.fingerprint());
        }
    }
}
