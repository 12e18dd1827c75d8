//! The result of lowering a directive. Most directives produce a route; the others change the enclosing site.

use sluice_diag::OriginId;
use sluice_model::logging::Log;
use sluice_model::tls::{CertificateFiles, ConnectionPolicy, Issuer};
use sluice_model::{RawModule, Route};

/// The results of a directive; none when it was refused.
pub(super) type Outcomes = Option<Vec<Outcome>>;

/// One result of a directive, under the name it is sorted by.
#[derive(Clone, Debug)]
pub(super) struct Ordered {
    /// The name whose place in the directive order counts.
    pub(super) directive: String,
    /// The result.
    pub(super) outcome: Outcome,
}

/// The result of a directive.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// A route, sorted among the others.
    Route(Route),
    /// Routes that stay together and in this order.
    Routes(Vec<Route>),
    /// Routes for failed requests.
    ErrorRoutes(Vec<Route>),
    /// Addresses to bind.
    Bind(Bind),
    /// An access log.
    Log(Box<AccessLog>),
    /// A setting of TLS.
    Tls(TlsOutcome),
}

/// What `tls` amounts to.
#[derive(Clone, Debug)]
pub(super) enum TlsOutcome {
    /// The settings of TLS handshakes.
    Policy(Box<ConnectionPolicy>),
    /// A pair of files to load.
    LoadFiles(CertificateFiles),
    /// Folders to load.
    LoadFolders(Vec<(String, OriginId)>),
    /// Who issues.
    Issuer(Issuer),
    /// A manager that provides certificates during handshakes (`get_certificate`).
    Manager(RawModule),
    /// Certificates are made during the handshake.
    OnDemand,
    /// The key is kept on renewal.
    ReusePrivateKeys,
    /// The share of the lifetime left at renewal.
    RenewalWindowRatio(f64),
    /// The type of new keys.
    KeyType(String),
    /// A certificate is made even if a loaded one covers the name.
    ForceAutomate,
}

/// Addresses to bind, and the protocols spoken there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bind {
    /// Hosts or sockets, without ports.
    pub(super) addresses: Vec<String>,
    /// The protocols; the server's when empty.
    pub(super) protocols: Vec<String>,
}

/// An access log of a site.
#[derive(Clone, Debug)]
pub(super) struct AccessLog {
    /// The name of its logger; empty for the default log.
    pub(super) name: String,
    /// The hosts it is for, instead of the site's.
    pub(super) hostnames: Vec<String>,
    /// It is used by name only.
    pub(super) no_hostname: bool,
    /// The log behind the logger, if it is not the default one.
    pub(super) log: Option<Log>,
}
