//! Load generators on other machines: `lab agent` runs there, and `--agent` divides a load between them. An agent is
//! reached over TCP, where both sides prove that they know a token, or over the standard input and output of a command such
//! as `ssh`.
//!
//! All agents open their connections, then begin their windows at the same moment; their counts are added and their
//! histograms merged without loss. If an agent fails or is lost, the whole load fails: there is never a smaller one.
//!
//! An agent may also start servers, if it was allowed to: it passes the orders of a [`Line`] to its [`Host`].

mod channel;
mod fleet;
mod host;
mod line;
mod message;
mod serve;
mod task;
mod token;

pub use fleet::{AgentSpec, Divided, Fleet};
pub use host::{Host, Hosting};
pub use line::Line;
pub use serve::{Rules, serve, serve_stdio};
pub use token::{TOKEN_VARIABLE, Token};
