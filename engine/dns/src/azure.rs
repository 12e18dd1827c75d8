//! DNS records at Azure DNS, API version 2018: a client secret is exchanged for a token, and the TXT values of a name
//! form one record set.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::fetch::Fetcher;
use crate::rest::{Rest, no_zone, relative, seconds, token, zones_of};
use crate::service::Service;

const LOGIN: &str = "https://login.microsoftonline.com";
const SCOPE: &str = "https://management.azure.com/.default";
const VERSION: &str = "api-version=2018-05-01";

pub(crate) fn set(
    service: &Service,
    fetcher: &Fetcher,
    name: &str,
    text: &str,
    ttl: Duration,
) -> Result<String, String> {
    let api = open(service, fetcher)?;
    for zone in zones_of(name) {
        let path = format!("{}?{VERSION}", place(service, zone));
        if api.ask(Method::GET, &path, None)?.value().is_null() {
            continue;
        }
        let mut texts = values(&api, service, name, zone)?;
        texts.push(text.to_owned());
        put(&api, service, name, zone, &texts, seconds(ttl, 1))?;
        return Ok(zone.to_owned());
    }
    Err(no_zone("Azure", name))
}

pub(crate) fn clear(
    service: &Service,
    fetcher: &Fetcher,
    name: &str,
    text: &str,
    zone: &str,
) -> Result<(), String> {
    let api = open(service, fetcher)?;
    let mut texts = values(&api, service, name, zone)?;
    texts.retain(|found| found != text);
    if texts.is_empty() {
        let path = record(service, name, zone);
        return api.ask(Method::DELETE, &path, None).map(drop);
    }
    put(&api, service, name, zone, &texts, 60)
}

fn place(service: &Service, zone: &str) -> String {
    format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Network/dnsZones/{zone}",
        service.value("subscription_id"),
        service.value("resource_group_name")
    )
}

fn record(service: &Service, name: &str, zone: &str) -> String {
    let name = match relative(name, zone) {
        "" => "@",
        name => name,
    };
    format!("{}/TXT/{name}?{VERSION}", place(service, zone))
}

/// The TXT values of a name; each record is a list of strings.
fn values(
    api: &Rest<'_>,
    service: &Service,
    name: &str,
    zone: &str,
) -> Result<Vec<String>, String> {
    let found = api
        .ask(Method::GET, &record(service, name, zone), None)?
        .value();
    let records = found["properties"]["TXTRecords"].as_array().cloned();
    let whole = |record: &Value| {
        let pieces = record["value"].as_array().into_iter().flatten();
        pieces.filter_map(Value::as_str).collect::<String>()
    };
    Ok(records.unwrap_or_default().iter().map(whole).collect())
}

fn put(
    api: &Rest<'_>,
    service: &Service,
    name: &str,
    zone: &str,
    texts: &[String],
    ttl: u64,
) -> Result<(), String> {
    let records: Vec<Value> = texts.iter().map(|text| json!({"value": [text]})).collect();
    let set = json!({"properties": {"TTL": ttl, "TXTRecords": records}});
    api.demand(Method::PUT, &record(service, name, zone), Some(&set))
        .map(drop)
}

fn open<'a>(service: &'a Service, fetcher: &'a Fetcher) -> Result<Rest<'a>, String> {
    // Tests use one server for both.
    let login = match service.base().starts_with("https://") {
        true => LOGIN,
        false => service.base(),
    };
    let url = format!("{login}/{}/oauth2/v2.0/token", service.value("tenant_id"));
    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", service.value("client_id")),
        ("client_secret", service.value("client_secret")),
        ("scope", SCOPE),
    ];
    let token = token(fetcher, "Azure", &url, &form)?;
    Ok(Rest {
        fetcher,
        service: "Azure",
        base: service.base(),
        fields: vec![("Authorization", format!("Bearer {token}"))],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::fetch::FetchOptions;

    #[test]
    fn a_token_is_taken_and_other_texts_stay() {
        let fake = Fake::start(|asked| {
            let is_known = asked
                .fields
                .to_ascii_lowercase()
                .contains("authorization: bearer t0k");
            let (status, text) = match asked.line.as_str() {
                "POST /t/oauth2/v2.0/token" => (200, r#"{"access_token":"t0k"}"#),
                _ if !is_known => (401, "{}"),
                line if line.contains("/dnsZones/a.example.test?") => (404, "{}"),
                line if line.starts_with("GET") && line.contains("/TXT/") => (
                    200,
                    r#"{"properties":{"TXTRecords":[{"value":["oth","er"]}]}}"#,
                ),
                _ => (200, r#"{"id":"x"}"#),
            };
            (status, text.to_owned())
        });
        let values = [
            ("tenant_id", "t"),
            ("client_id", "c"),
            ("client_secret", "s&s"),
            ("subscription_id", "sub"),
            ("resource_group_name", "rg"),
        ];
        let values = values.map(|(k, v)| (k.to_owned(), v.to_owned()));
        let service = Service::parse("azure", values.into())
            .unwrap()
            .at(&fake.base);
        let fetcher = Fetcher::new(&FetchOptions::default());
        let name = "_acme-challenge.a.example.test";
        let zone = set(&service, &fetcher, name, "text", Duration::ZERO).unwrap();
        clear(&service, &fetcher, name, "text", &zone).unwrap();
        let lines = fake.lines();
        assert!(lines[0].contains("client_secret=s%26s"), "{lines:?}");
        let put = lines.iter().find(|line| line.starts_with("PUT")).unwrap();
        assert!(
            put.contains("/dnsZones/example.test/TXT/_acme-challenge.a?api-version="),
            "{put}"
        );
        assert!(
            put.contains(r#"[{"value":["other"]},{"value":["text"]}]"#),
            "{put}"
        );
        assert!(
            lines
                .last()
                .unwrap()
                .contains(r#""TXTRecords":[{"value":["other"]}]"#),
            "{lines:?}"
        );
    }
}
