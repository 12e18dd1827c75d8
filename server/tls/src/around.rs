//! What TLS policies are built with.

use sluice_certs::Tickets;
use sluice_observe::log::Log;

use super::Purpose;
use super::handshakes::HandshakeRules;
use sluice_pipeline::keys::Keys;

/// The context for building policies.
pub(super) struct Around<'a> {
    pub(super) keys: &'a Keys<'a>,
    pub(super) purpose: Purpose,
    pub(super) log: &'a Log,
    pub(super) tickets: Tickets,
    pub(super) rules: &'a dyn HandshakeRules,
}
