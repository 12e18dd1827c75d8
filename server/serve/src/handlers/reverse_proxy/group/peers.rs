//! The servers of a group as they are known now: those with addresses, and the addresses of those with names. Finding
//! addresses is left to `names`.

use std::sync::Arc;
use std::time::Duration;

use md5::{Digest, Md5};
use sluice_message::hex::hex_text;
use sluice_message::{Moment, Status};
use sluice_model::proxy::{NginxGroup as Config, NginxServer};
use sluice_net::upstream::Load;
use sluice_policy::group::{Group as Servers, Method, Server, TooMany};

use super::super::build::duration;

/// What the lines of a group say, in their order.
pub struct Line {
    /// What is said of its server.
    pub server: NginxServer,
    /// How it is dialled.
    pub dial: String,
    /// The most requests at a time of each of its addresses; without limit when 0.
    pub requests_max: u32,
    /// Whether it is for emergencies only.
    pub is_backup: bool,
}

/// Where a line of a group leads: itself, or one of the addresses of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The number of the line.
    pub line: usize,
    /// How it is dialled.
    pub dial: String,
    /// What its place on the ring of consistent hashing follows from.
    pub name: String,
    /// Its share beside the others.
    pub weight: u32,
    /// Whether it is for emergencies only.
    pub is_backup: bool,
}

impl Spot {
    /// That of a line which has its address.
    pub fn of(number: usize, line: &Line) -> Spot {
        Spot {
            line: number,
            dial: line.dial.clone(),
            name: line.server.name.clone(),
            weight: line.server.weight,
            is_backup: line.is_backup,
        }
    }

    /// What nginx calls it: its address and port, or the path of its socket.
    fn called<'s>(&'s self, line: &'s Line) -> &'s str {
        match self.dial == line.dial {
            true => &line.server.name,
            false => &self.dial,
        }
    }
}

/// The servers of a group as they are known at one time.
pub struct Peers {
    /// What is chosen from, in the order of `spots`.
    pub servers: Servers,
    /// Where they are.
    pub spots: Box<[Spot]>,
    loads: Box<[Arc<Load>]>,
    /// What clients that stay call them; none where clients do not.
    routes: Box<[Box<[u8]>]>,
    /// Which state of the group this is.
    pub version: u64,
}

impl Peers {
    /// The first servers of a group.
    pub fn new(
        config: &Config,
        method: Method,
        lines: &[Line],
        spots: Vec<Spot>,
    ) -> Result<Peers, TooMany> {
        Ok(Peers {
            servers: Servers::new(method, &servers(lines, &spots))?,
            loads: spots.iter().map(|_| Arc::default()).collect(),
            routes: routes(config, lines, &spots),
            spots: spots.into(),
            version: 0,
        })
    }

    /// The next ones: what is known of those that stay is kept.
    pub fn renewed(
        &self,
        config: &Config,
        lines: &[Line],
        spots: Vec<Spot>,
    ) -> Result<Peers, TooMany> {
        let place = |spot: &Spot| self.spots.iter().position(|before| before == spot);
        let was: Vec<Option<usize>> = spots.iter().map(place).collect();
        let load = |was: &Option<usize>| was.map(|was| self.loads[was].clone()).unwrap_or_default();
        Ok(Peers {
            servers: self.servers.renewed(&servers(lines, &spots), &was)?,
            loads: was.iter().map(load).collect(),
            routes: routes(config, lines, &spots),
            spots: spots.into(),
            version: self.version + 1,
        })
    }

    /// The servers that clients call so.
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
            fail_timeout: duration(line.server.fail_timeout).unwrap_or(Duration::ZERO),
            requests_max: line.requests_max,
            is_down: line.server.down,
            is_backup: spot.is_backup,
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

/// What nginx calls a server that has no name of its own: the MD5 of its address and port, or of the path of its socket.
fn digest(address: &str) -> String {
    let address = match address.starts_with("unix:") || address.contains(':') {
        true => address.to_owned(),
        false => format!("{address}:80"),
    };
    hex_text(&Md5::digest(address.as_bytes()))
}

/// A server of a group, as its upstream knows it.
pub struct Member {
    /// The group as it was when the upstream was listed.
    pub peers: Arc<Peers>,
    /// Its number among them.
    pub index: usize,
}

impl Member {
    /// Requests in progress, those of all handlers.
    pub fn load(&self) -> &Arc<Load> {
        &self.peers.loads[self.index]
    }

    /// What clients that stay with it call it.
    pub fn route(&self) -> Option<&[u8]> {
        self.peers.routes.get(self.index).map(|route| &**route)
    }

    /// The failures that count now.
    pub fn fails(&self) -> u32 {
        self.peers.servers.fails(self.index)
    }

    /// Whether its failures leave it in.
    pub fn is_healthy(&self, now: Moment) -> bool {
        self.peers.servers.is_healthy(self.index, now)
    }

    /// Notes that it gave no answer.
    pub fn fail(&self, now: Moment) {
        self.peers.servers.fail(self.index, now);
    }

    /// Notes an answer that another server is asked for in place of: those that say that there is no such thing, or
    /// that it is not for this client, are no failures.
    pub fn refuse(&self, status: Status, now: Moment) {
        match status {
            Status::FORBIDDEN | Status::NOT_FOUND => {}
            _ => self.fail(now),
        }
    }

    /// Notes an answer.
    pub fn succeed(&self) {
        self.peers.servers.succeed(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_called_by_their_addresses() {
        // By md5sum.
        assert_eq!(digest("127.0.0.1:8080"), "5958c386bf5e9109ac10d2a628645aea");
        assert_eq!(digest("10.0.0.1"), digest("10.0.0.1:80"));
        assert_ne!(digest("unix:/run/a"), digest("unix:/run/b"));
    }

    fn line(name: &str) -> Line {
        Line {
            server: NginxServer {
                name: name.to_owned(),
                weight: 1,
                max_fails: 1,
                ..NginxServer::default()
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
