//! `proxy_ssl_*`, `grpc_ssl_*` and `uwsgi_ssl_*`: TLS towards upstreams.

use sluice_diag::Diagnostic;
use sluice_model::http::RouteOrigin;
use sluice_model::proxy::UpstreamTls;

use super::openssl::{self, Command};
use super::upstream_url::Url;
use crate::definition::Takes::{Flag, Number, Words};
use crate::definition::Verdict::{self, Always, Idle, Partly};
use crate::definition::{Definition, Keywords, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::tree::Word;

/// The verdict on `ssl_password_file`, `proxy_ssl_password_file` and the same directive of other modules.
pub const PASSWORDS: Verdict = Partly(
    "keys encrypted with AES or triple DES, in PKCS#8 with PBKDF2 or in OpenSSL's traditional format; not with scrypt",
);

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("ssl_certificate", Words(1, 1)),
    once("ssl_certificate_cache", Words(1, 3))
        .but(Always("certificates are read when the configuration is loaded")),
    once("ssl_certificate_key", Words(1, 1)),
    once("ssl_ciphers", Words(1, 1)).but(Partly(
        "six suites of TLS 1.2; a list without any of them leaves only TLS 1.3",
    )),
    many("ssl_conf_command", Words(2, 2)).but(Partly(
        "`CipherString`, `Ciphersuites`, `Groups`, `Curves`, `MinProtocol`, `MaxProtocol`, and options that are always in effect",
    )),
    once("ssl_crl", Words(1, 1)).but(Partly("version 2 CRLs, one for each CA except the root")),
    once("ssl_name", Words(1, 1)),
    once("ssl_password_file", Words(1, 1)).but(PASSWORDS),
    once("ssl_protocols", Words(1, MANY))
        .but(Partly(
            "`TLSv1.2` and `TLSv1.3`; older versions are not supported",
        ))
        .of(&VERSIONS),
    once("ssl_server_name", Flag).but(Partly("SNI is sent unless this is `off`, nginx's default")),
    once("ssl_session_reuse", Flag),
    once("ssl_trusted_certificate", Words(1, 1)),
    once("ssl_verify", Flag),
    once("ssl_verify_depth", Number).but(Idle("chains of any length are verified")),
];

/// The versions that nginx knows.
pub const VERSIONS: Keywords = Keywords {
    from: 0,
    words: &["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"],
    wanted: "`TLSv1.2` and `TLSv1.3`",
};

/// How hands are shaken with upstreams; `prefix` is what the directives begin with.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    url: &Url<'_>,
    facts: &Facts,
    prefix: &str,
) -> UpstreamTls {
    let own = |name: &str| format!("{prefix}_ssl_{name}");
    let path = |cx: &Lowering<'_>, name: &str| {
        let found = level.word(&own(name));
        found.map(|path| cx.path(path)).unwrap_or_default()
    };
    let files = |file: String| Some(file).filter(|file| !file.is_empty()).into_iter();
    let is_verified = level.is_on(&own("verify"), false);
    let roots = path(cx, "trusted_certificate");
    let revoked = path(cx, "crl");
    let mut tls = UpstreamTls {
        client_certificate_file: certificate(cx, level, facts, &own("certificate")),
        client_certificate_key_file: certificate(cx, level, facts, &own("certificate_key")),
        // nginx verifies nothing by default.
        insecure_skip_verify: !is_verified,
        common_name: is_verified,
        root_ca_pem_files: files(roots).filter(|_| is_verified).collect(),
        revoked_files: files(revoked).filter(|_| is_verified).collect(),
        server_name: name(cx, level, url, facts, &own("name")),
        hides_name: !level.is_on(&own("server_name"), true),
        no_resumption: !level.is_on(&own("session_reuse"), true),
        client_certificate_password_file: path(cx, "password_file"),
        origin: match level.find(&own("certificate_key")) {
            Some(line) => cx.origin(line),
            None => RouteOrigin::default(),
        },
        ..UpstreamTls::default()
    };
    handshakes(cx, level, prefix, &mut tls);
    tls
}

/// The file of a certificate or key; with variables, a template of its name or of the text itself (`data:`).
fn certificate(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts, directive: &str) -> String {
    let word = level.find(directive).and_then(|line| line.args.first());
    let Some(word) = word else {
        return String::new();
    };
    match has_variables(&word.text) {
        false => cx.path(&word.text),
        true if word.text.starts_with("data:") => cx.text(word, facts),
        true => {
            let text = cx.path(&word.text);
            cx.text(
                &Word {
                    text,
                    ..word.clone()
                },
                facts,
            )
        }
    }
}

/// The name that is asked for and verified: that of the address, unless another is given.
fn name(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    url: &Url<'_>,
    facts: &Facts,
    directive: &str,
) -> String {
    let word = level.find(directive).and_then(|line| line.args.first());
    match word {
        Some(word) if !has_variables(&word.text) => word.text.clone(),
        Some(word) if word.text != "$proxy_host" => cx.text(word, facts),
        // That of the address, which is known only with the request.
        _ if url.host.is_empty() => String::new(),
        _ => {
            let host = url.host.rsplit_once(':').map_or(url.host, |(host, _)| host);
            host.to_owned()
        }
    }
}

/// Versions, suites and groups.
fn handshakes(cx: &mut Lowering<'_>, level: &Level<'_>, prefix: &str, tls: &mut UpstreamTls) {
    let own = |name: &str| format!("{prefix}_ssl_{name}");
    let mut versions = openssl::versions(cx, level, &own("protocols"));
    let mut suites = level.word(&own("ciphers"));
    for line in level.nearest(&[own("conf_command").as_str()]) {
        let (Some(name), Some(value)) = (line.arg(0), line.arg(1)) else {
            continue;
        };
        match openssl::command(name, value) {
            Some(Command::Already | Command::NoTickets) => {}
            Some(Command::Suites) => suites = Some(value),
            Some(Command::ModernSuites(suites)) => tls.modern_suites = suites,
            Some(Command::Groups) => {
                let found = openssl::groups(value).unwrap_or_default();
                tls.curves = found.into_iter().map(str::to_owned).collect();
            }
            Some(bound @ (Command::Lowest | Command::Highest)) if versions.limit(&bound, value) => {
            }
            Some(Command::Lowest | Command::Highest) | None => {
                openssl::refuse_command(cx, line, &own("conf_command"));
            }
        }
    }
    let found = suites.map(openssl::suites).unwrap_or_default();
    if let Some(list) = suites.filter(|_| found.is_empty() && versions.has_12) {
        versions.has_12 = !versions.has_13;
        if let Some(line) = level.find(&own("ciphers")) {
            let title = format!("`{list}` names no cipher suite of TLS 1.2 that is spoken");
            cx.report.push(
                Diagnostic::warning("no-cipher", title)
                    .at(line.span(), "none of these is spoken")
                    .imported(line.name.import)
                    .note(match versions.has_13 {
                        true => "only TLS 1.3 is spoken, with its own suites",
                        false => "nothing would be left, so all of them are spoken",
                    })
                    .help("add `ECDHE+AESGCM`"),
            );
        }
    }
    if found.len() < openssl::SUITES_COUNT {
        tls.cipher_suites = found.into_iter().map(str::to_owned).collect();
    }
    (tls.protocol_min, tls.protocol_max) = versions.bounds();
}

#[cfg(test)]
mod tests {
    use super::super::openssl::Versions;
    use super::*;

    #[test]
    fn bounds_leave_what_lies_between() {
        let bounded = |bound, value: &str| {
            let mut versions = Versions::ALL;
            versions
                .limit(&bound, value)
                .then_some((versions.has_12, versions.has_13))
        };
        assert_eq!(bounded(Command::Lowest, "TLSv1.3"), Some((false, true)));
        assert_eq!(bounded(Command::Lowest, "TLSv1"), Some((true, true)));
        assert_eq!(bounded(Command::Highest, "TLSv1.2"), Some((true, false)));
        assert_eq!(bounded(Command::Highest, "TLSv1"), None);
        assert_eq!(bounded(Command::Lowest, "new"), None);
    }
}
