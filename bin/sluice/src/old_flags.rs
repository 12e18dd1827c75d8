//! The command line of Caddy 0 and 1, whose long flags have a single dash: suggests the replacement.

use crate::messages::Failed;

/// Flags of Caddy 1 and their replacements. `{}` stands for the value.
const FLAGS: &[(&str, &str)] = &[
    (
        "agree",
        "remove it: running the server means agreeing to the CA's terms",
    ),
    ("ca", "write `acme_ca {}` into the global options"),
    ("catimeout", "remove it"),
    ("conf", "write `sluice run --config {}`"),
    (
        "cpu",
        "set the environment variable SLUICE_WORKERS to the number of threads",
    ),
    (
        "disable-http-challenge",
        "write `issuer acme { disable_http_challenge }` into `tls`",
    ),
    (
        "disable-tls-alpn-challenge",
        "write `issuer acme { disable_tlsalpn_challenge }` into `tls`",
    ),
    ("email", "write `email {}` into the global options"),
    ("env", "write `sluice run --environ`"),
    ("envfile", "write `sluice run --envfile {}`"),
    ("grace", "write `grace_period {}` into the global options"),
    ("host", "write the host in front of the site block"),
    ("http-port", "write `http_port {}` into the global options"),
    (
        "http2",
        "write `protocols` into the global option `servers`",
    ),
    (
        "https-port",
        "write `https_port {}` into the global options",
    ),
    (
        "log",
        "write `log { output file {} }` into the global options",
    ),
    ("pidfile", "write `sluice run --pidfile {}`"),
    ("plugins", "write `sluice list-modules`"),
    ("port", "write the port in front of the site block"),
    ("quic", "write `protocols` into the global option `servers`"),
    ("quiet", "remove it"),
    ("revoke", "remove the certificate from the storage"),
    ("root", "write `sluice file-server --root {}`"),
    ("type", "remove it"),
    ("validate", "write `sluice validate`"),
    ("version", "write `sluice version`"),
];

/// An error for a command line of Caddy 1; `None` if it is not one.
pub fn refusal(words: impl Iterator<Item = String>) -> Option<Failed> {
    for word in words {
        let flag = word
            .strip_prefix('-')
            .filter(|flag| !flag.starts_with('-'))?;
        let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
        if let Some((_, help)) = FLAGS.iter().find(|(known, _)| *known == name) {
            let value = if value.is_empty() { "…" } else { value };
            let problem = format!("`-{name}` is a flag of Caddy 1; long flags have two dashes now");
            return Some(Failed::new(problem).help(help.replace("{}", value)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Option<String> {
        let words = line.split_whitespace().map(str::to_owned);
        refusal(words).map(|failed| failed.text().to_owned())
    }

    #[test]
    fn old_flags_are_known() {
        assert_eq!(
            said("-conf=Caddyfile_proxy").as_deref(),
            Some(
                "error: `-conf` is a flag of Caddy 1; long flags have two dashes now\n\
                 help: write `sluice run --config Caddyfile_proxy`"
            )
        );
        assert!(said("-agree -conf x").is_some());
        assert!(said("-V").is_none() && said("-h").is_none() && said("").is_none());
        // After a command, short flags may be combined.
        assert!(said("run -cpu").is_none() && said("--config x").is_none());
    }
}
