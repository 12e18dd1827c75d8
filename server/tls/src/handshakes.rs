//! What a configuration language adds to TLS handshakes, and the placeholder values of a handshake.

use sluice_certs::policy::Choice;
use sluice_message::{ConnInfo, RequestHead};
use sluice_model::Server;
use sluice_observe::process_values;
use sluice_route::placeholder::NginxKey;
use sluice_route::{Found, Key, Provenance, RequestValues, Scratch, Values};

use sluice_pipeline::refusal::Refusal;

/// Rules for handshakes that only the language knows.
pub trait HandshakeRules {
    /// Selects among lists of server names, as patterns of the language do: the function returns the index of the list
    /// that has a name.
    ///
    /// # Errors
    /// A name is not valid.
    fn choice(&self, lists: &[&[String]]) -> Result<Box<Choice>, Refusal>;

    /// The variables that the language has in the paths of certificates.
    ///
    /// # Errors
    /// A lookup table is not valid.
    fn variables(&self, server: &Server) -> Result<Box<dyn HandshakeVariables>, Refusal>;
}

/// Variables of a configuration language during a handshake.
pub trait HandshakeVariables: Send + Sync {
    /// Appends the value of a variable; nothing if it depends on a request.
    fn value(&self, handshake: &Handshake<'_>, key: &NginxKey, out: &mut Vec<u8>);

    /// The provenance of that value when it is used in paths; `None` for that of the key.
    fn provenance(&self, handshake: &Handshake<'_>, key: &NginxKey) -> Option<Provenance>;
}

/// A handshake whose certificate has to be chosen: the server name and the addresses are known, and there is no request
/// yet. Placeholders that depend on a request are empty.
pub struct Handshake<'a> {
    /// The connection, with the server name that the client sent.
    pub conn: &'a ConnInfo,
    variables: &'a dyn HandshakeVariables,
    /// The head of a request without method, target and headers.
    head: RequestHead,
    /// Without captures.
    scratch: Scratch,
}

impl<'a> Handshake<'a> {
    /// The handshake of a connection.
    pub fn new(conn: &'a ConnInfo, variables: &'a dyn HandshakeVariables) -> Handshake<'a> {
        Handshake {
            conn,
            variables,
            head: RequestHead::default(),
            scratch: Scratch::default(),
        }
    }
}

impl Values for Handshake<'_> {
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        match key {
            Key::Nginx(key) => {
                self.variables.value(self, key, out);
                Found::Known
            }
            Key::System(key) => process_values::system(*key, out),
            Key::FileText(path) => process_values::file_text(path, out),
            _ => RequestValues {
                head: &self.head,
                conn: self.conn,
                client_ip: None,
                original_method: None,
                scratch: &self.scratch,
            }
            .value(key, out),
        }
    }

    fn provenance(&self, key: &Key) -> Provenance {
        let known = match key {
            Key::Nginx(key) => self.variables.provenance(self, key),
            _ => None,
        };
        known.unwrap_or_else(|| key.provenance())
    }
}
