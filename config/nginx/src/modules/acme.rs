//! `ngx_http_acme_module`: certificates obtained from a CA by ACME. Ordering, renewing and storing them is the server's
//! certificate automation.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_diag::Diagnostic;
use sluice_model::tls::{
    AcmeIssuer, Automation, AutomationPolicy, ChainPreference, Challenges, Issuer, PortChallenge,
};
use sluice_model::{Config, FileStorage, RawModule, Storage};

use crate::context::Context;
use crate::definition::Takes::{Block, Flag, Nothing, Words};
use crate::definition::Verdict::{Always, OnlyAs, Partly};
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::tree::{Directive, Word as Written};

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("accept_terms_of_service", Nothing)
        .but(Always("obtaining a certificate accepts the CA's terms")),
    once("account_key", Words(1, 1)).but(OnlyAs(&["ecdsa", "ecdsa:256"])),
    many("acme_certificate", Words(1, MANY)),
    many("acme_issuer", Block(1, 1)).holding(|_| Context::AcmeIssuer),
    once("acme_shared_zone", Words(1, 1)).but(Always("tables grow as needed")),
    once("certificate_storage", Words(1, MANY)),
    once("challenge", Words(1, 1)),
    once("common_name_in_csr", Flag).but(OnlyAs(&["off"])),
    many("contact", Words(1, 1)).but(Partly("one e-mail address")),
    once("preferred_chain", Words(1, 1)),
    once("profile", Words(1, 2)).but(Partly("always as with `require`")),
    once("ssl_trusted_certificate", Words(1, 1)),
    once("ssl_verify", Flag).but(OnlyAs(&["on"])),
    once("state_path", Words(1, 1)).but(Partly(
        "one folder for all servers; the default is that of sluice",
    )),
    once("uri", Words(1, 1)),
];

/// What a server may name in place of files.
pub const CERTIFICATE: &str = "$acme_certificate";
/// And of its key.
pub const KEY: &str = "$acme_certificate_key";

/// A CA, and where its certificates are stored.
struct Authority<'t> {
    issuer: AcmeIssuer,
    folder: Option<&'t Written>,
}

/// Stores certificates in this directory, the same for all CAs.
fn keep_in(cx: &mut Lowering<'_>, folder: Option<&Written>, config: &mut Config) {
    let Some(word) = folder else {
        return;
    };
    let root = cx.prefixed(&word.text);
    match &config.storage {
        Some(Storage::FileSystem(known)) if known.root != root => {
            let wanted = "the folder of the first `acme_issuer`: all certificates are kept in one";
            let _: Option<()> = cx.invalid(word, "state_path", wanted);
        }
        Some(Storage::FileSystem(_)) | None => {
            config.storage = Some(Storage::FileSystem(FileStorage { root }));
        }
        Some(_) => {
            let wanted = "no folder: `certificate_storage` says where certificates are kept";
            let _: Option<()> = cx.invalid(word, "state_path", wanted);
        }
    }
}

/// The storage that several nodes share (`certificate_storage etcd|redis|postgres <parameter>=<value>...` and
/// `*_cache_purge_storage`, ours). The parameters are the options of the Caddyfile; several values of one are separated by commas.
pub(super) fn storage(cx: &mut Lowering<'_>, line: &Directive) -> Option<Storage> {
    let module = line.args.first()?;
    if !matches!(module.text.as_str(), "etcd" | "redis" | "postgres") {
        return cx.invalid(module, line.name(), "`etcd`, `redis` or `postgres`");
    }
    let mut fields = RawModule::new();
    fields.insert("module".to_owned(), module.text.as_str().into());
    for word in &line.args[1..] {
        let wanted = "`parameter=value` with an option of this storage";
        let Some((name, value)) = word.text.split_once('=') else {
            return cx.invalid(word, line.name(), wanted);
        };
        let value = match (name, value) {
            ("endpoints" | "address" | "host" | "port", _) if module.text != "postgres" => {
                value.split(',').collect::<Vec<_>>().into()
            }
            ("db", _) => match value.parse::<u32>() {
                Ok(number) => number.into(),
                Err(_) => return cx.invalid(word, line.name(), "a number of a database"),
            },
            (_, "true") => true.into(),
            (_, "false") => false.into(),
            _ => Value::from(value),
        };
        fields.insert(name.to_owned(), value);
        // Each word alone, so that the message is about the wrong one.
        let read = serde_json::to_value(&fields).map(serde_json::from_value::<Storage>);
        if !matches!(read, Ok(Ok(_))) {
            return cx.invalid(word, line.name(), wanted);
        }
    }
    if module.text == "etcd" && !fields.contains_key("endpoints") {
        return cx.invalid(module, line.name(), "`etcd` with `endpoints=`");
    }
    serde_json::from_value(serde_json::to_value(fields).ok()?).ok()
}

/// The ports on which CAs validate control of a name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ports {
    /// Over plain HTTP.
    pub http: u16,
    /// Over TLS.
    pub tls: u16,
}

/// Has the certificates ordered that servers ask for.
pub fn lower(cx: &mut Lowering<'_>, http: &Level<'_>, ports: Ports, config: &mut Config) {
    if let Some(line) = http.own("certificate_storage").next() {
        config.storage = storage(cx, line);
    }
    let mut authorities = BTreeMap::new();
    for directive in http.own("acme_issuer") {
        if let (Some(name), Some(found)) = (directive.arg(0), authority(cx, http, directive, ports))
        {
            keep_in(cx, found.folder, config);
            authorities.insert(name.to_owned(), found.issuer);
        }
    }
    let mut policies: Vec<AutomationPolicy> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for server in http.own("server") {
        let level = http.within(server.body());
        for line in level.own("acme_certificate") {
            let Some(policy) = ordered(cx, &level, line, &authorities) else {
                continue;
            };
            names.extend(policy.subjects.iter().cloned());
            policies.push(policy);
        }
    }
    if policies.is_empty() {
        return;
    }
    names.sort();
    names.dedup();
    let tls = config.apps.tls.get_or_insert_default();
    tls.certificates.automate = names;
    tls.automation = Some(Automation {
        policies,
        ..Automation::default()
    });
}

fn authority<'t>(
    cx: &mut Lowering<'_>,
    http: &'t Level<'t>,
    directive: &'t Directive,
    ports: Ports,
) -> Option<Authority<'t>> {
    let level = http.within(directive.body());
    let own = |name: &str| level.own(name).last().and_then(|line| line.args.first());
    let Some(uri) = own("uri") else {
        cx.report.push(
            Diagnostic::error("missing-uri", "`acme_issuer` without `uri`")
                .at(directive.span(), "nobody is named to order from")
                .imported(directive.name.import)
                .help("add `uri https://acme-v02.api.letsencrypt.org/directory;`"),
        );
        return None;
    };
    let on_http = match own("challenge").map(|word| (word, word.text.as_str())) {
        None | Some((_, "http-01" | "http")) => true,
        Some((_, "tls-alpn-01" | "tls-alpn")) => false,
        Some((word, _)) => return cx.invalid(word, "challenge", "`http-01` or `tls-alpn-01`"),
    };
    let port = |alternate_port: u16, is_on: bool| {
        Some(PortChallenge {
            disabled: !is_on,
            alternate_port: if is_on { alternate_port } else { 0 },
        })
    };
    let contact = own("contact")
        .map(|word| word.text.as_str())
        .unwrap_or_default();
    let file = |name: &str| own(name).map(|word| cx.path(&word.text));
    let issuer = AcmeIssuer {
        ca: uri.text.clone(),
        email: contact
            .strip_prefix("mailto:")
            .unwrap_or(contact)
            .to_owned(),
        profile: own("profile")
            .map(|word| word.text.clone())
            .unwrap_or_default(),
        trusted_roots_pem_files: file("ssl_trusted_certificate").into_iter().collect(),
        challenges: Some(Challenges {
            http: port(ports.http, on_http),
            tls_alpn: port(ports.tls, !on_http),
            ..Challenges::default()
        }),
        preferred_chains: own("preferred_chain").map(|word| ChainPreference {
            any_common_name: vec![word.text.clone()],
            ..ChainPreference::default()
        }),
        ..AcmeIssuer::default()
    };
    let folder = own("state_path");
    if let Some(word) = folder.filter(|word| word.text == "off") {
        let wanted = "a folder: certificates that are not kept are ordered with every start";
        return cx.invalid(word, "state_path", wanted);
    }
    Some(Authority { issuer, folder })
}

/// What a line of `acme_certificate` orders.
fn ordered(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    line: &Directive,
    authorities: &BTreeMap<String, AcmeIssuer>,
) -> Option<AutomationPolicy> {
    let (issuer, rest) = line.args.split_first()?;
    let Some(authority) = authorities.get(&issuer.text) else {
        return cx.invalid(issuer, "acme_certificate", "the name of an `acme_issuer`");
    };
    let (keys, mut subjects): (Vec<_>, Vec<_>) =
        rest.iter().partition(|word| word.text.starts_with("key="));
    if subjects.is_empty() {
        let names = level.own("server_name").flat_map(|line| &line.args);
        subjects = names.filter(|word| is_orderable(&word.text)).collect();
    }
    if subjects.is_empty() {
        cx.report.push(
            Diagnostic::error("missing-name", "`acme_certificate` without a name")
                .at(
                    line.span(),
                    "no name of the server can stand in a certificate",
                )
                .imported(line.name.import)
                .help("add one: `acme_certificate <issuer> www.example.com;`"),
        );
        return None;
    }
    let key_type = match keys.last().map(|word| (word, &word.text["key=".len()..])) {
        None => "p256",
        Some((_, "ecdsa" | "ecdsa:256")) => "p256",
        Some((_, "ecdsa:384")) => "p384",
        Some((_, "rsa" | "rsa:2048")) => "rsa2048",
        Some((_, "rsa:4096")) => "rsa4096",
        Some((word, _)) => {
            let wanted = "`key=ecdsa:256`, `ecdsa:384`, `rsa:2048` or `rsa:4096`";
            return cx.invalid(word, "acme_certificate", wanted);
        }
    };
    Some(AutomationPolicy {
        subjects: subjects
            .iter()
            .map(|word| word.text.to_ascii_lowercase())
            .collect(),
        issuers: vec![Issuer::Acme(Box::new(authority.clone()))],
        key_type: key_type.to_owned(),
        ..AutomationPolicy::default()
    })
}

/// Whether a name of a server can stand in a certificate that is ordered.
fn is_orderable(name: &str) -> bool {
    !name.starts_with(['~', '*', '.', '$']) && !name.ends_with('*') && name.contains('.')
}

/// The ports on which CAs validate, chosen among those listened on: the default ports if present, else the first.
pub fn ports<'a>(listened: impl Iterator<Item = (&'a str, bool)>) -> Ports {
    let mut found = Ports::default();
    for (address, is_tls) in listened {
        let port = address
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok());
        let Some(port) = port else { continue };
        let (place, usual) = match is_tls {
            true => (&mut found.tls, 443),
            false => (&mut found.http, 80),
        };
        if *place == 0 || port == usual {
            *place = port;
        }
    }
    found
}
