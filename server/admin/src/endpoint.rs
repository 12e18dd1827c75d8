//! The admin API's listen address and its worker. `api` produces the responses.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use sluice_model::Admin;
use sluice_net::tls::Acceptor;
use sluice_net::{ConnectionLimit, Listen, Protocols, Workers};

use crate::access::Access;
use crate::address::Address;
use crate::limits::{CONNECTIONS_MAX, GRACE};
use crate::orders::{Current, Orders};
use crate::remote::RemoteAccess;
use crate::service::{AdminService, Gate};

/// The error when the admin API cannot be started.
#[derive(Debug)]
pub struct StartError {
    address: Address,
    problem: String,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the admin interface cannot listen on {}: {}",
            self.address, self.problem
        )
    }
}

impl std::error::Error for StartError {}

/// The HTTP versions that clients on other machines may use.
const REMOTE_PROTOCOLS: Protocols = Protocols {
    h1: true,
    h2: true,
    h2c: false,
    h3: false,
};

/// The running admin API, on a worker of its own.
pub struct Endpoint {
    address: Address,
    opening: Opening,
    workers: Workers<AdminService>,
    orders: Orders,
    current: Current,
}

/// Who may use an endpoint, and how its connections are protected.
#[derive(Clone)]
enum Opening {
    /// This machine.
    Local(Access),
    /// Others, by their certificates.
    Remote(RemoteAccess, Arc<dyn Acceptor>),
}

impl Endpoint {
    /// Binds the address and starts the worker. Listening sockets of a replaced process are used where they have the address.
    pub fn start(
        address: Address,
        admin: Option<&Admin>,
        orders: Orders,
        current: Current,
        handed: Vec<OwnedFd>,
    ) -> Result<Endpoint, StartError> {
        let access = Access::new(&address, admin);
        Endpoint::open(address, Opening::Local(access), (orders, current), handed)
    }

    /// Like [`Endpoint::start`], for clients on other machines.
    pub fn start_remote(
        address: Address,
        access: RemoteAccess,
        acceptor: Arc<dyn Acceptor>,
        (orders, current): (Orders, Current),
        handed: Vec<OwnedFd>,
    ) -> Result<Endpoint, StartError> {
        let opening = Opening::Remote(access, acceptor);
        Endpoint::open(address, opening, (orders, current), handed)
    }

    fn open(
        address: Address,
        opening: Opening,
        (orders, current): (Orders, Current),
        handed: Vec<OwnedFd>,
    ) -> Result<Endpoint, StartError> {
        let wrong = |problem: String| StartError {
            address: address.clone(),
            problem,
        };
        let limit = ConnectionLimit::new(CONNECTIONS_MAX);
        let mut workers = Workers::start(1, limit).map_err(|error| wrong(error.to_string()))?;
        workers.take_over(handed);
        let mut endpoint = Endpoint {
            address: address.clone(),
            opening,
            workers,
            orders,
            current,
        };
        match endpoint.listen() {
            Ok(()) => Ok(endpoint),
            Err(problem) => {
                endpoint.close();
                Err(wrong(problem))
            }
        }
    }

    /// The listen address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Changes the address or the access rules. On error the current ones stay in effect.
    pub fn change(&mut self, address: Address, admin: Option<&Admin>) -> Result<(), StartError> {
        let access = Access::new(&address, admin);
        if let Opening::Local(known) = &self.opening
            && address == self.address
            && access == *known
        {
            return Ok(());
        }
        self.move_to(address, Opening::Local(access))
    }

    /// Like [`Endpoint::change`], for clients on other machines.
    pub fn change_remote(
        &mut self,
        address: Address,
        access: RemoteAccess,
        acceptor: Arc<dyn Acceptor>,
    ) -> Result<(), StartError> {
        self.move_to(address, Opening::Remote(access, acceptor))
    }

    fn move_to(&mut self, address: Address, opening: Opening) -> Result<(), StartError> {
        let old = (
            std::mem::replace(&mut self.address, address.clone()),
            std::mem::replace(&mut self.opening, opening),
        );
        self.listen().map_err(|problem| {
            (self.address, self.opening) = old;
            StartError { address, problem }
        })
    }

    /// Duplicates of its listening sockets, for a process that replaces this one.
    ///
    /// # Errors
    /// There are no more file descriptors.
    pub fn lend(&self) -> io::Result<Vec<OwnedFd>> {
        self.workers.lend()
    }

    /// Stops accepting, because another process accepts; [`Endpoint::close`] follows.
    pub fn pass_on(&self) {
        self.workers.pass_on();
    }

    /// Stops listening and drains the responses in progress.
    pub fn close(self) {
        self.workers.drain(GRACE);
    }

    fn listen(&mut self) -> Result<(), String> {
        let (gate, tls, protocols) = match &self.opening {
            Opening::Local(access) => (Gate::Local(access.clone()), None, Protocols::default()),
            Opening::Remote(access, acceptor) => (
                Gate::Remote(access.clone()),
                Some(acceptor.clone()),
                REMOTE_PROTOCOLS,
            ),
        };
        let service = AdminService::new(gate, self.orders.clone(), self.current.clone());
        let service = Arc::new(service);
        let sockets = self.address.sockets().map_err(|error| error.to_string())?;
        let listens = sockets
            .into_iter()
            .map(|addr| Listen {
                addr,
                service: service.clone(),
                tls: tls.clone(),
                wrapper: None,
                datagrams: None,
                protocols,
            })
            .collect();
        self.workers
            .apply(listens)
            .map_err(|error| error.source.to_string())
    }
}
