//! Services with a token and a JSON API: DigitalOcean, Hetzner, deSEC, Gandi, Porkbun. Each needs a few requests, as
//! its documentation describes; if a record has no ID, its handle is the zone.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::fetch::Fetcher;
use crate::rest::{Found, Rest, no_zone, quoted, relative, seconds, texts, zones_of};
use crate::service::Service;

/// Adds a TXT record at `name`; returns the handle for [`clear`].
pub(crate) fn set(
    service: &Service,
    fetcher: &Fetcher,
    name: &str,
    text: &str,
    ttl: Duration,
) -> Result<String, String> {
    match service.name() {
        "digitalocean" => digitalocean(service, fetcher).set(name, text, ttl),
        "hetzner" => hetzner(service, fetcher).set(name, text, ttl),
        "desec" => desec(service, fetcher).set(name, text, ttl),
        "gandi" => gandi(service, fetcher).set(name, text, ttl),
        _ => porkbun(service, fetcher).set(name, text, ttl),
    }
}

/// Removes it.
pub(crate) fn clear(
    service: &Service,
    fetcher: &Fetcher,
    name: &str,
    text: &str,
    handle: &str,
) -> Result<(), String> {
    match service.name() {
        "digitalocean" => digitalocean(service, fetcher).clear(handle),
        "hetzner" => hetzner(service, fetcher).clear(name, text, handle),
        "desec" => desec(service, fetcher).clear(name, text, handle),
        "gandi" => gandi(service, fetcher).clear(name, text, handle),
        _ => porkbun(service, fetcher).clear(handle),
    }
}

fn rest<'a>(
    service: &'a Service,
    fetcher: &'a Fetcher,
    label: &'static str,
    fields: Vec<(&'static str, String)>,
) -> Rest<'a> {
    Rest {
        fetcher,
        service: label,
        base: service.base(),
        fields,
    }
}

fn bearer(token: &str) -> Vec<(&'static str, String)> {
    vec![("Authorization", format!("Bearer {token}"))]
}

/// DigitalOcean's API version 2: records have numeric IDs.
struct DigitalOcean<'a>(Rest<'a>);

fn digitalocean<'a>(service: &'a Service, fetcher: &'a Fetcher) -> DigitalOcean<'a> {
    let fields = bearer(service.value("auth_token"));
    DigitalOcean(rest(service, fetcher, "DigitalOcean", fields))
}

impl DigitalOcean<'_> {
    fn set(&self, name: &str, text: &str, ttl: Duration) -> Result<String, String> {
        for zone in zones_of(name) {
            let found = self.0.ask(Method::GET, &format!("/domains/{zone}"), None)?;
            if matches!(found, Found::Nothing) {
                continue;
            }
            let record = json!({"type": "TXT", "name": relative(name, zone), "data": text,
                "ttl": seconds(ttl, 30)});
            let records = format!("/domains/{zone}/records");
            let made = self.0.demand(Method::POST, &records, Some(&record))?;
            let id = made["domain_record"]["id"].as_u64();
            let id = id.ok_or("DigitalOcean sent no ID for the record")?;
            return Ok(format!("{records}/{id}"));
        }
        Err(no_zone("DigitalOcean", name))
    }

    fn clear(&self, path: &str) -> Result<(), String> {
        self.0.ask(Method::DELETE, path, None).map(drop)
    }
}

/// Hetzner's Cloud API, which adds and removes single TXT values of a name.
struct Hetzner<'a>(Rest<'a>);

fn hetzner<'a>(service: &'a Service, fetcher: &'a Fetcher) -> Hetzner<'a> {
    let fields = bearer(service.value("api_token"));
    Hetzner(rest(service, fetcher, "Hetzner", fields))
}

impl Hetzner<'_> {
    fn set(&self, name: &str, text: &str, ttl: Duration) -> Result<String, String> {
        for zone in zones_of(name) {
            let found = self.0.ask(Method::GET, &format!("/zones/{zone}"), None)?;
            if matches!(found, Found::Nothing) {
                continue;
            }
            let records = json!({"records": [{"value": quoted(text)}], "ttl": seconds(ttl, 60)});
            let path = actions(zone, name, "add_records");
            self.0.demand(Method::POST, &path, Some(&records))?;
            return Ok(zone.to_owned());
        }
        Err(no_zone("Hetzner", name))
    }

    fn clear(&self, name: &str, text: &str, zone: &str) -> Result<(), String> {
        let records = json!({"records": [{"value": quoted(text)}]});
        let path = actions(zone, name, "remove_records");
        self.0.ask(Method::POST, &path, Some(&records)).map(drop)
    }
}

fn actions(zone: &str, name: &str, action: &str) -> String {
    let name = match relative(name, zone) {
        "" => "@",
        name => name,
    };
    format!("/zones/{zone}/rrsets/{name}/TXT/actions/{action}")
}

/// deSEC's API: the TXT values of a name form one record set.
struct Desec<'a>(Rest<'a>);

fn desec<'a>(service: &'a Service, fetcher: &'a Fetcher) -> Desec<'a> {
    let token = format!("Token {}", service.value("token"));
    Desec(rest(
        service,
        fetcher,
        "deSEC",
        vec![("Authorization", token)],
    ))
}

impl Desec<'_> {
    fn set(&self, name: &str, text: &str, ttl: Duration) -> Result<String, String> {
        let owner = self
            .0
            .ask(Method::GET, &format!("/domains/?owns_qname={name}"), None)?;
        let owner = owner.value();
        let zone = owner[0]["name"]
            .as_str()
            .ok_or_else(|| no_zone("deSEC", name))?;
        let min = owner[0]["minimum_ttl"].as_u64().unwrap_or(3600);
        let mut values = self.values(name, zone)?;
        values.push(quoted(text));
        self.put(name, zone, &values, seconds(ttl, min))?;
        Ok(format!("{zone} {}", seconds(ttl, min)))
    }

    fn clear(&self, name: &str, text: &str, handle: &str) -> Result<(), String> {
        let (zone, ttl) = handle.split_once(' ').unwrap_or((handle, "3600"));
        let mut values = self.values(name, zone)?;
        values.retain(|value| *value != quoted(text));
        self.put(name, zone, &values, ttl.parse().unwrap_or(3600))
    }

    fn values(&self, name: &str, zone: &str) -> Result<Vec<String>, String> {
        let subname = match relative(name, zone) {
            "" => "@",
            subname => subname,
        };
        let path = format!("/domains/{zone}/rrsets/{subname}/TXT/");
        let found = self.0.ask(Method::GET, &path, None)?.value();
        Ok(texts(&found["records"]))
    }

    /// Replaces the record set; without values it is deleted.
    fn put(&self, name: &str, zone: &str, values: &[String], ttl: u64) -> Result<(), String> {
        let sets = json!([{"subname": relative(name, zone), "type": "TXT", "ttl": ttl,
            "records": values}]);
        let path = format!("/domains/{zone}/rrsets/");
        self.0.demand(Method::PATCH, &path, Some(&sets)).map(drop)
    }
}

/// Gandi's LiveDNS: the TXT values of a name form one record set.
struct Gandi<'a>(Rest<'a>);

fn gandi<'a>(service: &'a Service, fetcher: &'a Fetcher) -> Gandi<'a> {
    let fields = bearer(service.value("bearer_token"));
    Gandi(rest(service, fetcher, "Gandi", fields))
}

impl Gandi<'_> {
    fn set(&self, name: &str, text: &str, ttl: Duration) -> Result<String, String> {
        for zone in zones_of(name) {
            let found = self.0.ask(Method::GET, &format!("/domains/{zone}"), None)?;
            if matches!(found, Found::Nothing) {
                continue;
            }
            let mut values = self.values(name, zone)?;
            values.push(quoted(text));
            self.put(name, zone, &values, seconds(ttl, 300))?;
            return Ok(zone.to_owned());
        }
        Err(no_zone("Gandi", name))
    }

    fn clear(&self, name: &str, text: &str, zone: &str) -> Result<(), String> {
        let mut values = self.values(name, zone)?;
        values.retain(|value| *value != quoted(text));
        if values.is_empty() {
            let path = self.path(name, zone);
            return self.0.ask(Method::DELETE, &path, None).map(drop);
        }
        self.put(name, zone, &values, 300)
    }

    fn path(&self, name: &str, zone: &str) -> String {
        let name = match relative(name, zone) {
            "" => "@",
            name => name,
        };
        format!("/domains/{zone}/records/{name}/TXT")
    }

    fn values(&self, name: &str, zone: &str) -> Result<Vec<String>, String> {
        let found = self
            .0
            .ask(Method::GET, &self.path(name, zone), None)?
            .value();
        Ok(texts(&found["rrset_values"]))
    }

    fn put(&self, name: &str, zone: &str, values: &[String], ttl: u64) -> Result<(), String> {
        let set = json!({"rrset_values": values, "rrset_ttl": ttl});
        let path = self.path(name, zone);
        self.0.demand(Method::PUT, &path, Some(&set)).map(drop)
    }
}

/// Porkbun's API: every request contains the keys, and errors are reported in the body.
struct Porkbun<'a> {
    rest: Rest<'a>,
    keys: Value,
}

fn porkbun<'a>(service: &'a Service, fetcher: &'a Fetcher) -> Porkbun<'a> {
    let keys = json!({"apikey": service.value("api_key"),
        "secretapikey": service.value("api_secret_key")});
    Porkbun {
        rest: rest(service, fetcher, "Porkbun", Vec::new()),
        keys,
    }
}

impl Porkbun<'_> {
    fn set(&self, name: &str, text: &str, ttl: Duration) -> Result<String, String> {
        for zone in zones_of(name) {
            // The API rejects a foreign domain like a wrong key; the last error tells them apart.
            let (_, found) = self.ask(&format!("/dns/retrieve/{zone}"), &self.keys)?;
            if found["status"] != "SUCCESS" {
                continue;
            }
            let mut record = self.keys.clone();
            record["name"] = relative(name, zone).into();
            record["type"] = "TXT".into();
            record["content"] = text.into();
            record["ttl"] = seconds(ttl, 600).to_string().into();
            let (status, made) = self.ask(&format!("/dns/create/{zone}"), &record)?;
            let id = match &made["id"] {
                Value::String(id) => id.clone(),
                Value::Number(id) => id.to_string(),
                _ => return Err(self.rest.refused(status, &made)),
            };
            return Ok(format!("/dns/delete/{zone}/{id}"));
        }
        Err(no_zone("Porkbun", name))
    }

    fn clear(&self, path: &str) -> Result<(), String> {
        let (status, respond) = self.ask(path, &self.keys)?;
        match respond["status"] == "SUCCESS" {
            true => Ok(()),
            false => Err(self.rest.refused(status, &respond)),
        }
    }

    fn ask(&self, path: &str, body: &Value) -> Result<(u16, Value), String> {
        let body = body.to_string().into_bytes();
        self.rest.send(Method::POST, path, &[], Some(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Asked, Fake};
    use crate::fetch::FetchOptions;

    const NAME: &str = "_acme-challenge.a.example.test";

    /// Sets and clears a record at a service with these responses; returns the requests.
    fn run(
        name: &str,
        values: &[(&str, &str)],
        respond: impl Fn(&Asked) -> (u16, &'static str) + Send + 'static,
    ) -> Vec<String> {
        let fake = Fake::start(move |asked| {
            let (status, text) = respond(asked);
            (status, text.to_owned())
        });
        let values = values
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let service = Service::parse(name, values.collect())
            .unwrap()
            .at(&fake.base);
        let fetcher = Fetcher::new(&FetchOptions::default());
        let handle = set(&service, &fetcher, NAME, "text", Duration::ZERO).unwrap();
        clear(&service, &fetcher, NAME, "text", &handle).unwrap();
        fake.lines()
    }

    fn is_right(asked: &Asked, field: &str) -> bool {
        asked.fields.to_ascii_lowercase().contains(field)
    }

    #[test]
    fn digitalocean_numbers_its_records() {
        let lines = run(
            "digitalocean",
            &[("auth_token", "t0k")],
            |asked| match asked.line.as_str() {
                _ if !is_right(asked, "authorization: bearer t0k") => (401, "{}"),
                "GET /domains/a.example.test" => (404, r#"{"id":"not_found"}"#),
                "POST /domains/example.test/records" => (201, r#"{"domain_record":{"id":7}}"#),
                "DELETE /domains/example.test/records/7" => (204, ""),
                _ => (200, "{}"),
            },
        );
        assert!(
            lines[2].contains(r#""data":"text","name":"_acme-challenge.a","ttl":30"#),
            "{lines:?}"
        );
        assert_eq!(lines[3], "DELETE /domains/example.test/records/7");
    }

    #[test]
    fn hetzner_adds_and_takes_away() {
        let lines = run("hetzner", &[("api_token", "t0k")], |asked| {
            match asked.line.as_str() {
                _ if !is_right(asked, "authorization: bearer t0k") => (401, "{}"),
                "GET /zones/a.example.test" => (404, "{}"),
                _ => (201, "{}"),
            }
        });
        let at = "POST /zones/example.test/rrsets/_acme-challenge.a/TXT/actions";
        assert!(
            lines[2].starts_with(&format!("{at}/add_records {{")),
            "{lines:?}"
        );
        assert!(lines[2].contains(r#""value":"\"text\"""#), "{lines:?}");
        assert!(
            lines[3].starts_with(&format!("{at}/remove_records {{")),
            "{lines:?}"
        );
    }

    #[test]
    fn desec_keeps_the_other_texts_of_a_name() {
        let lines = run("desec", &[("token", "t0k")], |asked| {
            match asked.line.as_str() {
                _ if !is_right(asked, "authorization: token t0k") => (401, "{}"),
                "GET /domains/?owns_qname=_acme-challenge.a.example.test" => {
                    (200, r#"[{"name":"example.test","minimum_ttl":900}]"#)
                }
                "GET /domains/example.test/rrsets/_acme-challenge.a/TXT/" => {
                    (200, r#"{"records":["\"other\"","\"text\""]}"#)
                }
                _ => (200, "[]"),
            }
        });
        assert!(
            lines[2].starts_with("PATCH /domains/example.test/rrsets/ ["),
            "{lines:?}"
        );
        assert!(lines[2].contains(r#""\"other\"","\"text\"","#), "{lines:?}");
        assert!(lines[2].contains(r#""ttl":900"#), "{lines:?}");
        assert!(lines[4].contains(r#""records":["\"other\""]"#), "{lines:?}");
    }

    #[test]
    fn gandi_removes_a_set_that_is_empty() {
        let lines = run("gandi", &[("bearer_token", "t0k")], |asked| {
            match asked.line.as_str() {
                _ if !is_right(asked, "authorization: bearer t0k") => (401, "{}"),
                "GET /domains/a.example.test" => (404, "{}"),
                "GET /domains/example.test/records/_acme-challenge.a/TXT" => {
                    (200, r#"{"rrset_values":["\"text\""]}"#)
                }
                _ => (201, "{}"),
            }
        });
        assert!(lines[3].starts_with("PUT /domains/example.test/records/_acme-challenge.a/TXT {"));
        assert_eq!(
            lines[5],
            "DELETE /domains/example.test/records/_acme-challenge.a/TXT"
        );
    }

    #[test]
    fn porkbun_reports_its_result_in_the_body() {
        let keys = [("api_key", "k"), ("api_secret_key", "s")];
        let lines = run("porkbun", &keys, |asked| match asked.line.as_str() {
            _ if !asked.body.contains(r#""apikey":"k""#) => (403, r#"{"status":"ERROR"}"#),
            "POST /dns/retrieve/a.example.test" => (400, r#"{"status":"ERROR","message":"x"}"#),
            "POST /dns/create/example.test" => (200, r#"{"status":"SUCCESS","id":9}"#),
            _ => (200, r#"{"status":"SUCCESS"}"#),
        });
        assert!(
            lines[2].contains(r#""name":"_acme-challenge.a""#),
            "{lines:?}"
        );
        assert!(
            lines[3].starts_with("POST /dns/delete/example.test/9 "),
            "{lines:?}"
        );
    }

    #[test]
    fn refusals_and_missing_zones_are_reported() {
        let names = ["digitalocean", "hetzner", "desec", "gandi", "porkbun"];
        let values = [
            "auth_token",
            "api_token",
            "token",
            "bearer_token",
            "api_key",
            "api_secret_key",
        ];
        let set_at = |name: &str, status: u16, text: &'static str| {
            let fake = Fake::start(move |_| (status, text.to_owned()));
            let known = Service::settings_of(name).unwrap();
            let values = values.iter().filter(|value| known.contains(value));
            let values = values.map(|value| ((*value).to_owned(), "x".to_owned()));
            let service = Service::parse(name, values.collect())
                .unwrap()
                .at(&fake.base);
            let fetcher = Fetcher::new(&FetchOptions::default());
            set(&service, &fetcher, NAME, "text", Duration::ZERO).unwrap_err()
        };
        for name in names {
            let error = set_at(name, 404, "{}");
            assert!(error.contains("no zone"), "{name}: {error}");
        }
        for name in &names[..4] {
            let error = set_at(name, 403, r#"{"message":"who are you"}"#);
            assert!(error.contains("status 403: who are you"), "{name}: {error}");
        }
    }
}
