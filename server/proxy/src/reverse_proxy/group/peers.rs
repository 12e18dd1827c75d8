//! The current servers of a group: those with addresses, and the resolved addresses of those with names. `names`
//! resolves them.

use std::sync::Arc;
use std::time::Duration;

use md5::{Digest, Md5};
use sluice_message::hex::hex_text;
use sluice_message::{Moment, Status};
use sluice_model::proxy::{GroupServer, UpstreamGroup as Config};
use sluice_net::load::Load;
use sluice_pipeline::settings::given;
use sluice_policy::group::{Group as Servers, Method, Server, TooMany};

use super::super::checked::Checked;

/// A line of a group, in order.
pub struct Line {
    /// The settings of the server.
    pub server: GroupServer,
    /// The dial address.
    pub dial: String,
    /// Maximum number of concurrent requests per address; 0 for unlimited.
    pub requests_max: u32,
    /// Whether it is a backup.
    pub is_backup: bool,
}

/// The address of a server: that of a line, or one of the addresses of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The index of the line.
    pub line: usize,
    /// The dial address.
    pub dial: String,
    /// The key of its points on the consistent hashing ring.
    pub name: String,
    /// The weight.
    pub weight: u32,
    /// Whether it is a backup.
    pub is_backup: bool,
}

impl Spot {
    /// The address of a line without a name to resolve.
    pub fn of(number: usize, line: &Line) -> Spot {
        Spot {
            line: number,
            dial: line.dial.clone(),
            name: line.server.name.clone(),
            weight: line.server.weight,
            is_backup: line.is_backup,
        }
    }

    /// The address in nginx's notation: address and port, or the path of a socket.
    fn called<'s>(&'s self, line: &'s Line) -> &'s str {
        match self.dial == line.dial {
            true => &line.server.name,
            false => &self.dial,
        }
    }
}

/// The servers of a group at one point in time.
pub struct Peers {
    /// The servers to select from, in the order of `spots`.
    pub servers: Servers,
    /// Their addresses.
    pub spots: Box<[Spot]>,
    loads: Box<[Arc<Load>]>,
    /// Their states according to active health checks.
    checked: Box<[Arc<Checked>]>,
    /// Their IDs in sticky sessions; empty without sticky sessions.
    routes: Box<[Box<[u8]>]>,
    /// The version of the group.
    pub version: u64,
}

impl Peers {
    /// Creates the initial servers of a group.
    pub fn new(
        config: &Config,
        method: Method,
        lines: &[Line],
        spots: Vec<Spot>,
    ) -> Result<Peers, TooMany> {
        Ok(Peers {
            servers: Servers::new(method, &servers(lines, &spots))?,
            loads: spots.iter().map(|_| Arc::default()).collect(),
            checked: spots.iter().map(|_| Arc::default()).collect(),
            routes: routes(config, lines, &spots),
            spots: spots.into(),
            version: 0,
        })
    }

    /// Creates the next version; servers that remain keep their state.
    pub fn renewed(
        &self,
        config: &Config,
        lines: &[Line],
        spots: Vec<Spot>,
    ) -> Result<Peers, TooMany> {
        let place = |spot: &Spot| self.spots.iter().position(|before| before == spot);
        let was: Vec<Option<usize>> = spots.iter().map(place).collect();
        let load = |was: &Option<usize>| was.map(|was| self.loads[was].clone()).unwrap_or_default();
        let checked =
            |was: &Option<usize>| was.map(|was| self.checked[was].clone()).unwrap_or_default();
        Ok(Peers {
            servers: self.servers.renewed(&servers(lines, &spots), &was)?,
            loads: was.iter().map(load).collect(),
            checked: was.iter().map(checked).collect(),
            routes: routes(config, lines, &spots),
            spots: spots.into(),
            version: self.version + 1,
        })
    }

    /// The dial addresses of the servers that active health checks did not find to be down.
    pub fn up(&self) -> impl Iterator<Item = &str> {
        let all = self.spots.iter().zip(&self.checked);
        all.filter(|(_, checked)| !checked.is_down())
            .map(|(spot, _)| spot.dial.as_str())
    }

    /// The servers with this ID.
    pub fn called<'s>(&'s self, name: &'s [u8]) -> impl Iterator<Item = usize> + 's {
        let all = self.routes.iter().enumerate();
        all.filter(move |(_, route)| &***route == name)
            .map(|(index, _)| index)
    }
}

fn servers(lines: &[Line], spots: &[Spot]) -> Vec<Server> {
    let server = |spot: &Spot| {
        let line = &lines[spot.line];
        Server {
            name: spot.name.clone(),
            weight: spot.weight,
            max_fails: line.server.max_fails,
            fail_timeout: given(line.server.fail_timeout).unwrap_or(Duration::ZERO),
            requests_max: line.requests_max,
            is_down: line.server.down,
            is_backup: spot.is_backup,
            is_draining: line.server.drain,
            slow_start: given(line.server.slow_start).unwrap_or(Duration::ZERO),
        }
    };
    spots.iter().map(server).collect()
}

fn routes(config: &Config, lines: &[Line], spots: &[Spot]) -> Box<[Box<[u8]>]> {
    if config.sticky.is_none() {
        return Box::default();
    }
    let route = |spot: &Spot| {
        let line = &lines[spot.line];
        let name = match line.server.route.as_str() {
            "" => digest(spot.called(line)),
            route => route.to_owned(),
        };
        name.into_bytes().into()
    };
    spots.iter().map(route).collect()
}

/// nginx's default ID of a server: the MD5 of its address and port, or of the path of its socket.
fn digest(address: &str) -> String {
    let address = match address.starts_with("unix:") || address.contains(':') {
        true => address.to_owned(),
        false => format!("{address}:80"),
    };
    hex_text(&Md5::digest(address.as_bytes()))
}

/// The group membership of an upstream.
#[derive(Clone)]
pub struct Member {
    /// The group at the time the upstream was listed.
    pub peers: Arc<Peers>,
    /// Its index in the group.
    pub index: usize,
}

impl Member {
    /// Requests in flight, of all handlers.
    pub fn load(&self) -> &Arc<Load> {
        &self.peers.loads[self.index]
    }

    /// Its state according to the active health checks of all handlers.
    pub fn checked(&self) -> &Arc<Checked> {
        &self.peers.checked[self.index]
    }

    /// Records that health checks found it to be up again.
    pub fn recover(&self, now: Moment) {
        self.peers.servers.recover(self.index, now);
    }

    /// Its ID in sticky sessions.
    pub fn route(&self) -> Option<&[u8]> {
        self.peers.routes.get(self.index).map(|route| &**route)
    }

    /// The number of recent failures.
    pub fn fails(&self) -> u32 {
        self.peers.servers.fails(self.index)
    }

    /// Its failures, for a process that replaces this one.
    pub fn failing(&self) -> Option<[u64; 3]> {
        self.peers.servers.failing(self.index)
    }

    /// Continues with its failures in the process that this one replaces.
    pub fn resume_failing(&self, failing: [u64; 3]) {
        self.peers.servers.resume_failing(self.index, failing);
    }

    /// Whether it is available despite its failures.
    pub fn is_healthy(&self, now: Moment) -> bool {
        !self.checked().is_down() && self.peers.servers.is_healthy(self.index, now)
    }

    /// Records a failure.
    pub fn fail(&self, now: Moment) {
        self.peers.servers.fail(self.index, now);
    }

    /// Records a response that is discarded in favour of another server. 403 and 404 do not count as failures.
    pub fn refuse(&self, status: Status, now: Moment) {
        match status {
            Status::FORBIDDEN | Status::NOT_FOUND => {}
            _ => self.fail(now),
        }
    }

    /// Records a successful response.
    pub fn succeed(&self) {
        self.peers.servers.succeed(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_called_by_their_addresses() {
        // The output of `md5sum`.
        assert_eq!(digest("127.0.0.1:8080"), "5958c386bf5e9109ac10d2a628645aea");
        assert_eq!(digest("10.0.0.1"), digest("10.0.0.1:80"));
        assert_ne!(digest("unix:/run/a"), digest("unix:/run/b"));
    }

    fn line(name: &str) -> Line {
        Line {
            server: GroupServer {
                name: name.to_owned(),
                weight: 1,
                max_fails: 1,
                ..GroupServer::default()
            },
            dial: format!("{name}:80"),
            requests_max: 0,
            is_backup: false,
        }
    }

    fn at(dial: &str) -> Spot {
        Spot {
            line: 0,
            dial: dial.to_owned(),
            name: "a.test".to_owned(),
            weight: 1,
            is_backup: false,
        }
    }

    #[test]
    fn addresses_that_stay_keep_what_is_known_of_them() {
        let (config, lines) = (Config::default(), [line("a.test")]);
        let spots = vec![at("10.0.0.1:80"), at("10.0.0.2:80")];
        let first = Peers::new(&config, Method::RoundRobin, &lines, spots);
        let first = first.unwrap_or_else(|error| panic!("{error}"));
        first.servers.fail(1, Moment::START);
        let spots = vec![at("10.0.0.2:80"), at("10.0.0.3:80")];
        let next = first.renewed(&config, &lines, spots);
        let next = next.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((next.servers.fails(0), next.servers.fails(1)), (1, 0));
        assert!(Arc::ptr_eq(&next.loads[0], &first.loads[1]));
        assert_eq!(next.version, 1);
    }
}
