//! Error log messages of requests, in nginx's wording, which log analyzers match. The scope selects the log; `log`
//! formats the lines.

use sluice_message::Status;

use super::{Tree, TreeRef};
use crate::state::NginxContext;
use sluice_observe::log::Level;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::record::{Remark, tell};

/// nginx's log levels, as far as requests use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// `debug`.
    Debug,
    /// `info`.
    Info,
    /// `notice`.
    Notice,
    /// `warn`.
    Warn,
    /// `error`.
    Error,
    /// `alert`.
    Alert,
}

impl Grade {
    fn as_str(self) -> &'static str {
        match self {
            Grade::Debug => "debug",
            Grade::Info => "info",
            Grade::Notice => "notice",
            Grade::Warn => "warn",
            Grade::Error => "error",
            Grade::Alert => "alert",
        }
    }

    fn level(self) -> Level {
        match self {
            Grade::Debug => Level::Debug,
            Grade::Info | Grade::Notice => Level::Info,
            Grade::Warn => Level::Warn,
            Grade::Error | Grade::Alert => Level::Error,
        }
    }

    /// The level with this name; `error` if empty.
    pub fn named(name: &str) -> Option<Grade> {
        Some(match name {
            "" | "error" => Grade::Error,
            "warn" => Grade::Warn,
            "notice" => Grade::Notice,
            "info" => Grade::Info,
            _ => return None,
        })
    }

    /// The next lower level: nginx logs a delayed request one level below a rejected one.
    pub fn softer(self) -> Grade {
        match self {
            Grade::Alert | Grade::Error => Grade::Warn,
            Grade::Warn => Grade::Notice,
            Grade::Notice => Grade::Info,
            Grade::Info | Grade::Debug => Grade::Debug,
        }
    }
}

/// Prefixes of messages that nginx logs at `error` although the response is not a server error.
const ERRORS: [&str; 9] = [
    "open() ",
    "directory index of ",
    "access forbidden by rule",
    "user \"",
    "client intended to send ",
    "limiting ",
    "rewrite or internal redirection cycle ",
    "upstream ",
    "no live upstreams ",
];

/// Prefixes of messages that nginx logs at `info`, and of client errors that only sluice reports.
const INFOS: [&str; 6] = [
    "no user/password ",
    "client ",
    "the path leads out",
    "the method for the upstream ",
    "a header name for the upstream ",
    "a header value for the upstream ",
];

/// The level at which the failure of a request is logged; `debug` for what nginx does not log.
pub(super) fn grade_of(status: Status, message: &str) -> Grade {
    let begins = |known: &&str| message.starts_with(*known);
    match status.code() {
        // Error responses of upstreams are not errors of this server.
        _ if message == sluice_proxy::reverse_proxy::INTERCEPTED => Grade::Debug,
        _ if ERRORS.iter().any(begins) => Grade::Error,
        _ if INFOS.iter().any(begins) => Grade::Info,
        500.. => Grade::Error,
        _ => Grade::Debug,
    }
}

impl Tree {
    /// Writes to the error log of the request's scope. `upstream` is the upstream concerned, or empty.
    pub(super) fn tell(&self, exchange: &Exchange, grade: Grade, message: &str, upstream: &str) {
        let Some(log) = &self.log else { return };
        let place = &self.places[exchange.context.nginx().place as usize];
        let logger = match &*place.error_log {
            "" => format!("http.log.error.{}", grade.as_str()),
            name => format!("http.log.error.{name}.{}", grade.as_str()),
        };
        let server = exchange.context.nginx().server.unwrap_or_default();
        tell(
            log,
            exchange,
            &Remark {
                logger: &logger,
                level: grade.level(),
                message,
                server: &self.servers[server as usize].name,
                connection: super::variables::connection_number(exchange),
                upstream,
            },
        );
    }
}

impl TreeRef {
    /// As `Tree::tell`, for handlers.
    pub fn tell(&self, exchange: &Exchange, grade: Grade, message: &str, upstream: &str) {
        if let Some(tree) = self.get() {
            tree.tell(exchange, grade, message, upstream);
        }
    }

    /// As `tell`, for the reason that ends a request; nothing more is logged about it.
    pub fn tell_end(&self, exchange: &mut Exchange, grade: Grade, message: &str) {
        self.tell(exchange, grade, message, "");
        exchange.context.nginx_mut().is_told = true;
    }
}
