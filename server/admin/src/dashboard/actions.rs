//! What the buttons of the dashboard do: `POST /dashboard/actions/NAME`, as far as the configuration allows it. The rest of the
//! API is not limited by that: a client that reaches it can do the same there.

use serde::Deserialize;
use serde_json::{Value, json};
use sluice_message::{Method, RequestHead, Status};
use sluice_model::DashboardAction;

use crate::api::{Reply, decoded_json, direct_upstream, not_counting};
use crate::denied::Denied;
use crate::limits::{EJECT_SECONDS, EJECT_SECONDS_MAX};
use crate::orders::{Current, Order, Orders, Purge, reply};

/// What the paths of actions begin with.
const PATH: &str = "/dashboard/actions/";

/// The action at the path of a request, or the response that rejects it; `None` if it belongs to the rest of the API.
pub fn of(head: &RequestHead) -> Option<Result<DashboardAction, Reply>> {
    let name = head.uri.path().strip_prefix(PATH.as_bytes())?;
    let name = String::from_utf8_lossy(name);
    let Some(action) = DashboardAction::named(&name) else {
        let names = DashboardAction::NAMES.join(", ");
        let why = format!("`{name}` is not an action of the dashboard: {names}");
        return Some(Err(Reply::error(Status::NOT_FOUND, why)));
    };
    if head.method != Method::Post {
        let why = format!("method not allowed: {}", head.method.as_str());
        return Some(Err(Reply {
            allow: "POST",
            ..Reply::error(Status::METHOD_NOT_ALLOWED, why)
        }));
    }
    Some(Ok(action))
}

/// Checks that the configuration allows an action.
pub fn check(action: DashboardAction, allowed: &[DashboardAction]) -> Result<(), Denied> {
    if allowed.contains(&action) {
        return Ok(());
    }
    let name = action.name();
    let why = format!(
        "the configuration does not allow the dashboard to {name}: `admin {{ dashboard {{ actions {name} }} }}` would"
    );
    Err(Denied::new(Status::FORBIDDEN, why))
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Read the configuration again.
    Reload,
    /// Send an upstream no new requests, or new ones again.
    Drain {
        /// Its address.
        upstream: String,
        /// Whether it gets none.
        drain: bool,
    },
    /// Send an upstream no requests for some time, or requests again.
    Eject {
        /// Its address.
        upstream: String,
        /// For how long; 0 ends it.
        seconds: u32,
    },
    /// Remove responses from a cache.
    Purge {
        /// Its name in the status.
        cache: String,
        /// Which ones.
        which: Purge,
    },
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// In words, for people.
    pub words: String,
    /// A further member of the response.
    more: Option<(&'static str, Value)>,
}

impl Done {
    fn of(words: impl Into<String>) -> Done {
        Done {
            words: words.into(),
            more: None,
        }
    }

    /// The response.
    pub fn shown(&self) -> Value {
        let mut shown = json!({ "result": self.words });
        if let Some((name, value)) = &self.more {
            shown[*name] = value.clone();
        }
        shown
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReloadFields {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DrainFields {
    upstream: String,
    drain: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EjectFields {
    upstream: String,
    seconds: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PurgeFields {
    cache: String,
    key: Option<String>,
    prefix: Option<String>,
}

impl Wanted {
    /// Reads the body of a request for an action.
    pub fn read(action: DashboardAction, body: &[u8]) -> Result<Wanted, Denied> {
        match action {
            DashboardAction::Reload => {
                let ReloadFields {} = decoded_json(body)?;
                Ok(Wanted::Reload)
            }
            DashboardAction::Drain => {
                let DrainFields { upstream, drain } = decoded_json(body)?;
                let drain = drain.unwrap_or(true);
                Ok(Wanted::Drain { upstream, drain })
            }
            DashboardAction::Eject => {
                let EjectFields { upstream, seconds } = decoded_json(body)?;
                let seconds = seconds.unwrap_or(EJECT_SECONDS);
                if seconds > EJECT_SECONDS_MAX {
                    let why = format!("an ejection of {seconds} s; at most {EJECT_SECONDS_MAX} s");
                    return Err(Denied::bad(why));
                }
                Ok(Wanted::Eject { upstream, seconds })
            }
            DashboardAction::Purge => {
                let PurgeFields { cache, key, prefix } = decoded_json(body)?;
                let which = match (key, prefix) {
                    (Some(key), None) => Purge::Key(key),
                    (None, Some(prefix)) => Purge::Beginning(prefix),
                    (Some(_), Some(_)) | (None, None) => {
                        return Err(Denied::bad("give either `key` or `prefix`"));
                    }
                };
                Ok(Wanted::Purge { cache, which })
            }
        }
    }

    /// The upstream or the cache that it is about; empty if it is about none.
    pub fn object(&self) -> &str {
        match self {
            Wanted::Reload => "",
            Wanted::Drain { upstream, .. } | Wanted::Eject { upstream, .. } => upstream,
            Wanted::Purge { cache, .. } => cache,
        }
    }

    /// Does it.
    pub async fn carry_out(&self, orders: &Orders, current: &Current) -> Result<Done, Denied> {
        match self {
            Wanted::Reload => {
                let (replier, waiter) = reply();
                let sent = orders.send(Order::Reload(replier));
                sent.map_err(|why| Denied::new(Status::SERVICE_UNAVAILABLE, why))?;
                waiter.await?;
                Ok(Done::of("the configuration was read again"))
            }
            Wanted::Drain { upstream, drain } => {
                let (state, words) = match drain {
                    true => ("draining", "no new requests from now on"),
                    false => ("ready", "new requests from now on"),
                };
                let shown = direct_upstream(upstream, json!({ "state": state }), current)?;
                Ok(Done {
                    words: words.to_owned(),
                    more: Some(("upstream", shown)),
                })
            }
            Wanted::Eject { upstream, seconds } => {
                let (direction, words) = match seconds {
                    0 => (Value::Null, "requests from now on".to_owned()),
                    seconds => (json!(seconds), format!("no requests for {seconds} s")),
                };
                let direction = json!({ "eject_seconds": direction });
                let shown = direct_upstream(upstream, direction, current)?;
                Ok(Done {
                    words,
                    more: Some(("upstream", shown)),
                })
            }
            Wanted::Purge { cache, which } => purge(cache, which, current),
        }
    }
}

fn purge(cache: &str, which: &Purge, current: &Current) -> Result<Done, Denied> {
    let counts = current.counts().ok_or_else(not_counting)?;
    let Some(removed) = counts.purge(cache, which) else {
        let why = format!("no cache in use is called {cache}");
        return Err(Denied::new(Status::NOT_FOUND, why));
    };
    let words = match removed {
        0 => "no response was cached there".to_owned(),
        1 => "1 response was removed".to_owned(),
        count => format!("{count} responses were removed"),
    };
    Ok(Done {
        words,
        more: Some(("removed", json!(removed))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(method: Method, path: &str) -> RequestHead {
        let mut head = RequestHead {
            method,
            ..RequestHead::default()
        };
        head.uri.set(path.as_bytes());
        head
    }

    #[test]
    fn paths_name_actions_and_take_post() {
        for (method, path, expected) in [
            (
                Method::Post,
                "/dashboard/actions/reload",
                Some(Ok(DashboardAction::Reload)),
            ),
            (Method::Get, "/dashboard/actions/reload", Some(Err(405))),
            (Method::Post, "/dashboard/actions/restart", Some(Err(404))),
            (Method::Post, "/dashboard/actions/", Some(Err(404))),
            (Method::Post, "/dashboard/", None),
            (Method::Post, "/load", None),
        ] {
            let found = of(&head(method, path));
            let found = found.map(|found| found.map_err(|reply| reply.status.code()));
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn bodies_are_read_and_refused() {
        use DashboardAction::{Drain, Eject, Purge as PurgeAction, Reload};
        let a = || "a:1".to_owned();
        for (action, body, expected) in [
            (Reload, "{}", Some(Wanted::Reload)),
            (Reload, r#"{"x":1}"#, None),
            (Reload, "", None),
            (
                Drain,
                r#"{"upstream":"a:1"}"#,
                Some(Wanted::Drain {
                    upstream: a(),
                    drain: true,
                }),
            ),
            (
                Drain,
                r#"{"upstream":"a:1","drain":false}"#,
                Some(Wanted::Drain {
                    upstream: a(),
                    drain: false,
                }),
            ),
            (Drain, "{}", None),
            (
                Eject,
                r#"{"upstream":"a:1"}"#,
                Some(Wanted::Eject {
                    upstream: a(),
                    seconds: 30,
                }),
            ),
            (
                Eject,
                r#"{"upstream":"a:1","seconds":3600}"#,
                Some(Wanted::Eject {
                    upstream: a(),
                    seconds: 3600,
                }),
            ),
            (Eject, r#"{"upstream":"a:1","seconds":3601}"#, None),
            (Eject, r#"{"upstream":"a:1","seconds":-1}"#, None),
            (
                PurgeAction,
                r#"{"cache":"/c","key":"k"}"#,
                Some(Wanted::Purge {
                    cache: "/c".to_owned(),
                    which: Purge::Key("k".to_owned()),
                }),
            ),
            (
                PurgeAction,
                r#"{"cache":"/c","prefix":""}"#,
                Some(Wanted::Purge {
                    cache: "/c".to_owned(),
                    which: Purge::Beginning(String::new()),
                }),
            ),
            (PurgeAction, r#"{"cache":"/c"}"#, None),
            (
                PurgeAction,
                r#"{"cache":"/c","key":"k","prefix":"k"}"#,
                None,
            ),
        ] {
            assert_eq!(
                Wanted::read(action, body.as_bytes()).ok(),
                expected,
                "{body}"
            );
        }
    }

    #[test]
    fn only_what_is_configured_is_allowed() {
        let allowed = [DashboardAction::Drain];
        assert_eq!(check(DashboardAction::Drain, &allowed), Ok(()));
        let denied = check(DashboardAction::Purge, &allowed).expect_err("it is not");
        assert_eq!(denied.status, Status::FORBIDDEN);
        assert!(denied.why.contains("actions purge"), "{}", denied.why);
        assert!(check(DashboardAction::Reload, &[]).is_err());
    }
}
