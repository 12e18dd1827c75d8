//! Leases in Redis: a key with a time to live, and a text that only its holder knows as the fencing token.

use std::sync::Arc;
use std::time::Duration;

use redis::cmd;

use super::{Shared, command, script, scripts};
use crate::calls::{held_by, holder, taken_within};
use crate::failure::{Fault, StoreError};
use crate::lease::{Fence, Keep, Lease};
use crate::limits::{ENTRIES_MAX, LIST_PAGE};

/// Takes the lease `name`, waiting up to `timeout` for its holder.
pub(super) fn take(
    shared: &Arc<Shared>,
    name: &str,
    timeout: Duration,
) -> Result<Lease, StoreError> {
    let token = taken_within(timeout, || shared.calls.run(|| attempt(shared, name)))?;
    let fence = Fence {
        name: name.to_owned(),
        token,
    };
    let kept = Kept {
        shared: Arc::clone(shared),
        fence: fence.clone(),
    };
    Lease::held(fence, shared.lease_ttl / 3, kept)
        .map_err(|error| shared.link.error(Fault::Limit, error.to_string()))
}

/// Takes the lease if nobody holds it, and returns its token.
fn attempt(shared: &Shared, name: &str) -> Result<String, StoreError> {
    let token = holder();
    let key = shared.lock_name(name);
    let mut set = cmd("SET");
    set.arg(&key)
        .arg(&token)
        .arg("NX")
        .arg("PX")
        .arg(milliseconds(shared.lease_ttl));
    let taken: Option<String> = shared.link.call(&set)?;
    if taken.is_some() {
        return Ok(token);
    }
    let present: Option<Vec<u8>> = shared.link.call(&command("GET", [key]))?;
    match present {
        // An attempt before, whose response did not arrive, has taken it.
        Some(text) if text == token.as_bytes() => Ok(token),
        present => {
            let what = held_by(name, &present.unwrap_or_default());
            Err(shared.link.error(Fault::Held, what))
        }
    }
}

/// The names of the leases that are held.
pub(super) fn names(shared: &Shared) -> Result<Vec<String>, StoreError> {
    let mut names = Vec::new();
    let first = shared.lock_name("");
    let pattern = format!("{}*", escaped(&first));
    let mut cursor = "0".to_owned();
    loop {
        let mut scan = cmd("SCAN");
        scan.arg(&cursor)
            .arg("MATCH")
            .arg(&pattern)
            .arg("COUNT")
            .arg(LIST_PAGE);
        let (next, found): (String, Vec<Vec<u8>>) = shared.link.call(&scan)?;
        for name in found.into_iter().filter_map(|n| String::from_utf8(n).ok()) {
            // A lock ends by itself; a value that somebody keeps there does not.
            let left: i64 = shared.link.call(&command("PTTL", [name.clone()]))?;
            if left > 0 {
                names.extend(name.strip_prefix(&first).map(str::to_owned));
            }
        }
        if names.len() > ENTRIES_MAX {
            let what = format!("more than {ENTRIES_MAX} locks");
            return Err(shared.link.error(Fault::Limit, what));
        }
        if next == "0" {
            break;
        }
        cursor = next;
    }
    names.sort();
    // A scan may return a key twice.
    names.dedup();
    Ok(names)
}

/// A text as a pattern that only it matches.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn milliseconds(time: Duration) -> String {
    time.as_millis().max(1).to_string()
}

struct Kept {
    shared: Arc<Shared>,
    fence: Fence,
}

impl Keep for Kept {
    fn renew(&mut self) -> Result<(), StoreError> {
        let Kept { shared, fence } = self;
        let key = shared.lock_name(&fence.name);
        let time = milliseconds(shared.lease_ttl);
        let renew = script(scripts::RENEW, [key, fence.token.clone(), time]);
        let is_ours: bool = shared.calls.run(|| shared.link.call(&renew))?;
        match is_ours {
            true => Ok(()),
            false => Err(shared.link.error(Fault::Refused, &*fence.name)),
        }
    }

    fn release(&mut self) {
        let Kept { shared, fence } = self;
        let key = shared.lock_name(&fence.name);
        let release = script(scripts::RELEASE, [key, fence.token.clone()]);
        // If Redis is away, the lease ends by itself.
        let _: Result<bool, StoreError> = shared.calls.run(|| shared.link.call(&release));
    }
}
