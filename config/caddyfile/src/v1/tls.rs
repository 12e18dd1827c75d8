//! `tls`: certificates and TLS settings.

use super::pieces::{bare, block, line, renamed, word};
use super::translation::{TlsKind, Translation};
use crate::tree::{Directive, Token};

/// Cipher suites by their old names.
const CIPHERS: &[(&str, &str)] = &[
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "ECDHE-ECDSA-WITH-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    (
        "ECDHE-RSA-WITH-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
];

/// Curves by their old names.
const CURVES: &[(&str, &str)] = &[
    ("x25519", "x25519"),
    ("p256", "secp256r1"),
    ("p384", "secp384r1"),
    ("p521", "secp521r1"),
];

/// What the lines of a site say of TLS as a whole.
pub(super) fn kind(body: &[Directive]) -> TlsKind {
    let mut kind = TlsKind::Automatic;
    for line in body.iter().filter(|line| line.name.text == "tls") {
        let words: Vec<&str> = line.args.iter().map(Token::as_str).collect();
        kind = match words[..] {
            ["off"] => TlsKind::Off,
            ["self_signed"] | [_, _] => TlsKind::Own,
            _ => kind,
        };
    }
    kind
}

impl Translation<'_> {
    pub(super) fn tls(&mut self, old: &Directive) {
        let mut tls = renamed(old, "tls");
        match old.args.as_slice() {
            [only] if only.text == "off" => return,
            [only] if only.text == "self_signed" => tls.args = vec![word("internal", only)],
            [] | [_] | [_, _] => {}
            _ => return self.malformed(old, "tls [off|self_signed|<email>|<cert> <key>]"),
        }
        let mut lines = Vec::new();
        for inner in old.lines() {
            self.tls_option(inner, &mut lines);
        }
        if !lines.is_empty() {
            tls.block = Some(lines);
        } else if tls.args.is_empty() {
            return;
        }
        self.set_up(tls);
    }

    fn tls_option(&mut self, old: &Directive, lines: &mut Vec<Directive>) {
        let at = &old.name;
        let same = |name: &str| renamed(old, name);
        let on_demand = |lines: &mut Vec<Directive>| {
            if !lines.iter().any(|line| line.name.text == "on_demand") {
                lines.push(bare(at, "on_demand"));
            }
        };
        match (at.as_str(), old.args.as_slice()) {
            ("protocols", versions @ ([_] | [_, _])) => {
                lines.push(self.protocols(at, versions));
            }
            ("ciphers", names @ [_, ..]) => lines.extend(self.known(at, names, CIPHERS)),
            ("curves", names @ [_, ..]) => lines.extend(self.known(at, names, CURVES)),
            ("alpn" | "key_type" | "ca" | "load", [_, ..]) => lines.push(same(at.as_str())),
            ("dns", [_, ..]) => lines.push(same("dns")),
            ("clients", files @ [_, ..]) => lines.push(client_auth(at, files)),
            ("max_certs", [_]) => {
                let note = "Caddy 2 asks an endpoint whether a name may have a certificate";
                self.differs(at, "`max_certs` no longer has an effect", note);
                on_demand(lines);
            }
            ("ask", [endpoint]) => {
                self.globals.ask = Some(endpoint.clone());
                on_demand(lines);
            }
            ("must_staple" | "wildcard", []) => {
                let title = format!("`{}` is omitted", at.text);
                self.differs(
                    at,
                    title,
                    "certificates are issued for the names of the site",
                );
            }
            _ => {
                let title = format!("option `{}` of `tls` has no equivalent", at.text);
                self.cannot(at, title, "remove it");
            }
        }
    }

    fn protocols(&mut self, at: &Token, versions: &[Token]) -> Directive {
        let mut words = Vec::new();
        for version in versions {
            if matches!(version.as_str(), "ssl3.0" | "tls1.0" | "tls1.1") {
                let title = format!("`{}` is no longer supported", version.text);
                self.differs(version, title, "TLS 1.2 is the oldest supported version");
                words.push("tls1.2");
            } else {
                words.push(version.as_str());
            }
        }
        words.dedup();
        line(at, "protocols", words)
    }

    /// Names of a list in their new form; an unknown one is omitted with a warning.
    fn known(
        &mut self,
        at: &Token,
        names: &[Token],
        table: &[(&str, &'static str)],
    ) -> Option<Directive> {
        let mut words = Vec::new();
        for name in names {
            let found = table
                .iter()
                .find(|(old, _)| name.text.eq_ignore_ascii_case(old));
            match found {
                Some((_, new)) => words.push(*new),
                None => {
                    let title = format!("`{}` has no equivalent in `tls {}`", name.text, at.text);
                    self.differs(name, title, "this value is omitted");
                }
            }
        }
        (!words.is_empty()).then(|| line(at, at.as_str(), words))
    }
}

/// `clients [request|require|verify_if_given] <files...>`.
fn client_auth(at: &Token, words: &[Token]) -> Directive {
    let mode = match words[0].as_str() {
        mode @ ("request" | "require" | "verify_if_given") => Some(mode),
        _ => None,
    };
    let files = &words[usize::from(mode.is_some())..];
    let mode = mode.unwrap_or("require_and_verify");
    let mut lines = vec![line(at, "mode", [mode])];
    if !files.is_empty() {
        let words = std::iter::once("file").chain(files.iter().map(Token::as_str));
        lines.push(line(at, "trust_pool", words));
    }
    block(at, "client_auth", [""; 0], lines)
}
