//! The status of the server at a moment: what the admin API, the dashboard, `sluice top` and `sluice status` show. It is
//! computed from counters that requests update anyway; rates come from samples taken once per second.

mod csv;
mod history;
pub mod nginx_plus;
mod rows;
mod sampler;
mod snapshot;

pub use history::HistoryDocument;
pub use sampler::Status;
pub use snapshot::{
    Cache, Certificate, Classes, Concurrency, ConfigSourceView, Connections, FailedRequest,
    Overload, Process, PythonApplication, RateLimit, ReloadOutcome, Reloads, ServerInfo, Site,
    Sites, Snapshot, Table, Traffic, UpstreamRow, Urgency, WorkerRow,
};
