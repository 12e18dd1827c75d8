//! Certificates of `ngx_http_ssl_module` whose file names contain variables, and `ssl_certificate_cache`.

use sluice_model::Duration;
use sluice_model::tls::{NamedCertificates, NamedPair};

use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Extent, Facts};
use crate::lower::values;
use crate::tree::Word;

/// How long a certificate is kept that nobody needs, and before it is read anew, where the file does not say.
const INACTIVE: Duration = Duration::seconds(10);
const VALID: Duration = Duration::seconds(60);

/// What certificates are called for a handshake, and for how long they are kept; `pairs` are certificates with their keys.
pub(super) fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    pairs: &[[&Word; 2]],
) -> NamedCertificates {
    let facts = Facts {
        extent: Extent::Handshake,
        server_name: level
            .own("server_name")
            .find_map(|line| line.arg(0))
            .unwrap_or_default()
            .to_owned(),
        ..Facts::default()
    };
    let passwords = level.find("ssl_password_file");
    let origin = passwords.map(|line| cx.origin(line));
    let mut named = NamedCertificates {
        folder: cx.folder().to_owned(),
        password_file: passwords
            .and_then(|line| line.arg(0))
            .map(|file| cx.path(file))
            .unwrap_or_default(),
        origin: origin.unwrap_or_default(),
        ..keep(cx, level)
    };
    for [certificate, key] in pairs {
        named.pairs.push(NamedPair {
            certificate: cx.text(certificate, &facts),
            key: cx.text(key, &facts),
        });
    }
    named
}

/// How long they are kept: `ssl_certificate_cache off`, or `max=` with `inactive=` and `valid=`.
pub fn keep(cx: &mut Lowering<'_>, level: &Level<'_>) -> NamedCertificates {
    let mut named = NamedCertificates::default();
    let directive = "ssl_certificate_cache";
    let Some(line) = level
        .find(directive)
        .filter(|line| line.arg(0) != Some("off"))
    else {
        return named;
    };
    (named.kept_inactive, named.kept_valid) = (INACTIVE, VALID);
    for word in &line.args {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let time = values::time(value).filter(|time| *time != Duration::default());
        match (name, value.parse::<u32>(), time) {
            ("max", Ok(max), _) if max > 0 => named.kept_max = max,
            ("inactive", _, Some(time)) => named.kept_inactive = time,
            ("valid", _, Some(time)) => named.kept_valid = time,
            _ => {
                let wanted = "`off`, or `max=N` with `inactive=time` and `valid=time`";
                let _: Option<()> = cx.invalid(word, directive, wanted);
                return named;
            }
        }
    }
    if named.kept_max == 0 {
        let _: Option<()> = cx.invalid(&line.args[0], directive, "`max=N` beside the others");
    }
    named
}
