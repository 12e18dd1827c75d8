//! DNS records at Cloudflare, API version 4.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::{Method, Request};

use crate::fetch::Fetcher;

/// The API with a token.
pub(crate) struct Api<'a> {
    fetcher: &'a Fetcher,
    token: &'a str,
    endpoint: &'a str,
}

impl<'a> Api<'a> {
    pub(crate) fn new(fetcher: &'a Fetcher, token: &'a str, endpoint: &'a str) -> Api<'a> {
        Api {
            fetcher,
            token,
            endpoint,
        }
    }

    /// Adds a TXT record; returns the path for its removal.
    pub(crate) fn set(&self, name: &str, text: &str, ttl: Duration) -> Result<String, String> {
        let record = json!({"type": "TXT", "name": name, "content": format!("\"{text}\"")});
        self.add(name, record, ttl)
    }

    /// Adds a CNAME record; returns the path for its removal. It is not proxied, because then it would not be visible.
    pub(crate) fn set_alias(
        &self,
        name: &str,
        target: &str,
        ttl: Duration,
    ) -> Result<String, String> {
        let record = json!({"type": "CNAME", "name": name, "content": target, "proxied": false});
        self.add(name, record, ttl)
    }

    fn add(&self, name: &str, mut record: Value, ttl: Duration) -> Result<String, String> {
        let zone = self.zone(name)?;
        // 1 means automatic; less than a minute is rejected.
        let ttl = if ttl.is_zero() {
            1
        } else {
            ttl.as_secs().max(60)
        };
        record["ttl"] = ttl.into();
        let records = format!("/zones/{zone}/dns_records");
        let made = self.ask(Method::POST, &records, Some(&record))?;
        match made["id"].as_str() {
            Some(id) => Ok(format!("{records}/{id}")),
            None => Err("Cloudflare sent no ID for the record".to_owned()),
        }
    }

    pub(crate) fn clear(&self, path: &str) -> Result<(), String> {
        self.ask(Method::DELETE, path, None).map(drop)
    }

    /// The zone that contains `name`: its longest suffix that is a zone.
    fn zone(&self, name: &str) -> Result<String, String> {
        let mut rest = name;
        while let Some((_, ending)) = rest.split_once('.') {
            let found = self.ask(Method::GET, &format!("/zones?name={ending}"), None)?;
            if let Some(id) = found[0]["id"].as_str() {
                return Ok(id.to_owned());
            }
            rest = ending;
        }
        Err(format!("this token has no access to a zone for `{name}`"))
    }

    /// The `result` of a response.
    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.endpoint))
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Content-Type", "application/json")
            .body(body)
            .map_err(|error| error.to_string())?;
        let response = self.fetcher.send(request)?;
        let status = response.status();
        let mut read: Value = serde_json::from_slice(response.body())
            .map_err(|_| format!("Cloudflare responded with status {status}"))?;
        if read["success"] == true {
            return Ok(read["result"].take());
        }
        let said = read["errors"][0]["message"].as_str().unwrap_or_default();
        Err(format!("Cloudflare refused with status {status}: {said}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::fetch::FetchOptions;

    /// An API with the zone `example.test`, and its address.
    fn fake() -> (String, Fake) {
        let fake = Fake::start(|asked| {
            let fields = asked.fields.to_ascii_lowercase();
            let response = if !fields.contains("authorization: bearer token\r\n") {
                r#"{"success":false,"errors":[{"message":"who are you"}]}"#
            } else if asked.line.ends_with("name=example.test") {
                r#"{"success":true,"result":[{"id":"z1"}]}"#
            } else if asked.line.starts_with("GET") {
                r#"{"success":true,"result":[]}"#
            } else {
                r#"{"success":true,"result":{"id":"r1"}}"#
            };
            (200, response.to_owned())
        });
        (format!("{}/v4", fake.base), fake)
    }

    #[test]
    fn a_record_is_set_in_its_zone_and_removed() {
        let (endpoint, fake) = fake();
        let fetcher = Fetcher::new(&FetchOptions::default());
        let api = Api::new(&fetcher, "token", &endpoint);
        let name = "_acme-challenge.a.example.test";
        let path = api.set(name, "text", Duration::from_secs(5)).unwrap();
        api.clear(&path).unwrap();
        let asked = fake.lines();
        assert!(asked[0].contains("name=a.example.test"), "{asked:?}");
        assert!(asked[1].contains("name=example.test"), "{asked:?}");
        assert!(
            asked[2].starts_with("POST /v4/zones/z1/dns_records "),
            "{asked:?}"
        );
        assert!(asked[2].contains(r#""content":"\"text\"""#), "{asked:?}");
        assert!(asked[2].contains(r#""ttl":60"#), "{asked:?}");
        assert_eq!(asked[3], "DELETE /v4/zones/z1/dns_records/r1");
    }

    #[test]
    fn an_alias_is_not_a_record_and_turns_the_proxy_off() {
        let (endpoint, fake) = fake();
        let fetcher = Fetcher::new(&FetchOptions::default());
        let api = Api::new(&fetcher, "token", &endpoint);
        let path = api
            .set_alias("_x.example.test", "y.comodoca.test", Duration::ZERO)
            .unwrap();
        assert_eq!(path, "/zones/z1/dns_records/r1");
        let asked = fake.lines();
        let made = asked.last().unwrap();
        for part in [
            r#""type":"CNAME""#,
            r#""content":"y.comodoca.test""#,
            r#""proxied":false"#,
            r#""ttl":1"#,
        ] {
            assert!(made.contains(part), "{made}");
        }
    }

    #[test]
    fn refusals_are_reported() {
        let (endpoint, _fake) = fake();
        let fetcher = Fetcher::new(&FetchOptions::default());
        let set = |token, name| Api::new(&fetcher, token, &endpoint).set(name, "x", Duration::ZERO);
        let error = set("wrong", "a.example.test").unwrap_err();
        assert!(error.contains("who are you"), "{error}");
        let error = set("token", "a.other.test").unwrap_err();
        assert!(error.contains("no access to a zone"), "{error}");
    }
}
