//! The settings of `ngx_http_ssl_module` for TLS handshakes: versions, cipher suites, groups, sessions. Certificates
//! are in `ssl`.

use sluice_diag::Diagnostic;
use sluice_model::tls::{ConnectionPolicy, PolicySessions};

use super::openssl::{self, Command, SUITES_COUNT, Versions};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::tree::{Directive, Word};

/// What was asked for by one directive or another.
struct Asked<'t> {
    versions: Versions,
    suites: Option<&'t Word>,
    modern_suites: Vec<String>,
    groups: Option<&'t Word>,
    has_tickets: bool,
}

/// Fills in how hands are shaken for a server.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, policy: &mut ConnectionPolicy) {
    let word = |name: &str| level.find(name).and_then(|line| line.args.first());
    let mut asked = Asked {
        versions: openssl::versions(cx, level, "ssl_protocols"),
        suites: word("ssl_ciphers"),
        modern_suites: Vec::new(),
        groups: word("ssl_ecdh_curve"),
        has_tickets: level.is_on("ssl_session_tickets", true),
    };
    for line in level.nearest(&["ssl_conf_command"]) {
        command(cx, line, &mut asked);
    }
    if let Some(word) = asked.suites {
        let in_order = level.is_on("ssl_prefer_server_ciphers", false);
        policy.cipher_suites = suites(cx, word, in_order, &mut asked.versions);
    }
    policy.modern_suites = std::mem::take(&mut asked.modern_suites);
    if let Some(groups) = asked.groups.and_then(|word| groups(cx, word)) {
        policy.curves = groups;
    }
    (policy.protocol_min, policy.protocol_max) = asked.versions.bounds();
    policy.sessions = sessions(cx, level, asked.has_tickets);
    policy.early_data = level.is_on("ssl_early_data", false);
}

/// A line of `ssl_conf_command`: what it comes to, or that it is not built.
fn command<'t>(cx: &mut Lowering<'_>, line: &'t Directive, asked: &mut Asked<'t>) {
    let [name, value] = line.args.as_slice() else {
        return;
    };
    match openssl::command(&name.text, &value.text) {
        Some(Command::Already) => {}
        Some(Command::Suites) => asked.suites = Some(value),
        Some(Command::ModernSuites(suites)) => asked.modern_suites = suites,
        Some(Command::Groups) => asked.groups = Some(value),
        Some(Command::NoTickets) => asked.has_tickets = false,
        Some(bound @ (Command::Lowest | Command::Highest))
            if asked.versions.limit(&bound, &value.text) => {}
        Some(Command::Lowest | Command::Highest) | None => {
            openssl::refuse_command(cx, line, "ssl_conf_command");
        }
    }
}

/// The suites of TLS 1.2; none where all are meant. Where clients choose, those that cost least come first.
fn suites(
    cx: &mut Lowering<'_>,
    word: &Word,
    in_order: bool,
    versions: &mut Versions,
) -> Vec<String> {
    let found = openssl::suites(&word.text);
    if found.is_empty() && versions.has_12 {
        let title = format!(
            "`{}` names no cipher suite of TLS 1.2 that is spoken",
            word.text
        );
        let found = Diagnostic::warning("no-cipher", title)
            .at(
                word.span,
                "none of these has forward secrecy and authenticated encryption",
            )
            .imported(word.import)
            .help("add `ECDHE+AESGCM`");
        match versions.has_13 {
            true => {
                versions.has_12 = false;
                cx.report
                    .push(found.note("only TLS 1.3 is spoken, with its own suites"));
            }
            false => cx
                .report
                .push(found.note("nothing would be left, so all of them are spoken")),
        }
        return Vec::new();
    }
    if found.len() == SUITES_COUNT && !in_order {
        return Vec::new();
    }
    let mut found: Vec<String> = found.into_iter().map(str::to_owned).collect();
    if !in_order {
        // Those with AES-128 cost both sides least, and those with ChaCha20 are for clients without instructions for AES.
        found.sort_by_key(|name| match name.as_str() {
            name if name.contains("AES_128") => 0,
            name if name.contains("AES_256") => 1,
            _ => 2,
        });
    }
    found
}

fn groups(cx: &mut Lowering<'_>, word: &Word) -> Option<Vec<String>> {
    let found = openssl::groups(&word.text)?;
    if found.is_empty() {
        let wanted = "`auto`, or a list with X25519MLKEM768, X25519, prime256v1 or secp384r1";
        return cx.invalid(word, "ssl_ecdh_curve", wanted);
    }
    Some(found.into_iter().map(str::to_owned).collect())
}

/// How sessions go on; as everywhere where nothing is said.
fn sessions(cx: &mut Lowering<'_>, level: &Level<'_>, has_tickets: bool) -> Option<PolicySessions> {
    let lifetime = level.time("ssl_session_timeout");
    let keys = level.nearest(&["ssl_session_ticket_key"]);
    let key_files: Vec<String> = keys
        .iter()
        .filter_map(|line| line.arg(0).map(|file| cx.path(file)))
        .collect();
    let cache = level.find("ssl_session_cache");
    let keeps = cache.is_some_and(|line| {
        let mut words = line.args.iter().map(|word| word.text.as_str());
        words.any(|word| word.starts_with("shared:") || word.starts_with("builtin"))
    });
    let kept = match (has_tickets, keeps) {
        (true, _) => "",
        (false, true) => "memory",
        (false, false) => "off",
    };
    let found = PolicySessions {
        kept: kept.to_owned(),
        lifetime: lifetime.unwrap_or_default(),
        key_files: if has_tickets { key_files } else { Vec::new() },
    };
    (found != PolicySessions::default()).then_some(found)
}
