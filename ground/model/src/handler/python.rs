//! The settings of `python`: which application runs in which processes, and what its requests may take. The names are those
//! of Caddy Snake's module `http.handlers.python`, and our own behind them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::proxy::BodyBuffers;
use crate::object::objects;
use crate::value::{Duration, TimeLimit, WeakString};

objects! {
    /// Serves requests with a Python application in processes of its own.
    pub struct Python {
        /// A WSGI application, `module:variable`; `module:variable()` for a function that returns it.
        pub module_wsgi: String,
        /// An ASGI application.
        pub module_asgi: String,
        /// An ESGI application.
        pub module_esgi: String,
        /// What runs requests in a process: `sync` or `gevent` for WSGI, `uvloop` or `native` for ASGI, `gevent` for ESGI.
        pub runtime: String,
        /// Lifespan events of ASGI: `on`, `off`, or our own `auto`; `off` when empty.
        pub lifespan: String,
        /// The folder that the application runs in and is imported from; that of the server when empty.
        pub working_dir: String,
        /// The virtual environment.
        pub venv_path: String,
        /// How many processes run, one for each CPU when empty or zero.
        pub workers: WeakString,
        /// `on` to start anew when a Python file changes.
        pub autoreload: WeakString,
        /// The interpreter, instead of that of the virtual environment.
        pub python_path: String,
        /// Files with environment variables.
        pub env_files: Vec<String>,
        /// Environment variables.
        pub env_vars: BTreeMap<String, String>,
        /// How long processes may take to start, 120 s when zero, as long as they like when negative or `forever`.
        pub start_timeout: TimeLimit,
        /// How processes are isolated.
        pub isolation: Option<PythonIsolation>,
        /// The most applications that placeholders make, 128 when zero.
        pub max_dynamic_apps: i64,
        /// An application whose interface is detected. Our own setting, as all that follow.
        pub module: String,
        /// An RSGI application.
        pub module_rsgi: String,
        /// The name in logs and metrics; the application when empty. Our own setting.
        pub name: String,
        /// Threads that a WSGI process has at most, 16 when zero.
        pub threads: u32,
        /// Requests at a time in a process with an event loop, 1,000 when zero.
        pub concurrency: u32,
        /// Requests that wait for a free process, 1,000 when absent.
        pub queue_size: Option<u32>,
        /// How long a request waits for a free process, 10 s when zero.
        pub queue_timeout: Duration,
        /// How long a request may take before it fails and its process is replaced; no limit when zero.
        pub request_timeout: Duration,
        /// Requests after which a process is replaced, never when zero.
        pub max_requests: u64,
        /// Up to so many requests more, by chance, so that processes are not replaced all at once.
        pub max_requests_jitter: u64,
        /// Bytes of memory beyond which a process is replaced, never when zero.
        pub max_rss: u64,
        /// Imports the application once, and forks the processes.
        pub preload: bool,
        /// The extension module `sluice_accelerator`, which replaces the worker's innermost loop: `auto` (where it is
        /// installed), `on` or `off`; `auto` when empty.
        pub accelerator: String,
        /// The path that the application is mounted at, before that of `handle_path`.
        pub root_path: String,
        /// The user that processes run as, that of the server when empty.
        pub user: String,
        /// Limits of the operating system for each process: `nproc`, `nofile`, `as`, `cpu`, …
        pub rlimits: BTreeMap<String, u64>,
        /// Bytes of a WebSocket message, 16 MiB when zero.
        pub max_message_size: u64,
        /// Bytes of WebSocket messages of clients that the processes of an application hold, 256 MiB when zero.
        pub max_message_memory: u64,
        /// Whether WebSocket messages may be compressed (RFC 7692): `on` or `off`; `on` when empty.
        pub permessage_deflate: String,
        /// How long processes that are replaced may finish what they began, an hour when zero.
        pub drain_timeout: Duration,
        /// How long an application that placeholders made may be idle before its processes end, 30 min when zero.
        pub dynamic_idle_timeout: Duration,
        /// Buffering of request bodies for WSGI, which are dispatched when they are complete.
        pub request_buffers: BodyBuffers,
        /// Buffering of WSGI responses, so that a slow client holds no thread.
        pub response_buffers: BodyBuffers,
    }

    /// How processes are isolated.
    pub struct PythonIsolation {
        /// `none`; `docker` is refused when the configuration is built.
        pub backend: String,
        /// Settings of Docker.
        pub docker: Option<crate::object::RawModule>,
    }
}

/// The interface that an application is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Detected when the application is imported.
    Auto,
    /// PEP 3333.
    Wsgi,
    /// ASGI 3.
    Asgi,
    /// Caddy Snake's blocking interface.
    Esgi,
    /// Granian's interface.
    Rsgi,
}

impl Interface {
    /// All of them, in the order of [`Python::modules`].
    pub const ALL: [Interface; 5] = [
        Interface::Wsgi,
        Interface::Asgi,
        Interface::Esgi,
        Interface::Rsgi,
        Interface::Auto,
    ];

    /// `wsgi`, `asgi`, `esgi`, `rsgi` or `auto`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Interface::Auto => "auto",
            Interface::Wsgi => "wsgi",
            Interface::Asgi => "asgi",
            Interface::Esgi => "esgi",
            Interface::Rsgi => "rsgi",
        }
    }

    /// The setting that names such an application.
    pub const fn setting(self) -> &'static str {
        match self {
            Interface::Auto => "module",
            Interface::Wsgi => "module_wsgi",
            Interface::Asgi => "module_asgi",
            Interface::Esgi => "module_esgi",
            Interface::Rsgi => "module_rsgi",
        }
    }

    /// The values that `runtime` has for it, the default first.
    pub const fn runtimes(self) -> &'static [&'static str] {
        match self {
            Interface::Auto => &[],
            Interface::Wsgi => &["sync", "gevent"],
            Interface::Asgi => &["uvloop", "native"],
            Interface::Esgi => &["gevent"],
            Interface::Rsgi => &["uvloop", "native"],
        }
    }
}

impl Python {
    /// The applications that are named; a valid configuration names exactly one.
    pub fn modules(&self) -> impl Iterator<Item = (Interface, &str)> {
        let named = |interface| match interface {
            Interface::Auto => &*self.module,
            Interface::Wsgi => &*self.module_wsgi,
            Interface::Asgi => &*self.module_asgi,
            Interface::Esgi => &*self.module_esgi,
            Interface::Rsgi => &*self.module_rsgi,
        };
        let all = Interface::ALL.into_iter();
        all.map(move |interface| (interface, named(interface)))
            .filter(|(_, module)| !module.is_empty())
    }
}
