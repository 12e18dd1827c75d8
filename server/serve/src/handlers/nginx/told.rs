//! What the logs of errors are told of requests, when it happens and in the words of nginx, which programs look for. Which
//! log that is each place says; the form of lines is left to `log`.

use sluice_message::Status;

use super::{Tree, TreeRef};
use crate::context::Exchange;
use crate::log::Level;
use crate::record::{Remark, tell};

/// nginx's levels, as far as requests are told of at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grade {
    Debug,
    Info,
    Notice,
    Warn,
    Error,
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

    /// The one with this name; `error` where none is named.
    pub(crate) fn named(name: &str) -> Option<Grade> {
        Some(match name {
            "" | "error" => Grade::Error,
            "warn" => Grade::Warn,
            "notice" => Grade::Notice,
            "info" => Grade::Info,
            _ => return None,
        })
    }

    /// The next softer one, as nginx tells what is held back more softly than what is refused.
    pub(crate) fn softer(self) -> Grade {
        match self {
            Grade::Alert | Grade::Error => Grade::Warn,
            Grade::Warn => Grade::Notice,
            Grade::Notice => Grade::Info,
            Grade::Info | Grade::Debug => Grade::Debug,
        }
    }
}

/// The beginnings of what nginx tells at `error` of answers that are no failures of the server.
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

/// The beginnings of what it tells at `info`, and of mistakes of clients that are mistakes only here.
const INFOS: [&str; 6] = [
    "no user/password ",
    "client ",
    "the path leads out",
    "the method for the upstream ",
    "a header name for the upstream ",
    "a header value for the upstream ",
];

/// How grave it is that a request ends so; it is told at `debug` what nginx does not tell.
pub(super) fn grade_of(status: Status, message: &str) -> Grade {
    let begins = |known: &&str| message.starts_with(*known);
    match status.code() {
        // What upstreams answer is their concern.
        _ if message == crate::handlers::reverse_proxy::INTERCEPTED => Grade::Debug,
        _ if ERRORS.iter().any(begins) => Grade::Error,
        _ if INFOS.iter().any(begins) => Grade::Info,
        500.. => Grade::Error,
        _ => Grade::Debug,
    }
}

impl Tree {
    /// Tells the log of the place that a request is in. `upstream` is the one it is about, empty for none.
    pub(super) fn tell(&self, x: &Exchange, grade: Grade, message: &str, upstream: &str) {
        let Some(log) = &self.log else { return };
        let place = &self.places[x.context.nginx.place as usize];
        let logger = match &*place.error_log {
            "" => format!("http.log.error.{}", grade.as_str()),
            name => format!("http.log.error.{name}.{}", grade.as_str()),
        };
        let server = x.context.nginx.server.unwrap_or_default();
        tell(
            log,
            x,
            &Remark {
                logger: &logger,
                level: grade.level(),
                message,
                server: &self.servers[server as usize].name,
                connection: super::variables::connection_number(x),
                upstream,
            },
        );
    }
}

impl TreeRef {
    /// As [`Tree::tell`], from a handler of one of its places.
    pub(crate) fn tell(&self, x: &Exchange, grade: Grade, message: &str, upstream: &str) {
        if let Some(tree) = self.get() {
            tree.tell(x, grade, message, upstream);
        }
    }

    /// The same of what ends a request: nothing more is told of it.
    pub(crate) fn tell_end(&self, x: &mut Exchange, grade: Grade, message: &str) {
        self.tell(x, grade, message, "");
        x.context.nginx.is_told = true;
    }
}
