//! Active health checks of the servers of a group (`health_check` of an nginx.conf). They begin with the configuration and
//! end with it; `active` does each of them.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sluice_net::tasks::in_background;
use sluice_net::worker::Worker;
use sluice_policy::health::Initial;

use super::active::{Checks, Target};
use super::dynamic::{Members, Set};
use super::group::{Checking, Up};
use super::upstream::Upstream;

/// The health checks of a group by one directive.
pub struct GroupChecks {
    checks: Arc<Checks>,
    /// The name of the group.
    group: String,
    servers: Servers,
    /// What is checked.
    targets: Mutex<Vec<Arc<Target>>>,
}

/// The servers of a group.
pub enum Servers {
    /// They have addresses.
    Fixed(Set),
    /// Some have names, which are resolved again and again.
    Named(Arc<Members>),
}

impl GroupChecks {
    /// The checks of `servers`.
    pub fn new(checks: &Arc<Checks>, group: &str, servers: Servers) -> GroupChecks {
        GroupChecks {
            checks: checks.clone(),
            group: group.to_owned(),
            servers,
            targets: Mutex::default(),
        }
    }

    /// Checks exactly these upstreams from now on. Servers that were checked before remain so.
    fn watch(&self, set: &[Arc<Upstream>], up: &Arc<Up>, worker: &Rc<Worker>) {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of = |target: &Arc<Target>, upstream: &Arc<Upstream>| {
            Arc::ptr_eq(target.checked(), &upstream.checked)
        };
        targets.retain(|target| set.iter().any(|upstream| is_of(target, upstream)));
        for upstream in set {
            if !targets.iter().any(|target| is_of(target, upstream)) {
                let initial = self.initial(upstream, up);
                targets.push(self.checks.follow_from(upstream, initial, worker));
            }
        }
    }

    fn initial(&self, upstream: &Upstream, up: &Arc<Up>) -> Initial {
        let is_known = self.checks.is_persistent
            && up.contains(&(self.group.clone(), upstream.address.clone()));
        match is_known {
            true => Initial::Healthy,
            false => self.checks.initial(),
        }
    }
}

impl Checking for GroupChecks {
    fn begin(self: Arc<Self>, up: &Arc<Up>, worker: &Rc<Worker>) {
        match &self.servers {
            Servers::Fixed(set) => self.watch(set, up, worker),
            Servers::Named(_) => {
                let checks = Arc::downgrade(&self);
                in_background(watch_names(worker.clone(), checks, up.clone()));
            }
        }
    }
}

/// Resolves the names of a group and checks their addresses, for as long as the configuration is in use.
async fn watch_names(worker: Rc<Worker>, checks: Weak<GroupChecks>, up: Arc<Up>) {
    loop {
        let interval = {
            let Some(checks) = checks.upgrade() else {
                return;
            };
            if let Servers::Named(members) = &checks.servers {
                let set = members.list(&worker).await;
                checks.watch(&set, &up, &worker);
            }
            checks.checks.interval()
        };
        let timer = worker.timers.timer();
        timer.set(&worker.clock, interval);
        poll_fn(|cx| timer.poll_expired(cx)).await;
    }
}
