//! The coordinator's side: connects to agents, compares clocks, divides a load, and adds up what they report.

use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use super::channel::{Peer, Sender, receive};
use super::message::{Order, Report, VERSION};
use super::task::{Task, refusal};
use super::token::{Side, Token, nonce};
use crate::limits::{AGENTS_MAX, BEGIN_NOTICE, CLOCK_PINGS, GREETING_TIMEOUT, SILENCE_MAX};
use sluice_load::combine::combine;
use sluice_load::generator::seen::Seen;
use sluice_load::generator::target::{Address, Reach};
use sluice_load::generator::trust::TlsOptions;
use sluice_load::generator::{NOTICE, Plan, Stage};
use sluice_load::machine;
use sluice_load::process::words;
use sluice_load::result::{Load, LoadMachine};

/// Reports that may wait to be read.
const REPORTS_MAX: usize = 64;

/// Longest wait for a report before the interrupt and the silence of agents are looked at.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Pause between two looks whether a program has ended.
const END_PAUSE: Duration = Duration::from_millis(5);

/// How an agent is reached.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum AgentSpec {
    /// Over TCP, at `HOST:PORT`.
    Tcp(String),
    /// Over ssh: `ssh:HOST`, with ssh's own configuration and keys.
    Ssh(String),
    /// By a command that runs `sluice-lab agent --stdio` somewhere: `command:WORDS`.
    Command(Vec<String>),
    /// On this machine: `local`.
    Local,
}

impl FromStr for AgentSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "local" {
            return Ok(AgentSpec::Local);
        }
        if let Some(host) = text.strip_prefix("ssh:") {
            // A host that begins with a dash would be an option of ssh.
            return match host.is_empty() || host.starts_with('-') || host.contains(' ') {
                true => Err(format!(
                    "`{host}` is not a host; write ssh:HOST or ssh:USER@HOST"
                )),
                false => Ok(AgentSpec::Ssh(host.to_string())),
            };
        }
        if let Some(command) = text.strip_prefix("command:") {
            let words = words(command)?;
            return match words.is_empty() {
                true => Err("the command is empty".to_string()),
                false => Ok(AgentSpec::Command(words)),
            };
        }
        match text.rsplit_once(':').map(|(_, port)| port.parse::<u16>()) {
            Some(Ok(_)) => Ok(AgentSpec::Tcp(text.to_string())),
            Some(Err(_)) | None => Err(format!(
                "`{text}` is not an agent; write HOST:PORT, ssh:HOST, command:WORDS or local"
            )),
        }
    }
}

impl TryFrom<String> for AgentSpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl AgentSpec {
    /// Its name in messages and results, as it was typed.
    pub fn name(&self) -> String {
        match self {
            AgentSpec::Tcp(address) => address.clone(),
            AgentSpec::Ssh(host) => format!("ssh:{host}"),
            AgentSpec::Command(words) => format!("command:{}", words.join(" ")),
            AgentSpec::Local => "local".to_string(),
        }
    }

    /// Whether it runs on this machine without a connection to anywhere.
    pub fn is_local(&self) -> bool {
        matches!(self, AgentSpec::Local)
    }

    /// The words of the command, if it is one. Agents that this program starts may load what this program may, and run what
    /// it asks them to.
    fn command(&self, permissions: Permissions<'_>) -> Result<Option<Vec<String>>, String> {
        let owns = match permissions.reach {
            Reach::Loopback => None,
            Reach::Anywhere => Some("--i-own-this-host".to_string()),
        };
        let runs = |program: &String| match self {
            // The words of ssh are read by a shell.
            AgentSpec::Ssh(_) => format!("--allow-run='{}'", program.replace('\'', r"'\''")),
            _ => format!("--allow-run={program}"),
        };
        let more = owns
            .into_iter()
            .chain(permissions.programs.iter().map(runs));
        Ok(match self {
            AgentSpec::Tcp(_) => None,
            AgentSpec::Command(words) => Some(words.clone()),
            AgentSpec::Ssh(host) => {
                // Without a question for a password, which nobody would see.
                let words = [
                    "ssh",
                    "-oBatchMode=yes",
                    "--",
                    host,
                    "sluice-lab",
                    "agent",
                    "--stdio",
                ];
                Some(words.map(str::to_string).into_iter().chain(more).collect())
            }
            AgentSpec::Local => {
                let exe = std::env::current_exe().map_err(|error| error.to_string())?;
                let words = [&exe.display().to_string(), "agent", "--stdio"];
                Some(words.map(str::to_string).into_iter().chain(more).collect())
            }
        })
    }
}

/// What agents that this program starts may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permissions<'a> {
    /// Hosts that they may load.
    pub reach: Reach,
    /// Programs that they may start.
    pub programs: &'a [String],
}

/// What a member did.
enum Event {
    Report(Report),
    Lost(String),
}

/// A connected agent.
pub(super) struct Member {
    pub name: String,
    cpu_model: String,
    /// Identifies its network stack.
    pub network: String,
    pub sender: Arc<Sender>,
    /// Its clock at the origin, in nanoseconds.
    pub clock_ns: i128,
    /// Largest possible error of that.
    bound: Duration,
    /// How much its time of day is ahead.
    offset_s: f64,
    child: Option<Child>,
    stream: Option<TcpStream>,
}

impl Member {
    /// Whether its loopback address is that of this machine.
    pub(super) fn is_here(&self) -> bool {
        self.network == machine::network()
    }

    /// Waits until the program that was started as the agent, or to reach it, has ended.
    pub(super) fn wait_for_end(&mut self, wait_max: Duration) {
        let begin = Instant::now();
        let Some(child) = &mut self.child else {
            return;
        };
        while matches!(child.try_wait(), Ok(None)) && begin.elapsed() < wait_max {
            thread::sleep(END_PAUSE);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A load to divide between agents.
#[derive(Clone, Copy, Debug)]
pub struct Divided<'a> {
    /// The load as a whole.
    pub plan: &'a Plan,
    /// What the TLS of the plan was made from: files are read here and sent.
    pub tls: &'a TlsOptions,
    /// Threads of each agent; by default half of its CPUs.
    pub threads: Option<usize>,
}

/// The agents of a load.
pub struct Fleet {
    members: Vec<Member>,
    events: Receiver<(usize, Event)>,
    origin: Instant,
    /// Why no further load is possible.
    broken: Option<String>,
}

impl Fleet {
    /// Connects to all agents, which may load what is within `reach`. The error names the one that failed.
    pub fn connect(
        specs: &[AgentSpec],
        token: Option<&Token>,
        reach: Reach,
    ) -> Result<Self, String> {
        if specs.len() > AGENTS_MAX {
            return Err(format!("{} agents; at most {AGENTS_MAX}", specs.len()));
        }
        let origin = Instant::now();
        let (to, events) = sync_channel(REPORTS_MAX);
        let mut members = Vec::new();
        for (number, spec) in specs.iter().enumerate() {
            let name = spec.name();
            let member = member(spec, (token, reach), origin, (number, &to))
                .map_err(|error| format!("agent {name}: {error}"))?;
            members.push(member);
        }
        Ok(Fleet {
            members,
            events,
            origin,
            broken: None,
        })
    }

    /// Why these agents cannot generate a load, if they cannot.
    pub fn refusal(&self, plan: &Plan) -> Option<String> {
        let loopback = match &plan.target.address {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) => false,
        };
        let elsewhere = self.elsewhere().filter(|_| loopback).map(|name| {
            format!(
                "agent {name} runs on another machine, where {} is that machine itself: use an address of the server that \
                 the agent reaches",
                plan.target.name
            )
        });
        elsewhere.or_else(|| refusal(plan, self.members.len()))
    }

    /// The first agent whose loopback address is not that of this machine.
    pub fn elsewhere(&self) -> Option<&str> {
        let mut members = self.members.iter();
        members
            .find(|one| !one.is_here())
            .map(|one| one.name.as_str())
    }

    /// Whether an agent has failed or is lost, so that no further load is possible.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The processes that this program started as agents, or to reach them.
    pub fn processes(&self) -> Vec<u32> {
        let children = self.members.iter().filter_map(|one| one.child.as_ref());
        children.map(Child::id).collect()
    }

    /// Runs a load on all agents together. `watch` is called with its progress. If one of them fails or is lost, the whole
    /// load fails, and so does every later one.
    pub fn run(&mut self, task: &Divided<'_>, watch: &mut dyn FnMut(Stage)) -> io::Result<Load> {
        if let Some(broken) = &self.broken {
            return Err(io::Error::other(broken.clone()));
        }
        if let Some(refused) = self.refusal(task.plan) {
            return Err(io::Error::other(refused));
        }
        let ran = self.drive(task, watch);
        if let Err(reason) = &ran {
            self.broken = Some(reason.clone());
            // The connections end with the members, and with them the loads of the other agents.
            self.members.clear();
        }
        ran.map_err(io::Error::other)
    }

    fn drive(
        &mut self,
        &Divided { plan, tls, threads }: &Divided<'_>,
        watch: &mut dyn FnMut(Stage),
    ) -> Result<Load, String> {
        let of = self.members.len();
        let tasks = (0..of).map(|agent| Task::of(plan, tls, threads, agent, of));
        let tasks: Result<Vec<Task>, String> = tasks.collect();
        let tasks = tasks?;
        let length = tasks.iter().map(Task::length).max().unwrap_or_default();
        let shares: Vec<_> = tasks.iter().map(Task::share).collect();
        for (number, task) in tasks.into_iter().enumerate() {
            self.order(number, &Order::Prepare(Box::new(task)))?;
        }
        let mut loads: Vec<Option<(Load, usize)>> = vec![None; of];
        let mut watching = Watching::new(of);
        self.wait(plan, &mut watching, &mut loads, watch, |watching, loads| {
            let ready = watching.ramped.iter().zip(loads);
            ready
                .into_iter()
                .all(|(ramped, load)| *ramped || load.is_some())
        })?;
        let bound = self.members.iter().map(|member| member.bound).max();
        let notice = plan.warmup.max(NOTICE) + BEGIN_NOTICE + bound.unwrap_or_default();
        let begin = Instant::now() + notice;
        for number in 0..of {
            let since = (begin - self.origin).as_nanos() as i128;
            let at_ns = u64::try_from(self.members[number].clock_ns + since).unwrap_or(0);
            self.order(number, &Order::Begin { at_ns })?;
        }
        watch(Stage::Window(begin, begin + plan.duration));
        watching.deadline = Some(begin + length + SILENCE_MAX);
        self.wait(plan, &mut watching, &mut loads, watch, |_, loads| {
            loads.iter().all(Option::is_some)
        })?;
        let loads = loads.into_iter().flatten().enumerate();
        let loads = loads.map(|(number, (load, cpus))| {
            let machine = self.machine(number, &load, cpus, shares[number]);
            Load {
                machines: vec![machine],
                ..load
            }
        });
        let mut load = combine(loads.collect());
        load.interrupted |= plan.interrupt.is_set();
        Ok(load)
    }

    fn machine(
        &self,
        number: usize,
        load: &Load,
        cpus: usize,
        (connections, rate): (usize, Option<f64>),
    ) -> LoadMachine {
        let member = &self.members[number];
        let busiest = load.generator.as_ref().map(|generator| generator.busiest);
        LoadMachine {
            name: member.name.clone(),
            cpu_model: member.cpu_model.clone(),
            cpus,
            connections,
            rate,
            ok: load.ok,
            failed: load.failed(),
            window_s: load.window_s,
            busiest: busiest.unwrap_or_default(),
            clock_offset_s: member.offset_s,
            clock_bound_s: member.bound.as_secs_f64(),
        }
    }

    fn order(&self, number: usize, order: &Order) -> Result<(), String> {
        let member = &self.members[number];
        let sent = member.sender.send(order);
        sent.map_err(|error| lost(&member.name, &error.to_string()))
    }

    /// Handles reports until a condition holds.
    fn wait(
        &self,
        plan: &Plan,
        watching: &mut Watching,
        loads: &mut [Option<(Load, usize)>],
        watch: &mut dyn FnMut(Stage),
        until: impl Fn(&Watching, &[Option<(Load, usize)>]) -> bool,
    ) -> Result<(), String> {
        while !until(watching, loads) {
            if plan.interrupt.is_set() && !watching.stopped {
                watching.stopped = true;
                for number in 0..self.members.len() {
                    self.order(number, &Order::Stop)?;
                }
            }
            self.look_for_silence(watching, loads)?;
            let (number, event) = match self.events.recv_timeout(LOOK) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err("all agents are gone".into()),
            };
            let name = &self.members[number].name;
            watching.heard[number] = Instant::now();
            match event {
                Event::Lost(error) => return Err(lost(name, &error)),
                Event::Report(Report::Refused { reason }) => {
                    return Err(format!("agent {name}: {reason}"));
                }
                Event::Report(Report::Ramped) => watching.ramped[number] = true,
                Event::Report(Report::Alive { ok, heat, failed }) => {
                    watching.sums[number] = (ok, seen(&heat, &failed));
                    watch(watching.stage());
                }
                Event::Report(Report::Done { load, cpus }) => loads[number] = Some((*load, cpus)),
                Event::Report(
                    Report::Hello { .. }
                    | Report::Welcome { .. }
                    | Report::Time { .. }
                    | Report::Host(_)
                    | Report::Up,
                ) => {
                    return Err(lost(name, "it sent a message that nobody asked for"));
                }
            }
        }
        Ok(())
    }

    /// An agent that says nothing is lost, even if its connection still seems to exist.
    fn look_for_silence(
        &self,
        watching: &Watching,
        loads: &[Option<(Load, usize)>],
    ) -> Result<(), String> {
        let overdue = watching.deadline.is_some_and(|end| Instant::now() > end);
        for (number, member) in self.members.iter().enumerate() {
            let silent = watching.heard[number].elapsed() > SILENCE_MAX;
            if loads[number].is_none() && (silent || overdue) {
                let text = format!("no report for {:.0} s", SILENCE_MAX.as_secs_f64());
                return Err(lost(&member.name, &text));
            }
        }
        Ok(())
    }
}

/// The message about a lost agent.
fn lost(name: &str, error: &str) -> String {
    format!(
        "agent {name} was lost ({error}), so the load has failed: its figures would be those of a smaller load"
    )
}

/// What is known of a load in progress.
struct Watching {
    ramped: Vec<bool>,
    heard: Vec<Instant>,
    sums: Vec<(u64, Seen)>,
    deadline: Option<Instant>,
    stopped: bool,
}

impl Watching {
    fn new(of: usize) -> Self {
        Watching {
            ramped: vec![false; of],
            heard: vec![Instant::now(); of],
            sums: vec![(0, Seen::default()); of],
            deadline: None,
            stopped: false,
        }
    }

    fn stage(&self) -> Stage {
        let mut all = Seen::default();
        for (_, seen) in &self.sums {
            for (sum, count) in all.heat.iter_mut().zip(seen.heat) {
                *sum += count;
            }
            for (sum, count) in all.failed.iter_mut().zip(seen.failed) {
                *sum += count;
            }
        }
        let ok = self.sums.iter().map(|(ok, _)| ok).sum();
        Stage::Running(ok, Box::new(all))
    }
}

fn seen(heat: &[u64], failed: &[u64]) -> Seen {
    let mut seen = Seen::default();
    for (sum, count) in seen.heat.iter_mut().zip(heat) {
        *sum = *count;
    }
    for (sum, count) in seen.failed.iter_mut().zip(failed) {
        *sum = *count;
    }
    seen
}

/// Connects to an agent, and reads its reports on a thread of its own from then on.
fn member(
    spec: &AgentSpec,
    (token, reach): (Option<&Token>, Reach),
    origin: Instant,
    (number, to): (usize, &SyncSender<(usize, Event)>),
) -> Result<Member, String> {
    let programs = &[];
    let permissions = Permissions { reach, programs };
    let (member, mut reader) = open(spec, token, permissions, origin)?;
    let to = to.clone();
    let read = move || {
        loop {
            let event = match receive(&mut reader, Peer::Known) {
                Ok(report) => Event::Report(report),
                Err(error) => Event::Lost(ended(&error)),
            };
            let ends = matches!(event, Event::Lost(_));
            if to.send((number, event)).is_err() || ends {
                return;
            }
        }
    };
    thread::Builder::new()
        .name(format!("agent-{number}"))
        .spawn(read)
        .map_err(|error| error.to_string())?;
    Ok(member)
}

/// Why nothing more can be received.
pub(super) fn ended(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "its connection ended".to_string(),
        _ => error.to_string(),
    }
}

/// Connects to an agent and compares clocks. Returns its reports to come.
pub(super) fn open(
    spec: &AgentSpec,
    token: Option<&Token>,
    permissions: Permissions<'_>,
    origin: Instant,
) -> Result<(Member, Box<dyn Read + Send>), String> {
    let failed = |error: io::Error| error.to_string();
    let (mut reader, sender, child, stream): (Box<dyn Read + Send>, _, _, _);
    match spec.command(permissions)? {
        Some(words) => {
            let mut started = Command::new(&words[0])
                .args(&words[1..])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                // Ctrl-C is for the coordinator, which then asks for the figures so far.
                .process_group(0)
                .spawn()
                .map_err(|error| format!("{}: {error}", words[0]))?;
            let pipes = started.stdin.take().zip(started.stdout.take());
            let (input, output) = pipes.ok_or("its standard input and output are not pipes")?;
            (reader, sender) = (Box::new(output), Sender::new(input));
            (child, stream) = (Some(started), None);
        }
        None => {
            let connected = connect(&spec.name())?;
            let copy = || connected.try_clone().map_err(failed);
            (reader, sender) = (Box::new(copy()?), Sender::new(copy()?));
            (child, stream) = (None, Some(connected));
        }
    }
    // From here on a failure ends the command, too.
    let mut member = Member {
        name: spec.name(),
        cpu_model: String::new(),
        network: String::new(),
        sender: Arc::new(sender),
        clock_ns: 0,
        bound: Duration::MAX,
        offset_s: 0.0,
        child,
        stream,
    };
    (member.cpu_model, member.network) = greet(spec, token, &mut reader, &member.sender)?;
    compare_clocks(&mut member, &mut reader, origin)?;
    if let Some(stream) = &member.stream {
        stream.set_read_timeout(None).map_err(failed)?;
    }
    Ok((member, reader))
}

fn connect(address: &str) -> Result<TcpStream, String> {
    let failed = |error: io::Error| error.to_string();
    let mut addresses = address.to_socket_addrs().map_err(failed)?;
    let first = addresses.next().ok_or("it has no address")?;
    let stream = TcpStream::connect_timeout(&first, GREETING_TIMEOUT).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    stream
        .set_read_timeout(Some(GREETING_TIMEOUT))
        .map_err(failed)?;
    stream
        .set_write_timeout(Some(SILENCE_MAX))
        .map_err(failed)?;
    Ok(stream)
}

fn next(reader: &mut impl Read, peer: Peer) -> Result<Report, String> {
    match receive(reader, peer) {
        Ok(Report::Refused { reason }) => Err(reason),
        Ok(report) => Ok(report),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err("it ended before it was ready".to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Both sides prove that they know the token. Returns the agent's CPU model and its network.
fn greet(
    spec: &AgentSpec,
    token: Option<&Token>,
    reader: &mut impl Read,
    sender: &Sender,
) -> Result<(String, String), String> {
    let Report::Hello {
        version,
        nonce: theirs,
    } = next(reader, Peer::Unknown)?
    else {
        return Err("it did not greet".to_string());
    };
    if version != VERSION {
        return Err(format!(
            "it has version {version} of the protocol, and this program version {VERSION}: use the same sluice-lab on both"
        ));
    }
    let needs = matches!(spec, AgentSpec::Tcp(_));
    let proof = match (&theirs, token) {
        (None, _) if needs => return Err("it does not ask for a token".to_string()),
        (None, _) => None,
        (Some(_), None) => {
            return Err("it needs a token: --token-file FILE or SLUICE_LAB_TOKEN".to_string());
        }
        (Some(theirs), Some(token)) => {
            let mine = nonce()?;
            let proof = token.prove(Side::Coordinator, theirs, &mine);
            let order = Order::Prove {
                nonce: mine.clone(),
                proof,
            };
            sender.send(&order).map_err(|error| error.to_string())?;
            Some((token, theirs, mine))
        }
    };
    let Report::Welcome {
        proof: theirs_too,
        cpu_model,
        network,
    } = next(reader, Peer::Unknown)?
    else {
        return Err("it sent something else than a welcome".to_string());
    };
    match proof {
        Some((token, theirs, mine))
            if !token.accepts(&theirs_too.unwrap_or_default(), Side::Agent, theirs, &mine) =>
        {
            Err("it does not know the token".to_string())
        }
        _ => Ok((cpu_model, network)),
    }
}

/// The shortest of several round trips gives the best estimate: the agent's clock was read within it.
fn compare_clocks(
    member: &mut Member,
    reader: &mut impl Read,
    origin: Instant,
) -> Result<(), String> {
    let unix = unix_at(origin);
    for _ in 0..CLOCK_PINGS {
        let asked = Instant::now();
        member
            .sender
            .send(&Order::Ping)
            .map_err(|error| error.to_string())?;
        let Report::Time { clock_ns, unix_ns } = next(reader, Peer::Known)? else {
            return Err("it sent something else than its time".to_string());
        };
        let bound = asked.elapsed() / 2;
        if bound < member.bound {
            let middle = (asked + bound).saturating_duration_since(origin).as_nanos() as i128;
            member.bound = bound;
            member.clock_ns = i128::from(clock_ns) - middle;
            member.offset_s = (i128::from(unix_ns) - unix - middle) as f64 / 1e9;
        }
    }
    Ok(())
}

/// The time of day at a moment, in nanoseconds since 1970. Both clocks are read several times: between two readings of one pair
/// another program may have had the CPU, which would look like a difference of the clocks.
fn unix_at(moment: Instant) -> i128 {
    let readings = (0..CLOCK_PINGS).map(|_| {
        let (before, unix) = (Instant::now(), SystemTime::now());
        (before.elapsed(), before, unix)
    });
    let closest = readings.min_by_key(|(apart, ..)| *apart);
    closest.map_or(0, |(apart, before, unix)| {
        let unix = unix.duration_since(UNIX_EPOCH).unwrap_or_default();
        let passed = before.saturating_duration_since(moment) + apart / 2;
        unix.as_nanos() as i128 - passed.as_nanos() as i128
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_named_by_how_they_are_reached() {
        for (text, expected) in [
            ("10.0.0.2:7070", AgentSpec::Tcp("10.0.0.2:7070".into())),
            ("[::1]:7070", AgentSpec::Tcp("[::1]:7070".into())),
            ("ssh:user@host", AgentSpec::Ssh("user@host".into())),
            (
                "command:'a b' agent",
                AgentSpec::Command(vec!["a b".into(), "agent".into()]),
            ),
            ("local", AgentSpec::Local),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in [
            "host",
            "host:http",
            "ssh:",
            "ssh:-oProxyCommand=x",
            "command:",
            "",
        ] {
            assert!(text.parse::<AgentSpec>().is_err(), "{text}");
        }
        let ssh = |reach| {
            let programs = &[];
            let spec = AgentSpec::Ssh("a".into());
            let permissions = Permissions { reach, programs };
            spec.command(permissions).unwrap().unwrap()
        };
        let words = "ssh -oBatchMode=yes -- a sluice-lab agent --stdio";
        assert_eq!(ssh(Reach::Loopback).join(" "), words);
        let words = format!("{words} --i-own-this-host");
        assert_eq!(ssh(Reach::Anywhere).join(" "), words);
        // A shell reads what ssh sends.
        let programs = &["nginx".to_string(), "a'b; c".to_string()];
        let permissions = Permissions {
            reach: Reach::Loopback,
            programs,
        };
        let words = AgentSpec::Ssh("a".into()).command(permissions);
        let words = words.unwrap().unwrap().join(" ");
        let expected = r"agent --stdio --allow-run='nginx' --allow-run='a'\''b; c'";
        assert!(words.ends_with(expected), "{words}");
        let words = AgentSpec::Local.command(permissions).unwrap().unwrap();
        assert_eq!(words[3..], ["--allow-run=nginx", "--allow-run=a'b; c"]);
    }
}
