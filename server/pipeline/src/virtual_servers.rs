//! Virtual servers that handlers select, rather than the routes of the program: those of an nginx.conf.

use sluice_message::ConnInfo;
use sluice_net::{ClientLimits, Completion, Failure, Refused, Settings};

use crate::context::Exchange;
use crate::failure::Fault;

/// What the pipeline asks virtual servers about requests and connections.
pub trait VirtualServers: Send + Sync {
    /// Records what is known of a request without a usable head. Returns the fault to respond with; `None` if there is
    /// no response.
    fn refuse(&self, exchange: &mut Exchange, refused: &Refused<'_>) -> Option<Fault>;

    /// The list of routes that records notes about a request without a response.
    fn notes_of(&self, exchange: &Exchange) -> Option<usize>;

    /// Whether a client that is too slow does not get a response.
    fn drop_slow(&self) -> bool;

    /// Logs that the client disconnected or was too slow.
    fn client_gone(&self, exchange: &mut Exchange, failure: Option<&Failure>);

    /// Notes how a response ended, before it is logged.
    fn ended(&self, exchange: &mut Exchange, completion: &Completion);

    /// The limits of the client during the rest of the request.
    fn client_limits(&self, exchange: &Exchange) -> &ClientLimits;

    /// The index of the server that a connection belongs to before its first request.
    fn server_of(&self, conn: &ConnInfo) -> u32;

    /// The settings of the default server, derived from those of the listener, and those of all servers if any differ.
    fn settings(&self, common: &Settings) -> (Settings, Option<Vec<Settings>>);
}
