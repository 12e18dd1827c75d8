//! Settings that are accepted without an effect, found in the configuration itself. For Caddyfiles the definitions of
//! their lines say the same, with the place of each line.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::handler::{Push, RateLimit};
use crate::proxy::{AUpstreams, HttpTransport, SrvUpstreams};
use crate::{Config, Server, walk};

/// A setting without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Where it is, as the path of the JSON; of a setting in a route, its server.
    pub place: String,
    /// Its name, in backticks.
    pub name: &'static str,
    /// What holds instead.
    pub instead: &'static str,
}

/// The settings without effect, in the order of the servers.
pub fn idle_settings(config: &Config) -> Vec<Idle> {
    let mut found = Vec::new();
    if let Some(admin) = &config.admin
        && admin.identity.is_some()
        && admin.remote.is_none()
    {
        found.push(Idle {
            place: String::from("admin.identity"),
            name: "`identity`",
            instead: "the certificate is for `admin.remote`, which is absent",
        });
    }
    for (name, server) in config.servers() {
        of_server(&format!("apps.http.servers.{name}"), server, &mut found);
    }
    found
}

fn of_server(place: &str, server: &Server, found: &mut Vec<Idle>) {
    let mut push = |part: &str, name, instead| {
        let place = format!("{place}{part}");
        found.push(Idle {
            place,
            name,
            instead,
        });
    };
    walk::each(server, |_: &Push| {
        let instead = "browsers no longer support HTTP/2 server push; send a `Link` header with `rel=preload` instead";
        push("", "the handler `push`", instead);
    });
    walk::each(server, |transport: &HttpTransport| {
        if transport.write_buffer_size != 0 {
            let instead = "request bodies are forwarded as they arrive, without a write buffer";
            push("", "`write_buffer_size`", instead);
        }
    });
    let mut has_delay = false;
    walk::each(server, |a: &AUpstreams| {
        has_delay |= !a.dial_fallback_delay.is_zero()
    });
    walk::each(server, |srv: &SrvUpstreams| {
        has_delay |= !srv.dial_fallback_delay.is_zero()
    });
    if has_delay {
        let instead =
            "DNS servers are given as IP addresses, so there is no second address to fall back to";
        push("", "`dial_fallback_delay` of dynamic upstreams", instead);
    }
    walk::each(server, |limit: &RateLimit| {
        if !limit.sweep_interval.is_zero() {
            let instead = "expired keys are removed while later requests are processed";
            push("", "`sweep_interval`", instead);
        }
    });
}
