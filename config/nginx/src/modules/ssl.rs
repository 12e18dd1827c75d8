//! `ngx_http_ssl_module`: TLS for clients.

use sluice_diag::Diagnostic;
use sluice_model::http::RouteOrigin;
use sluice_model::nginx::ClientCertificates;
use sluice_model::tls::{
    CertificateFiles, CertificateSelection, ClientAuthentication, ConnectionPolicy,
};

use super::upstream_tls;
use super::{acme, handshakes, named};
use crate::arguments::{ZONE_BYTES_MIN, each};
use crate::definition::Takes::{Choice, Flag, Number, Size, Time, Words};
use crate::definition::Verdict::{self, Always, Idle, OnlyAs, Partly};
use crate::definition::Wrong;
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::has_variables;
use crate::lower::values::size;
use crate::tree::{Directive, Word};

const NAMED: Verdict =
    Partly("a file, or `data:` with a text, with or without variables; not `engine:` and `store:`");

/// Those of TLS.
pub const DIRECTIVES: &[Definition] = &[
    once("ssl", Flag).but(Partly(
        "as before nginx 1.25.1: TLS on all addresses of the server",
    )),
    once("ssl_buffer_size", Size).but(Always("TLS records grow with the response")),
    many("ssl_certificate", Words(1, 1)).but(NAMED),
    many("ssl_certificate_key", Words(1, 1)).but(NAMED),
    once("ssl_ciphers", Words(1, 1)).but(Partly(
        "six suites of TLS 1.2, all with forward secrecy; a list without any of them leaves only TLS 1.3",
    )),
    once("ssl_client_certificate", Words(1, 1)),
    many("ssl_conf_command", Words(2, 2)).but(Partly(
        "`CipherString`, `Ciphersuites`, `Groups`, `Curves`, `MinProtocol`, `MaxProtocol`, and options that are always in effect",
    )),
    once("ssl_crl", Words(1, 1)),
    once("ssl_dhparam", Words(1, 1)).but(Idle("needed only for cipher suites that sluice does not offer")),
    once("ssl_early_data", Flag).but(Partly(
        "only for requests with safe methods; others wait for the handshake or get 425; not with `ssl_verify_client`",
    )),
    once("ssl_ecdh_curve", Words(1, 1)).but(Partly(
        "X25519MLKEM768, X25519, prime256v1 and secp384r1",
    )),
    once("ssl_password_file", Words(1, 1)).but(upstream_tls::PASSWORDS),
    once("ssl_prefer_server_ciphers", Flag).but(Partly(
        "with `on` the order of `ssl_ciphers` decides; otherwise the cheapest suite for both sides",
    )),
    once("ssl_protocols", Words(1, MANY))
        .but(Partly(
            "`TLSv1.2` and `TLSv1.3`; older versions are not supported",
        ))
        .of(&upstream_tls::VERSIONS),
    once("ssl_reject_handshake", Flag),
    once("ssl_session_cache", Words(1, MANY))
        .but(Partly(
            "sessions are cached in memory only without tickets, 10,000 for each server",
        ))
        .checked(session_cache),
    many("ssl_session_ticket_key", Words(1, 1)).but(Partly(
        "only sluice instances can share the sessions",
    )),
    once("ssl_session_tickets", Flag),
    once("ssl_session_timeout", Time).but(Partly(
        "tickets last for this time to one and a half times of it, at least one minute",
    )),
    once("ssl_ocsp", Flag).but(OnlyAs(&["off"])),
    once("ssl_ocsp_cache", Words(1, 1)).but(Always("only `ssl_ocsp` needs it")),
    once("ssl_ocsp_responder", Words(1, 1)).but(Always("only `ssl_ocsp` needs it")),
    once("ssl_certificate_cache", Words(1, 3)),
    once("ssl_certificate_compression", Flag).but(OnlyAs(&["off"])),
    once("ssl_stapling", Flag).but(Always(
        "OCSP responses are stapled if the certificate names a responder",
    )),
    once("ssl_stapling_file", Words(1, 1)),
    once("ssl_stapling_responder", Words(1, 1))
        .but(Partly("for certificates whose chain includes the issuer")),
    once("ssl_stapling_verify", Flag).but(Always("stapled responses are always verified")),
    once("ssl_trusted_certificate", Words(1, 1)),
    once(
        "ssl_verify_client",
        Choice(&["on", "off", "optional", "optional_no_ca"]),
    ),
    once("ssl_verify_depth", Number),
];

/// The TLS settings of a server; `tag` connects its certificates and its connection policy. `None` if it has no
/// certificate, or if it was rejected.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    tag: &str,
) -> Option<(Vec<CertificateFiles>, ConnectionPolicy)> {
    let drops = level.is_on("ssl_reject_handshake", false);
    if level.find("ssl_certificate").is_none() && !drops {
        return None;
    }
    let mut pairs = pairs(cx, level);
    let all = pairs.len();
    pairs.retain(|pair| pair.certificate.text != acme::CERTIFICATE || pair.key.text != acme::KEY);
    let is_ordered = pairs.len() < all;
    // As in nginx, those without variables are read with the others.
    let is_named = pairs.iter().any(Pair::is_named);
    if !is_named {
        // It is checked for errors all the same.
        named::keep(cx, level);
    }
    let named = is_named.then(|| {
        let words: Vec<[&Word; 2]> = pairs.iter().map(Pair::words).collect();
        named::lower(cx, level, &words)
    });
    let files: Vec<CertificateFiles> = match is_named {
        true => Vec::new(),
        false => pairs
            .iter()
            .map(|pair| pair.files(cx, level, tag))
            .collect(),
    };
    let selects = !is_ordered && !pairs.is_empty();
    let mut policy = ConnectionPolicy {
        certificate_selection: selects.then(|| CertificateSelection {
            any_tag: vec![tag.to_owned()],
            by_client: files.len() > 1,
            ..CertificateSelection::default()
        }),
        // Whatever certificates there are: those of `http` are inherited.
        drop: drops,
        client_authentication: asked(cx, level),
        named_certificates: named,
        ..ConnectionPolicy::default()
    };
    handshakes::lower(cx, level, &mut policy);
    Some((files, policy))
}

/// A certificate and its key.
struct Pair<'t> {
    certificate: &'t Word,
    key: &'t Word,
    lines: [&'t Directive; 2],
}

/// The pairs of a place: certificates and keys belong together by their order.
fn pairs<'t>(cx: &mut Lowering<'_>, level: &Level<'t>) -> Vec<Pair<'t>> {
    let certificates = level.nearest(&["ssl_certificate"]);
    let keys = level.nearest(&["ssl_certificate_key"]);
    let mut pairs = Vec::new();
    for (index, line) in certificates.iter().enumerate() {
        let Some(key) = keys.get(index) else {
            cx.report.push(
                Diagnostic::error("missing-key", "`ssl_certificate` without its key")
                    .at(line.span(), "no `ssl_certificate_key` belongs to it")
                    .imported(line.name.import)
                    .help("add `ssl_certificate_key <file>;`"),
            );
            continue;
        };
        for line in [line, key] {
            let word = &line.args[0];
            if word.text.starts_with("engine:") || word.text.starts_with("store:") {
                let wanted = "a file, or `data:` and the text; keys in other places are not built";
                let _: Option<()> = cx.invalid(word, line.name(), wanted);
            }
        }
        pairs.push(Pair {
            certificate: &line.args[0],
            key: &key.args[0],
            lines: [line, key],
        });
    }
    pairs
}

impl Pair<'_> {
    /// What it is called: chain and key.
    fn words(&self) -> [&'_ Word; 2] {
        [self.certificate, self.key]
    }

    /// Whether it is read when a handshake needs it.
    fn is_named(&self) -> bool {
        let words = [self.certificate, self.key];
        let mut words = words.iter();
        words.any(|word| has_variables(&word.text) || word.text.starts_with("data:"))
    }

    fn files(&self, cx: &mut Lowering<'_>, level: &Level<'_>, tag: &str) -> CertificateFiles {
        let passwords = level.find("ssl_password_file");
        let is_stapled = level.is_on("ssl_stapling", false);
        let staple = level.find("ssl_stapling_file").filter(|_| is_stapled);
        let lines = self.lines.into_iter().chain(passwords).chain(staple);
        CertificateFiles {
            staple_file: staple
                .and_then(|line| line.arg(0))
                .map(|file| cx.path(file))
                .unwrap_or_default(),
            ocsp_responder: match is_stapled {
                true => responder(cx, level),
                false => String::new(),
            },
            certificate: cx.path(&self.certificate.text),
            key: cx.path(&self.key.text),
            tags: vec![tag.to_owned()],
            password_file: passwords
                .and_then(|line| line.arg(0))
                .map(|file| cx.path(file))
                .unwrap_or_default(),
            origin: RouteOrigin(lines.map(|line| cx.origin_id(line)).collect()),
            ..CertificateFiles::default()
        }
    }
}

/// The OCSP responder for stapling; empty for the one that the certificate names.
fn responder(cx: &mut Lowering<'_>, level: &Level<'_>) -> String {
    let name = "ssl_stapling_responder";
    let word = level.find(name).and_then(|line| line.args.first());
    match word {
        None => String::new(),
        Some(word) if word.text.starts_with("http://") => word.text.clone(),
        Some(word) => cx
            .invalid(word, name, "`http://` and an address")
            .unwrap_or_default(),
    }
}

/// What clients have to show of themselves; `None` where they are asked for nothing.
pub fn clients(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<ClientCertificates> {
    let line = level.find("ssl_verify_client")?;
    let verify = line.arg(0).filter(|word| *word != "off")?;
    let names = ["ssl_client_certificate", "ssl_trusted_certificate"];
    let files = names.iter().filter_map(|name| level.word(name));
    let authorities: Vec<String> = files.map(|file| cx.path(file)).collect();
    if authorities.is_empty() && verify != "optional_no_ca" {
        cx.report.push(
            Diagnostic::error(
                "missing-authority",
                format!("`ssl_verify_client {verify}` without a CA"),
            )
            .at(line.span(), "nobody would be believed")
            .imported(line.name.import)
            .help("add `ssl_client_certificate <file>;`"),
        );
    }
    Some(ClientCertificates {
        verify: verify.to_owned(),
        authorities,
        revoked: level
            .word("ssl_crl")
            .map(|file| cx.path(file))
            .into_iter()
            .collect(),
        depth: level
            .word("ssl_verify_depth")
            .and_then(|number| number.parse().ok())
            .unwrap_or(1),
    })
}

/// The client certificates requested in the handshake. The handshake accepts every certificate; only the CAs of
/// `ssl_client_certificate` are announced to clients.
fn asked(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<ClientAuthentication> {
    level
        .word("ssl_verify_client")
        .filter(|word| *word != "off")?;
    let file = level.word("ssl_client_certificate");
    Some(ClientAuthentication {
        trusted_ca_certs_pem_files: file.map(|file| cx.path(file)).into_iter().collect(),
        mode: "request".to_owned(),
        ..ClientAuthentication::default()
    })
}

fn session_cache(directive: &Directive) -> Option<Wrong> {
    let wanted =
        "`off`, `none`, `builtin`, `builtin:SIZE` or `shared:NAME:SIZE` with a size of 32k or more";
    each(directive, wanted, |word| match word.split_once(':') {
        None => matches!(word, "off" | "none" | "builtin"),
        Some(("builtin", count)) => count.parse::<u32>().is_ok(),
        Some(("shared", zone)) => match zone.split_once(':') {
            Some((name, bytes)) => {
                !name.is_empty() && size(bytes).is_some_and(|bytes| bytes >= ZONE_BYTES_MIN)
            }
            None => false,
        },
        Some(_) => false,
    })
}
