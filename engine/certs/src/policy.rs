//! TLS policies: versions, cipher suites, ALPN protocols and client authentication, selected by the server name.
//! `store` selects the certificate.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert,
    ServerSessionMemoryCache, StoresServerSessions,
};
use rustls::{CipherSuite, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion, version};
use sluice_net::tls::{Acceptor, ConfigChoice, Ends, Preparation, RustlsAcceptor};

use crate::challenges::{self, Challenges};
use crate::client_auth::{self, ClientAuth, ClientAuthError};
use crate::limits::{EARLY_DATA_BYTES_MAX, EARLY_SESSIONS_MAX, HELLO_NUMBERS_MAX};
use crate::named::{ByClient, NamedPairs, Spoken};
use crate::on_demand::{Demand, OnDemand};
use crate::policy_conditions::{Condition, When, WhenError};
use crate::secrets_log::SecretsLog;
use crate::selection::Selection;
use crate::sources::Hello;
use crate::store::{CertStore, Fallback, Resolver};
use crate::subject::Subject;
use crate::tickets::{self, NoRandom, Tickets};

/// The TLS settings for a set of names. Names of versions, cipher suites and curves are those of Caddy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Distinguishes it from equal policies, and is the same on all instances that share session ticket keys: sessions
    /// cannot be resumed under another scope.
    pub scope: String,
    /// The server names it is for, including wildcards; all if empty.
    pub names: Vec<String>,
    /// Whether only [`TlsPolicies::with_choice`] selects it, regardless of `names`.
    pub is_chosen: bool,
    /// Further conditions on the connection.
    pub when: When,
    /// Which certificate to serve if none matches.
    pub fallback: Fallback,
    /// Which certificates may be served.
    pub selection: Selection,
    /// The minimum TLS version, `tls1.2` if empty.
    pub version_min: String,
    /// The maximum TLS version, `tls1.3` if empty.
    pub version_max: String,
    /// The TLS 1.2 cipher suites, in order of preference; the defaults if empty. Those of TLS 1.3 are in
    /// `modern_suites`.
    pub cipher_suites: Vec<String>,
    /// The TLS 1.3 cipher suites, in order of preference; all if empty.
    pub modern_suites: Vec<String>,
    /// The key exchange groups, in order of preference; the defaults if empty.
    pub curves: Vec<String>,
    /// The ALPN protocols, in order of preference.
    pub alpn: Vec<String>,
    /// Client certificate requirements, if any.
    pub client_auth: Option<ClientAuth>,
    /// The file for the secrets of sessions (NSS key log), for debugging only.
    pub secrets_log: Option<PathBuf>,
    /// Whether to refuse every handshake.
    pub refuse: bool,
    /// How sessions are resumed.
    pub tickets: Tickets,
    /// Whether to accept early data (0-RTT) from returning clients. Their sessions are then cached in memory, each for
    /// one use, instead of in tickets.
    pub early_data: bool,
    /// Whether to record the cipher suites and groups that clients offer.
    pub keeps_offers: bool,
}

impl Policy {
    /// The protocol settings that affect the selection among several pairs.
    fn spoken(&self) -> Spoken {
        Spoken {
            has_13: self.version_max != "tls1.2",
            older: self.cipher_suites.clone(),
        }
    }

    /// Whether it accepts early data: not with client authentication, and not without resumption.
    fn takes_early_data(&self) -> bool {
        self.early_data && self.client_auth.is_none() && self.tickets != Tickets::Off
    }
}

/// Why a policy cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// An unknown TLS version.
    Version(String),
    /// The minimum version is above the maximum.
    NoVersion,
    /// An unknown or unsupported cipher suite.
    Cipher(String),
    /// An unknown or unsupported key exchange group.
    Curve(String),
    /// Not a valid server name.
    Name(String),
    /// An invalid condition on the connection.
    When(String),
    /// Client certificates cannot be verified with these settings.
    ClientAuth(String),
    /// The system provides no randomness for session ticket keys.
    Tickets(String),
    /// The file for session secrets cannot be opened.
    SecretsLog(String),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::Version(name) => {
                write!(
                    f,
                    "unknown protocol version `{name}` (supported: tls1.2, tls1.3)"
                )
            }
            PolicyError::NoVersion => {
                f.write_str("the minimum protocol version is above the maximum")
            }
            PolicyError::Cipher(name) => {
                let known: Vec<_> = suites_1_2().map(|suite| suite_name(&suite)).collect();
                write!(
                    f,
                    "unsupported cipher suite `{name}` (supported: {})",
                    known.join(", ")
                )
            }
            PolicyError::Curve(name) => {
                let known: Vec<_> = CURVES.iter().map(|(name, _)| *name).collect();
                write!(
                    f,
                    "unsupported curve `{name}` (supported: {})",
                    known.join(", ")
                )
            }
            PolicyError::Name(name) => write!(f, "`{name}` is not a valid server name"),
            PolicyError::When(what) => f.write_str(what),
            PolicyError::ClientAuth(what) => {
                write!(f, "cannot verify client certificates: {what}")
            }
            PolicyError::SecretsLog(what) => {
                write!(f, "cannot open the file for TLS secrets: {what}")
            }
            PolicyError::Tickets(what) => write!(f, "cannot create session tickets: {what}"),
        }
    }
}

impl std::error::Error for PolicyError {}

impl From<WhenError> for PolicyError {
    fn from(error: WhenError) -> Self {
        PolicyError::When(error.0)
    }
}

impl From<ClientAuthError> for PolicyError {
    fn from(error: ClientAuthError) -> Self {
        PolicyError::ClientAuth(error.0)
    }
}

impl From<NoRandom> for PolicyError {
    fn from(error: NoRandom) -> Self {
        PolicyError::Tickets(error.to_string())
    }
}

/// All settings that restrict clients. Shared keys are bound to them: an instance with stricter settings does not
/// accept sessions of one with weaker settings.
fn ticket_scope(policy: &Policy) -> String {
    let demands = Policy {
        tickets: Tickets::Off,
        secrets_log: None,
        ..policy.clone()
    };
    format!("{demands:?}")
}

/// The policies of one listener, ready for handshakes. The first one that matches is used.
pub struct TlsPolicies {
    built: Vec<Built>,
    /// The first policy without further conditions, by name.
    by_name: HashMap<Subject, usize>,
    /// The first policy for all names.
    for_all: Option<usize>,
    /// Policies with further conditions, in order.
    conditional: Vec<Conditional>,
    choice: Option<Arc<Choice>>,
    refusing: Arc<ServerConfig>,
    /// ACME challenges to respond to in handshakes.
    challenges: Option<Arc<Challenges>>,
    on_demand: Option<Arc<OnDemand>>,
    keeps_offers: bool,
    /// Certificates with variable paths, by the index of the policy that uses them.
    named: HashMap<usize, Arc<NamedPairs>>,
}

/// Returns the index of the policy for a server name; `None` if no policy applies.
pub type Choice = dyn Fn(&str) -> Option<usize> + Send + Sync;

/// A policy with further conditions.
struct Conditional {
    index: usize,
    /// All if empty.
    names: Vec<Subject>,
    condition: Condition,
}

struct Built {
    policy: Policy,
    store: Arc<CertStore>,
    /// With the server's cipher preference.
    ours: Arc<ServerConfig>,
    /// With the client's cipher preference.
    theirs: Arc<ServerConfig>,
}

impl TlsPolicies {
    /// Builds `policies`, which serve certificates of `store`. Policies also contained in `previous` keep its ticket
    /// keys, so that a reload does not cost every client a full handshake.
    ///
    /// Each policy has its own ticket keys: a session begun under one must not be resumed under another, which may
    /// require a client certificate.
    pub fn build(
        policies: Vec<Policy>,
        store: &Arc<CertStore>,
        previous: Option<&TlsPolicies>,
    ) -> Result<TlsPolicies, PolicyError> {
        let mut by_name = HashMap::new();
        let (mut for_all, mut conditional) = (None, Vec::new());
        let mut built: Vec<Built> = Vec::with_capacity(policies.len());
        for (index, policy) in policies.into_iter().enumerate() {
            let parse =
                |name: &String| Subject::parse(name).map_err(|_| PolicyError::Name(name.clone()));
            let names = policy.names.iter().map(parse);
            let names = names.collect::<Result<Vec<_>, _>>()?;
            match policy.when.compile()? {
                Some(condition) => conditional.push(Conditional {
                    index,
                    names,
                    condition,
                }),
                None if policy.is_chosen => {}
                None if names.is_empty() => _ = for_all.get_or_insert(index),
                None => {
                    for name in names {
                        by_name.entry(name).or_insert(index);
                    }
                }
            }
            // Equal policies do not share keys either: they may deliberately belong to different sites.
            let earlier = previous.and_then(|previous| previous.built.get(index));
            let same = earlier.filter(|earlier| earlier.policy == policy);
            let sessions = match same {
                Some(earlier) => Sessions::of(&earlier.ours),
                None => Sessions::new(&policy)?,
            };
            built.push(Built::new(policy, store, sessions)?);
        }
        let refusing = refusing()?;
        let keeps_offers = built.iter().any(|one| one.policy.keeps_offers);
        Ok(TlsPolicies {
            keeps_offers,
            built,
            by_name,
            for_all,
            conditional,
            choice: None,
            refusing,
            challenges: None,
            on_demand: None,
            named: HashMap::new(),
        })
    }

    /// Selects the policy by `choice` first.
    pub fn with_choice(mut self, choice: Option<Arc<Choice>>) -> TlsPolicies {
        self.choice = choice;
        self
    }

    /// Obtains certificates during handshakes.
    pub fn with_on_demand(mut self, on_demand: Option<Arc<OnDemand>>) -> TlsPolicies {
        self.on_demand = on_demand;
        self
    }

    /// Makes the policies with these indexes serve certificates with variable paths.
    pub fn with_named(mut self, named: HashMap<usize, Arc<NamedPairs>>) -> TlsPolicies {
        self.named = named;
        self
    }

    /// The future that a handshake with variable certificate paths waits for.
    fn find_named(&self, hello: &ClientHello<'_>, ends: Ends) -> Option<Preparation> {
        let built = self.find(hello.server_name(), ends)?;
        let index = self.built.iter().position(|one| std::ptr::eq(one, built))?;
        let named = self.named.get(&index)?;
        if built.policy.refuse || self.challenge(hello).is_some() {
            return None;
        }
        let found = named.find(hello.server_name(), ends);
        let spoken = built.policy.spoken();
        let (config, refusing) = (built.config(hello).clone(), self.refusing.clone());
        Some(Box::pin(async move {
            let Some(pairs) = found.end().await else {
                return Some(refusing);
            };
            let mut config = ServerConfig::clone(&config);
            config.cert_resolver = Arc::new(ByClient { pairs, spoken });
            Some(Arc::new(config))
        }))
    }

    /// Responds to tls-alpn-01 challenges as well.
    pub fn with_challenges(mut self, challenges: Arc<Challenges>) -> TlsPolicies {
        self.challenges = Some(challenges);
        self
    }

    /// The configuration for a validation handshake of an ACME CA (RFC 8737).
    fn challenge(&self, hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>> {
        let challenges = self.challenges.as_ref().filter(|known| !known.is_idle())?;
        let mut offered = hello.alpn()?;
        let is_asked = offered.next() == Some(challenges::ALPN) && offered.next().is_none();
        challenges.alpn_config(hello.server_name().filter(|_| is_asked)?)
    }

    /// The acceptor for a listener.
    pub fn acceptor(self: Arc<Self>) -> Arc<dyn Acceptor> {
        Arc::new(RustlsAcceptor::new(self))
    }

    /// The first policy for a client between `ends` that requests `server_name`.
    fn find(&self, server_name: Option<&str>, ends: Ends) -> Option<&Built> {
        let chosen = self.choice.as_ref().zip(server_name);
        if let Some(index) = chosen.and_then(|(choice, name)| choice(name)) {
            return self.built.get(index);
        }
        let by_name = |subject: &Subject| self.by_name.get(subject).copied();
        let subject = server_name.and_then(|name| Subject::parse(name).ok());
        let wildcard = subject.as_ref().and_then(crate::store::wildcard_of);
        let exact = subject.as_ref().and_then(by_name);
        let by_wildcard = wildcard.as_ref().and_then(by_name);
        let first = [exact, by_wildcard, self.for_all];
        let first = first.into_iter().flatten().min();
        let is_for =
            |name: &Subject| Some(name) == subject.as_ref() || Some(name) == wildcard.as_ref();
        let earlier = self.conditional.iter().find(|one| {
            first.is_none_or(|first| one.index < first)
                && (one.names.is_empty() || one.names.iter().any(is_for))
                && one.condition.holds(server_name, ends)
        });
        self.built.get(earlier.map(|one| one.index).or(first)?)
    }
}

impl ConfigChoice for TlsPolicies {
    fn prepare(&self, hello: &ClientHello<'_>, ends: Ends) -> Option<Preparation> {
        if !self.named.is_empty()
            && let Some(found) = self.find_named(hello, ends)
        {
            return Some(found);
        }
        let on_demand = self.on_demand.as_ref()?;
        let name = hello.server_name()?;
        let policy = &self.find(Some(name), ends)?.policy;
        if policy.refuse || self.challenge(hello).is_some() {
            return None;
        }
        let owned_hello = || Hello {
            signature_schemes: numbers(hello.signature_schemes()),
            cipher_suites: numbers(hello.cipher_suites()),
            local: ends.local,
        };
        match on_demand.demand(name, owned_hello) {
            Demand::Nothing => None,
            // The sender is merely dropped.
            Demand::Wait(made) => Some(Box::pin(async move {
                _ = made.await;
                None
            })),
        }
    }

    fn keeps_offers(&self) -> bool {
        self.keeps_offers
    }

    fn has_certificate(&self, server_name: Option<&str>, ends: Ends) -> bool {
        let Some(built) = self
            .find(server_name, ends)
            .filter(|built| !built.policy.refuse)
        else {
            return false;
        };
        let Policy {
            fallback,
            selection,
            ..
        } = &built.policy;
        let unmatched = selection.unmatched();
        let pair = built
            .store
            .choose(server_name, ends.local, fallback, unmatched, |_| true);
        // Certificates with variable paths are handled before the choice.
        pair.is_some() || !self.named.is_empty()
    }

    fn choose(&self, hello: &ClientHello<'_>, ends: Ends) -> Arc<ServerConfig> {
        if let Some(config) = self.challenge(hello) {
            return config;
        }
        let Some(built) = self.find(hello.server_name(), ends) else {
            return self.refusing.clone();
        };
        if let (Some(on_demand), Some(name)) = (&self.on_demand, hello.server_name())
            && on_demand.is_missing(name)
        {
            return self.refusing.clone();
        }
        if built.policy.refuse {
            return self.refusing.clone();
        }
        let config = built.config(hello);
        if hello.server_name().is_some() || ends.local.is_none() {
            return config.clone();
        }
        // Only clients without SNI need this copy: rustls does not pass the local address to its resolver.
        let mut config = ServerConfig::clone(config);
        config.cert_resolver = resolver(&built.policy, &built.store, ends.local);
        Arc::new(config)
    }
}

/// The values sent to a certificate endpoint, up to a limit.
fn numbers<T: Copy + Into<u16>>(list: &[T]) -> Vec<u16> {
    let kept = list.iter().take(HELLO_NUMBERS_MAX);
    kept.map(|&one| one.into()).collect()
}

/// Where the sessions of a policy are stored for resumption.
struct Sessions {
    tickets: Arc<dyn ProducesTickets>,
    kept: Arc<dyn StoresServerSessions>,
}

impl Sessions {
    fn new(policy: &Policy) -> Result<Sessions, PolicyError> {
        if policy.takes_early_data() || policy.tickets == Tickets::Kept {
            // Early data must not be replayed: rustls accepts it only for cached sessions, and removes each when it is
            // resumed (RFC 8446, section 8.1).
            return Ok(Sessions {
                tickets: tickets::ticketer(&Tickets::Off, "")?,
                kept: ServerSessionMemoryCache::new(EARLY_SESSIONS_MAX),
            });
        }
        Ok(Sessions {
            tickets: tickets::ticketer(&policy.tickets, &ticket_scope(policy))?,
            // Tickets contain the sessions; a cache would only be another lock shared by the workers.
            kept: Arc::new(NoServerSessionStorage {}),
        })
    }

    /// Those of a running policy.
    fn of(config: &ServerConfig) -> Sessions {
        Sessions {
            tickets: config.ticketer.clone(),
            kept: config.session_storage.clone(),
        }
    }
}

impl Built {
    /// The configuration for a client.
    fn config(&self, hello: &ClientHello<'_>) -> &Arc<ServerConfig> {
        match prefers_chacha(hello) {
            true => &self.theirs,
            false => &self.ours,
        }
    }

    fn new(
        policy: Policy,
        store: &Arc<CertStore>,
        sessions: Sessions,
    ) -> Result<Built, PolicyError> {
        let provider = Arc::new(provider(&policy)?);
        let versions = versions(&policy)?;
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|_| PolicyError::NoVersion)?;
        let builder = match &policy.client_auth {
            Some(auth) => builder.with_client_cert_verifier(client_auth::verifier(auth, provider)?),
            None => builder.with_no_client_auth(),
        };
        let built_resolver = resolver(&policy, store, None);
        let mut config = builder.with_cert_resolver(built_resolver);
        config.alpn_protocols = policy
            .alpn
            .iter()
            .map(|name| name.clone().into_bytes())
            .collect();
        config.ticketer = sessions.tickets;
        config.session_storage = sessions.kept;
        if policy.takes_early_data() {
            config.max_early_data_size = EARLY_DATA_BYTES_MAX;
            // Otherwise the response would wait for the end of the handshake, defeating the purpose.
            config.send_half_rtt_data = true;
        }
        if policy.tickets == Tickets::Off {
            config.send_tls13_tickets = 0;
        }
        if let Some(path) = &policy.secrets_log {
            let refuse = |error| PolicyError::SecretsLog(format!("`{}`: {error}", path.display()));
            config.key_log = Arc::new(SecretsLog::open(path).map_err(refuse)?);
        }
        let theirs = Arc::new(config.clone());
        config.ignore_client_order = true;
        Ok(Built {
            policy,
            store: store.clone(),
            ours: Arc::new(config),
            theirs,
        })
    }
}

fn resolver(
    policy: &Policy,
    store: &Arc<CertStore>,
    local: Option<IpAddr>,
) -> Arc<dyn ResolvesServerCert> {
    Arc::new(Resolver {
        store: store.clone(),
        fallback: policy.fallback.clone(),
        selection: policy.selection.clone(),
        local,
        spoken: policy.spoken(),
    })
}

/// Whether the client prefers ChaCha20, which indicates a CPU without AES instructions. For all others AES-128 is
/// cheapest for both sides, whatever their preference.
fn prefers_chacha(hello: &ClientHello<'_>) -> bool {
    let first = hello
        .cipher_suites()
        .iter()
        .find(|suite| suite.as_str().is_some());
    matches!(
        first,
        Some(
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        )
    )
}

/// A configuration with which every handshake fails.
fn refusing() -> Result<Arc<ServerConfig>, PolicyError> {
    let resolver = Resolver {
        store: CertStore::new([]),
        fallback: Fallback::default(),
        selection: Selection::default(),
        local: None,
        spoken: Spoken::default(),
    };
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| PolicyError::NoVersion)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    Ok(Arc::new(config))
}

fn provider(policy: &Policy) -> Result<CryptoProvider, PolicyError> {
    let mut provider = aws_lc_rs::default_provider();
    let modern = [
        aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256,
        aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384,
        aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    let older: Vec<SupportedCipherSuite> = if policy.cipher_suites.is_empty() {
        suites_1_2().collect()
    } else {
        let wanted = policy.cipher_suites.iter().map(|name| {
            let mut all = modern.iter().copied().chain(suites_1_2());
            all.find(|suite| suite_name(suite) == name)
                .ok_or_else(|| PolicyError::Cipher(name.clone()))
        });
        wanted.collect::<Result<_, _>>()?
    };
    let older = older.into_iter().filter(|suite| suite.tls13().is_none());
    let named = policy.modern_suites.iter().map(|name| {
        let known = modern.iter().find(|suite| suite_name(suite) == name);
        known
            .copied()
            .ok_or_else(|| PolicyError::Cipher(name.clone()))
    });
    let mut all: Vec<SupportedCipherSuite> = named.collect::<Result<_, _>>()?;
    if all.is_empty() {
        all.extend(modern);
    }
    all.extend(older);
    provider.cipher_suites = all;
    if !policy.curves.is_empty() {
        let wanted = policy.curves.iter().map(|name| {
            let known = CURVES.iter().find(|(known, _)| known == name);
            known
                .map(|(_, group)| *group)
                .ok_or_else(|| PolicyError::Curve(name.clone()))
        });
        provider.kx_groups = wanted.collect::<Result<_, _>>()?;
    }
    Ok(provider)
}

const CURVES: [(&str, &dyn SupportedKxGroup); 4] = [
    ("x25519mlkem768", kx_group::X25519MLKEM768),
    ("x25519", kx_group::X25519),
    ("secp256r1", kx_group::SECP256R1),
    ("secp384r1", kx_group::SECP384R1),
];

/// The TLS 1.2 cipher suites, the cheapest first.
fn suites_1_2() -> impl Iterator<Item = SupportedCipherSuite> {
    use aws_lc_rs::cipher_suite as known;
    [
        known::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        known::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        known::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        known::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        known::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        known::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ]
    .into_iter()
}

/// The suite's name in Caddy and in the IANA registry.
fn suite_name(suite: &SupportedCipherSuite) -> &'static str {
    match suite.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        older => older.as_str().unwrap_or_default(),
    }
}

fn versions(policy: &Policy) -> Result<Vec<&'static SupportedProtocolVersion>, PolicyError> {
    let number = |name: &str, default: u8| match name {
        "" => Ok(default),
        "tls1.2" => Ok(2),
        "tls1.3" => Ok(3),
        other => Err(PolicyError::Version(other.to_owned())),
    };
    let allowed = number(&policy.version_min, 2)?..=number(&policy.version_max, 3)?;
    if allowed.is_empty() {
        return Err(PolicyError::NoVersion);
    }
    let known = [(3, &version::TLS13), (2, &version::TLS12)];
    Ok(known
        .into_iter()
        .filter(|(n, _)| allowed.contains(n))
        .map(|(_, version)| version)
        .collect())
}
