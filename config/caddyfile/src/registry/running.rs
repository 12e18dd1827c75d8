//! How the server treats words that are lowered: which ones it supports in part, or accepts without effect. Words that
//! are not listed here are fully supported.

/// What the server makes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// It does what it says.
    Whole,
    /// It does what it says in part; tells which.
    Partly(&'static str),
    /// It has no effect; the text says what applies instead.
    Idle(&'static str),
    /// What it asks for is always the case, with or without the word; the text says why.
    Always(&'static str),
}

/// A word that does not do all that it says.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// The directive, matcher or option around it; empty for a directive.
    pub place: &'static str,
    /// Its name; `*` for all names of the place.
    pub name: &'static str,
    /// What the server makes of it.
    pub running: Running,
}

/// What the server makes of a word that is lowered.
pub fn running(place: &str, name: &str) -> Running {
    let of = |place: &str, name: &str| {
        let found = GAPS
            .iter()
            .find(|gap| gap.place == place && gap.name == name);
        found.map(|gap| gap.running)
    };
    of(place, name)
        .or_else(|| of(place, "*"))
        .unwrap_or(Running::Whole)
}

const fn idle(place: &'static str, name: &'static str, holds: &'static str) -> Gap {
    Gap {
        place,
        name,
        running: Running::Idle(holds),
    }
}

const fn always(place: &'static str, name: &'static str, why: &'static str) -> Gap {
    Gap {
        place,
        name,
        running: Running::Always(why),
    }
}

const fn partly(place: &'static str, name: &'static str, which: &'static str) -> Gap {
    Gap {
        place,
        name,
        running: Running::Partly(which),
    }
}

const ALIASES: &str =
    "`exec` and `cloudflare`; the other services set no CNAME records yet and are refused";
const NO_HTTP3: &str =
    "`h1`, `h2` and `h2c`; `h3` has no effect: clients that offer it speak the others as well";

/// All gaps.
pub const GAPS: &[Gap] = &[
    idle(
        "",
        "push",
        "browsers no longer support HTTP/2 server push; send a `Link` header with `rel=preload` instead",
    ),
    partly("bind", "protocols", NO_HTTP3),
    idle(
        "rate_limit",
        "sweep_interval",
        "keys that no longer count go with the requests that follow",
    ),
    partly(
        "transport http",
        "read_buffer",
        "4 KiB to 1 MiB of an HTTP/1 response body; the default is 64 KiB",
    ),
    idle(
        "transport http",
        "write_buffer",
        "a request goes on in the pieces in which it came, each as soon as it is here: none waits in a buffer",
    ),
    partly(
        "transport http",
        "versions",
        "`1.1`, `2` and `h2c`; HTTP/3 to upstreams is refused",
    ),
    idle(
        "dynamic",
        "dial_fallback_delay",
        "DNS servers are named by their addresses: none has a second one to fall back to",
    ),
    partly("transport http", "tls_renegotiation", "`never`"),
    partly("tls", "alpn", "`h2` and `http/1.1`; others are not offered"),
    partly("trust_pool", "renegotiation", "`never`"),
    partly("issuer zerossl", "dns", ALIASES),
    always(
        "global options",
        "skip_install_trust",
        "only `sluice trust` changes the trust store",
    ),
    always(
        "servers",
        "enable_full_duplex",
        "a response may begin while its request is still arriving",
    ),
    partly("servers", "protocols", NO_HTTP3),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{GLOBAL_OPTIONS, OPTIONS, directive};

    #[test]
    fn every_gap_is_a_word() {
        for (at, gap) in GAPS.iter().enumerate() {
            let known = match gap.place {
                "" => directive(gap.name).is_some(),
                place => OPTIONS.iter().chain(GLOBAL_OPTIONS).any(|entry| {
                    entry.place == place && (gap.name == "*" || entry.name == gap.name)
                }),
            };
            assert!(known, "{gap:?}");
            let same = |other: &Gap| (other.place, other.name) == (gap.place, gap.name);
            assert!(!GAPS[..at].iter().any(same), "{gap:?} stands there twice");
        }
    }

    #[test]
    fn what_has_no_gap_is_whole() {
        assert_eq!(running("file_server", "hide"), Running::Whole);
        assert_eq!(running("dynamic", "name"), Running::Whole);
        assert_eq!(running("tls", "protocols"), Running::Whole);
    }
}
