//! What the pipeline asks the virtual servers of an nginx.conf: the settings of a connection, and requests without a
//! regular response, because the head was malformed or never arrived, or the client disconnected. Statuses are nginx's, in
//! the log and on error pages.

use sluice_message::{ConnInfo, Method, Status};
use sluice_net::{ClientLimits, Completion, Ending, Failure, Refused, Settings, Side};

use super::{Tree, client_timeouts, pages, post_action};
use crate::state::NginxContext;
use sluice_observe::log::Severity;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::virtual_servers::VirtualServers;

/// nginx's statuses for a request head that is too large (clients receive 400) and for a client that disconnected
/// (log only).
const HEAD_TOO_LARGE: u16 = 494;
const CLIENT_LEFT: u16 = 499;

impl VirtualServers for Tree {
    /// Records what is known of a request without a head. It belongs to the server that the SNI name selects, or to
    /// the default server. Returns the fault to respond with; `None` if the request arrived too late to be
    /// reported.
    fn refuse(&self, exchange: &mut Exchange, refused: &Refused<'_>) -> Option<Fault> {
        exchange.context.set_tables(self.tables.as_ref());
        exchange.reasons = pages::reason;
        let number = self.server_of(&exchange.conn);
        self.enter_site(exchange, number);
        exchange.context.nginx_mut().server = Some(number);
        exchange.context.nginx_mut().place = self.servers[number as usize].place;
        exchange.context.occasional_mut().refused_line = Some(refused.line.into());
        read_line(exchange, refused.line);
        if refused.status == Status::REQUEST_TIMEOUT {
            self.log_error(exchange, Severity::Info, "client timed out", "");
            return None;
        }
        let status = match refused.status {
            Status::HEADERS_TOO_LARGE => Status::new(HEAD_TOO_LARGE).unwrap_or(refused.status),
            // nginx responds with 400 if the method cannot be read.
            Status::NOT_IMPLEMENTED if exchange.req.target.is_empty() => Status::BAD_REQUEST,
            status => status,
        };
        if let Some(request_ids) = &self.servers[number as usize].request_ids {
            request_ids.assign(exchange);
        }
        let why = format!("client sent an invalid request: {}", refused.why);
        Some(Fault::new(status, why).caused_by(Cause::Client))
    }

    /// Logs that the client disconnected or timed out.
    fn client_gone(&self, exchange: &mut Exchange, failure: Option<&Failure>) {
        let message = match failure.is_some_and(Failure::is_slow_client) {
            true => "client timed out",
            false => "client prematurely closed connection",
        };
        self.log_error(exchange, Severity::Info, message, "");
        exchange.context.log.is_logged = true;
    }

    /// Sets the status that nginx logs, and starts the request that follows.
    fn ended(&self, exchange: &mut Exchange, completion: &Completion) {
        self.note_ending(exchange, completion);
        if let Some(zone) = &self.place(exchange).zone {
            let status = match completion.ending {
                Ending::Aborted => 0,
                Ending::Complete | Ending::Failed(_) => exchange.res.status.code(),
            };
            zone.end(exchange.worker.index, status, completion);
        }
        post_action::begin(self, exchange, completion);
    }

    fn notes_of(&self, exchange: &Exchange) -> Option<usize> {
        self.place(exchange).errors
    }

    fn drop_slow(&self) -> bool {
        true
    }

    fn client_limits(&self, exchange: &Exchange) -> &ClientLimits {
        self.timeouts_of(self.place(exchange)).limits()
    }

    fn server_of(&self, conn: &ConnInfo) -> u32 {
        let name = conn.tls.as_ref().map(|tls| tls.server_name.as_bytes());
        name.map_or(0, |name| self.names.by_sni(name))
    }

    fn settings(&self, common: &Settings) -> (Settings, Option<Vec<Settings>>) {
        client_timeouts::per_server(self, common)
    }
}

impl Tree {
    /// Sets the status that nginx logs for a client that disconnected or timed out before it received anything.
    fn note_ending(&self, exchange: &mut Exchange, completion: &Completion) {
        let Ending::Failed(failure) = &completion.ending else {
            return;
        };
        if failure.side != Side::Client {
            return;
        }
        self.client_gone(exchange, Some(failure));
        if completion.bytes_sent == 0 {
            let status = match failure.is_slow_client() {
                true => Some(Status::REQUEST_TIMEOUT),
                false => Status::new(CLIENT_LEFT),
            };
            exchange.res.status = status.unwrap_or(exchange.res.status);
        }
    }
}

/// Reads method and target of a well-formed request line.
fn read_line(exchange: &mut Exchange, line: &[u8]) {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    // nginx accepts no other characters.
    let is_known = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'_' | b'-');
    let Some(method) = Method::from_token(method).filter(|_| method.iter().all(is_known)) else {
        return;
    };
    if target.starts_with(b"/") && version.starts_with(b"HTTP/1.") {
        exchange.req.method = method;
        exchange.req.target = target.into();
        let (path, query) = match memchr::memchr(b'?', target) {
            Some(at) => (&target[..at], Some(&target[at + 1..])),
            None => (target, None),
        };
        exchange.req.uri.set_path(path);
        exchange.req.uri.set_query(query);
    }
}
