//! TLS of the running server: its certificates and their renewal. `auto` transforms the configuration, `policies`
//! converts handshake settings, `sluice-certs` manages certificates.

mod acme;
mod around;
mod authorities;
mod auto;
mod by_variable;
mod events;
pub mod handshakes;
pub mod limits;
mod loading;
mod plans;
mod policies;
pub mod protocols;
mod remote_admin;
mod shown_storage;
mod sources;
mod standing;
pub mod storages;
pub mod trust_pool;
mod zerossl;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use sluice_certs::limits::FILES_PAUSE;
use sluice_certs::{
    Bell, CertStore, CertsError, Challenges, Following, Maintainer, Notice, OnDemand,
    OnDemandPlans, OnDemandRule, Provision, Rhythm, SharedKeys, Source, Stapling, Storage, Subject,
    TicketBook, TicketSecret, Tickets, TlsPolicies, WatchedFiles,
};
use sluice_model::Config;
use sluice_model::tls::InternalIssuer;
use sluice_net::Protocols;
use sluice_net::tls::Acceptor;

pub use acme::{environment, resolver};
pub use authorities::{AuthorityCertificates, AuthorityView, LocalAuthorities};
pub use auto::expand;
use events::event_of;
use handshakes::HandshakeRules;
use plans::{Scheme, Storages};
use policies::TicketScheme;
pub use remote_admin::RemoteAdminTls;
use shown_storage::ShownStorage;
use sluice_observe::events::Events;
use sluice_observe::log::{Level, Log};
use sluice_observe::metrics::{CountedStorage, Hub};
use sluice_observe::sources::Certificates;
use sluice_pipeline::keys::{AuthorityFinder, AuthorityPem, Keys, Signer};
use sluice_pipeline::refusal::Refusal;
use standing::Served;

const LOGGER: &str = "tls";

/// The purpose of preparing a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To run it: certificates are created.
    Serve,
    /// To validate it: nothing is written.
    Check,
}

/// The certificates of a process. They outlive configurations.
pub struct Https {
    storage: Storage,
    /// The folder of this node, for copies of shared storages.
    data_dir: PathBuf,
    maintainer: Arc<Maintainer>,
    log: Log,
    /// What the configuration languages add to handshakes.
    rules: &'static (dyn HandshakeRules + Sync),
    /// The active policies; their session ticket keys survive a reload.
    current: Policies,
    store: Option<Arc<CertStore>>,
    shared_keys: Option<Arc<SharedKeys>>,
    /// The secrets of tickets that are not shared.
    ticket_book: TicketBook,
    /// The certificates of the running configuration.
    served: Arc<Served>,
    remote_admin: Option<RemoteAdminTls>,
    /// Where storages are shown; `None` if the configuration is only validated.
    hub: Option<Arc<Hub>>,
    /// The storages on engines that are shown: that of the server, and those of policies.
    shown: Vec<Arc<ShownStorage>>,
}

/// TLS policies by server name and by the HTTP versions enabled on the address.
type Policies = HashMap<(String, Protocols), Arc<TlsPolicies>>;

/// Certificates and policies of a configuration before it takes effect.
pub struct Prepared {
    policies: Policies,
    store: Arc<CertStore>,
    /// Certificates in watched files.
    files: WatchedFiles,
    /// Certificates to manage once the configuration runs.
    provisions: Vec<Provision>,
    /// The storages of single policies, which are followed once the configuration runs.
    storages: Storages,
    rhythm: Rhythm,
    stapling: Option<Stapling>,
    /// Session ticket keys shared with other instances.
    shared_keys: Option<Arc<SharedKeys>>,
    remote_admin: Option<RemoteAdminTls>,
}

impl Https {
    /// Creates an empty state; certificates are kept in `storage` and renewed in the background. Copies of further
    /// shared storages lie below `data_dir`.
    pub fn new(
        (storage, data_dir): (Storage, &Path),
        log: Log,
        rules: &'static (dyn HandshakeRules + Sync),
    ) -> Https {
        let maintainer = Arc::new(Maintainer::new(storage.clone()));
        Https {
            served: Served::new(&maintainer),
            storage,
            data_dir: data_dir.to_owned(),
            maintainer,
            log,
            rules,
            current: HashMap::new(),
            store: None,
            shared_keys: None,
            ticket_book: TicketBook::default(),
            remote_admin: None,
            hub: None,
            shown: Vec::new(),
        }
    }

    /// Where the certificates are kept.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// What the remote admin API needs, if the active configuration has it.
    pub fn remote_admin(&self) -> Option<&RemoteAdminTls> {
        self.remote_admin.as_ref()
    }

    /// The secrets of session tickets, for a process that replaces this one.
    pub fn ticket_secrets(&self) -> Vec<TicketSecret> {
        self.ticket_book.all()
    }

    /// Accepts the session tickets of the process that this one replaces. To be called before a configuration is prepared.
    pub fn inherit_tickets(&mut self, secrets: Vec<TicketSecret>) {
        self.ticket_book = TicketBook::inherited(secrets);
    }

    /// Announces what happens to certificates.
    pub fn emit_to(&self, events: &Events) {
        let events = events.clone();
        let observer = move |notice: &Notice| {
            if let Some(event) = event_of(notice) {
                events.emit(event);
            }
        };
        self.maintainer.observe(Box::new(observer));
    }

    /// Shows the storages in the metrics of `hub`.
    pub fn show_in(&mut self, hub: &Arc<Hub>) {
        self.hub = Some(hub.clone());
        self.show(&Storages::new());
    }

    /// Shows the storage of the server and those of policies, in the place of the ones before.
    fn show(&mut self, storages: &Storages) {
        let Some(hub) = &self.hub else { return };
        let own = storages.values().map(|storage| &**storage);
        let mut all: Vec<&Storage> = Vec::new();
        for storage in std::iter::once(&self.storage).chain(own) {
            if storage.is_shared() && !all.contains(&storage) {
                all.push(storage);
            }
        }
        let shown = all.into_iter().map(|storage| {
            let shown = Arc::new(ShownStorage(storage.clone()));
            let counted: Arc<dyn CountedStorage> = shown.clone();
            hub.add_storage(Arc::downgrade(&counted));
            shown
        });
        self.shown = shown.collect();
    }

    /// Starts the threads that renew certificates and follow the storage; they end when this is dropped.
    pub fn start_maintenance(&self) -> std::io::Result<()> {
        let (maintainer, log) = (Arc::downgrade(&self.maintainer), self.log.clone());
        let bell = self.maintainer.bell();
        std::thread::Builder::new()
            .name("certificates".to_owned())
            .spawn(move || maintain(&maintainer, &bell, &log))?;
        let (maintainer, log) = (Arc::downgrade(&self.maintainer), self.log.clone());
        let storage = self.storage.clone();
        let place = storage.place_of("").display().to_string();
        let in_use = move || Some(storage.clone());
        std::thread::Builder::new()
            .name("storage".to_owned())
            .spawn(move || follow(&maintainer, in_use, &place, &log))
            .map(drop)
    }

    /// Follows the storage of a policy for as long as the policy is in use.
    fn follow_policy(&self, storage: &Arc<Storage>) -> std::io::Result<()> {
        let (maintainer, log) = (Arc::downgrade(&self.maintainer), self.log.clone());
        let place = storage.place_of("").display().to_string();
        let own = Arc::downgrade(storage);
        let in_use = move || own.upgrade().map(|storage| (*storage).clone());
        std::thread::Builder::new()
            .name("storage".to_owned())
            .spawn(move || follow(&maintainer, in_use, &place, &log))
            .map(drop)
    }

    /// The certificates of the running configuration, for the status page.
    pub fn certificates(&self) -> Arc<dyn Certificates> {
        self.served.clone()
    }

    /// The pending ACME challenges.
    pub fn challenges(&self) -> Arc<Challenges> {
        self.maintainer.challenges()
    }

    /// Applies automatic HTTPS and prepares the certificates. Failures are added to `refusals`.
    pub fn prepare(
        &mut self,
        config: &Config,
        purpose: Purpose,
        refusals: &mut Vec<Refusal>,
    ) -> (Config, Prepared) {
        let loaded = loading::load(config, &self.storage, &self.log, refusals);
        let auto = expanded(config, loaded.pairs().flat_map(|pair| &pair.subjects));
        let store = CertStore::new(loaded.pairs().cloned());
        let (storages, provisions) = self.provisions(&auto, &store, purpose, refusals);
        let on_demand = self.on_demand(&auto.config, (&store, &storages), purpose, refusals);
        let tickets = self.tickets(config, purpose).unwrap_or_else(|refusal| {
            refusals.push(Refusal {
                place: "apps.tls.session_tickets".to_owned(),
                ..refusal
            });
            Tickets::Off
        });
        let shared_keys = match &tickets {
            Tickets::Shared(keys) => Some(keys.clone()),
            Tickets::Own(..) | Tickets::Given(_) | Tickets::Kept | Tickets::Off => None,
        };
        let authority = |name: &str, which| self.authority_pem(&auto.config, purpose, name, which);
        let keys = Keys {
            storage: &self.storage,
            data_dir: &self.data_dir,
            store: &store,
            authority: &authority,
        };
        let around = around::Around {
            keys: &keys,
            purpose,
            log: &self.log,
            tickets,
            rules: self.rules,
        };
        let policies = self.policies(&auto.config, &around, on_demand.as_ref(), refusals);
        let before = self.remote_admin.as_ref();
        let remote_admin = remote_admin::build(config.admin.as_ref(), &around, before);
        let prepared = Prepared {
            policies,
            remote_admin: remote_admin.unwrap_or_else(|refusal| {
                refusals.push(refusal);
                None
            }),
            files: WatchedFiles::new(loaded.files, &store),
            store,
            provisions,
            storages,
            rhythm: plans::rhythm(config),
            stapling: plans::stapling(config),
            shared_keys,
        };
        (auto.config, prepared)
    }

    /// Opens the storages of policies, and prepares the certificates of all names that are managed.
    fn provisions(
        &self,
        auto: &auto::Auto,
        store: &Arc<CertStore>,
        purpose: Purpose,
        refusals: &mut Vec<Refusal>,
    ) -> (Storages, Vec<Provision>) {
        let found = plans::open_storages(&auto.config, &self.data_dir).and_then(|storages| {
            let schemes = plans::schemes(&auto.config, &auto.names)?;
            Ok((storages, schemes))
        });
        match found {
            Ok((storages, schemes)) if purpose == Purpose::Serve && refusals.is_empty() => {
                let provisions = self.provide(&schemes, (store, &storages), refusals);
                (storages, provisions)
            }
            Ok((storages, _)) => (storages, Vec::new()),
            Err(refusal) => {
                refusals.push(Refusal {
                    place: "apps.tls.automation.policies".to_owned(),
                    ..refusal
                });
                (Storages::new(), Vec::new())
            }
        }
    }

    /// The session ticket settings. Shared keys survive a reload, and are not created for validation only.
    fn tickets(&self, config: &Config, purpose: Purpose) -> Result<Tickets, Refusal> {
        let (own, rotation) = match policies::ticket_scheme(config, &self.data_dir)? {
            TicketScheme::Off => return Ok(Tickets::Off),
            TicketScheme::Own(rotation) => {
                return Ok(Tickets::Own(rotation, self.ticket_book.clone()));
            }
            TicketScheme::Shared(own, rotation) => (own, rotation),
        };
        if purpose == Purpose::Check {
            return Ok(Tickets::Own(rotation, TicketBook::default()));
        }
        let storage = own.unwrap_or_else(|| self.storage.clone());
        if let Some(keys) = &self.shared_keys
            && keys.are_of(&storage, rotation)
        {
            return Ok(Tickets::Shared(keys.clone()));
        }
        let opened = SharedKeys::open(storage, rotation, SystemTime::now());
        opened.map(Tickets::Shared).map_err(|error| {
            Refusal::new(format!(
                "the keys of session tickets cannot be shared: {error}"
            ))
        })
    }

    /// The TLS policies of each server, separately for addresses with different HTTP versions.
    fn policies(
        &self,
        config: &Config,
        around: &around::Around<'_>,
        on_demand: Option<&Arc<OnDemand>>,
        refusals: &mut Vec<Refusal>,
    ) -> Policies {
        let mut policies = Policies::new();
        let secure = config.servers();
        for (name, server) in secure.filter(|(_, s)| !s.tls_connection_policies.is_empty()) {
            let place = format!("apps.http.servers.{name}.tls_connection_policies");
            let entries = 0..server.listen.len().max(1);
            // An invalid list is refused when the server's addresses are built.
            let spoken: HashSet<Protocols> = entries
                .filter_map(|entry| protocols::on_entry(server, entry).ok())
                .collect();
            for protocols in spoken {
                let key = (name.clone(), protocols);
                let previous = self.current.get(&key).map(|policies| &**policies);
                let built = policies::build(server, protocols, &place, around, previous);
                match built {
                    Ok(built) => {
                        let built = built.with_challenges(self.challenges());
                        let built = built.with_on_demand(on_demand.cloned());
                        policies.insert(key, Arc::new(built));
                    }
                    Err(refusal) => {
                        refusals.push(refusal);
                        break;
                    }
                }
            }
        }
        policies
    }

    /// The certificate of the CA called `name`. It is not created if the configuration is only validated.
    pub fn authority_pem(
        &self,
        config: &Config,
        purpose: Purpose,
        name: &str,
        which: Signer,
    ) -> Result<Option<AuthorityPem>, Refusal> {
        let issuer = InternalIssuer {
            ca: name.to_owned(),
            ..InternalIssuer::default()
        };
        let options = authorities::options(config, &issuer)?;
        let (given, file) = match which {
            Signer::Root => (&options.root, "root.crt"),
            Signer::Intermediate => (&options.intermediate, "intermediate.crt"),
        };
        if let Some(files) = given {
            let place = files.certificate.clone();
            let text = std::fs::read(&place).map_err(|error| {
                let place = place.display();
                Refusal::new(format!("certificates in `{place}`: {error}"))
            })?;
            return Ok(Some(AuthorityPem { place, text }));
        }
        let name = format!("pki/authorities/{}/{file}", options.id);
        let storage = options.storage.as_ref().unwrap_or(&self.storage);
        let read = || storage.read(&name).map_err(|e| authority_fails(&e));
        let mut found = read()?;
        if found.is_none() && purpose == Purpose::Serve {
            authorities::open(&self.maintainer, &self.storage, &options, &self.log)
                .map_err(|error| authority_fails(&error))?;
            found = read()?;
        }
        let place = storage.place_of(&name);
        Ok(found.map(|text| AuthorityPem { place, text }))
    }

    /// Makes the prepared configuration take effect.
    pub fn commit(&mut self, prepared: Prepared) {
        self.maintainer.set_rhythm(prepared.rhythm);
        let stapling = prepared.stapling;
        self.maintainer.set_stapling(stapling, &prepared.store);
        self.served.set(&prepared.store);
        self.current = prepared.policies;
        self.remote_admin = prepared.remote_admin;
        self.store = Some(prepared.store);
        self.maintainer.share_tickets(prepared.shared_keys.clone());
        self.shared_keys = prepared.shared_keys;
        self.maintainer.watch(prepared.files);
        for provision in prepared.provisions {
            self.maintainer.keep(provision);
        }
        self.show(&prepared.storages);
        for storage in prepared.storages.values() {
            if let Err(error) = self.follow_policy(storage) {
                let entry = self.log.error(LOGGER, "a storage cannot be followed");
                entry.shown("error", error).send();
            }
        }
    }

    /// On-demand certificates for `store`; `None` if they are not configured.
    fn on_demand(
        &self,
        config: &Config,
        (store, storages): (&Arc<CertStore>, &Storages),
        purpose: Purpose,
        refusals: &mut Vec<Refusal>,
    ) -> Option<Arc<OnDemand>> {
        let scheme = match plans::on_demand(config) {
            Ok(scheme) => scheme?,
            Err(refusal) => {
                refusals.push(Refusal {
                    place: "apps.tls.automation".to_owned(),
                    ..refusal
                });
                return None;
            }
        };
        if purpose == Purpose::Check || !refusals.is_empty() {
            return None;
        }
        let places = (&self.storage, storages);
        let open = |scheme: &Scheme| plans::plan(scheme, &self.maintainer, places, &self.log);
        let mut rules = Vec::new();
        for rule in scheme.rules {
            let plans = rule.ways.map(|[public, local]| {
                Ok(OnDemandPlans {
                    public: open(&public)?,
                    local: open(&local)?,
                })
            });
            match plans.transpose() {
                Ok(plans) => rules.push(OnDemandRule {
                    subjects: rule.subjects,
                    sources: rule.sources.iter().map(Source::new).collect(),
                    plans,
                }),
                Err(error) => {
                    refusals.push(authority_fails(&error));
                    return None;
                }
            }
        }
        let maintainer = &self.maintainer;
        Some(OnDemand::new(
            rules,
            scheme.permission,
            auto::is_local,
            store,
            maintainer,
        ))
    }

    /// Adds a certificate for each name of the configuration to `store`, if one is available.
    fn provide(
        &self,
        schemes: &[Scheme],
        (store, storages): (&Arc<CertStore>, &Storages),
        refusals: &mut Vec<Refusal>,
    ) -> Vec<Provision> {
        let mut provisions = Vec::new();
        for scheme in schemes {
            let places = (&self.storage, storages);
            let provided =
                plans::plan(scheme, &self.maintainer, places, &self.log).and_then(|plan| {
                    let subjects = scheme
                        .names
                        .iter()
                        .map(|name| Subject::parse(name))
                        .collect::<Result<Vec<_>, _>>()?;
                    self.maintainer
                        .provide(store, &plan, &subjects, SystemTime::now())
                });
            match provided {
                Ok(provision) => provisions.push(provision),
                Err(error) => refusals.push(authority_fails(&error)),
            }
        }
        log_notices(&self.maintainer, &self.log);
        provisions
    }
}

fn authority_fails(error: &CertsError) -> Refusal {
    Refusal::new(format!("the local certificate authority fails: {error}"))
        .with_help("make the data folder writable, or set XDG_DATA_HOME")
}

impl Prepared {
    /// Access to certificates for handlers.
    pub fn keys<'a>(&'a self, https: &'a Https, authority: &'a AuthorityFinder<'a>) -> Keys<'a> {
        Keys {
            storage: &https.storage,
            data_dir: &https.data_dir,
            store: &self.store,
            authority,
        }
    }

    /// Creates TLS sessions of a server on an address with these `protocols`; `None` if it uses plain HTTP.
    pub fn acceptor(&self, server: &str, protocols: Protocols) -> Option<Arc<dyn Acceptor>> {
        self.policies
            .get(&(server.to_owned(), protocols))
            .map(|policies| policies.clone().acceptor())
    }
}

/// The configuration with automatic HTTPS, and the names whose certificates are managed; those in `loaded` have one.
fn expanded<'s>(config: &Config, loaded: impl Iterator<Item = &'s Subject>) -> auto::Auto {
    let loaded: BTreeSet<String> = loaded.map(Subject::to_string).collect();
    let mut auto = auto::expand(config, &loaded);
    auto.names.extend(auto::client_names(config));
    let own = remote_admin::manage(config, &mut auto.config);
    auto.names.extend(own.iter().cloned());
    let is_later = |name: &String| plans::is_on_demand(&auto.config, name);
    auto.names = auto
        .names
        .iter()
        .filter(|name| !is_later(name))
        .cloned()
        .collect();
    auto
}

/// Obtains and renews certificates for as long as the maintainer exists.
fn maintain(maintainer: &Weak<Maintainer>, bell: &Bell, log: &Log) {
    /// Maximum delay until the end of the maintainer is noticed.
    const LOOK: Duration = Duration::from_secs(5);
    /// Minimum pause between attempts.
    const BREATH: Duration = Duration::from_millis(100);
    /// How often to check whether the storage has to be cleaned.
    const CLEAN_LOOK: Duration = Duration::from_secs(60);
    let mut next = SystemTime::now();
    let mut look = next + FILES_PAUSE;
    // Do not clean during startup.
    let mut clean = next + CLEAN_LOOK;
    while let Some(maintainer) = maintainer.upgrade() {
        let now = SystemTime::now();
        if now >= next {
            for outcome in maintainer.tick(now) {
                if let Err(error) = outcome.result {
                    log.error(
                        LOGGER,
                        "certificate could not be renewed; the old one is served",
                    )
                    .shown("job", outcome.job)
                    .shown("error", error)
                    .send();
                }
            }
            next = maintainer.wake_at(now);
        }
        maintainer.staple(now);
        if now >= look {
            maintainer.refresh_files();
            maintainer.refresh_ticket_keys(now);
            look = now + FILES_PAUSE;
        }
        if now >= clean {
            if let Err(error) = maintainer.clean(now) {
                let entry = log.warn(LOGGER, "storage could not be cleaned");
                entry.shown("error", error).send();
            }
            clean = now + CLEAN_LOOK;
        }
        log_notices(&maintainer, log);
        drop(maintainer);
        let pause = next.duration_since(SystemTime::now()).unwrap_or_default();
        if bell.wait(pause.clamp(BREATH, LOOK)) {
            next = SystemTime::now();
        }
        // New certificates may be due earlier than the known ones.
        next = next.min(SystemTime::now() + Duration::from_secs(60));
    }
}

/// Follows what other nodes write to the storage at `place` for as long as the maintainer exists and the storage is in use.
fn follow(
    maintainer: &Weak<Maintainer>,
    in_use: impl Fn() -> Option<Storage>,
    place: &str,
    log: &Log,
) {
    Maintainer::follow(maintainer, in_use, |following| match following {
        Following::Lost(error) => log
            .error(
                LOGGER,
                "the storage is away; what is known of it stays in use",
            )
            .text("storage", place)
            .shown("error", error)
            .send(),
        Following::Back => log
            .info(LOGGER, "the storage is back")
            .text("storage", place)
            .send(),
    });
}

fn log_notices(maintainer: &Maintainer, log: &Log) {
    for notice in maintainer.take_notices() {
        let level = if notice.is_failure() {
            Level::Error
        } else if matches!(notice, Notice::Passed { .. }) {
            Level::Warn
        } else {
            Level::Info
        };
        log_notice(log, level, &notice);
    }
}

/// Logs what happened to a certificate: the message, its facts, and the sentence with both as `what`.
fn log_notice(log: &Log, level: Level, notice: &Notice) {
    let mut entry = log.entry(level, LOGGER, notice.message());
    for (name, value) in notice.facts() {
        entry = entry.text(name, value);
    }
    if let Some(wait) = notice.retry_in(SystemTime::now()) {
        entry = entry.duration("retry_in", wait);
    }
    entry.shown("what", notice).send();
}
