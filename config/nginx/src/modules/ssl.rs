//! `ngx_http_ssl_module`: TLS for clients.

use sluice_diag::Diagnostic;
use sluice_model::http::RouteOrigin;
use sluice_model::nginx::ClientCertificates;
use sluice_model::tls::{
    CertificateFiles, CertificateSelection, ClientAuthentication, ConnectionPolicy,
};

use super::{acme, handshakes};
use crate::lower::Lowering;
use crate::lower::level::Level;
use crate::lower::text::has_variables;
use crate::registry::Takes::{Choice, Flag, Number, Size, Time, Words};
use crate::registry::Verdict::{Always, Idle, OnlyAs, Partly};
use crate::registry::{MANY, Word};

/// Those of TLS.
pub const WORDS: &[Word] = &[
    Word::once("ssl", Flag).but(Partly(
        "as it was until nginx 1.25: TLS at all addresses of the server",
    )),
    Word::once("ssl_buffer_size", Size).but(Always("records grow with the answer")),
    Word::many("ssl_certificate", Words(1, 1))
        .but(Partly("a file, or `$acme_certificate`; no other variables")),
    Word::many("ssl_certificate_key", Words(1, 1)).but(Partly("a file, without variables")),
    Word::once("ssl_ciphers", Words(1, 1)).but(Partly(
        "of TLS 1.2 there are six, all of them with forward secrecy; a list without any leaves TLS 1.3",
    )),
    Word::once("ssl_client_certificate", Words(1, 1)),
    Word::many("ssl_conf_command", Words(2, 2)).but(Partly(
        "`CipherString`, `Groups`, `Curves`, `MinProtocol`, `MaxProtocol`, and what holds anyway",
    )),
    Word::once("ssl_crl", Words(1, 1)),
    Word::once("ssl_dhparam", Words(1, 1))
        .but(Idle("only cipher suites that are not offered need it")),
    Word::once("ssl_early_data", Flag).but(Partly(
        "requests that change something wait for the end of the handshake, or get 425; not with `ssl_verify_client`",
    )),
    Word::once("ssl_ecdh_curve", Words(1, 1)).but(Partly(
        "of X25519MLKEM768, X25519, prime256v1 and secp384r1 those that are named",
    )),
    Word::once("ssl_password_file", Words(1, 1)).but(super::upstream_tls::PASSWORDS),
    Word::once("ssl_prefer_server_ciphers", Flag).but(Partly(
        "with `on` the order of `ssl_ciphers` counts; without it what costs both sides least",
    )),
    Word::once("ssl_protocols", Words(1, MANY)).but(Partly(
        "`TLSv1.2` and `TLSv1.3`; older ones are never spoken",
    )),
    Word::once("ssl_reject_handshake", Flag),
    Word::once("ssl_session_cache", Words(1, MANY))
        .but(Partly(
            "sessions are kept in memory only without tickets, ten thousand for each server",
        )),
    Word::many("ssl_session_ticket_key", Words(1, 1)).but(Partly(
        "instances of this server share sessions by it, others do not",
    )),
    Word::once("ssl_session_tickets", Flag),
    Word::once("ssl_session_timeout", Time)
        .but(Partly("tickets last for that long, and up to half as long again; a minute at least")),
    Word::once("ssl_ocsp", Flag).but(OnlyAs(&["off"])),
    Word::once("ssl_ocsp_cache", Words(1, 1)).but(Always("only `ssl_ocsp` needs it")),
    Word::once("ssl_ocsp_responder", Words(1, 1)).but(Always("only `ssl_ocsp` needs it")),
    Word::once("ssl_certificate_cache", Words(1, 3))
        .but(Always("certificates are read once, and again when their files change")),
    Word::once("ssl_certificate_compression", Flag).but(OnlyAs(&["off"])),
    Word::once("ssl_stapling", Flag).but(Always(
        "answers of OCSP servers are stapled where certificates name one",
    )),
    Word::once("ssl_stapling_verify", Flag).but(Always("what is stapled was verified")),
    Word::once("ssl_trusted_certificate", Words(1, 1)),
    Word::once(
        "ssl_verify_client",
        Choice(&["on", "off", "optional", "optional_no_ca"]),
    ),
    Word::once("ssl_verify_depth", Number),
];

/// How handshakes for a server are answered; `tag` joins its certificates and its policy. `None` where it has no
/// certificate, or where it was refused.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    tag: &str,
) -> Option<(Vec<CertificateFiles>, ConnectionPolicy)> {
    let certificates = level.nearest(&["ssl_certificate"]);
    let keys = level.nearest(&["ssl_certificate_key"]);
    let drops = level.is_on("ssl_reject_handshake", false);
    if certificates.is_empty() && !drops {
        return None;
    }
    let (mut files, mut is_ordered) = (Vec::new(), false);
    for (index, certificate) in certificates.iter().enumerate() {
        let word = &certificate.args[0];
        let Some((line, key)) = keys.get(index).map(|key| (*key, &key.args[0])) else {
            cx.report.push(
                Diagnostic::error("missing-key", "`ssl_certificate` without its key")
                    .at(certificate.span(), "no `ssl_certificate_key` belongs to it")
                    .imported(certificate.name.import)
                    .help("add `ssl_certificate_key <file>;`"),
            );
            continue;
        };
        if word.text == acme::CERTIFICATE && key.text == acme::KEY {
            is_ordered = true;
            continue;
        }
        for word in [word, key] {
            if has_variables(&word.text)
                || word.text.starts_with("data:")
                || word.text.starts_with("engine:")
            {
                let _: Option<()> =
                    cx.invalid(word, "ssl_certificate", "a file, without variables");
            }
        }
        let lines = [
            Some(*certificate),
            Some(line),
            level.find("ssl_password_file"),
        ];
        let lines = lines.into_iter().flatten();
        files.push(CertificateFiles {
            certificate: cx.path(&word.text),
            key: cx.path(&key.text),
            tags: vec![tag.to_owned()],
            password_file: level
                .word("ssl_password_file")
                .map(|file| cx.path(file))
                .unwrap_or_default(),
            origin: RouteOrigin(lines.map(|line| cx.origin_id(line)).collect()),
            ..CertificateFiles::default()
        });
    }
    let mut policy = ConnectionPolicy {
        certificate_selection: (!files.is_empty() && !is_ordered).then(|| CertificateSelection {
            any_tag: vec![tag.to_owned()],
            ..CertificateSelection::default()
        }),
        drop: drops && files.is_empty() && !is_ordered,
        client_authentication: asked(cx, level),
        ..ConnectionPolicy::default()
    };
    handshakes::lower(cx, level, &mut policy);
    Some((files, policy))
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
                format!("`ssl_verify_client {verify}` without authorities"),
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

/// What clients are asked for in the handshake. Every certificate is taken there; only the authorities of
/// `ssl_client_certificate` are told to clients.
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
