//! Error log messages of requests, in nginx's wording, which log analyzers match. The scope selects the log; `log`
//! formats the lines.

use sluice_message::Status;

use super::{Tree, TreeRef};
use crate::state::NginxContext;
use sluice_observe::log::Severity;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Cause;
use sluice_pipeline::record::{Remark, log_remark};

/// The severity at which the end of a request is logged: `debug` for what nginx does not log. `None` if nothing failed,
/// or if it has been logged.
pub(super) fn severity_of(cause: Cause, status: Status) -> Option<Severity> {
    Some(match cause {
        Cause::Configured | Cause::Logged => return None,
        Cause::UpstreamResponse => Severity::Debug,
        Cause::Error | Cause::MissingFile => Severity::Error,
        Cause::Client => Severity::Info,
        Cause::ByStatus => match status.code() {
            500.. => Severity::Error,
            _ => Severity::Debug,
        },
    })
}

impl Tree {
    /// Writes to the error log of the request's scope. `upstream` is the upstream concerned, or empty.
    pub(super) fn log_error(
        &self,
        exchange: &Exchange,
        severity: Severity,
        message: &str,
        upstream: &str,
    ) {
        let Some(log) = &self.log else { return };
        let place = &self.places[exchange.context.nginx().place as usize];
        let logger = match &*place.error_log {
            "" => format!("http.log.error.{}", severity.as_str()),
            name => format!("http.log.error.{name}.{}", severity.as_str()),
        };
        let server = exchange.context.nginx().server.unwrap_or_default();
        log_remark(
            log,
            exchange,
            &Remark {
                logger: &logger,
                severity,
                message,
                server: &self.servers[server as usize].name,
                connection: super::variables::connection_number(exchange),
                upstream,
            },
        );
    }
}

impl TreeRef {
    /// As `Tree::log_error`, for handlers.
    pub fn log_error(
        &self,
        exchange: &Exchange,
        severity: Severity,
        message: &str,
        upstream: &str,
    ) {
        if let Some(tree) = self.get() {
            tree.log_error(exchange, severity, message, upstream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_have_the_severities_of_nginx() {
        for (cause, status, severity) in [
            (Cause::ByStatus, 404, Some(Severity::Debug)),
            (Cause::ByStatus, 502, Some(Severity::Error)),
            (Cause::Error, 403, Some(Severity::Error)),
            (Cause::MissingFile, 404, Some(Severity::Error)),
            (Cause::Client, 400, Some(Severity::Info)),
            (Cause::UpstreamResponse, 502, Some(Severity::Debug)),
            (Cause::Configured, 500, None),
            (Cause::Logged, 500, None),
        ] {
            let status = Status::new(status).expect("it has three digits");
            assert_eq!(severity_of(cause, status), severity, "{cause:?}");
        }
    }
}
