//! `listener_wrappers`: listener wrappers of a server, such as the PROXY protocol. `sluice-net` implements them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sluice_message::Remote;
use sluice_model::{RawModule, Server};
use sluice_net::listener_wrapper::{Belief, ListenerWrapper, PlainHttp, Proxies};
use sluice_route::matcher::IpRanges;

use crate::limits::PROXY_HEADER_TIMEOUT;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::SOCKET_WRAPPER;

/// Whether a server uses TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// With TLS.
    Tls,
    /// Without TLS.
    Plain,
}

impl Speaks {
    /// Whether `server` uses TLS.
    pub(crate) fn of(server: &Server) -> Speaks {
        match server.tls_connection_policies.is_empty() {
            true => Speaks::Plain,
            false => Speaks::Tls,
        }
    }
}

/// Parses the listener wrappers of a server; `None` if it has none. Wrappers change the meaning of the bytes on a
/// connection, so an unsupported one is an error.
pub(crate) fn build(
    server: &Server,
    speaks: Speaks,
) -> Result<Option<Arc<ListenerWrapper>>, Refusal> {
    if let Some(wrapper) = server.packet_conn_wrappers.first() {
        let what = format!("packet connection wrapper `{}`", name(wrapper));
        return Err(Refusal::not_yet(
            &what,
            "remove it from `packet_conn_wrappers`",
        ));
    }
    let names: Vec<&str> = server.listener_wrappers.iter().map(name).collect();
    // As in Caddy, TLS is the first wrapper unless the list places it.
    let tls_at = names.iter().position(|name| *name == "tls").unwrap_or(0);
    let mut built = ListenerWrapper::default();
    for (at, wrapper) in server.listener_wrappers.iter().enumerate() {
        let name = names[at];
        if name != "tls" && speaks == Speaks::Tls && at >= tls_at {
            return Err(Refusal::not_yet(
                &format!("listener wrapper `{name}` inside of TLS"),
                "put `tls` behind it: it is then read before the handshake",
            ));
        }
        match name {
            "tls" => {}
            // Does not change the bytes of the connection; parsed by `settings`.
            SOCKET_WRAPPER => {}
            "http_redirect" => built.plain_http = PlainHttp::Redirect,
            // An extension of sluice: the handlers serve plain HTTP requests, as in nginx.
            "plain_http" => built.plain_http = PlainHttp::Serve,
            "proxy_protocol" if built.proxies.is_none() => {
                built.proxies = Some(Arc::new(proxies(wrapper)?));
            }
            "proxy_protocol" => {
                return Err(Refusal::new("listener wrapper `proxy_protocol` twice"));
            }
            other => {
                return Err(Refusal::new(format!("unknown listener wrapper `{other}`"))
                    .with_help("the wrappers are `proxy_protocol`, `http_redirect`, `plain_http` and `tls`"));
            }
        }
    }
    let is_plain = built.proxies.is_none() && built.plain_http == PlainHttp::Refuse;
    Ok((!is_plain).then(|| Arc::new(built)))
}

fn name(wrapper: &RawModule) -> &str {
    let name = wrapper.get("wrapper").and_then(Value::as_str);
    name.unwrap_or_default()
}

fn proxies(config: &RawModule) -> Result<Proxies, Refusal> {
    let (allow, deny) = (ranges(config, "allow")?, ranges(config, "deny")?);
    let fallback = match config.get("fallback_policy").and_then(Value::as_str) {
        None | Some("" | "IGNORE") => Belief::Ignore,
        Some("USE") => Belief::Use,
        Some("REJECT") => Belief::Reject,
        Some("REQUIRE") => Belief::Require,
        Some("SKIP") => Belief::Skip,
        Some(other) => {
            return Err(Refusal::new(format!("fallback_policy `{other}`"))
                .with_help("it is IGNORE, USE, REJECT, REQUIRE or SKIP"));
        }
    };
    // An extension of sluice for nginx, which does not replace the peer's address by the one in the header.
    let notes = config.get("note") == Some(&Value::Bool(true));
    let judge = move |remote: Remote| match remote {
        _ if notes => Belief::Note,
        // File permissions restrict access to a Unix domain socket, so its peers are trusted.
        Remote::Unix => Belief::Use,
        Remote::Ip(addr) if deny.contains(addr.ip()) => Belief::Reject,
        Remote::Ip(addr) if allow.contains(addr.ip()) => Belief::Use,
        Remote::Ip(_) => fallback,
    };
    Ok(Proxies {
        timeout: timeout(config)?,
        judge: Box::new(judge),
    })
}

fn timeout(config: &RawModule) -> Result<Option<Duration>, Refusal> {
    let Some(value) = config.get("timeout") else {
        return Ok(Some(PROXY_HEADER_TIMEOUT));
    };
    let read: sluice_model::Duration = serde_json::from_value(value.clone())
        .map_err(|error| Refusal::new(format!("timeout of `proxy_protocol`: {error}")))?;
    // As in Caddy, zero selects the default and a negative timeout disables it.
    Ok(match read.0 {
        0 => Some(PROXY_HEADER_TIMEOUT),
        ..0 => None,
        nanos => Some(Duration::from_nanos(nanos.unsigned_abs())),
    })
}

fn ranges(config: &RawModule, key: &str) -> Result<IpRanges, Refusal> {
    let list = config.get(key).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    let texts: Vec<String> = texts.map(str::to_owned).collect();
    IpRanges::new(&texts)
        .map_err(|error| Refusal::new(format!("`{key}` of `proxy_protocol`: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn built(wrappers: Value, speaks: Speaks) -> Result<Option<Arc<ListenerWrapper>>, Refusal> {
        let server = json!({ "listener_wrappers": wrappers });
        build(&serde_json::from_value(server).unwrap(), speaks)
    }

    fn judge(settings: Value, remote: &str) -> Belief {
        let mut wrapper = settings;
        wrapper["wrapper"] = json!("proxy_protocol");
        let built = built(json!([wrapper]), Speaks::Plain).unwrap().unwrap();
        let remote = remote.parse().map_or(Remote::Unix, Remote::Ip);
        (built.proxies.as_ref().unwrap().judge)(remote)
    }

    #[test]
    fn who_is_believed_is_as_in_caddy() {
        let (near, far) = ("10.0.0.1:1", "192.0.2.1:1");
        assert_eq!(judge(json!({}), near), Belief::Ignore);
        assert_eq!(judge(json!({}), "unix"), Belief::Use);
        let allow = json!({ "allow": ["10.0.0.0/8"], "fallback_policy": "REQUIRE" });
        assert_eq!(judge(allow.clone(), near), Belief::Use);
        assert_eq!(judge(allow, far), Belief::Require);
        let both = json!({ "allow": ["10.0.0.0/8"], "deny": ["10.0.0.1"] });
        assert_eq!(judge(both, near), Belief::Reject);
        assert_eq!(
            judge(json!({ "fallback_policy": "SKIP" }), far),
            Belief::Skip
        );
    }

    #[test]
    fn the_place_of_tls_counts_where_it_is_spoken() {
        let (proxy, tls) = (
            json!({ "wrapper": "proxy_protocol" }),
            json!({ "wrapper": "tls" }),
        );
        let before = json!([proxy, tls]);
        assert!(built(before, Speaks::Tls).unwrap().is_some());
        for inside in [json!([proxy]), json!([tls, proxy])] {
            assert!(built(inside.clone(), Speaks::Tls).is_err());
            assert!(built(inside, Speaks::Plain).unwrap().is_some());
        }
        assert!(built(json!([tls]), Speaks::Tls).unwrap().is_none());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for wrapper in [
            json!({ "wrapper": "tor" }),
            json!({ "wrapper": "proxy_protocol", "allow": ["x"] }),
            json!({ "wrapper": "proxy_protocol", "fallback_policy": "MAYBE" }),
            json!({ "wrapper": "proxy_protocol", "timeout": "soon" }),
        ] {
            assert!(built(json!([wrapper]), Speaks::Plain).is_err(), "{wrapper}");
        }
    }
}
