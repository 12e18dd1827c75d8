//! The addresses behind names, looked up away from the worker's thread and remembered for a few seconds. IP
//! addresses never come here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use sluice_message::Moment;
use tokio::sync::Notify;

use crate::failure::{Failure, FailureKind, Retry, Side};
use crate::upstream::limits::{NAME_ADDRESSES_MAX, NAME_FAILURE_LIFETIME, NAME_LIFETIME};
use crate::worker::Worker;

/// What a worker knows of names. As many entries as names in the configurations so far.
#[derive(Default)]
pub(super) struct Names {
    entries: RefCell<HashMap<Box<str>, Entry>>,
}

#[derive(Default)]
struct Entry {
    /// The addresses of the last successful lookup.
    known: Option<Rc<[IpAddr]>>,
    /// Why the last lookup failed, if it did.
    error: Option<Rc<io::Error>>,
    /// When the last lookup ended.
    at: Moment,
    /// Woken when the lookup that is going on ends.
    asking: Option<Rc<Notify>>,
}

enum Found {
    Known(Rc<[IpAddr]>),
    Failed(Rc<io::Error>),
    Wait(Rc<Notify>),
}

/// The addresses of `host`, in the order to try them.
pub(super) async fn look_up(
    worker: &Rc<Worker>,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, Failure> {
    if host.eq_ignore_ascii_case("localhost") {
        // RFC 6761, section 6.3: the name is loopback, whatever a resolver says.
        let both = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        return Ok(both.iter().map(|ip| SocketAddr::new(*ip, port)).collect());
    }
    loop {
        match find(worker, host) {
            Found::Known(ips) => {
                return Ok(ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect());
            }
            Found::Failed(error) => {
                let error = io::Error::new(error.kind(), error.to_string());
                let failure = Failure::new(Side::Upstream, FailureKind::Dial);
                return Err(failure.with_retry(Retry::Always).because(error));
            }
            Found::Wait(notify) => notify.notified().await,
        }
    }
}

/// What is known of `host`. Starts a lookup where nothing is known or it is too old; old addresses are used
/// meanwhile, and when a lookup fails.
fn find(worker: &Rc<Worker>, host: &str) -> Found {
    let now = worker.clock.coarse();
    let mut entries = worker.upstreams.names.entries.borrow_mut();
    if !entries.contains_key(host) {
        entries.insert(host.into(), Entry::default());
    }
    let entry = entries
        .get_mut(host)
        .expect("the entry was made on the lines above");
    let is_new = entry.known.is_none() && entry.error.is_none();
    let lifetime = if entry.error.is_some() {
        NAME_FAILURE_LIFETIME
    } else {
        NAME_LIFETIME
    };
    if entry.asking.is_none() && (is_new || now.since(entry.at) >= lifetime) {
        entry.asking = Some(Rc::new(Notify::new()));
        // Not a part of any request: if the one that asked goes away, the others still want the answer, and no
        // more than one lookup of a name is ever going on.
        tokio::task::spawn_local(ask(worker.clone(), host.into()));
    }
    match (&entry.known, &entry.error, &entry.asking) {
        (Some(known), _, _) => Found::Known(known.clone()),
        (None, _, Some(asking)) => Found::Wait(asking.clone()),
        (None, Some(error), None) => Found::Failed(error.clone()),
        (None, None, None) => unreachable!("an entry without an answer is being asked for"),
    }
}

async fn ask(worker: Rc<Worker>, host: Box<str>) {
    let answer: io::Result<Rc<[IpAddr]>> = tokio::net::lookup_host((&*host, 0)).await.map(|all| {
        all.map(|address| address.ip())
            .take(NAME_ADDRESSES_MAX)
            .collect()
    });
    let mut entries = worker.upstreams.names.entries.borrow_mut();
    let entry = entries.entry(host).or_default();
    entry.at = worker.clock.coarse();
    match answer {
        Ok(ips) if !ips.is_empty() => {
            entry.known = Some(ips);
            entry.error = None;
        }
        Ok(_) => entry.error = Some(Rc::new(io::Error::other("the name has no address"))),
        Err(error) => entry.error = Some(Rc::new(error)),
    }
    if let Some(asking) = entry.asking.take() {
        asking.notify_waiters();
    }
}
