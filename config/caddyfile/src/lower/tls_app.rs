//! The `tls` app: which certificates are loaded and which issuers provide the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sluice_model::tls::{
    AcmeIssuer, Automation, AutomationPolicy, Certificates, InternalIssuer, Issuer, TlsApp,
};

use super::Lowering;
use super::address::SiteAddress;
use super::issuers::default_authorities;
use super::listen::{Pairing, Pairings, Share};
use super::options::GlobalOptions;
use super::outcome::{Outcome, TlsOutcome};
use super::routes::insertion_sort;
use super::servers::hosts;

/// What is gathered while the sites are visited.
#[derive(Default)]
struct Gathered {
    certificates: Certificates,
    policies: Vec<AutomationPolicy>,
    /// Where the policy for all other names stands, if there is one.
    catch_all: Option<usize>,
    /// Internal names that stood among public ones.
    split: BTreeSet<String>,
    /// Names to make certificates for, whatever covers them.
    forced: BTreeSet<String>,
}

impl Lowering<'_> {
    /// The `tls` app, if the configuration says anything about certificates.
    pub(super) fn tls_app(&mut self, pairings: &Pairings) -> Option<TlsApp> {
        let mut gathered = Gathered::default();
        if let Some(policy) = self.global_policy() {
            gathered.catch_all = Some(0);
            gathered.policies.push(policy);
        }
        for pairing in &pairings.servers {
            if !self.beyond_http(pairing) {
                continue;
            }
            for share in &pairing.shares {
                if share
                    .addresses
                    .iter()
                    .any(|address| address.scheme != "http")
                {
                    self.site_policy(share, pairings, &mut gathered);
                }
            }
        }
        self.automate_hidden_names(pairings, &mut gathered);
        drop_repeated_local(&gathered.split, &mut gathered.policies);
        self.fill_issuers(&mut gathered.policies);
        let policies = join_policies(gathered.policies);
        self.refuse_overlap(&policies, pairings);

        let options = &self.options;
        let automation = Automation {
            policies,
            on_demand: options.on_demand.clone(),
            ocsp_interval: options.ocsp_interval,
            renew_interval: options.renew_interval,
            storage_clean_interval: options.storage_clean_interval,
        };
        let app = TlsApp {
            certificates: gathered.certificates,
            automation: (automation != Automation::default()).then_some(automation),
            disable_ocsp_stapling: options.ocsp_stapling_off,
            disable_storage_check: options.storage_check_off,
            disable_storage_clean: options.storage_clean_off,
            dns: options.dns.clone(),
            resolvers: options.resolvers.clone(),
            ..TlsApp::default()
        };
        (app != TlsApp::default()).then_some(app)
    }

    /// Whether a server has a socket that is not for plain HTTP.
    fn beyond_http(&self, pairing: &Pairing) -> bool {
        let port = format!(":{}", self.http_port());
        pairing.listen.keys().any(|socket| !socket.ends_with(&port))
    }

    /// What the global options say of every certificate.
    fn base_policy(&self) -> AutomationPolicy {
        let options = &self.options;
        let issuers = if options.local_certs {
            vec![Issuer::Internal(InternalIssuer::default())]
        } else {
            options.issuers.clone()
        };
        AutomationPolicy {
            issuers,
            key_type: options.key_type.clone(),
            renewal_window_ratio: options.renewal_window_ratio.unwrap_or(0.0),
            disable_ocsp_stapling: options.ocsp_stapling_off,
            ..AutomationPolicy::default()
        }
    }

    /// The policy for names that no site has, if the global options give any.
    fn global_policy(&self) -> Option<AutomationPolicy> {
        let base = self.base_policy();
        let acme = &self.options.acme;
        // An email address or a lifetime alone does not require a policy.
        let bare = AcmeIssuer {
            email: acme.email.clone(),
            certificate_lifetime: acme.certificate_lifetime,
            ..AcmeIssuer::default()
        };
        (base != AutomationPolicy::default() || *acme != bare).then_some(base)
    }

    fn site_policy(&mut self, share: &Share, pairings: &Pairings, gathered: &mut Gathered) {
        let names = hosts(&share.addresses);
        let site = &pairings.sites[share.site];
        let shared = if names.is_empty() {
            gathered.catch_all
        } else {
            None
        };
        let base = match shared {
            Some(at) => gathered.policies[at].clone(),
            None => self.base_policy(),
        };
        let mut policy = base.clone();
        let (mut issuers, mut key_types) = (Vec::new(), Vec::new());
        for found in &site.outcomes {
            let Outcome::Tls(outcome) = &found.outcome else {
                continue;
            };
            match outcome {
                TlsOutcome::Policy(_) => {}
                TlsOutcome::LoadFiles(files) => {
                    let loaded = &mut gathered.certificates.load_files;
                    if !loaded.contains(files) {
                        loaded.push(files.clone());
                    }
                }
                TlsOutcome::LoadFolders(folders) => {
                    let certificates = &mut gathered.certificates;
                    for (folder, origin) in folders {
                        if !certificates.load_folders.contains(folder) {
                            certificates.load_folders.push(folder.clone());
                            certificates.folder_origins.0.push(*origin);
                        }
                    }
                }
                TlsOutcome::Issuer(issuer) => issuers.push(issuer.clone()),
                TlsOutcome::Manager(manager) => policy.get_certificate.push(manager.clone()),
                TlsOutcome::OnDemand => policy.on_demand = true,
                TlsOutcome::ReusePrivateKeys => policy.reuse_private_keys = true,
                TlsOutcome::RenewalWindowRatio(ratio) => policy.renewal_window_ratio = *ratio,
                TlsOutcome::KeyType(key_type) => key_types.push(key_type),
                TlsOutcome::ForceAutomate => gathered.forced.extend(names.iter().cloned()),
            }
        }
        // Of several types the first is taken.
        if let Some(key_type) = key_types.first() {
            policy.key_type.clone_from(key_type);
        }
        if !issuers.is_empty() {
            if shared.is_some() && issuers != base.issuers {
                self.refuse_catch_all(&share.addresses[0]);
            }
            policy.issuers = issuers;
        }
        bind_issuers(&mut policy, site);
        policy.subjects = subjects(&share.addresses, &self.http_port());
        if policy.issuers.is_empty() {
            self.refuse_subjects(share, &policy.subjects);
        }
        match shared {
            Some(at) => gathered.policies[at] = policy,
            None => {
                // The first site for any name is what other such sites add to.
                if names.is_empty() {
                    gathered.catch_all = Some(gathered.policies.len());
                }
                push_split(policy, gathered);
            }
        }
    }

    fn refuse_catch_all(&mut self, address: &SiteAddress) {
        let title = format!(
            "the issuer of site `{}` differs from the global issuer",
            address.word.text
        );
        self.report.push(
            address
                .word
                .error("conflicting-issuers", title, "a site for any name")
                .help("give the site names, or set the issuer with the option `cert_issuer`"),
        );
    }

    /// Refuses names for which there is no certificate at all.
    fn refuse_subjects(&mut self, share: &Share, subjects: &[String]) {
        for address in &share.addresses {
            let name = &address.host;
            let odd = |c: char| "()[]{}<> \t\n\"\\!@#$%^&|;'+=".contains(c);
            if !subjects.contains(name) {
                continue;
            }
            if name.starts_with('.') || name.ends_with('.') || name.contains(odd) {
                let title = format!("cannot issue a certificate for `{name}`");
                self.report.push(
                    address
                        .word
                        .error("invalid-address", title, "not a valid host name")
                        .help("write a plain host name, or `http://` before it"),
                );
            }
        }
    }

    /// A site for any host has no host matcher, so the names beside it are named here.
    fn automate_hidden_names(&self, pairings: &Pairings, gathered: &mut Gathered) {
        let off = |word: &str| self.options.auto_https.iter().any(|other| other == word);
        let http = self.http_port();
        let mut hidden: BTreeSet<String> = BTreeSet::new();
        for share in pairings.servers.iter().flat_map(|pairing| &pairing.shares) {
            if share
                .addresses
                .iter()
                .any(|address| address.host.is_empty())
            {
                hidden.extend(subjects(&share.addresses, &http));
            }
        }
        if off("off") || off("disable_certs") {
            hidden.clear();
        }
        let mut internal: Vec<String> = hidden
            .iter()
            .filter(|name| !is_public(name, false))
            .cloned()
            .collect();
        hidden.append(&mut gathered.forced);
        internal.extend(self.automate_named(&mut hidden, gathered));
        if !internal.is_empty() {
            gathered.policies.push(AutomationPolicy {
                subjects: internal,
                issuers: vec![Issuer::Internal(InternalIssuer::default())],
                ..AutomationPolicy::default()
            });
        }
        gathered.certificates.automate = hidden.into_iter().collect();
    }

    /// Adds the names of `tls_automate_names` to `automated`. Public ones get a policy where the global options say
    /// anything about issuers; the others are returned. A name whose site has a policy keeps that.
    fn automate_named(
        &self,
        automated: &mut BTreeSet<String>,
        gathered: &mut Gathered,
    ) -> Vec<String> {
        let mut names = Vec::new();
        for name in &self.options.automated_names {
            let policies = &gathered.policies;
            let has_policy = policies.iter().any(|policy| policy.subjects.contains(name));
            if automated.insert(name.clone()) && !has_policy {
                names.push(name.clone());
            }
        }
        let (public, internal) = names.into_iter().partition(|name| is_public(name, false));
        let base = self.base_policy();
        let says_nothing =
            base == AutomationPolicy::default() && self.options.acme == AcmeIssuer::default();
        if !says_nothing {
            let subjects: Vec<String> = public;
            if !subjects.is_empty() {
                gathered
                    .policies
                    .push(AutomationPolicy { subjects, ..base });
            }
        }
        internal
    }

    /// Gives public names the issuers that the global options describe.
    fn fill_issuers(&self, policies: &mut [AutomationPolicy]) {
        let global = &self.options.acme;
        let settings = AcmeIssuer {
            certificate_lifetime: Default::default(),
            ..global.clone()
        };
        if settings != AcmeIssuer::default() {
            for policy in policies.iter_mut() {
                if policy.issuers.is_empty() && all_public(policy) {
                    let email = if global.ca.is_empty() {
                        global.email.as_str()
                    } else {
                        ""
                    };
                    let acme = |ca| {
                        Issuer::Acme(Box::new(AcmeIssuer {
                            ca,
                            ..Default::default()
                        }))
                    };
                    policy.issuers = default_authorities(email).map(acme).collect();
                }
            }
        }
        for issuer in policies.iter_mut().flat_map(|policy| &mut policy.issuers) {
            match issuer {
                Issuer::Acme(acme) => fill_acme(acme, &self.options),
                Issuer::Internal(_) | Issuer::ZeroSsl(_) | Issuer::Other(_) => {}
            }
        }
    }

    fn refuse_overlap(&mut self, policies: &[AutomationPolicy], pairings: &Pairings) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, policy) in policies.iter().enumerate() {
            for name in &policy.subjects {
                if seen.insert(name, at).is_none() {
                    continue;
                }
                let shares = pairings.servers.iter().flat_map(|pairing| &pairing.shares);
                let mut places = shares
                    .flat_map(|share| &share.addresses)
                    .filter(|a| a.host == *name);
                let (Some(first), Some(last)) = (places.next(), places.next_back()) else {
                    continue;
                };
                let title = format!("the sites of `{name}` need different certificates");
                self.report.push(
                    last.word
                        .error("conflicting-issuers", title, "certificates of one kind")
                        .also(first.word.span, "certificates of another kind")
                        .help("repeat the same `tls` directive in both sites"),
                );
            }
        }
    }
}

fn fill_acme(acme: &mut AcmeIssuer, options: &GlobalOptions) {
    let host = options
        .default_bind
        .first()
        .and_then(|bind| bind.addresses.first());
    if let Some(host) = host {
        let bound = &mut acme.challenges.get_or_insert_default().bind_host;
        if bound.is_empty() {
            bound.clone_from(host);
        }
    }
    let ports = [(options.http_port, true), (options.https_port, false)];
    for (port, plain) in ports {
        let Some(port) = port else { continue };
        let challenges = acme.challenges.get_or_insert_default();
        let challenge = if plain {
            &mut challenges.http
        } else {
            &mut challenges.tls_alpn
        };
        let alternate = &mut challenge.get_or_insert_default().alternate_port;
        if *alternate == 0 {
            *alternate = port;
        }
    }
    let global = &options.acme;
    if let Some(dns) = global.challenges.as_ref().and_then(|c| c.dns.as_ref()) {
        let own = &mut acme.challenges.get_or_insert_default().dns;
        match own {
            None => *own = Some(dns.clone()),
            Some(own) if own.provider.is_none() => own.provider.clone_from(&dns.provider),
            Some(_) => {}
        }
    }
    if acme.email.is_empty() {
        acme.email.clone_from(&global.email);
    }
    if acme.ca.is_empty() {
        acme.ca.clone_from(&global.ca);
    }
    for root in &global.trusted_roots_pem_files {
        if !acme.trusted_roots_pem_files.contains(root) {
            acme.trusted_roots_pem_files.push(root.clone());
        }
    }
    if acme.external_account.is_none() {
        acme.external_account.clone_from(&global.external_account);
    }
    if acme.preferred_chains.is_none() {
        acme.preferred_chains.clone_from(&global.preferred_chains);
    }
    if acme.certificate_lifetime.is_zero() {
        acme.certificate_lifetime = global.certificate_lifetime;
    }
}

/// ACME challenges of a site are solved on the addresses of the site.
fn bind_issuers(policy: &mut AutomationPolicy, site: &super::listen::Site) {
    let mut hosts = site
        .binds()
        .into_iter()
        .flat_map(|bind| bind.addresses.first());
    let Some(host) = hosts.next() else { return };
    for issuer in &mut policy.issuers {
        if let Issuer::Acme(acme) = issuer {
            acme.challenges
                .get_or_insert_default()
                .bind_host
                .clone_from(host);
        }
    }
}

/// The names among some addresses that are served over TLS.
fn subjects(addresses: &[SiteAddress], http_port: &str) -> Vec<String> {
    let tls = |address: &&SiteAddress| {
        !address.host.is_empty() && address.scheme != "http" && address.port != http_port
    };
    let names: BTreeSet<&String> = addresses
        .iter()
        .filter(tls)
        .map(|address| &address.host)
        .collect();
    names.into_iter().cloned().collect()
}

/// Adds a policy. Internal names among public ones get a separate policy, since no public CA would issue for them.
fn push_split(mut policy: AutomationPolicy, gathered: &mut Gathered) {
    let on_demand = policy.on_demand;
    if policy.issuers.is_empty() {
        let (public, internal): (Vec<String>, Vec<String>) = policy
            .subjects
            .iter()
            .cloned()
            .partition(|name| is_public(name, on_demand));
        if !public.is_empty() && !internal.is_empty() {
            policy.subjects = public;
            gathered.split.extend(internal.iter().cloned());
            let issuers = vec![Issuer::Internal(InternalIssuer::default())];
            let own = AutomationPolicy {
                subjects: internal,
                issuers,
                ..policy.clone()
            };
            gathered.policies.extend([policy, own]);
            return;
        }
    }
    gathered.policies.push(policy);
}

/// Removes internal names from policies if the names also have a policy without an issuer, which uses the local CA as
/// well: a site may be part of several servers.
fn drop_repeated_local(split: &BTreeSet<String>, policies: &mut Vec<AutomationPolicy>) {
    let local = vec![Issuer::Internal(InternalIssuer::default())];
    let plain: BTreeSet<String> = policies
        .iter()
        .filter(|policy| policy.issuers.is_empty())
        .flat_map(|policy| policy.subjects.iter().cloned())
        .collect();
    policies.retain_mut(|policy| {
        if policy.issuers != local || policy.subjects.is_empty() {
            return true;
        }
        policy
            .subjects
            .retain(|name| !(split.contains(name) && plain.contains(name)));
        !policy.subjects.is_empty()
    });
}

fn all_public(policy: &AutomationPolicy) -> bool {
    policy
        .subjects
        .iter()
        .all(|name| is_public(name, policy.on_demand))
}

/// Whether a public CA would issue a certificate for a name. Names with several wildcards are fine with on-demand TLS,
/// because the name is known during the handshake.
fn is_public(name: &str, on_demand: bool) -> bool {
    let name = name.to_ascii_lowercase();
    let internal = name == "localhost"
        || [".localhost", ".local", ".internal", ".home.arpa"]
            .iter()
            .any(|ending| name.ends_with(ending));
    let wildcards = name.matches('*').count();
    let wildcard_fits = match wildcards {
        0 => true,
        1 => on_demand || (name.starts_with("*.") && name.len() > 2),
        _ => on_demand,
    };
    !internal && !is_address(&name) && wildcard_fits
}

/// Whether every name of a policy is covered by another.
fn is_subset(a: &AutomationPolicy, b: &AutomationPolicy) -> bool {
    if b.subjects.is_empty() {
        return true;
    }
    !a.subjects.is_empty()
        && a.subjects
            .iter()
            .all(|name| b.subjects.iter().any(|other| covers(other, name)))
}

/// Whether a name equals another, or is a wildcard for it.
fn covers(wildcard: &str, name: &str) -> bool {
    if wildcard.eq_ignore_ascii_case(name) {
        return true;
    }
    if !wildcard.contains('*') {
        return false;
    }
    let (a, b): (Vec<&str>, Vec<&str>) = (wildcard.split('.').collect(), name.split('.').collect());
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| *a == "*" || a.eq_ignore_ascii_case(b))
}

/// Sorts policies from the most specific, and joins those that differ in their names only.
fn join_policies(mut policies: Vec<AutomationPolicy>) -> Vec<AutomationPolicy> {
    insertion_sort(&mut policies, |a, b| {
        if is_subset(a, b) {
            return true;
        }
        !is_subset(b, a) && a.subjects.len() > b.subjects.len()
    });
    let empty = |policy: &AutomationPolicy| {
        let subjects = policy.subjects.clone();
        *policy
            == AutomationPolicy {
                subjects,
                ..AutomationPolicy::default()
            }
    };
    if policies.iter().all(empty) {
        return Vec::new();
    }
    drop_last_empty(&mut policies, empty);
    let mut at = 0;
    while at < policies.len() {
        if !join_later(&mut policies, at) {
            at += 1;
        }
    }
    policies
}

/// An empty policy at the end says what is so anyway, and so do the empty ones before it whose
/// names it would take.
fn drop_last_empty(
    policies: &mut Vec<AutomationPolicy>,
    empty: impl Fn(&AutomationPolicy) -> bool,
) {
    if !policies.last().is_some_and(&empty) {
        return;
    }
    let last = policies.len() - 1;
    for at in (0..last).rev() {
        let taker = policies[at + 1..]
            .iter()
            .position(|later| is_subset(&policies[at], later));
        if empty(&policies[at]) && taker == Some(policies.len() - 2 - at) {
            policies.remove(at);
        }
    }
    policies.pop();
}

/// Joins a policy with later ones; says whether it was removed itself.
fn join_later(policies: &mut Vec<AutomationPolicy>, at: usize) -> bool {
    let mut later = policies.split_off(at + 1).into_iter();
    let mut kept: Vec<AutomationPolicy> = Vec::new();
    let mut absorbed = false;
    let mut own: BTreeSet<String> = policies[at].subjects.iter().cloned().collect();
    for other in later.by_ref() {
        let first = &mut policies[at];
        if *first == other {
            continue;
        }
        if !joinable(first, &other) {
            kept.push(other);
        } else if !first.subjects.is_empty() && other.subjects.is_empty() {
            // The later one covers every name, unless one in between takes them first.
            absorbed = !kept.iter().any(|between| is_subset(first, between));
            kept.push(other);
            if absorbed {
                break;
            }
        } else {
            let new = other
                .subjects
                .into_iter()
                .filter(|name| own.insert(name.clone()));
            first.subjects.extend(new);
        }
    }
    if absorbed {
        policies.pop();
    }
    policies.extend(kept);
    policies.extend(later);
    absorbed
}

/// Whether two policies say the same but for their names.
fn joinable(a: &AutomationPolicy, b: &AutomationPolicy) -> bool {
    // Without issuers internal names get the internal one, so they keep apart from public names.
    let same_issuers = a.issuers == b.issuers
        && (!a.issuers.is_empty() || b.subjects.is_empty() || all_public(a) == all_public(b));
    (same_issuers || (is_internal(a) && is_internal(b)))
        && a.get_certificate == b.get_certificate
        && a.renewal_window_ratio == b.renewal_window_ratio
        && a.key_type == b.key_type
        && a.on_demand == b.on_demand
        && a.reuse_private_keys == b.reuse_private_keys
        && a.disable_ocsp_stapling == b.disable_ocsp_stapling
}

/// Whether all names of a policy are internal and get the internal issuer, said or not.
fn is_internal(policy: &AutomationPolicy) -> bool {
    let internal = Issuer::Internal(InternalIssuer::default());
    let named = |name: &String| !is_public(name, policy.on_demand) && !is_address(name);
    !policy.subjects.is_empty()
        && policy.issuers.iter().all(|issuer| *issuer == internal)
        && policy.subjects.iter().all(named)
}

fn is_address(name: &str) -> bool {
    name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}
