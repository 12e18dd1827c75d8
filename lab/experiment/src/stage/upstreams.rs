//! The upstreams of a cell: where they run and listen, their start, and, on a machine of their own, their counters around a load.
//! Servers under test are in `serving`.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Instant;

use super::serving::{COUNTS_SETTLE, difference};
use super::{Behind, LOOPBACK, Stage, concerns, filled};
use crate::checks::{Accepted, Logs, Observed, metrics};
use crate::file::{CheckPart, File, MetricPart};
use crate::limits::UPSTREAM_REACH_MAX;
use crate::plan::{CellPlan, socket_elsewhere};
use crate::readiness::{READY_MAX, READY_PAUSE};
use crate::remote::{Ended, Network, Places, RemoteServers};
use sluice_load::machine;
use sluice_load::process::Started;
use sluice_load::result::BackendCounts;
use sluice_load::sample::Roots;

/// The upstreams of a cell on a machine of their own.
pub(crate) struct Upstreams {
    started: Vec<Started>,
    before: Option<Before>,
    after: Option<Counters>,
}

/// What is known before a load.
struct Before {
    parts: Vec<CheckPart>,
    metrics: Vec<MetricPart>,
    logs: Logs,
    counters: Counters,
}

/// Counters at a moment.
struct Counters {
    counts: Option<BackendCounts>,
    accepted: Option<u64>,
}

impl Upstreams {
    /// Their processes.
    pub fn roots(&self) -> Roots {
        Roots {
            backend: self.started.iter().map(Started::pid).collect(),
            ..Roots::default()
        }
    }
}

impl Stage {
    /// Has the upstreams run on a machine of their own.
    pub fn place_upstreams(&mut self, file: &File, upstreams: RemoteServers) -> Result<(), String> {
        self.behind = Behind::Agent(Box::new(upstreams));
        // Generated files may have their ports.
        self.write_files(file)
    }

    /// The machine of the upstreams, if that is not the machine of the servers.
    pub fn upstreams(&self) -> Option<&RemoteServers> {
        match &self.behind {
            Behind::Agent(upstreams) => Some(upstreams),
            Behind::Beside | Behind::Known(_) => None,
        }
    }

    /// The same, if a cell has upstreams.
    pub fn upstreams_of(
        &self,
        file: &File,
        cell: &CellPlan,
    ) -> Result<Option<&RemoteServers>, String> {
        let needs = self.needs(file, cell)?;
        Ok(self.upstreams().filter(|_| !needs.is_empty()))
    }

    /// Whether upstreams run beside the servers.
    pub fn has_upstreams_beside(&self) -> bool {
        matches!(self.behind, Behind::Beside)
    }

    /// Where the upstreams listen.
    pub fn places(&self) -> Places {
        match &self.behind {
            Behind::Beside => self.places.clone(),
            Behind::Agent(upstreams) => upstreams.places(),
            Behind::Known(places) => places.clone(),
        }
    }

    /// Whether the machines of the servers and of the upstreams share a network stack.
    pub(super) fn network(&self) -> Network {
        let servers = self.remote.as_ref();
        let servers = servers.map_or_else(machine::network, RemoteServers::network);
        match self.upstreams() {
            Some(upstreams) if upstreams.network() != servers => Network::Apart,
            Some(_) | None => Network::Shared,
        }
    }

    /// Checks that the servers can reach the upstreams at the address of these.
    pub fn check_networks(&self) -> Result<(), String> {
        let is_loopback = self.upstream_address().is_loopback();
        match self.upstreams() {
            Some(upstreams) if is_loopback && self.network() == Network::Apart => Err(format!(
                "upstreams on {}: they run on another machine than the servers: add --upstream-address with its address, at \
                 which the servers reach them",
                upstreams.name()
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The address at which servers reach the upstreams.
    fn upstream_address(&self) -> IpAddr {
        self.upstream_address.unwrap_or(LOOPBACK)
    }

    /// Addresses of this machine that the experiment names.
    pub(super) fn own_addresses(&self) -> Vec<IpAddr> {
        let upstreams = match self.behind {
            Behind::Beside => self.upstream_address,
            Behind::Agent(_) | Behind::Known(_) => None,
        };
        self.address.into_iter().chain(upstreams).collect()
    }

    /// The checks that the machine of the servers observes, of those of a cell with placeholders replaced: figures that an
    /// upstream on another machine reports are left to that.
    pub(super) fn observed_here(
        &self,
        (file, cell): (&File, &CellPlan),
        parts: &[CheckPart],
    ) -> Vec<CheckPart> {
        let written = file.check.iter().filter(|part| concerns(&part.when, cell));
        let both = written.zip(parts);
        let observed = both.map(|(written, part)| {
            let mut part = part.clone();
            let metric = written.metric.as_ref();
            if !self.has_upstreams_beside() && metric.is_some_and(MetricPart::is_of_upstream) {
                part.metric = None;
            }
            part
        });
        observed.collect()
    }

    /// Starts the upstreams of a cell, as far as they run beside the servers; those of another machine have to be within reach.
    pub(super) fn upstreams_beside(
        &self,
        file: &File,
        cell: &CellPlan,
    ) -> Result<Vec<Started>, String> {
        if self.has_upstreams_beside() {
            return self.start_backends(file, cell);
        }
        for name in self.needs(file, cell)? {
            let place = self.places().remove(&name).unwrap_or_default();
            let addr = self.upstream_addr(&name, &place)?;
            TcpStream::connect_timeout(&addr, UPSTREAM_REACH_MAX).map_err(|error| {
                format!(
                    "the machine of the servers does not reach upstream {name} at {addr}: {error}"
                )
            })?;
        }
        Ok(Vec::new())
    }

    fn upstream_addr(&self, name: &str, place: &str) -> Result<SocketAddr, String> {
        let port = place.parse().map_err(|_| socket_elsewhere(name))?;
        Ok(SocketAddr::new(self.upstream_address(), port))
    }

    /// Starts the upstreams of a cell on this machine.
    fn start_backends(&self, file: &File, cell: &CellPlan) -> Result<Vec<Started>, String> {
        let needs = self.needs(file, cell)?.into_iter();
        needs
            .map(|name| self.start_backend(file, cell, &name))
            .collect()
    }

    fn start_backend(&self, file: &File, cell: &CellPlan, name: &str) -> Result<Started, String> {
        let backend = file.backend.iter().find(|backend| backend.name == name);
        let backend = backend.ok_or_else(|| format!("there is no [[backend]] `{name}`"))?;
        let place = &self.places[name];
        let mut names = self.names(file, cell);
        let way = if backend.unix { "socket" } else { "port" };
        names.insert(way.into(), place.clone());
        names.insert("listen".into(), place.clone());
        let counts = self.counts_path(name).display().to_string();
        names.insert("counts".into(), counts);
        if let Some(conf) = &backend.conf {
            let config = self.rewritten(file, conf, &names)?;
            let path = format!("backend-{name}.conf");
            self.write(&path, config.text.as_bytes())?;
            names.insert("conf".into(), self.dir().join(path).display().to_string());
        }
        let command = self.command(backend.command(), &names)?;
        let env = filled(&backend.env, &names)?;
        let log = self.dir().join(format!("backend-{name}.log"));
        let socket = self.dir().join(place);
        if backend.unix {
            // A socket left by the previous block would look like an upstream that listens.
            let _ = fs::remove_file(&socket);
        }
        let dir = backend.in_folder.then(|| self.dir());
        let started = Started::start(&command, &env, &self.load_cpus, dir, &log)
            .map_err(|error| format!("cannot start upstream {name}: {error}"))?;
        if backend.unix {
            return self.listening(name, started, || UnixStream::connect(&socket).is_ok());
        }
        let addr = self.upstream_addr(name, place)?;
        self.listening(name, started, || TcpStream::connect(addr).is_ok())
            .map_err(|error| match self.upstream_address {
                Some(address) => {
                    format!("{error}; it has to listen on {address} (`{{upstream.address}}`)")
                }
                None => error,
            })
    }

    /// Waits until an upstream listens.
    fn listening(
        &self,
        name: &str,
        mut started: Started,
        listens: impl Fn() -> bool,
    ) -> Result<Started, String> {
        let begin = Instant::now();
        while !listens() {
            if let Some(status) = started.ended() {
                let log = started.log().join(" / ");
                return Err(format!("upstream {name} ended with {status}: {log}"));
            }
            if begin.elapsed() > READY_MAX || self.interrupt.is_set() {
                return Err(format!(
                    "upstream {name} does not listen after {:.0?}",
                    begin.elapsed()
                ));
            }
            thread::sleep(READY_PAUSE);
        }
        Ok(started)
    }

    /// Starts the upstreams of a cell on this machine, which is theirs alone.
    pub(crate) fn serve_upstreams(
        &self,
        file: &File,
        cell: &CellPlan,
    ) -> Result<Upstreams, String> {
        Ok(Upstreams {
            started: self.start_backends(file, cell)?,
            before: None,
            after: None,
        })
    }

    /// Notes their counters before a load.
    pub(crate) fn begin_upstreams(
        &self,
        (file, cell): (&File, &CellPlan),
        upstreams: &mut Upstreams,
    ) -> Result<(), String> {
        let parts = self.check_parts(file, cell)?;
        let written = file.check.iter().filter(|part| concerns(&part.when, cell));
        let metrics = written.zip(&parts).filter_map(|(written, part)| {
            let is_theirs = written.metric.as_ref()?.is_of_upstream();
            part.metric.clone().filter(|_| is_theirs)
        });
        let metrics: Vec<MetricPart> = metrics.collect();
        for part in &metrics {
            self.own_port(&part.url)?;
        }
        upstreams.before = Some(Before {
            logs: Logs::begin(&parts, |path| self.log_path(path))?,
            parts,
            metrics,
            counters: self.counters(file, cell),
        });
        Ok(())
    }

    /// Notes their counters at the end of a load.
    pub(crate) fn loaded_upstreams(
        &self,
        (file, cell): (&File, &CellPlan),
        upstreams: &mut Upstreams,
    ) {
        // What checks send to the servers from now on is not part of the load.
        thread::sleep(COUNTS_SETTLE);
        upstreams.after = Some(self.counters(file, cell));
    }

    /// Stops them, after what checks ask for was observed if `observe` says so.
    pub(crate) fn finish_upstreams(&self, upstreams: Upstreams, observe: bool) -> Ended {
        let Upstreams {
            mut started,
            before,
            after,
        } = upstreams;
        let Some((before, after)) = before.zip(after).filter(|_| observe) else {
            // Dropped, they stop.
            return Ended::default();
        };
        let own = self.own_addresses();
        let metrics = metrics(before.metrics.iter(), &own);
        // Some write the last lines of their logs when they stop.
        started.iter_mut().for_each(Started::stop);
        let accepted = before.counters.accepted.zip(after.accepted);
        let accepted = accepted.map(|(before, after)| after.saturating_sub(before));
        Ended {
            counts: difference(before.counters.counts, after.counts),
            accepted: accepted.map(Accepted::Upstreams),
            observed: Observed {
                log_lines: before.logs.end(self.dir()),
                metrics,
                ..Observed::default()
            },
            parts: before.parts,
            ..Ended::default()
        }
    }

    fn counters(&self, file: &File, cell: &CellPlan) -> Counters {
        Counters {
            counts: self.counts(file, cell),
            accepted: machine::accepted(),
        }
    }
}
