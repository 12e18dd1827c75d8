//! Resolves host names without blocking the worker, and caches the addresses for a few seconds. IP addresses are
//! handled elsewhere.

use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::dialling::Dialling;
use crate::endpoint::{Address, Endpoint};
use crate::limits::{NAME_ADDRESSES_MAX, NAME_FAILURE_LIFETIME, NAME_LIFETIME, NAME_REFRESH_WAIT};
use crate::name_cache::{Entry, Name, make_room};
use crate::pool::Pool;
use crate::resolver::{Family, Resolver, by_system};
use sluice_net::failure::{Failure, FailureKind, Retry, Side};
use sluice_net::timeout::within;
use sluice_net::worker::Worker;

enum Found {
    Known(Rc<[IpAddr]>),
    /// Older than they may be; a lookup is in progress.
    Old(Rc<[IpAddr]>, Rc<Notify>),
    Failed(Rc<io::Error>),
    Wait(Rc<Notify>),
}

/// The addresses of `host`, in the order to try them.
pub(crate) async fn look_up(
    worker: &Rc<Worker>,
    host: &str,
    port: u16,
    dialling: Option<&Dialling>,
) -> Result<Vec<SocketAddr>, Failure> {
    let family = dialling.map_or(Family::Any, |dialling| dialling.family);
    let resolver = dialling.and_then(|dialling| dialling.resolver.as_ref());
    if host.eq_ignore_ascii_case("localhost") {
        // RFC 6761, section 6.3: the name is loopback, whatever a resolver returns.
        let both = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        return Ok(with_port(&both, family, port));
    }
    loop {
        match find(worker, host, resolver) {
            Found::Known(ips) => return Ok(with_port(&ips, family, port)),
            Found::Failed(error) => {
                let error = io::Error::new(error.kind(), error.to_string());
                let failure = Failure::new(Side::Upstream, FailureKind::Dial);
                return Err(failure.with_retry(Retry::Always).because(error));
            }
            Found::Old(ips, notify) => {
                let looked_up = within(worker, NAME_REFRESH_WAIT, notify.notified()).await;
                if looked_up.is_none() {
                    return Ok(with_port(&ips, family, port));
                }
            }
            Found::Wait(notify) => notify.notified().await,
        }
    }
}

/// The addresses to which idle connections of an upstream may lead.
pub(crate) enum Addresses {
    /// It has a fixed address, or a name of which nobody says how long its addresses hold.
    Any,
    /// Those that its name has now.
    Known(Rc<[IpAddr]>),
    /// Its name has to be looked up first.
    Unknown,
}

/// The addresses to which idle connections of `endpoint` may lead now. Looks nothing up.
pub(crate) fn addresses_of(worker: &Worker, endpoint: &Endpoint) -> Addresses {
    let Address::Name { host, .. } = endpoint.address() else {
        return Addresses::Any;
    };
    let dialling = endpoint.options().dialling.as_deref();
    let resolver = match dialling {
        // The other end is a forward proxy.
        Some(dialling) if dialling.through.is_some() => None,
        other => other.and_then(|dialling| dialling.resolver.as_ref()),
    };
    if resolver.is_none() || host.eq_ignore_ascii_case("localhost") {
        return Addresses::Any;
    }
    let entries = Pool::of(worker).names.entries.borrow();
    let entry = entries.get(&*name_of(host, resolver));
    let known = entry.and_then(|entry| Some((entry.known.as_ref()?, entry)));
    match known {
        // After a failed lookup the last addresses hold.
        Some((known, entry)) if entry.error.is_some() => Addresses::Known(known.clone()),
        Some((known, entry)) if worker.clock.coarse().since(entry.at) < entry.lifetime => {
            Addresses::Known(known.clone())
        }
        Some(_) | None => Addresses::Unknown,
    }
}

fn with_port(ips: &[IpAddr], family: Family, port: u16) -> Vec<SocketAddr> {
    ips.iter()
        .filter(|ip| family.has(**ip))
        .map(|ip| SocketAddr::new(*ip, port))
        .collect()
}

/// The cached result for `host`. Starts a lookup if there is none or it is too old. Old addresses are used after a failed
/// lookup, and meanwhile if they come from the system, which does not say how long they hold; those of configured DNS
/// servers are used meanwhile only if the lookup takes long.
fn find(worker: &Rc<Worker>, host: &str, resolver: Option<&Resolver>) -> Found {
    let now = worker.clock.coarse();
    let name = name_of(host, resolver);
    let mut entries = Pool::of(worker).names.entries.borrow_mut();
    if !entries.contains_key(&*name) {
        make_room(&mut entries, now);
        entries.insert((&*name).into(), Entry::default());
    }
    let entry = entries
        .get_mut(&*name)
        .expect("the entry was made on the lines above");
    let is_new = entry.known.is_none() && entry.error.is_none();
    let lifetime = if entry.error.is_some() {
        NAME_FAILURE_LIFETIME
    } else {
        entry.lifetime
    };
    if entry.asking.is_none() && (is_new || now.since(entry.at) >= lifetime) {
        entry.asking = Some(Rc::new(Notify::new()));
        // The lookup does not belong to a request: if the one that started it is cancelled, others still need the
        // result, and there is never more than one lookup of a name in progress.
        let asking = ask(
            worker.clone(),
            host.into(),
            (&*name).into(),
            resolver.cloned(),
        );
        tokio::task::spawn_local(asking);
    }
    match (&entry.known, &entry.error, &entry.asking) {
        (Some(known), None, Some(asking)) if resolver.is_some() => {
            Found::Old(known.clone(), asking.clone())
        }
        (Some(known), _, _) => Found::Known(known.clone()),
        (None, _, Some(asking)) => Found::Wait(asking.clone()),
        (None, Some(error), None) => Found::Failed(error.clone()),
        (None, None, None) => unreachable!("an entry without a DNS answer is being resolved"),
    }
}

/// The cache key of a name: different resolvers may return different addresses.
fn name_of<'a>(host: &'a str, resolver: Option<&Resolver>) -> Cow<'a, str> {
    match resolver {
        None => Cow::Borrowed(host),
        // Host names do not contain slashes.
        Some(resolver) => Cow::Owned(format!(
            "{:?} {:?} {:?}/{host}",
            resolver.servers, resolver.family, resolver.lifetime
        )),
    }
}

async fn ask(worker: Rc<Worker>, host: Box<str>, name: Name, resolver: Option<Resolver>) {
    let response: io::Result<(Vec<IpAddr>, Duration)> = match resolver {
        None => by_system(&host).await.map(|found| (found, NAME_LIFETIME)),
        Some(resolver) => {
            let found = resolver.addresses(&host, resolver.family).await;
            found.map(|found| {
                let lifetime = resolver.lifetime.of(found.lifetime, NAME_LIFETIME);
                (found.records, lifetime)
            })
        }
    };
    let mut entries = Pool::of(&worker).names.entries.borrow_mut();
    let entry = entries.entry(name).or_default();
    entry.at = worker.clock.coarse();
    match response {
        Ok((ips, lifetime)) if !ips.is_empty() => {
            entry.known = Some(ips.into_iter().take(NAME_ADDRESSES_MAX).collect());
            entry.lifetime = lifetime;
            entry.error = None;
        }
        Ok(_) => entry.error = Some(Rc::new(io::Error::other("the name has no address"))),
        Err(error) => entry.error = Some(Rc::new(error)),
    }
    if let Some(asking) = entry.asking.take() {
        asking.notify_waiters();
    }
}
