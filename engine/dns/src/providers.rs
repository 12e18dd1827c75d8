//! The supported DNS services, their settings, and which file implements each. Each service's API is in its own file.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fetch::Fetcher;
use crate::service::Service;
use crate::{azure, cloudflare, google, ovh, rfc2136, route53, simple};

/// A service: its name, its base URL, and its settings; optional settings begin with a question mark.
struct Kind {
    name: &'static str,
    base: &'static str,
    settings: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        name: "cloudflare",
        base: "https://api.cloudflare.com/client/v4",
        settings: &["api_token"],
    },
    Kind {
        name: "digitalocean",
        base: "https://api.digitalocean.com/v2",
        settings: &["auth_token"],
    },
    Kind {
        name: "hetzner",
        base: "https://api.hetzner.cloud/v1",
        settings: &["api_token"],
    },
    Kind {
        name: "desec",
        base: "https://desec.io/api/v1",
        settings: &["token"],
    },
    Kind {
        name: "gandi",
        base: "https://api.gandi.net/v5/livedns",
        settings: &["bearer_token"],
    },
    Kind {
        name: "porkbun",
        base: "https://api.porkbun.com/api/json/v3",
        settings: &["api_key", "api_secret_key"],
    },
    Kind {
        name: "route53",
        base: "https://route53.amazonaws.com",
        settings: &[
            "access_key_id",
            "secret_access_key",
            "session_token?",
            "hosted_zone_id?",
            "region?",
        ],
    },
    Kind {
        name: "ovh",
        base: "https://eu.api.ovh.com/1.0",
        settings: &[
            "application_key",
            "application_secret",
            "consumer_key",
            "endpoint?",
        ],
    },
    Kind {
        name: "googleclouddns",
        base: "https://dns.googleapis.com/dns/v1",
        settings: &["gcp_project", "gcp_application_default"],
    },
    Kind {
        name: "azure",
        base: "https://management.azure.com",
        settings: &[
            "tenant_id",
            "client_id",
            "client_secret",
            "subscription_id",
            "resource_group_name",
        ],
    },
    Kind {
        name: "rfc2136",
        base: "",
        settings: &["server", "key_name", "key", "key_alg?"],
    },
];

impl Service {
    /// The service called `name` with these settings.
    ///
    /// # Errors
    /// The name is unknown, or a setting is missing, empty or unknown; as a human-readable message.
    pub fn parse(name: &str, values: BTreeMap<String, String>) -> Result<Service, String> {
        let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else {
            return Err(format!("unknown DNS provider `{name}`"));
        };
        for setting in kind.settings {
            let is_there = values.get(*setting).is_some_and(|value| !value.is_empty());
            if !setting.ends_with('?') && !is_there {
                return Err(format!("`{name}` needs `{setting}`"));
            }
        }
        let is_known = |found: &str| {
            let mut known = kind.settings.iter();
            known.any(|setting| setting.trim_end_matches('?') == found)
        };
        if let Some(odd) = values.keys().find(|found| !is_known(found)) {
            return Err(format!("`{name}` has no setting `{odd}`"));
        }
        let service = Service {
            name: kind.name,
            base: kind.base.to_owned(),
            values,
        };
        match service.name {
            "ovh" => {
                let base = ovh::base(service.value("endpoint"))?.to_owned();
                Ok(Service { base, ..service })
            }
            "rfc2136" => rfc2136::check(&service).map(|()| service),
            "route53" => route53::check(&service).map(|()| service),
            "googleclouddns" => google::check(&service).map(|()| service),
            _ => Ok(service),
        }
    }

    /// The names of all services.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|kind| kind.name)
    }

    /// The settings of a service, for tests.
    #[cfg(test)]
    pub(crate) fn settings_of(name: &str) -> Option<&'static [&'static str]> {
        let kind = KINDS.iter().find(|kind| kind.name == name)?;
        Some(kind.settings)
    }

    /// Adds a TXT record at `name`; returns the handle for [`Service::clear`].
    pub(crate) fn set(
        &self,
        fetcher: &Fetcher,
        name: &str,
        text: &str,
        ttl: Duration,
    ) -> Result<String, String> {
        match self.name {
            "cloudflare" => {
                let token = self.value("api_token");
                cloudflare::Api::new(fetcher, token, &self.base).set(name, text, ttl)
            }
            "route53" => route53::set(self, fetcher, name, text, ttl),
            "ovh" => ovh::set(self, fetcher, name, text, ttl),
            "googleclouddns" => google::set(self, fetcher, name, text, ttl),
            "azure" => azure::set(self, fetcher, name, text, ttl),
            "rfc2136" => rfc2136::set(self, name, text, ttl),
            _ => simple::set(self, fetcher, name, text, ttl),
        }
    }

    /// Whether it supports CNAME records.
    pub(crate) fn sets_aliases(&self) -> bool {
        self.name == "cloudflare"
    }

    /// Makes `name` an alias of `target`; returns the handle for [`Service::clear`].
    pub(crate) fn set_alias(
        &self,
        fetcher: &Fetcher,
        name: &str,
        target: &str,
        ttl: Duration,
    ) -> Result<String, String> {
        if !self.sets_aliases() {
            return Err(format!("`{}` sets no aliases here", self.name));
        }
        let token = self.value("api_token");
        cloudflare::Api::new(fetcher, token, &self.base).set_alias(name, target, ttl)
    }

    /// Removes a TXT or CNAME record.
    pub(crate) fn clear(
        &self,
        fetcher: &Fetcher,
        name: &str,
        text: &str,
        handle: &str,
    ) -> Result<(), String> {
        match self.name {
            "cloudflare" => {
                let token = self.value("api_token");
                cloudflare::Api::new(fetcher, token, &self.base).clear(handle)
            }
            "route53" => route53::clear(self, fetcher, name, text, handle),
            "ovh" => ovh::clear(self, fetcher, handle),
            "googleclouddns" => google::clear(self, fetcher, name, text, handle),
            "azure" => azure::clear(self, fetcher, name, text, handle),
            "rfc2136" => rfc2136::clear(self, name, text, handle),
            _ => simple::clear(self, fetcher, name, text, handle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_unknown_settings_are_reported() {
        let parse = |name: &str, values: &[(&str, &str)]| {
            let values = values
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            Service::parse(name, values.collect())
        };
        assert!(parse("desec", &[("token", "x")]).is_ok());
        for (name, values, named) in [
            ("desec", &[][..], "`token`"),
            ("desec", &[("token", "")][..], "`token`"),
            (
                "desec",
                &[("token", "x"), ("api_key", "y")][..],
                "`api_key`",
            ),
            ("vultr", &[][..], "`vultr`"),
        ] {
            let error = parse(name, values).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        assert!(Service::names().count() >= 11);
    }

    #[test]
    fn secrets_are_never_shown() {
        let with = |token: &str| {
            let values = [("token".to_owned(), token.to_owned())];
            format!("{:?}", Service::parse("desec", values.into()).unwrap())
        };
        assert!(!with("secret").contains("secret"));
        assert_ne!(with("secret"), with("other"));
    }
}
