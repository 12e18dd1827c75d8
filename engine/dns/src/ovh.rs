//! DNS records at OVH, API version 1: requests are signed with a secret and the service's own time.

use std::time::Duration;

use aws_lc_rs::digest;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::fetch::Fetcher;
use crate::rest::{Rest, no_zone, relative, seconds, zones_of};
use crate::service::Service;

/// The base URL of a region, by its name in OVH's own tools.
pub(crate) fn base(endpoint: &str) -> Result<&'static str, String> {
    match endpoint {
        "" | "ovh-eu" => Ok("https://eu.api.ovh.com/1.0"),
        "ovh-ca" => Ok("https://ca.api.ovh.com/1.0"),
        "ovh-us" => Ok("https://api.us.ovhcloud.com/1.0"),
        other => Err(format!(
            "unknown endpoint `{other}` of `ovh` (known: ovh-eu, ovh-ca, ovh-us)"
        )),
    }
}

pub(crate) fn set(
    service: &Service,
    fetcher: &Fetcher,
    name: &str,
    text: &str,
    ttl: Duration,
) -> Result<String, String> {
    let api = Api::open(service, fetcher)?;
    for zone in zones_of(name) {
        if api
            .ask(Method::GET, &format!("/domain/zone/{zone}"), None)?
            .is_none()
        {
            continue;
        }
        let record = json!({"fieldType": "TXT", "subDomain": relative(name, zone), "target": text,
            "ttl": seconds(ttl, 60)});
        let records = format!("/domain/zone/{zone}/record");
        let made = api.ask(Method::POST, &records, Some(&record))?;
        let id = made.and_then(|made| made["id"].as_u64());
        let id = id.ok_or("OVH sent no ID for the record")?;
        api.refresh(zone)?;
        return Ok(format!("{zone} {id}"));
    }
    Err(no_zone("OVH", name))
}

pub(crate) fn clear(service: &Service, fetcher: &Fetcher, handle: &str) -> Result<(), String> {
    let api = Api::open(service, fetcher)?;
    let (zone, id) = handle.split_once(' ').unwrap_or((handle, ""));
    api.ask(
        Method::DELETE,
        &format!("/domain/zone/{zone}/record/{id}"),
        None,
    )?;
    api.refresh(zone)
}

struct Api<'a> {
    rest: Rest<'a>,
    service: &'a Service,
    /// The service's time in seconds since the Unix epoch, when this was opened.
    time: u64,
}

impl<'a> Api<'a> {
    fn open(service: &'a Service, fetcher: &'a Fetcher) -> Result<Api<'a>, String> {
        let rest = Rest {
            fetcher,
            service: "OVH",
            base: service.base(),
            fields: Vec::new(),
        };
        let time = rest.demand(Method::GET, "/auth/time", None)?;
        let time = time.as_u64().ok_or("OVH did not send its time")?;
        Ok(Api {
            rest,
            service,
            time,
        })
    }

    /// Sends a request; `None` if the resource does not exist.
    fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<Value>, String> {
        let body = body.map_or_else(String::new, Value::to_string);
        let value = |name: &str| self.service.value(name).to_owned();
        let signed = [
            &value("application_secret"),
            &value("consumer_key"),
            method.as_str(),
            &format!("{}{path}", self.service.base()),
            &body,
            &self.time.to_string(),
        ]
        .join("+");
        let fields = [
            ("X-Ovh-Application", value("application_key")),
            ("X-Ovh-Consumer", value("consumer_key")),
            ("X-Ovh-Timestamp", self.time.to_string()),
            ("X-Ovh-Signature", format!("$1${}", sha1(&signed))),
        ];
        let sent = Some(body.into_bytes()).filter(|body| !body.is_empty());
        let (status, read) = self.rest.send(method, path, &fields, sent)?;
        match status {
            404 => Ok(None),
            200..=299 => Ok(Some(read)),
            _ => Err(self.rest.refused(status, &read)),
        }
    }

    /// Publishes a change to the name servers.
    fn refresh(&self, zone: &str) -> Result<(), String> {
        self.ask(Method::POST, &format!("/domain/zone/{zone}/refresh"), None)
            .map(drop)
    }
}

fn sha1(text: &str) -> String {
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::fetch::FetchOptions;

    #[test]
    fn requests_are_signed_and_changes_made_known() {
        let fake = Fake::start(|asked| {
            let (status, text) = match asked.line.as_str() {
                "GET /auth/time" => (200, "1700000000"),
                "GET /domain/zone/a.example.test" => (404, "{}"),
                "POST /domain/zone/example.test/record" => (200, r#"{"id":42}"#),
                _ => (200, "null"),
            };
            (status, text.to_owned())
        });
        let values = ["application_key", "application_secret", "consumer_key"];
        let values = values.map(|name| (name.to_owned(), name.to_owned()));
        let service = Service::parse("ovh", values.into()).unwrap().at(&fake.base);
        let fetcher = Fetcher::new(&FetchOptions::default());
        let name = "_acme-challenge.a.example.test";
        let handle = set(&service, &fetcher, name, "text", Duration::ZERO).unwrap();
        clear(&service, &fetcher, &handle).unwrap();
        let asked = fake.asked();
        let lines: Vec<&str> = asked.iter().map(|one| one.line.as_str()).collect();
        assert_eq!(lines[3], "POST /domain/zone/example.test/record");
        assert_eq!(lines[4], "POST /domain/zone/example.test/refresh");
        assert_eq!(lines[6], "DELETE /domain/zone/example.test/record/42");
        let signed = sha1(&format!(
            "application_secret+consumer_key+POST+{}/domain/zone/example.test/record+{}+1700000000",
            fake.base, asked[3].body
        ));
        let fields = asked[3].fields.to_ascii_lowercase();
        assert!(
            fields.contains(&format!("x-ovh-signature: $1${signed}")),
            "{fields}"
        );
        assert!(base("ovh-mars").is_err());
        // FIPS 180, the example of SHA-1.
        assert_eq!(sha1("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}
