//! Leases in etcd: a key that is bound to an etcd lease, and whose create revision is the fencing token.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::layout::{self, DeleteReply, LeaseReply, RangeReply, Streamed, TxnReply, encoded};
use super::{Reading, Shared};
use crate::calls::{held_by, holder, taken_within};
use crate::failure::{Fault, StoreError};
use crate::lease::{Fence, Keep, Lease};

/// Takes the lease `name`, waiting up to `timeout` for its holder.
pub(super) fn take(
    shared: &Arc<Shared>,
    name: &str,
    timeout: Duration,
    ttl: Duration,
) -> Result<Lease, StoreError> {
    let (fence, id) = taken_within(timeout, || shared.calls.run(|| attempt(shared, name, ttl)))?;
    let kept = Kept {
        shared: Arc::clone(shared),
        fence: fence.clone(),
        id,
    };
    Lease::held(fence, ttl / 3, kept).map_err(|error| shared.error(Fault::Limit, error.to_string()))
}

/// Takes the lease if nobody holds it: its fence, and the ID of the etcd lease.
fn attempt(shared: &Shared, name: &str, ttl: Duration) -> Result<(Fence, i64), StoreError> {
    let key = shared.layout.lock(name);
    let range = json!({"key": encoded(&key)});
    // Nobody waits with an etcd lease of its own for one that is held.
    let found: RangeReply = shared.gateway.call("kv/range", &range)?;
    if let Some(kv) = found.kvs.first() {
        return Err(held(shared, name, &kv.value));
    }
    let granted: LeaseReply = shared.gateway.call(
        "lease/grant",
        &json!({"TTL": ttl.as_secs().max(1).to_string()}),
    )?;
    let value = holder();
    let request = json!({
        "compare": [layout::compare(&key, "CREATE", "0")],
        "success": [{"request_put": {
            "key": encoded(&key),
            "value": encoded(value.as_bytes()),
            "lease": granted.id.to_string(),
        }}],
        "failure": [{"request_range": range}],
    });
    let reply: Result<TxnReply, StoreError> = shared.gateway.call("kv/txn", &request);
    let taken = reply.and_then(|reply| {
        if reply.succeeded {
            return Ok(reply.header.revision);
        }
        match reply.first_kv() {
            // An attempt before, whose response did not arrive, has taken it.
            Some(kv) if kv.lease == granted.id => Ok(kv.create_revision),
            Some(kv) => Err(held(shared, name, &kv.value)),
            None => Err(held(shared, name, b"")),
        }
    });
    match taken {
        Ok(revision) => {
            let fence = Fence {
                name: name.to_owned(),
                token: revision.to_string(),
            };
            Ok((fence, granted.id))
        }
        Err(error) => {
            // If it cannot be revoked now, it ends by itself.
            let _ = revoke(shared, granted.id);
            Err(error)
        }
    }
}

fn held(shared: &Shared, name: &str, holder: &[u8]) -> StoreError {
    shared.error(Fault::Held, held_by(name, holder))
}

/// Ends the lease `name` of any holder; whether it was held.
pub(super) fn end(shared: &Shared, name: &str) -> Result<bool, StoreError> {
    let key = encoded(&shared.layout.lock(name));
    let reply: DeleteReply = shared
        .gateway
        .call("kv/deleterange", &json!({"key": key}))?;
    Ok(reply.deleted > 0)
}

/// The names of the leases that are held.
pub(super) fn names(shared: &Shared, reading: Reading) -> Result<Vec<String>, StoreError> {
    let (first, end) = shared.layout.locks();
    let (found, _) = shared.range(&first, &end, true, reading, None)?;
    let names = found
        .iter()
        .filter_map(|kv| shared.layout.lease_name(&kv.key));
    Ok(names.collect())
}

fn revoke(shared: &Shared, id: i64) -> Result<serde_json::Value, StoreError> {
    let request = json!({"ID": id.to_string()});
    shared.gateway.call("lease/revoke", &request)
}

struct Kept {
    shared: Arc<Shared>,
    fence: Fence,
    /// The ID of the etcd lease.
    id: i64,
}

impl Kept {
    fn attempt_renewal(&self) -> Result<(), StoreError> {
        let shared = &self.shared;
        let lost = || shared.error(Fault::Refused, format!("the lock `{}`", self.fence.name));
        let request = json!({"ID": self.id.to_string()});
        let reply: Streamed<LeaseReply> = shared.gateway.call("lease/keepalive", &request)?;
        match reply.result {
            Some(left) if left.ttl > 0 => {}
            Some(_) => return Err(lost()),
            None => {
                let error = reply.error.unwrap_or_default();
                let what = error["message"].as_str().unwrap_or("no response");
                return Err(shared.error(Fault::Away, what));
            }
        }
        // An operator may have ended it, which leaves the etcd lease as it is.
        let key = encoded(&shared.layout.lock(&self.fence.name));
        let found: RangeReply = shared.gateway.call("kv/range", &json!({"key": key}))?;
        let revision = found.kvs.first().map(|kv| kv.create_revision.to_string());
        match revision {
            Some(revision) if revision == self.fence.token => Ok(()),
            _ => Err(lost()),
        }
    }
}

impl Keep for Kept {
    fn renew(&mut self) -> Result<(), StoreError> {
        self.shared.calls.run(|| self.attempt_renewal())
    }

    fn release(&mut self) {
        // Revoking deletes the key. If etcd is away, the lease ends by itself.
        let _ = self.shared.calls.run(|| revoke(&self.shared, self.id));
    }
}
