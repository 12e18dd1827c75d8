//! Connections to the servers behind us: dialling, keeping, and speaking HTTP/1 on them. Which server is chosen
//! is left to `sluice-policy`, what is asked to whoever encodes the request.

mod answer;
mod call;
mod dial;
mod endpoint;
pub mod limits;
mod link;
mod names;
mod pool;
mod upload;

#[cfg(test)]
mod tests;

pub use answer::AnswerBody;
pub use call::{Answer, Call, CallFailure};
pub use dial::{Wanted, obtain};
pub use endpoint::{Address, Endpoint, KeepAlive, Options, Timeouts};
pub use link::{Lease, Link, Load, Origin};
pub use pool::Pool;
pub use upload::Upload;
