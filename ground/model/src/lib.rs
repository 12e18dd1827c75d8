//! The typed configuration that all configuration languages are translated to; its JSON is Caddy's JSON.
//!
//! Field names, structure and the order in which fields are written are Caddy's, and a value that Caddy omits is
//! omitted here. Files, the environment and placeholders are handled by the callers.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde_json::Value;

mod address;
mod dashboard;
mod data_rate;
mod dialect;
pub mod events;
pub mod handler;
pub mod http;
mod idle;
pub mod logging;
pub mod matcher;
mod object;
mod object_id;

pub mod pki;
mod route_origin;
mod storage;
pub mod tls;
mod value;
pub mod walk;

pub use address::{Address, AddressError, PortRange};
pub use dashboard::{Dashboard, DashboardAction};
pub use dialect::Dialect;
pub use events::EventsApp;
pub use handler::{Handler, Route, cache, nginx, proxy, response_cache};
pub use http::{HttpApp, Server};
pub use idle::{Idle, idle_settings};
pub use matcher::{Matcher, MatcherSet};
pub use object::RawModule;
pub use object_id::OBJECT_ID;

pub use storage::{EtcdStorage, FileStorage, PostgresStorage, RedisStorage, Storage};
pub use value::{Duration, TimeLimit, WeakString, placeholder_name};

use object::objects;
use response_cache::ResponseCache;

object::tagged! {
    /// Where a further configuration is loaded from.
    pub enum ConfigSource by "module" {
        /// An HTTP server.
        Http(HttpLoader) = "http",
    }
}

objects! {
    /// A whole configuration.
    pub struct Config {
        /// The control interface.
        pub admin: Option<Admin>,
        /// Logs.
        pub logging: Option<logging::Logging>,
        /// Where certificates and other lasting things are kept.
        pub storage: Option<Storage>,
        /// What runs.
        pub apps: Apps,
    }

    /// The control interface.
    pub struct Admin {
        /// Switches it off.
        pub disabled: bool,
        /// Its address.
        pub listen: String,
        /// Refuses requests whose Origin is not listed.
        pub enforce_origin: bool,
        /// The origins that may ask.
        pub origins: Vec<String>,
        /// What happens to configurations.
        pub config: Option<ConfigSettings>,
        /// Who we are towards remote controllers.
        pub identity: Option<AdminIdentity>,
        /// Control from other machines.
        pub remote: Option<RemoteAdmin>,
        /// The dashboard.
        pub dashboard: Option<Dashboard>,
    }

    /// Who we are towards remote controllers.
    pub struct AdminIdentity {
        /// The names and IP addresses of the certificate.
        pub identifiers: Vec<String>,
        /// Who issues it, tried in order; those of automatic HTTPS when empty.
        pub issuers: Vec<tls::Issuer>,
    }

    /// Control from other machines, with certificates on both sides.
    pub struct RemoteAdmin {
        /// Its address, `:2021` when empty.
        pub listen: String,
        /// Who may do what.
        pub access_control: Vec<AdminAccess>,
    }

    /// What the owners of some keys may do.
    pub struct AdminAccess {
        /// Certificates (Base64 of DER) with their public keys, or those of CAs that have signed theirs.
        pub public_keys: Vec<String>,
        /// What they may do: all when empty; each has to allow a request.
        pub permissions: Vec<AdminPermissions>,
    }

    /// Requests that are allowed.
    pub struct AdminPermissions {
        /// What their paths begin with; any when empty.
        pub paths: Vec<String>,
        /// Their methods; any when empty.
        pub methods: Vec<String>,
    }

    /// What happens to configurations.
    pub struct ConfigSettings {
        /// Whether the last one is kept on disk.
        pub persist: Option<bool>,
        /// Where a further one is loaded from.
        pub load: Option<ConfigSource>,
        /// How long to wait before it is loaded; at once, and only once, when zero.
        pub load_delay: Duration,
    }

    /// A request for a configuration.
    pub struct HttpLoader {
        /// Its method; GET when empty.
        pub method: String,
        /// The URL.
        pub url: String,
        /// Its headers.
        pub headers: BTreeMap<String, Vec<String>>,
        /// How long it may take; 10 seconds when zero.
        pub timeout: Duration,
        /// The format of the response; as its media type says, or detected, when empty.
        pub adapter: String,
        /// Settings of TLS.
        pub tls: Option<LoaderTls>,
    }

    /// TLS towards a server that has a configuration.
    pub struct LoaderTls {
        /// Shows the certificate of `admin.identity`.
        pub use_server_identity: bool,
        /// The file of a client certificate (PEM).
        pub client_certificate_file: String,
        /// The file of its key (PEM).
        pub client_certificate_key_file: String,
        /// Files of the CAs that are trusted (PEM); those of the system when empty.
        pub root_ca_pem_files: Vec<String>,
    }

    /// What runs, by the name of the app.
    pub struct Apps {
        /// Settings of all response caches of a Caddyfile.
        pub cache: Option<Box<ResponseCache>>,
        /// Event handlers.
        pub events: Option<EventsApp>,
        /// File systems by name.
        #[serde(rename = "caddy.filesystems")]
        pub filesystems: Option<RawModule>,
        /// HTTP servers.
        pub http: Option<HttpApp>,
        /// Certificate authorities.
        pub pki: Option<pki::PkiApp>,
        /// The process itself. Our own word.
        pub process: Option<ProcessApp>,
        /// Certificates.
        pub tls: Option<tls::TlsApp>,
    }

    /// The process itself. It holds for the start: a reload changes none of it.
    pub struct ProcessApp {
        /// How many workers serve, one for each processor when zero.
        pub workers: u32,
        /// How many connections each worker has at most, to clients and to upstreams together; as many as open files let
        /// when zero.
        pub worker_connections: u32,
        /// The file to which the PID is written.
        pub pid_file: String,
        /// Whether `sluice nginx` leaves its terminal; it does when absent.
        pub background: Option<bool>,
        /// The user that the threads of workers are taken for, if root starts them.
        pub user: String,
        /// The first group of that user; of the user's name when empty.
        pub group: String,
        /// The processors of each worker, as masks of zeroes and ones with processor 0 at the end. `auto` in front gives
        /// each worker one, of those in the mask behind it if there is one.
        pub worker_processors: Vec<String>,
        /// The priority of workers, from -20, which is the highest, to 20.
        pub worker_priority: Option<i64>,
        /// How many files may be open.
        pub open_files_max: u64,
        /// How large a core file may be, in bytes.
        pub core_bytes_max: Option<u64>,
        /// The folder that the process changes to.
        pub folder: String,
        /// Variables that are set in its environment.
        pub variables: BTreeMap<String, String>,
    }
}

/// Why a text is not a valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The text is not JSON.
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// The JSON does not fit.
    Shape {
        /// The place in the document, such as `apps.http.servers.srv0.listen[0]`.
        path: String,
        /// What is wrong there.
        message: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax {
                line,
                column,
                message,
            } => {
                write!(f, "invalid JSON at line {line}, column {column}: {message}")
            }
            Self::Shape { path, message } if path.is_empty() => f.write_str(message),
            Self::Shape { path, message } => write!(f, "{path}: {message}"),
        }
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    /// Reads a configuration from JSON text. Unknown fields are errors that name their place.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            let whole = error.to_string();
            let message = match whole.rsplit_once(" at line ") {
                Some((message, _)) => message.to_string(),
                None => whole,
            };
            ConfigError::Syntax {
                line: error.line(),
                column: error.column(),
                message,
            }
        })?;
        Self::from_value(value)
    }

    /// Reads a configuration from a JSON value. `null` is the empty configuration; names of objects ([`OBJECT_ID`]) are
    /// ignored.
    pub fn from_value(mut value: Value) -> Result<Self, ConfigError> {
        if value.is_null() {
            return Ok(Self::default());
        }
        object_id::remove_object_ids(&mut value);
        serde_path_to_error::deserialize(value).map_err(|error| {
            let (path, message) =
                object::locate(&error.path().to_string(), &error.inner().to_string());
            ConfigError::Shape { path, message }
        })
    }

    /// Writes the configuration as a JSON value, with all keys sorted.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("every map of the model has text for keys")
    }

    /// Writes the configuration as JSON text on one line, in Caddy's order of fields.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every map of the model has text for keys")
    }

    /// The HTTP servers by name.
    pub fn servers(&self) -> impl Iterator<Item = (&String, &Server)> {
        self.apps.http.iter().flat_map(|http| http.servers.iter())
    }
}

#[cfg(test)]
mod tests;
