//! The configuration of a fleet: nodes that take one configuration from one place. A node follows the place and reports
//! what it runs; `push` writes a new configuration there and waits for the reports.
//!
//! This package moves texts. The command line turns them into configurations, as it does with files.

mod copy;
mod follow;
mod http_source;
mod layout;
mod location;
mod open;
mod proposal;
mod push;
mod push_steps;
mod report;
mod reporter;
mod revision;
mod seen;
mod source;
mod standing;
#[cfg(test)]
mod tests;
mod traffic;
mod view;
mod wakes;
mod watcher;

pub use copy::Copy;
pub use follow::{Follower, Node};
pub use layout::{Canary, Layout, Past};
pub use location::{Location, LocationError, Scheme};
pub use proposal::{
    Checked, NodeVerdict, Proposal, PushError, PushOutcome, Pushed, Share, Stage, Verdict, Wanted,
};
pub use push::{before_last, check, push};
pub use report::{CertificateSummary, Facts, NodeReport, Ran, Refusal};
pub use revision::Revision;
pub use seen::Seen;
pub use source::Source;
pub use standing::FollowerStanding;
pub use traffic::{Traffic, Window};
pub use view::{Fleet, NodeState, NodeView};
pub use wakes::{Leaving, Offered, Offering, Outcome, Reply};
