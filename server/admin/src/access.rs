//! Access control of the admin API. Any web page can make a browser on this machine send requests to it, so the Host
//! has to be one of ours (a foreign name may resolve to our address) and a request made by a page has to come from an
//! allowed origin. `endpoint` decides where the API listens.

use sluice_message::{FieldId, RequestHead};
use sluice_model::Admin;

use crate::address::Address;

/// The access rules for one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Accepted `Host` values, in lower case; `None` if the API listens on all addresses, so that any name is possible.
    hosts: Option<Vec<String>>,
    /// Accepted `Origin` values: `host:port`, or `scheme://host:port` to restrict the scheme.
    origins: Vec<String>,
    /// When a request has to carry an `Origin`.
    origin: OriginRule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OriginRule {
    /// Check `Origin` if it is present: only browsers send it.
    IfSent,
    /// Require it of every client (`enforce_origin`).
    Always,
}

impl Access {
    /// The rules for an API that listens on `address`.
    pub fn new(address: &Address, admin: Option<&Admin>) -> Access {
        let mut origins = address.names();
        origins.extend(
            admin
                .iter()
                .flat_map(|admin| &admin.origins)
                .map(|o| o.to_ascii_lowercase()),
        );
        let bare = |origin: &String| {
            origin
                .split_once("://")
                .map_or(origin.as_str(), |(_, h)| h)
                .to_owned()
        };
        let hosts = (!address.is_wildcard()).then(|| origins.iter().map(bare).collect());
        let enforced = admin.is_some_and(|admin| admin.enforce_origin);
        let origin = if enforced {
            OriginRule::Always
        } else {
            OriginRule::IfSent
        };
        Access {
            hosts,
            origins,
            origin,
        }
    }

    /// Checks whether a request with this head is allowed; the error is the reason.
    pub fn check(&self, head: &RequestHead) -> Result<(), String> {
        let host = lower(&head.authority);
        if self
            .hosts
            .as_ref()
            .is_some_and(|hosts| !hosts.contains(&host))
        {
            return Err(format!("host not allowed: {host}"));
        }
        if head.fields.all(FieldId::Origin).nth(1).is_some() {
            return Err("more than one Origin".to_owned());
        }
        let sent = head.fields.first(FieldId::Origin).map(lower);
        match (&sent, self.origin) {
            (Some(origin), _) if self.allows(origin) => return Ok(()),
            (Some(origin), _) => return Err(format!("origin not allowed: {origin}")),
            (None, OriginRule::Always) => return Err("an Origin is required".to_owned()),
            (None, OriginRule::IfSent) => {}
        }
        // A no-cors GET from a page has no Origin, but browsers always send Sec-Fetch-Site.
        let site = head.fields.find_first(b"Sec-Fetch-Site").map(lower);
        match site.as_deref() {
            None | Some("same-origin" | "none") => Ok(()),
            Some(site) => Err(format!(
                "requests from pages of others are not allowed: {site}"
            )),
        }
    }

    /// The origin whose pages may read the response to this request, which passed [`Access::check`]: as in Caddy that of the
    /// request, where one is required.
    pub fn shared_with<'h>(&self, head: &'h RequestHead) -> Option<&'h [u8]> {
        match self.origin {
            OriginRule::Always => head.fields.first(FieldId::Origin),
            OriginRule::IfSent => None,
        }
    }

    fn allows(&self, origin: &str) -> bool {
        let host = origin.split_once("://").map_or(origin, |(_, host)| host);
        self.origins
            .iter()
            .any(|allowed| match allowed.contains("://") {
                true => allowed == origin,
                false => allowed == host,
            })
    }
}

fn lower(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(listen: &str, admin: &Admin) -> Access {
        Access::new(&Address::parse(listen).expect("an address"), Some(admin))
    }

    fn check(access: &Access, host: &str, fields: &[(&str, &str)]) -> bool {
        let mut head = RequestHead::default();
        head.set_authority(host.as_bytes());
        for (name, value) in fields {
            head.fields.push_raw(
                FieldId::of(name.as_bytes()),
                name.as_bytes(),
                value.as_bytes(),
            );
        }
        access.check(&head).is_ok()
    }

    #[test]
    fn only_our_own_names_are_hosts() {
        let access = access("localhost:2019", &Admin::default());
        for (host, allowed) in [
            ("localhost:2019", true),
            ("LOCALHOST:2019", true),
            ("127.0.0.1:2019", true),
            ("[::1]:2019", true),
            ("localhost", false),
            ("localhost:80", false),
            ("attacker.test:2019", false),
            ("", false),
        ] {
            assert_eq!(check(&access, host, &[]), allowed, "{host}");
        }
    }

    #[test]
    fn pages_of_others_are_refused() {
        let access = access("localhost:2019", &Admin::default());
        for (fields, allowed) in [
            (&[("Origin", "http://localhost:2019")][..], true),
            (&[("Origin", "http://attacker.test")], false),
            (&[("Origin", "null")], false),
            (
                &[
                    ("Origin", "http://localhost:2019"),
                    ("Origin", "http://attacker.test"),
                ],
                false,
            ),
            (&[("Sec-Fetch-Site", "cross-site")], false),
            (&[("Sec-Fetch-Site", "same-site")], false),
            (&[("Sec-Fetch-Site", "none")], true),
            (&[("Sec-Fetch-Site", "same-origin")], true),
        ] {
            assert_eq!(
                check(&access, "localhost:2019", fields),
                allowed,
                "{fields:?}"
            );
        }
    }

    #[test]
    fn the_configuration_adds_origins_and_may_require_one() {
        let admin = Admin {
            enforce_origin: true,
            origins: vec!["https://panel.test".into(), "other.test:81".into()],
            ..Admin::default()
        };
        let access = access("localhost:2019", &admin);
        assert!(!check(&access, "localhost:2019", &[]));
        assert!(check(
            &access,
            "panel.test",
            &[("Origin", "https://panel.test")]
        ));
        assert!(!check(
            &access,
            "panel.test",
            &[("Origin", "http://panel.test")]
        ));
        assert!(check(
            &access,
            "localhost:2019",
            &[("Origin", "http://other.test:81")]
        ));
    }

    #[test]
    fn an_interface_on_all_addresses_has_no_names() {
        let access = access(":2019", &Admin::default());
        assert!(check(&access, "anything:2019", &[]));
        assert!(!check(
            &access,
            "anything:2019",
            &[("Origin", "http://attacker.test")]
        ));
    }
}
