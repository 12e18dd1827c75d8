//! The coordinator's side of servers: the connection to one agent, over which texts go to its host and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Instant;

use super::channel::{Heard, Peer, receive};
use super::fleet::{AgentSpec, LOOK, Member, Permissions, ended, open};
use super::message::{Order, Report};
use super::token::Token;
use crate::limits::{ALIVE_INTERVAL, HOST_ORDERS_MAX, SERVERS_END_MAX, SILENCE_MAX};
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::generator::target::Reach;

/// The connection to an agent that starts servers. They stop when it is dropped.
pub struct Line {
    member: Member,
    origin: Instant,
    reports: Receiver<Result<String, String>>,
    /// When the agent was last heard.
    heard: Heard,
    is_over: Arc<AtomicBool>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // An agent that this program started stops its servers when its input ends, and would leave some if it was killed.
        self.member.sender.close();
        self.member.wait_for_end(SERVERS_END_MAX);
    }
}

impl Line {
    /// Connects. An agent that this program starts may run `programs`.
    pub fn connect(
        spec: &AgentSpec,
        token: Option<&Token>,
        programs: &[String],
    ) -> Result<Self, String> {
        let origin = Instant::now();
        // It probes the servers that it starts at an address of its own machine.
        let permissions = Permissions {
            reach: Reach::Loopback,
            programs,
        };
        let (member, mut reader) = open(spec, token, permissions, origin)?;
        let (to, reports) = sync_channel(HOST_ORDERS_MAX);
        let line = Line {
            member,
            origin,
            reports,
            heard: Heard::now(),
            is_over: Arc::default(),
        };
        let heard = line.heard.clone();
        let read = move || {
            loop {
                let report = match receive(&mut reader, Peer::Known) {
                    Ok(Report::Up) => None,
                    Ok(Report::Host(text)) => Some(Ok(text)),
                    Ok(Report::Refused { reason }) => Some(Err(reason)),
                    Ok(_) => Some(Err("it sent a message that nobody asked for".into())),
                    Err(error) => Some(Err(ended(&error))),
                };
                heard.again();
                let ends = matches!(report, Some(Err(_)));
                if report.is_some_and(|report| to.send(report).is_err()) || ends {
                    return;
                }
            }
        };
        let (sender, is_over) = (line.member.sender.clone(), line.is_over.clone());
        let greet = move || {
            while !is_over.load(Ordering::Acquire) && sender.send(&Order::Alive).is_ok() {
                thread::sleep(ALIVE_INTERVAL);
            }
        };
        let named = |name: &str| thread::Builder::new().name(name.to_string());
        let started = named("servers").spawn(read);
        let started = started.and_then(|_| named("servers-alive").spawn(greet));
        started.map_err(|error| error.to_string())?;
        Ok(line)
    }

    /// Whether its loopback address is that of this machine.
    pub fn is_here(&self) -> bool {
        self.member.is_here()
    }

    /// Identifies its network stack.
    pub fn network(&self) -> &str {
        &self.member.network
    }

    /// The agent's clock at a moment, in nanoseconds.
    pub fn clock_ns(&self, at: Instant) -> u64 {
        let since = match at.checked_duration_since(self.origin) {
            Some(after) => after.as_nanos() as i128,
            None => -((self.origin - at).as_nanos() as i128),
        };
        u64::try_from(self.member.clock_ns + since).unwrap_or(0)
    }

    /// Sends an order and waits for what the host reports. The error says why it will not report anything.
    pub fn ask(&self, order: String, interrupt: &Interrupt) -> Result<String, String> {
        if let Err(error) = self.member.sender.send(&Order::Host(order)) {
            // An agent that ended the connection has said why.
            return match self.reports.recv_timeout(LOOK) {
                Ok(Err(reason)) => Err(reason),
                Ok(Ok(_)) | Err(_) => Err(error.to_string()),
            };
        }
        loop {
            match self.reports.recv_timeout(LOOK) {
                Ok(report) => return report,
                Err(RecvTimeoutError::Disconnected) => return Err("its connection ended".into()),
                Err(RecvTimeoutError::Timeout) if interrupt.is_set() => {
                    return Err("interrupted".into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.heard.silent_for() > SILENCE_MAX {
                return Err(format!("silent for {:.0} s", SILENCE_MAX.as_secs_f64()));
            }
        }
    }
}
