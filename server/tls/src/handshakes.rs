//! What a configuration language adds to TLS handshakes.

use sluice_certs::policy::Choice;
use sluice_model::Server;

use sluice_pipeline::context::Context;
use sluice_pipeline::refusal::Refusal;

/// Prepares the context of an exchange that stands for a handshake, so that variables have values.
pub type Prepare = Box<dyn Fn(&mut Context) + Send + Sync>;

/// Rules for handshakes that only the language knows.
pub trait HandshakeRules {
    /// Selects among lists of server names, as patterns of the language do: the function returns the index of the list
    /// that has a name.
    ///
    /// # Errors
    /// A name is not valid.
    fn choice(&self, lists: &[&[String]]) -> Result<Box<Choice>, Refusal>;

    /// What variables in the paths of certificates need; `None` if that is nothing.
    ///
    /// # Errors
    /// A lookup table is not valid.
    fn variables(&self, server: &Server) -> Result<Option<Prepare>, Refusal>;
}
