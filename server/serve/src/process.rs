//! Starts, replaces and stops configurations. Every running server is created here, whatever format its configuration
//! has.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sluice_certs::Challenges;
use sluice_certs::Storage;
use sluice_diag::Written;
use sluice_model::Config;
use sluice_net::datagrams::Bound;
use sluice_net::listener_wrapper::ListenerWrapper;
use sluice_net::tls::Acceptor;
use sluice_net::{
    Conditions, ConnectionLimit, DatagramProblem, DatagramTrouble, Datagrams, EarlyData, Listen,
    ListenAddr, Outlive, Protocols, SecondFile, Workers, clock,
};

use crate::alt_svc::AltSvc;
use crate::config_loader::ConfigLoader;
use crate::explain::Explainer;
use crate::handover::{Counted, Secrets};
use crate::listen;
use crate::listener_wrapper::{self, Speaks};
use crate::own_settings::{host_key, low_memory_limit};
use crate::retired::Retired;
use crate::site::{Rules, Site};
use sluice_handlers::rate_limit::Zones;
use sluice_observe::Recorder;
use sluice_observe::events::{Event, Subscriptions};
use sluice_observe::log::{AccessLog, Log, Plan};
use sluice_observe::metrics::{HttpMetrics, PushSettings, SiteMetrics};
use sluice_pipeline::build::{Serving, Slots};
use sluice_pipeline::keys::Authorities;
use sluice_pipeline::keys::Keys;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::{given, settings};
use sluice_proxy::reverse_proxy::group::Shared;
use sluice_server_nginx::handshakes::NginxHandshakes;
use sluice_tls::{AuthorityView, Https, LocalAuthorities, Prepared, Purpose, RemoteAdminTls};
use sluice_tls::{protocols, storages};

/// Settings of the process, which do not depend on the configuration.
pub struct Options {
    /// Number of worker threads.
    pub workers: usize,
    /// Limit on open files of the process, which include connections.
    pub files_max: u64,
    /// Folder for certificates and keys.
    pub data_dir: PathBuf,
    /// The log.
    pub log: Log,
    /// How workers run.
    pub conditions: Conditions,
    /// Listening sockets inherited from the previous process; those that are not in the configuration are closed.
    pub handed: Vec<OwnedFd>,
    /// Secrets that outlive a binary upgrade.
    pub secrets: Secrets,
}

/// A running server.
pub struct Server {
    workers: Workers<Site>,
    limit: Arc<ConnectionLimit>,
    options: Options,
    recorder: Arc<Recorder>,
    https: Https,
    config: Arc<Config>,
    /// The listen addresses, including those of automatic redirects.
    listening: Vec<String>,
    /// The running servers, by name.
    sites: HashMap<String, Arc<Site>>,
    /// What their proxies share.
    proxies: Shared,
    /// Servers of earlier configurations.
    retired: Retired<Site>,
}

/// Default drain timeout. Caddy waits forever, so one forgotten download would block a shutdown.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

impl Server {
    /// Starts workers that serve `config`. File servers hide `config_files`.
    pub fn start(
        config: Config,
        config_files: &[String],
        mut options: Options,
    ) -> Result<Server, Vec<Refusal>> {
        let recorder = Arc::new(Recorder::new(options.log.clone(), options.workers));
        if let Some(identity) = options.conditions.identity.clone() {
            let own = move |path: &Path| identity.own(path);
            recorder.stores().hand_to(Box::new(own));
        }
        let storage = storage(&config, &options)?;
        let mut https = Https::new(
            (storage, &options.data_dir),
            options.log.clone(),
            &NginxHandshakes,
        );
        https.inherit_tickets(options.secrets.tickets());
        https.emit_to(recorder.events());
        https.show_in(recorder.hub());
        recorder.events().replace(subscriptions(&config));
        let built = build(
            &config,
            config_files,
            &recorder,
            &mut https,
            &options,
            (Purpose::Serve, Shared::default()),
        )?;
        https
            .start_maintenance()
            .map_err(|error| vec![Refusal::new(format!("a thread cannot be started: {error}"))])?;
        recorder.sources().set_certificates(https.certificates());
        let limit = ConnectionLimit::new(connections_max(&options, &built));
        let mut workers = Workers::start_under(&options.conditions, options.workers, limit.clone())
            .map_err(|error| vec![Refusal::new(format!("workers cannot be started: {error}"))])?;
        workers.take_over(std::mem::take(&mut options.handed));
        recorder.hub().set_workers(
            workers.counters(),
            (limit.clone(), workers.memory().clone()),
        );
        let mut server = Server {
            workers,
            limit,
            options,
            recorder,
            https,
            config: Arc::default(),
            listening: Vec::new(),
            sites: HashMap::new(),
            proxies: Shared::default(),
            retired: Retired::new(),
        };
        match server.apply(built, config) {
            Ok(()) => {
                server.recorder.events().emit(Event::of_server("started"));
                Ok(server)
            }
            Err(refusals) => {
                server.workers.drain(Duration::ZERO);
                Err(refusals)
            }
        }
    }

    /// HTTP/3 is not served on an address, or not as well as it could be.
    fn warn_of(&self, problem: &DatagramProblem) {
        let log = &self.options.log;
        match &problem.what {
            DatagramTrouble::Bind(error) => {
                let message = "HTTP/3 is not served: the UDP port cannot be bound";
                let entry = log.warn("http", message);
                entry
                    .shown("address", &problem.addr)
                    .shown("error", error)
                    .send();
            }
            DatagramTrouble::SmallBuffers(bytes) => {
                let message = "the receive buffer for HTTP/3 is small; bursts lose packets";
                let entry = log.warn("http", message);
                entry
                    .shown("address", &problem.addr)
                    .integer("bytes", *bytes as u64)
                    .text("help", "sysctl -w net.core.rmem_max=4194304")
                    .send();
            }
        }
    }

    /// Switches to `config`; requests in flight finish on the configuration they began with. On error nothing changes.
    pub fn replace(&mut self, config: Config, config_files: &[String]) -> Result<(), Vec<Refusal>> {
        let done = self.try_replace(config, config_files);
        if done.is_err() {
            self.recorder.hub().note_load(false);
        }
        done
    }

    fn try_replace(&mut self, config: Config, config_files: &[String]) -> Result<(), Vec<Refusal>> {
        if config.storage != self.config.storage {
            let (old, new) = (self.https.storage(), storage(&config, &self.options)?);
            // Two ways to name one folder are the same; other settings of an engine are not.
            if new != *old || new.is_shared() {
                let place = old.place_of("");
                let message = format!("the storage cannot change from `{}`", place.display());
                let refusal = Refusal::new(message).with_help("restart to use another storage");
                return Err(vec![at("storage", refusal)]);
            }
        }
        let events = self.recorder.events().clone();
        let events_before = events.replace(subscriptions(&config));
        let built = build(
            &config,
            config_files,
            &self.recorder,
            &mut self.https,
            &self.options,
            (Purpose::Serve, Shared::after(&self.proxies)),
        );
        let done = built.and_then(|built| self.apply(built, config));
        match done {
            // As in Caddy: a configuration begins, and the one before ends.
            Ok(()) => {
                events.emit(Event::of_server("started"));
                events.emit_to(&events_before, Event::of_server("stopping"));
            }
            Err(_) => _ = events.replace(events_before),
        }
        done
    }

    fn apply(&mut self, built: Built, config: Config) -> Result<(), Vec<Refusal>> {
        let listening = built.listens.iter().map(|listen| listen.addr.to_string());
        let listening = listening.collect();
        // The plan is replaced before any socket is opened, so that the first request is logged by its own
        // configuration.
        let plan_before = self.options.log.plan();
        let connections_max = connections_max(&self.options, &built);
        self.options.log.replace(built.plan);
        match self.workers.replace(built.listens, outlive(&self.config)) {
            Ok(problems) => problems.iter().for_each(|problem| self.warn_of(problem)),
            Err(error) => {
                self.options.log.replace(plan_before);
                let refusal = Refusal::new(error.to_string()).with_help(error.help());
                return Err(vec![refusal]);
            }
        }
        self.limit.set_max(connections_max);
        let http = config.apps.http.as_ref();
        let memory_limit = http.map_or(0, |http| http.memory_limit);
        self.workers.memory().set(memory_limit);
        self.recorder.hub().set_http(built.metrics);
        if let Err(error) = self.recorder.push_metrics(built.pushes) {
            let entry = self
                .options
                .log
                .error("http.metrics", "metrics cannot be sent");
            entry.shown("error", error).send();
        }
        self.recorder.hub().note_load(true);
        self.https.commit(built.https);
        let proxies = built.proxies.clone();
        self.workers
            .on_first(Box::new(move |worker| proxies.begin_checks(worker)));
        self.proxies = built.proxies;
        self.config = Arc::new(config);
        let before = std::mem::replace(&mut self.sites, built.sites);
        self.retired.add(before.into_values());
        self.listening = listening;
        Ok(())
    }

    /// The running configuration, as it was before automatic HTTPS changed it.
    pub fn config(&self) -> Arc<Config> {
        self.config.clone()
    }

    /// Duplicates all listening sockets, for a process that replaces this one.
    pub fn lend(&self) -> io::Result<Vec<OwnedFd>> {
        self.workers.lend_to_successor()
    }

    /// The secrets of this process, for one that replaces it.
    pub fn secrets(&self) -> Secrets {
        Secrets::new(&self.https.ticket_secrets(), &self.options.secrets)
    }

    /// What this process has counted, for one that replaces it and continues its time line.
    pub fn counted(&self) -> Counted {
        Counted::of(&self.recorder.shared::<Zones>(), self.recorder.hub())
    }

    /// Continues with what the replaced process has counted.
    pub fn add_counted(&self, counted: Counted) {
        counted.add_to(&self.recorder.shared::<Zones>(), self.recorder.hub());
    }

    /// Stops accepting until a configuration is applied again; clients that connect meanwhile wait.
    pub fn withdraw(&mut self) -> io::Result<()> {
        self.workers.withdraw()
    }

    /// Creates an explainer for the running configuration. `written` has its source texts.
    pub fn explainer(&self, config_files: &[String], written: Option<Arc<Written>>) -> Explainer {
        let sites = self.sites.clone();
        Explainer::running(self.config.clone(), config_files.to_vec(), written, sites)
    }

    /// Shows the local CAs of the running configuration.
    pub fn authorities(&self) -> AuthorityView {
        AuthorityView::new(&self.https, self.config.clone())
    }

    /// What the remote admin API of the running configuration needs of TLS, if there is one.
    pub fn remote_admin(&self) -> Option<&RemoteAdminTls> {
        self.https.remote_admin()
    }

    /// The listen addresses, including those of automatic redirects.
    pub fn listening(&self) -> &[String] {
        &self.listening
    }

    /// The counters and logs of requests.
    pub fn recorder(&self) -> Arc<Recorder> {
        self.recorder.clone()
    }

    /// The number of open client connections.
    pub fn connections(&self) -> usize {
        self.workers.connections()
    }

    /// The drain timeout for requests in flight at shutdown.
    pub fn grace_period(&self) -> Duration {
        let http = self.config.apps.http.as_ref();
        http.and_then(|http| given(http.grace_period))
            .unwrap_or(GRACE_PERIOD)
    }

    /// How long to continue serving after a shutdown was requested.
    pub fn shutdown_delay(&self) -> Duration {
        let http = self.config.apps.http.as_ref();
        http.and_then(|http| given(http.shutdown_delay))
            .unwrap_or_default()
    }

    /// Announces to requests that the server shuts down after `delay`; they are served as before.
    pub fn announce_stop(&self, delay: Duration) {
        self.workers.announce_stop(clock::now() + delay);
    }

    /// Announces to event handlers that the server stops; [`Server::drain`] follows and waits for them.
    pub fn emit_stopping(&self) {
        self.recorder.events().emit(Event::of_server("stopping"));
    }

    /// Stops accepting for good, because another process accepts; [`Server::drain`] follows.
    pub fn pass_on(&self) {
        self.workers.pass_on();
    }

    /// Stops accepting, drains requests for at most `grace`, and stops the workers. Returns the number of connections
    /// that were closed by force.
    pub fn drain(self, grace: Duration) -> u64 {
        let cut_off = self.workers.drain(grace);
        // Their requests have ended with the workers.
        sluice_proxy::python::shut_down(&self.recorder, PYTHON_GRACE);
        self.recorder.events().finish(EVENTS_TIMEOUT);
        self.recorder.finish_exports(EXPORTS_TIMEOUT);
        cut_off
    }
}

/// How long requests of `config` may go on once it is replaced: its drain timeout, if it has one of its own.
fn outlive(config: &Config) -> Outlive {
    let http = config.apps.http.as_ref();
    let given = http.and_then(|http| given(http.grace_period));
    given.map_or(Outlive::Unlimited, Outlive::For)
}

/// How long Python applications may take to shut down (lifespan), once they have no requests any more.
const PYTHON_GRACE: Duration = Duration::from_secs(10);

/// How long the handlers of the last events are awaited when the process ends.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for exporting the last traces and metrics.
const EXPORTS_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of client connections.
fn connections_max(options: &Options, built: &Built) -> usize {
    let second = match built.proxies.asks_upstreams() {
        true => SecondFile::PerClient,
        false => SecondFile::Shared,
    };
    ConnectionLimit::for_open_files(options.files_max, second)
}

/// A configuration with all its parts built, before anything takes effect.
struct Built {
    /// What the proxies share.
    proxies: Shared,
    listens: Vec<Listen<Site>>,
    sites: HashMap<String, Arc<Site>>,
    plan: Arc<Plan>,
    https: sluice_tls::Prepared,
    metrics: Option<Arc<HttpMetrics>>,
    /// Where to push metrics; `None` if they are only scraped.
    pushes: Option<PushSettings>,
}

/// Checks whether `config` can run, without opening a socket.
pub fn validate(
    config: &Config,
    config_files: &[String],
    options: &Options,
) -> Result<(), Vec<Refusal>> {
    let recorder = Arc::new(Recorder::new(options.log.clone(), 1));
    let mut https = Https::new(
        (storage(config, options)?, &options.data_dir),
        options.log.clone(),
        &NginxHandshakes,
    );
    build(
        config,
        config_files,
        &recorder,
        &mut https,
        options,
        (Purpose::Check, Shared::default()),
    )
    .map(|_| ())
}

fn build(
    config: &Config,
    config_files: &[String],
    recorder: &Arc<Recorder>,
    https: &mut Https,
    options: &Options,
    (purpose, proxies): (Purpose, Shared),
) -> Result<Built, Vec<Refusal>> {
    let mut refusals = unbuilt(config);
    let plan = plan(config, options, &mut refusals);
    let given = listen::expanded(config, &mut refusals);
    let (config, prepared) = https.prepare(&given, purpose, &mut refusals);
    check_events(&given, &mut refusals);
    let authorities = LocalAuthorities::new(https, &config);
    let authority = |name: &str, which| https.authority_pem(&config, purpose, name, which);
    let keys = prepared.keys(https, &authority);
    let (metrics, pushes) = metrics(&config, options.workers, &mut refusals);
    let (mut listens, mut sites) = (Vec::<Listen<Site>>::new(), HashMap::new());
    let mut owners = HashMap::<(ListenAddr, Transport), String>::new();
    let shared = Slots::default();
    shared.set(proxies.clone());
    shared.set(sluice_proxy::cache::Defaults::of(&given));
    for (name, server) in config.servers() {
        let place = format!("apps.http.servers.{name}");
        let Ok(plan) = &plan else { continue };
        let addresses = addresses_of(name, server, &prepared, &mut refusals);
        let around = Around {
            config_files,
            recorder,
            plan,
            challenges: &https.challenges(),
            metrics: SiteMetrics::of(metrics.as_ref(), name),
            authorities: (purpose == Purpose::Serve).then_some(&authorities),
            keys: &keys,
            shared: &shared,
            alt_svc: announcement(&addresses),
            quic_secret: options.secrets.quic(),
        };
        let site = build_site(server, &place, around);
        let wrapper = wrapper_of(server, &place, &mut refusals);
        match site {
            Err(found) => refusals.extend(found),
            Ok(site) => {
                let site = site.share();
                sites.insert(name.clone(), site.clone());
                for address in addresses {
                    for socket in address.sockets() {
                        if let Some(owner) = owners.insert(socket, name.clone()) {
                            let place = format!("{place}.listen[{}]", address.index);
                            refusals.push(at(&place, twice(&address.addr, &owner, name)));
                        }
                    }
                    listens.push(address.listen(site.clone(), wrapper.clone()));
                }
            }
        }
    }
    await_applications(&shared, &mut refusals);
    match plan {
        Ok(plan) if refusals.is_empty() => Ok(Built {
            proxies,
            listens,
            sites,
            plan,
            https: prepared,
            metrics,
            pushes,
        }),
        Ok(_) | Err(()) => Err(refusals),
    }
}

/// An address of a server, with what is served on it.
struct Address {
    addr: ListenAddr,
    /// Its entry in `listen`.
    index: usize,
    protocols: Protocols,
    tls: Option<Arc<dyn Acceptor>>,
    /// HTTP/3.
    datagrams: Option<Datagrams<Site>>,
}

/// What a socket is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Transport {
    Connections,
    Datagrams,
}

impl Address {
    /// Its sockets: two servers may share an address if only one of them receives datagrams there, and nothing else.
    fn sockets(&self) -> impl Iterator<Item = (ListenAddr, Transport)> {
        let connects = self.protocols.uses_connections();
        let connections = connects.then_some(Transport::Connections);
        let datagrams = self.datagrams.as_ref().map(|_| Transport::Datagrams);
        let addr = self.addr.clone();
        let both = connections.into_iter().chain(datagrams);
        both.map(move |transport| (addr.clone(), transport))
    }

    fn listen(self, service: Arc<Site>, wrapper: Option<Arc<ListenerWrapper>>) -> Listen<Site> {
        Listen {
            addr: self.addr,
            service,
            tls: self.tls,
            wrapper,
            protocols: self.protocols,
            datagrams: self.datagrams,
        }
    }
}

/// The addresses of a server with their protocols: HTTP/3 where there is TLS.
fn addresses_of(
    name: &str,
    server: &sluice_model::Server,
    prepared: &Prepared,
    refusals: &mut Vec<Refusal>,
) -> Vec<Address> {
    let place = format!("apps.http.servers.{name}");
    let addresses = listen_addrs(server, &place, refusals);
    let addresses = addresses.into_iter().map(|(addr, index)| {
        let protocols = protocols_of(server, index, &place, refusals);
        let tls = prepared.acceptor(name, protocols);
        let datagrams = (protocols.h3 && tls.is_some()).then(|| Datagrams {
            serve: sluice_quic::serve,
            bound: Bound::default(),
        });
        Address {
            addr,
            index,
            protocols,
            tls,
            datagrams,
        }
    });
    addresses.collect()
}

/// What a server announces to clients.
fn announcement(addresses: &[Address]) -> AltSvc {
    let mut alt_svc = AltSvc::default();
    for address in addresses {
        if let (Some(datagrams), Some(port)) = (&address.datagrams, address.addr.port()) {
            alt_svc.add(port, datagrams.bound.clone());
        }
    }
    alt_svc
}

/// The listener wrapper of a server, if it has one.
fn wrapper_of(
    server: &sluice_model::Server,
    place: &str,
    refusals: &mut Vec<Refusal>,
) -> Option<Arc<ListenerWrapper>> {
    let wrapper = listener_wrapper::build(server, Speaks::of(server));
    wrapper.unwrap_or_else(|refusal| {
        refusals.push(at(&format!("{place}.listener_wrappers"), refusal));
        None
    })
}

/// Waits for the Python applications that were started, if the configuration can run otherwise.
fn await_applications(shared: &Slots, refusals: &mut Vec<Refusal>) {
    if refusals.is_empty() {
        refusals.extend(sluice_proxy::python::wait_until_ready(shared).err());
    }
}

fn twice(addr: &ListenAddr, owner: &str, name: &str) -> Refusal {
    Refusal::new(format!(
        "{addr} is listened on by `{owner}` and by `{name}`"
    ))
}

/// Refuses settings that would otherwise silently do nothing, and that others rely on, and a memory limit that is too low.
fn unbuilt(config: &Config) -> Vec<Refusal> {
    let filesystems = config.apps.filesystems.as_ref();
    let mounted = filesystems.is_some_and(|filesystems| !filesystems.is_empty());
    let mounted = mounted.then(|| {
        let refusal = Refusal::not_yet("another file system", "remove it");
        at("apps.caddy.filesystems", refusal)
    });
    let loader = ConfigLoader::build(config.admin.as_ref()).err();
    let loader = loader.map(|refusal| at("admin.config.load", refusal));
    let found = mounted.into_iter().chain(loader);
    found.chain(low_memory_limit(config)).collect()
}

/// The handlers of events. They hear of what happens while their configuration is built, such as certificates that it needs.
fn subscriptions(config: &Config) -> Arc<Subscriptions> {
    let built = Subscriptions::build(config.apps.events.as_ref());
    // The mistakes are reported when the rest of the configuration is built.
    Arc::new(built.unwrap_or_default())
}

fn check_events(config: &Config, refusals: &mut Vec<Refusal>) {
    if let Err(errors) = Subscriptions::build(config.apps.events.as_ref()) {
        let errors = errors.into_iter();
        refusals.extend(errors.map(|error| {
            let refusal = Refusal::new(error.problem).with_help(error.help);
            at(&format!("apps.events.{}", error.place), refusal)
        }));
    }
}

/// The metrics of requests, and where to push them.
fn metrics(
    config: &Config,
    workers: usize,
    refusals: &mut Vec<Refusal>,
) -> (Option<Arc<HttpMetrics>>, Option<PushSettings>) {
    let http = config.apps.http.as_ref();
    let metrics = http.and_then(|http| HttpMetrics::build(http, workers));
    let pushes = pushes(metrics.as_ref(), refusals);
    (metrics.map(Arc::new), pushes)
}

/// The settings for pushing metrics from the environment, if the configuration asks for it.
fn pushes(metrics: Option<&HttpMetrics>, refusals: &mut Vec<Refusal>) -> Option<PushSettings> {
    metrics.filter(|metrics| metrics.are_pushed())?;
    let read = PushSettings::read(|name| std::env::var(name).ok());
    read.map_err(|error| refusals.push(at("apps.http.metrics.otlp", Refusal::new(error))))
        .ok()
}

/// The logging plan; `Err` if it was refused.
fn plan(config: &Config, options: &Options, refusals: &mut Vec<Refusal>) -> Result<Arc<Plan>, ()> {
    let plan = Plan::build(config.logging.as_ref(), options.log.outputs());
    plan.map(Arc::new).map_err(|errors| {
        let errors = errors.into_iter();
        refusals.extend(errors.map(|error| Refusal::new(error.to_string())));
    })
}

/// The HTTP versions enabled on the listen entry `index`.
fn protocols_of(
    server: &sluice_model::Server,
    index: usize,
    place: &str,
    refusals: &mut Vec<Refusal>,
) -> Protocols {
    protocols::on_entry(server, index).unwrap_or_else(|refusal| {
        refusals.push(at(&format!("{place}.protocols"), refusal));
        Protocols::default()
    })
}

fn listen_addrs(
    server: &sluice_model::Server,
    place: &str,
    refusals: &mut Vec<Refusal>,
) -> Vec<(ListenAddr, usize)> {
    let mut found = Vec::new();
    for (index, text) in server.listen.iter().enumerate() {
        match listen::addresses(text) {
            Ok(addrs) => found.extend(addrs.into_iter().map(|addr| (addr, index))),
            Err(refusal) => refusals.push(at(&format!("{place}.listen[{index}]"), refusal)),
        }
    }
    found.dedup_by(|a, b| a.0 == b.0);
    found
}

/// What the servers of a configuration share.
struct Around<'a> {
    config_files: &'a [String],
    recorder: &'a Arc<Recorder>,
    plan: &'a Plan,
    challenges: &'a Arc<Challenges>,
    metrics: Option<SiteMetrics>,
    /// `None` if the configuration is only validated.
    authorities: Option<&'a dyn Authorities>,
    keys: &'a Keys<'a>,
    /// What the handlers of all servers share.
    shared: &'a Slots,
    /// What the server announces.
    alt_svc: AltSvc,
    /// The secret for QUIC endpoints without one of their own.
    quic_secret: Option<Arc<[u8]>>,
}

fn build_site(
    server: &sluice_model::Server,
    place: &str,
    around: Around<'_>,
) -> Result<Site, Vec<Refusal>> {
    let serving = Serving {
        recorder: around.recorder,
        metrics: around.metrics,
        authorities: around.authorities,
        keys: around.keys,
    };
    let (rules, _) = Rules::build(
        server,
        place,
        around.config_files,
        around.shared,
        Some(serving),
    )?;
    let access = server
        .logs
        .as_ref()
        .map(|logs| AccessLog::build(logs, around.plan));
    let access = access.filter(|access| !access.is_idle());
    let settings = settings(server);
    let (settings, per_server) = match &rules.program.virtual_servers {
        Some(servers) => servers.settings(&settings),
        None => (settings, None),
    };
    // An nginx.conf says itself what it announces, and has one directive for early data.
    let (alt_svc, early_data) = match rules.program.virtual_servers {
        Some(_) => (AltSvc::default(), EarlyData::AsOverTcp),
        None if server.allow_0rtt == Some(false) => (around.alt_svc, EarlyData::Refused),
        None => (around.alt_svc, EarlyData::Accepted),
    };
    let mut settings = settings;
    settings.h3.early_data = early_data;
    settings.h3.host_key = host_key(server, place)?.or(around.quic_secret);
    Ok(Site {
        rules,
        settings,
        per_server,
        access,
        recorder: around.recorder.clone(),
        challenges: around.challenges.clone(),
        alt_svc,
    })
}

/// Where certificates and keys are kept: the storage of the configuration, or the default folder.
fn storage(config: &Config, options: &Options) -> Result<Storage, Vec<Refusal>> {
    let opened = storages::open(config.storage.as_ref(), &options.data_dir);
    opened.map_err(|refusal| vec![at("storage", refusal)])
}

fn at(place: &str, mut refusal: Refusal) -> Refusal {
    if refusal.place.is_empty() {
        refusal.place = place.to_owned();
    }
    refusal
}
