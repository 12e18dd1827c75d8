//! Access control of the remote admin API: what the owner of a certificate may ask for. Connections of others end in the
//! handshake.

use sluice_certs::ClientJudge;
use sluice_message::{RequestHead, Status};
use sluice_model::{AdminPermissions, RemoteAdmin};

use crate::denied::Denied;

/// The access rules of the remote admin API.
#[derive(Clone, Debug)]
pub struct RemoteAccess {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    judge: ClientJudge,
    permissions: Vec<AdminPermissions>,
}

impl RemoteAccess {
    /// The rules of a configuration; `judges` recognize the clients of its entries.
    pub fn new(remote: &RemoteAdmin, judges: &[ClientJudge]) -> RemoteAccess {
        let entries = remote.access_control.iter().zip(judges);
        let entries = entries.map(|(access, judge)| Entry {
            judge: judge.clone(),
            permissions: access.permissions.clone(),
        });
        RemoteAccess {
            entries: entries.collect(),
        }
    }

    /// Checks whether the client with this chain of certificates (DER, leaf first) may send a request. The first entry that
    /// knows the client decides, and all of its permissions have to allow the request.
    pub fn check(&self, head: &RequestHead, chain: &[Vec<u8>]) -> Result<(), Denied> {
        let mut entries = self.entries.iter();
        let Some(entry) = entries.find(|entry| entry.judge.accepts(chain)) else {
            let why = "client identity not authorized";
            return Err(Denied::new(Status::UNAUTHORIZED, why));
        };
        let method = head.method.as_str();
        for AdminPermissions { paths, methods } in &entry.permissions {
            if !methods.is_empty() && !methods.iter().any(|allowed| allowed == method) {
                return Err(forbidden("not authorized to use this method"));
            }
            let path = head.uri.path();
            if !paths.is_empty()
                && !paths
                    .iter()
                    .any(|allowed| path.starts_with(allowed.as_bytes()))
            {
                return Err(forbidden("not authorized to access this path"));
            }
        }
        Ok(())
    }
}

fn forbidden(why: &str) -> Denied {
    Denied::new(Status::FORBIDDEN, why)
}
