//! What the builder of a proxy asks the configuration language that the proxy comes from.

use sluice_model::proxy::ReverseProxy as Config;

use super::addresses::Sockets;
use super::buffering::Buffering;
use super::dialect::Dialect;
use super::retry::Sharing;
use sluice_pipeline::build::Builder;
use sluice_pipeline::refusal::Refusal;
use sluice_wire::h1::Leniency;

/// A configuration language.
pub trait Language {
    /// Builds the dialect of a proxy, which may try `servers` upstreams one after the other.
    fn dialect(
        &self,
        config: &Config,
        servers: u32,
        sharing: Sharing,
        builder: &Builder<'_>,
    ) -> Result<Box<dyn Dialect>, Refusal>;

    /// Where bodies wait.
    fn buffering(&self, config: &Config, builder: &Builder<'_>) -> Result<Buffering, Refusal>;

    /// What becomes of request fields that are set to nothing.
    fn empty_fields(&self) -> EmptyFields;

    /// Whether the body of the request is not forwarded.
    fn drops_body(&self) -> bool;

    /// Whether a placeholder may give the path of a socket.
    fn sockets(&self) -> Sockets;

    /// What the heads of HTTP/1 upstreams may have that RFC 9112 does not allow.
    fn leniency(&self) -> Leniency;

    /// Which response fields placeholders for those of the upstream show.
    fn shown_fields(&self) -> ShownFields;
}

/// Which response fields placeholders for those of the upstream show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownFields {
    /// Those that the upstream has sent.
    AsReceived,
    /// Those that are forwarded.
    AsForwarded,
}

/// What becomes of fields that a configuration sets to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyFields {
    /// They are sent.
    Sent,
    /// They are left out.
    Skipped,
}
