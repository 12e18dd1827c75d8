//! The `tls` app, and the TLS connection policies of servers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::matcher::IpRanges;
use crate::object::{RawModule, objects, tagged};
use crate::route_origin::RouteOrigin;
use crate::value::Duration;
use crate::walk::walk_fields;

objects! {
    /// Certificates: which are loaded, which are made and how.
    pub struct TlsApp {
        /// Certificates that are loaded or named.
        pub certificates: Certificates,
        /// How certificates are made.
        pub automation: Option<Automation>,
        /// Session resumption.
        pub session_tickets: Option<SessionTickets>,
        /// The certificates kept in memory.
        pub cache: Option<CertificateCache>,
        /// Disables OCSP stapling.
        pub disable_ocsp_stapling: bool,
        /// Does not try out the storage first.
        pub disable_storage_check: bool,
        /// Does not clean the storage.
        pub disable_storage_clean: bool,
        /// Encrypted Client Hello.
        pub encrypted_client_hello: Option<EncryptedClientHello>,
        /// The DNS provider used where none is named.
        pub dns: Option<RawModule>,
        /// The DNS servers used where none are named.
        pub resolvers: Vec<String>,
    }

    /// Certificates that are loaded or named.
    pub struct Certificates {
        /// Names to make certificates for.
        pub automate: Vec<String>,
        /// Pairs of files.
        pub load_files: Vec<CertificateFiles>,
        /// Folders of PEM files.
        pub load_folders: Vec<String>,
        /// Pairs of PEM texts.
        pub load_pem: Vec<CertificatePem>,
        /// Pairs of storage keys.
        pub load_storage: Option<Value>,
        /// Where each of the folders was written; no part of the JSON.
        #[serde(skip)]
        pub folder_origins: RouteOrigin,
    }

    /// How certificates are made.
    pub struct Automation {
        /// The policies; the first that covers a name decides.
        pub policies: Vec<AutomationPolicy>,
        /// Limits on certificates made during a handshake.
        pub on_demand: Option<OnDemand>,
        /// How often OCSP responses are checked.
        pub ocsp_interval: Duration,
        /// How often expiry is looked at.
        pub renew_interval: Duration,
        /// How often the storage is cleaned.
        pub storage_clean_interval: Duration,
    }

    /// How certificates for some names are made.
    pub struct AutomationPolicy {
        /// The names; all when empty.
        pub subjects: Vec<String>,
        /// Who issues, tried in order.
        pub issuers: Vec<Issuer>,
        /// Where ready certificates are asked for during the handshake.
        pub get_certificate: Vec<RawModule>,
        /// Asks for the must-staple extension.
        pub must_staple: bool,
        /// The share of the lifetime that may be left when a renewal starts.
        pub renewal_window_ratio: f64,
        /// The type of new keys.
        pub key_type: String,
        /// Where certificates are kept, the default storage when absent.
        pub storage: Option<RawModule>,
        /// Makes certificates during the handshake.
        pub on_demand: bool,
        /// Keeps the key on renewal.
        pub reuse_private_keys: bool,
        /// Disables OCSP stapling.
        pub disable_ocsp_stapling: bool,
        /// Replaces the OCSP servers named in certificates.
        pub ocsp_overrides: BTreeMap<String, String>,
    }

    /// Limits on certificates made during a handshake.
    pub struct OnDemand {
        /// The address that is asked for permission (an old place).
        pub ask: String,
        /// The module that gives permission.
        pub permission: Option<RawModule>,
    }

    /// Issues through ACME.
    pub struct AcmeIssuer {
        /// The ACME directory URL of the CA.
        pub ca: String,
        /// The directory tried first after failures.
        pub test_ca: String,
        /// The address of the account.
        pub email: String,
        /// The certificate profile.
        pub profile: String,
        /// The key of the account, as PEM.
        pub account_key: String,
        /// External account binding.
        pub external_account: Option<ExternalAccount>,
        /// How long an order may take.
        pub acme_timeout: Duration,
        /// Settings of the challenges.
        pub challenges: Option<Challenges>,
        /// Files of roots that the ACME server's certificate may chain to.
        pub trusted_roots_pem_files: Vec<String>,
        /// Which chain to take where several are offered.
        pub preferred_chains: Option<ChainPreference>,
        /// The lifetime asked for.
        pub certificate_lifetime: Duration,
        /// The proxy for connections to the CA.
        pub network_proxy: Option<RawModule>,
    }

    /// External account binding.
    pub struct ExternalAccount {
        /// The id of the key.
        pub key_id: String,
        /// The key, base64url.
        pub mac_key: String,
    }

    /// Settings of the challenges.
    pub struct Challenges {
        /// HTTP-01.
        pub http: Option<PortChallenge>,
        /// TLS-ALPN-01.
        #[serde(rename = "tls-alpn")]
        pub tls_alpn: Option<PortChallenge>,
        /// DNS-01.
        pub dns: Option<DnsChallenge>,
        /// The address challenge listeners bind.
        pub bind_host: String,
        /// Whether other instances may solve the challenge.
        pub distributed: Option<bool>,
    }

    /// A challenge solved on a port.
    pub struct PortChallenge {
        /// Switches it off.
        pub disabled: bool,
        /// The port to use instead.
        pub alternate_port: u16,
    }

    /// A challenge solved with a DNS record.
    pub struct DnsChallenge {
        /// Who sets the record.
        pub provider: Option<RawModule>,
        /// The lifetime of the record.
        pub ttl: Duration,
        /// The wait before looking for the record.
        pub propagation_delay: Duration,
        /// How long to look for the record; -1 does not look.
        pub propagation_timeout: Duration,
        /// The DNS servers that are asked.
        pub resolvers: Vec<String>,
        /// The domain that carries the record instead.
        pub override_domain: String,
    }

    /// Which chain to take where several are offered.
    pub struct ChainPreference {
        /// The one with the fewest bytes.
        pub smallest: Option<bool>,
        /// The first whose root has one of these names.
        pub root_common_name: Vec<String>,
        /// The first where any certificate has one of these names.
        pub any_common_name: Vec<String>,
    }

    /// Issues certificates from a local CA.
    pub struct InternalIssuer {
        /// The ID of the CA, `local` when empty.
        pub ca: String,
        /// The lifetime of certificates.
        pub lifetime: Duration,
        /// Signs with the root instead of the intermediate.
        pub sign_with_root: bool,
    }

    /// Issues through ZeroSSL's own interface.
    pub struct ZeroSslIssuer {
        /// The key.
        pub api_key: String,
        /// The lifetime in days.
        pub validity_days: i64,
        /// The address that listens for the validation request.
        pub listen_host: String,
        /// The port that listens for the validation request instead.
        pub alternate_http_port: u16,
        /// Validates by DNS.
        pub cname_validation: Option<DnsChallenge>,
        /// Where the interface is, `https://api.zerossl.com` when empty. Ours; Caddy has no such word.
        pub api_url: String,
    }

    /// The settings of a TLS handshake.
    pub struct ConnectionPolicy {
        /// When the policy applies; always when absent.
        pub r#match: HandshakeMatch,
        /// Which certificate is taken where several fit.
        pub certificate_selection: Option<CertificateSelection>,
        /// The cipher suites offered.
        pub cipher_suites: Vec<String>,
        /// The suites of TLS 1.3 offered, best first; all when empty. Ours; Caddy always offers all.
        pub modern_suites: Vec<String>,
        /// The groups offered.
        pub curves: Vec<String>,
        /// The application protocols offered.
        pub alpn: Vec<String>,
        /// The lowest version.
        pub protocol_min: String,
        /// The highest version.
        pub protocol_max: String,
        /// Ends the connection.
        pub drop: bool,
        /// Client certificates.
        pub client_authentication: Option<ClientAuthentication>,
        /// The name assumed when the client sends none.
        pub default_sni: String,
        /// The name assumed when no certificate fits.
        pub fallback_sni: String,
        /// A file for session secrets.
        pub insecure_secrets_log: String,
        /// A module that adds to the context of the handshake.
        pub handshake_context: Option<RawModule>,
        /// How sessions go on, where not as everywhere. Ours; Caddy has one way for all servers.
        pub sessions: Option<PolicySessions>,
        /// Takes what clients say before the end of the handshake. Ours; Caddy has it for all of a server.
        pub early_data: bool,
        /// Remembers what clients offer. Ours; Caddy has no such word.
        pub keep_offers: bool,
        /// Certificates whose names follow from the handshake; they are read when one needs them. Ours; Caddy has no such word.
        pub named_certificates: Option<NamedCertificates>,
        /// Where it was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Certificates whose names follow from the handshake.
    pub struct NamedCertificates {
        /// What they are called; the client chooses among several by the signatures that it knows.
        pub pairs: Vec<NamedPair>,
        /// The folder that relative paths begin in.
        pub folder: String,
        /// A file of passwords, one in each line, for keys that are protected.
        pub password_file: String,
        /// How many are kept; none when zero.
        pub kept_max: u32,
        /// How long one is kept that nobody needs.
        pub kept_inactive: Duration,
        /// How long one is kept before it is read anew.
        pub kept_valid: Duration,
        /// Where it was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// What a certificate and its key are called: paths, or texts of PEM behind `data:`, with placeholders.
    pub struct NamedPair {
        /// The chain, leaf first.
        pub certificate: String,
        /// The key.
        pub key: String,
    }

    /// How the sessions of a policy go on.
    pub struct PolicySessions {
        /// Where they are kept: by clients, in tickets, when empty; `memory` or `off`.
        pub kept: String,
        /// How long they last at least; as everywhere when zero.
        pub lifetime: Duration,
        /// Files of the keys of tickets, the one that seals first; keys that nobody else has when empty.
        pub key_files: Vec<String>,
    }

    /// When a handshake policy applies: all that are given must hold.
    pub struct HandshakeMatch {
        /// The local address.
        pub local_ip: Option<IpRanges>,
        /// The address of the peer.
        pub remote_ip: Option<HandshakeRemoteIp>,
        /// The name in the handshake.
        pub sni: Vec<String>,
        /// Names as those of an nginx.conf, in place of `sni`: `a`, `.a`, `*.a`, `a.*` and `~pattern`. Of the names of all
        /// policies the best counts, wherever it stands. Our own word.
        pub server_names: Vec<String>,
        /// A pattern over the name in the handshake.
        pub sni_regexp: Option<crate::matcher::Regexp>,
    }

    /// The address of the peer.
    pub struct HandshakeRemoteIp {
        /// Ranges it must be in.
        pub ranges: Vec<String>,
        /// Ranges it must not be in.
        pub not_ranges: Vec<String>,
    }

    /// Which certificate is taken where several fit.
    pub struct CertificateSelection {
        /// One of these serial numbers.
        pub serial_number: Vec<Value>,
        /// One of these organisations.
        pub subject_organization: Vec<String>,
        /// This key algorithm.
        pub public_key_algorithm: Option<Value>,
        /// One of these tags.
        pub any_tag: Vec<String>,
        /// All of these tags.
        pub all_tags: Vec<String>,
        /// Of those with the first of `any_tag` the client chooses, by the signatures that it knows; names do not matter. Ours;
        /// Caddy has no such word.
        pub by_client: bool,
    }

    /// Client certificates.
    pub struct ClientAuthentication {
        /// Who may have signed them.
        pub ca: Option<RawModule>,
        /// CA certificates in Base64 DER (deprecated).
        pub trusted_ca_certs: Vec<String>,
        /// Files of CA certificates (deprecated).
        pub trusted_ca_certs_pem_files: Vec<String>,
        /// Base64 DER of leafs (an old place).
        pub trusted_leaf_certs: Vec<String>,
        /// Further checks.
        pub verifiers: Vec<RawModule>,
        /// `request`, `require`, `verify_if_given` or `require_and_verify`.
        pub mode: String,
    }

    /// Session resumption.
    pub struct SessionTickets {
        /// Where the keys come from.
        pub key_source: Option<RawModule>,
        /// How often keys change.
        pub rotation_interval: Duration,
        /// How many keys are kept.
        pub max_keys: i64,
        /// Keeps one key.
        pub disable_rotation: bool,
        /// Switches tickets off.
        pub disabled: bool,
    }

    /// The certificates kept in memory.
    pub struct CertificateCache {
        /// How many.
        pub capacity: i64,
    }

    /// Encrypted Client Hello.
    pub struct EncryptedClientHello {
        /// The configurations.
        pub configs: Vec<EchConfig>,
        /// How they are published.
        pub publication: Vec<EchPublication>,
    }

    /// One ECH configuration.
    pub struct EchConfig {
        /// The outer name.
        pub public_name: String,
    }

    /// How ECH configurations are published.
    pub struct EchPublication {
        /// The outer names; all when empty.
        pub configs: Vec<String>,
        /// The inner names; all when empty.
        pub domains: Vec<String>,
        /// The publishers by module.
        pub publishers: BTreeMap<String, Value>,
    }
}

tagged! {
    /// Who issues certificates.
    pub enum Issuer by "module" {
        /// ACME.
        Acme(alloc::boxed::Box<AcmeIssuer>) = "acme",
        /// A local CA.
        Internal(InternalIssuer) = "internal",
        /// ZeroSSL's own interface.
        ZeroSsl(alloc::boxed::Box<ZeroSslIssuer>) = "zerossl",
    }
}

walk_fields! {
    CertificateFiles {
        certificate, key, format, tags, password_file, staple_file, ocsp_responder, origin
    }
    CertificatePem { certificate, key, tags }
}

/// A pair of files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CertificateFiles {
    /// The chain, leaf first.
    pub certificate: String,
    /// The key.
    pub key: String,
    /// The format, `pem` when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub format: String,
    /// Names for choosing among certificates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A file of passwords, one in each line, for a key that is protected. Ours; Caddy has no such word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub password_file: String,
    /// A file with the CA's OCSP response (DER), which is stapled as it is; no responder is queried then. sluice's own
    /// setting; Caddy has no equivalent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub staple_file: String,
    /// The OCSP responder to query instead of the one that the certificate names. sluice's own setting; Caddy has no
    /// equivalent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ocsp_responder: String,
    /// Where the chain, the key and the other files were written, in this order; no part of the JSON.
    #[serde(skip)]
    pub origin: RouteOrigin,
}

/// A pair of PEM texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CertificatePem {
    /// The chain, leaf first.
    pub certificate: String,
    /// The key.
    pub key: String,
    /// Names for choosing among certificates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}
