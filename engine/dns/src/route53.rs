//! DNS records at Amazon Route 53, API version 2013: requests are signed (Signature Version 4) and bodies are XML, of
//! which only a few elements are used. The TXT values of a name form one record set, which is replaced as a whole.

use std::time::{Duration, SystemTime};

use aws_lc_rs::{digest, hmac};
use time::OffsetDateTime;
use ureq::http::{Method, Request};

use crate::fetch::{Fetcher, escaped};
use crate::rest::{no_zone, quoted, seconds, zones_of};
use crate::service::Service;

const VERSION: &str = "/2013-04-01";
/// The region used for signatures: the service is global.
const REGION: &str = "us-east-1";

/// Checks that the region belongs to the global service.
pub(crate) fn check(service: &Service) -> Result<(), String> {
    let region = service.value("region");
    match region.starts_with("cn-") || region.starts_with("us-gov-") {
        true => Err(format!(
            "`route53` does not support the separate AWS partition of region `{region}`"
        )),
        false => Ok(()),
    }
}

pub(crate) fn set(
    service: &Service,
    fetcher: &Fetcher,
    name: &str,
    text: &str,
    ttl: Duration,
) -> Result<String, String> {
    let api = Api { service, fetcher };
    let zone = api.zone(name)?;
    let mut found = api.found(&zone, name)?;
    found.values.push(quoted(text));
    found.ttl = seconds(ttl, 60);
    api.change(&zone, name, "UPSERT", &found)?;
    Ok(zone)
}

pub(crate) fn clear(
    service: &Service,
    fetcher: &Fetcher,
    name: &str,
    text: &str,
    zone: &str,
) -> Result<(), String> {
    let api = Api { service, fetcher };
    let mut found = api.found(zone, name)?;
    let wanted = quoted(text);
    if found.values == [wanted.as_str()] {
        // A deletion must repeat the record set exactly.
        return api.change(zone, name, "DELETE", &found);
    }
    found.values.retain(|value| *value != wanted);
    match found.values.is_empty() {
        true => Ok(()),
        false => api.change(zone, name, "UPSERT", &found),
    }
}

struct Api<'a> {
    service: &'a Service,
    fetcher: &'a Fetcher,
}

/// The TXT values of a name, quoted as in the API.
struct Texts {
    values: Vec<String>,
    ttl: u64,
}

impl Api<'_> {
    /// The ID of the zone that contains `name`.
    fn zone(&self, name: &str) -> Result<String, String> {
        let set = self.service.value("hosted_zone_id");
        if !set.is_empty() {
            return Ok(set.trim_start_matches("/hostedzone/").to_owned());
        }
        for zone in zones_of(name) {
            let zone = format!("{zone}.");
            let query = format!("dnsname={}&maxitems=10", escaped(&zone));
            let path = format!("{VERSION}/hostedzonesbyname");
            let listed = self.ask(Method::GET, &path, &query, "")?;
            for one in elements(&listed, "HostedZone") {
                let is_it = element(one, "Name") == Some(&zone)
                    && element(one, "PrivateZone") != Some("true");
                if let Some(id) = element(one, "Id").filter(|_| is_it) {
                    return Ok(id.trim_start_matches("/hostedzone/").to_owned());
                }
            }
        }
        Err(no_zone("Route 53", name))
    }

    fn found(&self, zone: &str, name: &str) -> Result<Texts, String> {
        let name = format!("{name}.");
        let query = format!("maxitems=1&name={}&type=TXT", escaped(&name));
        let path = format!("{VERSION}/hostedzone/{zone}/rrset");
        let listed = self.ask(Method::GET, &path, &query, "")?;
        // The list begins at the name; if the name does not exist, with the next one.
        let of_name =
            |one: &&str| element(one, "Name") == Some(&name) && element(one, "Type") == Some("TXT");
        let set = elements(&listed, "ResourceRecordSet")
            .into_iter()
            .find(of_name);
        let set = set.unwrap_or_default();
        Ok(Texts {
            values: elements(set, "Value").into_iter().map(unescaped).collect(),
            ttl: element(set, "TTL")
                .and_then(|ttl| ttl.parse().ok())
                .unwrap_or(60),
        })
    }

    fn change(&self, zone: &str, name: &str, action: &str, texts: &Texts) -> Result<(), String> {
        let record = |value: &String| {
            let value = value.replace('&', "&amp;").replace('<', "&lt;");
            format!("<ResourceRecord><Value>{value}</Value></ResourceRecord>")
        };
        let records: String = texts.values.iter().map(record).collect();
        let body = format!(
            "<ChangeResourceRecordSetsRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\">\
             <ChangeBatch><Changes><Change><Action>{action}</Action><ResourceRecordSet><Name>{name}.</Name>\
             <Type>TXT</Type><TTL>{}</TTL><ResourceRecords>{records}</ResourceRecords></ResourceRecordSet>\
             </Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>",
            texts.ttl
        );
        let path = format!("{VERSION}/hostedzone/{zone}/rrset");
        self.ask(Method::POST, &path, "", &body).map(drop)
    }

    fn ask(&self, method: Method, path: &str, query: &str, body: &str) -> Result<String, String> {
        let base = self.service.base();
        let host = base.split_once("://").map_or(base, |(_, host)| host);
        let stamp = stamp(SystemTime::now());
        let mut fields = vec![("host", host), ("x-amz-date", stamp.as_str())];
        let session = self.service.value("session_token");
        if !session.is_empty() {
            fields.push(("x-amz-security-token", session));
        }
        let signed = Signed {
            method: method.as_str(),
            path,
            query,
            fields: &fields,
            body,
            region: REGION,
            service: "route53",
        };
        let authorization = signed.authorization(
            self.service.value("access_key_id"),
            self.service.value("secret_access_key"),
        );
        let mark = if query.is_empty() { "" } else { "?" };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{base}{path}{mark}{query}"))
            .header("Authorization", authorization)
            .header("Content-Type", "application/xml");
        for (name, value) in fields.iter().filter(|(name, _)| *name != "host") {
            request = request.header(*name, *value);
        }
        let request = request.body(body.as_bytes().to_vec());
        let response = self
            .fetcher
            .send(request.map_err(|error| error.to_string())?)?;
        let text = String::from_utf8_lossy(response.body()).into_owned();
        if response.status().is_success() {
            return Ok(text);
        }
        let said = element(&text, "Message").unwrap_or_default();
        Err(format!(
            "Route 53 refused with status {}: {said}",
            response.status().as_u16()
        ))
    }
}

/// The parts of a request that Signature Version 4 covers.
struct Signed<'a> {
    method: &'a str,
    path: &'a str,
    /// With sorted and escaped parameters.
    query: &'a str,
    /// Sorted, in lower case, including the date.
    fields: &'a [(&'a str, &'a str)],
    body: &'a str,
    region: &'a str,
    service: &'a str,
}

impl Signed<'_> {
    fn authorization(&self, id: &str, secret: &str) -> String {
        let stamp = self.fields.iter().find(|(name, _)| *name == "x-amz-date");
        let stamp = stamp.map_or("", |(_, value)| *value);
        let day = stamp.split('T').next().unwrap_or_default();
        let names: Vec<&str> = self.fields.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String = self
            .fields
            .iter()
            .map(|(k, v)| format!("{k}:{}\n", v.trim()))
            .collect();
        let request = [
            self.method,
            self.path,
            self.query,
            &lines,
            &names,
            &hash(self.body),
        ]
        .join("\n");
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let text = ["AWS4-HMAC-SHA256", stamp, &scope, &hash(&request)].join("\n");
        let key = signing_key(secret, day, self.region, self.service);
        let signature = hex(mac(&key, &text).as_ref());
        format!(
            "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
    }
}

fn signing_key(secret: &str, day: &str, region: &str, service: &str) -> Vec<u8> {
    let mut key = format!("AWS4{secret}").into_bytes();
    for part in [day, region, service, "aws4_request"] {
        key = mac(&key, part);
    }
    key
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hash(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A time as in signatures: `20150830T123600Z`.
fn stamp(at: SystemTime) -> String {
    let at = OffsetDateTime::from(at);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second) = at.to_hms();
    let month = u8::from(month);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// The contents of all elements with this name, which must not be nested.
fn elements<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (start, end) = (format!("<{name}>"), format!("</{name}>"));
    let parts = xml.split(start.as_str()).skip(1);
    parts
        .filter_map(|part| part.split_once(&end).map(|(inner, _)| inner))
        .collect()
}

fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    elements(xml, name).into_iter().next()
}

fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::fetch::FetchOptions;

    #[test]
    fn signatures_are_those_of_the_documentation() {
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        assert_eq!(
            hex(&signing_key(secret, "20150830", "us-east-1", "iam")),
            "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
        );
        let fields = [
            (
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8",
            ),
            ("host", "iam.amazonaws.com"),
            ("x-amz-date", "20150830T123600Z"),
        ];
        let signed = Signed {
            method: "GET",
            path: "/",
            query: "Action=ListUsers&Version=2010-05-08",
            fields: &fields,
            body: "",
            region: "us-east-1",
            service: "iam",
        };
        assert_eq!(
            signed.authorization("AKIDEXAMPLE", secret),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        assert_eq!(stamp(at), "20150830T123600Z");
    }

    #[test]
    fn a_set_is_replaced_and_the_other_texts_stay() {
        const NAME: &str = "_acme-challenge.a.example.test";
        let fake = Fake::start(|asked| {
            let (status, text) = match asked.line.as_str() {
                _ if !asked.fields.contains("AWS4-HMAC-SHA256 Credential=id/") => {
                    (403, "<Error><Message>who are you</Message></Error>")
                }
                line if line.contains("dnsname=example.test.&") => (
                    200,
                    "<HostedZones><HostedZone><Id>/hostedzone/Z0</Id><Name>example.test.</Name>\
                     <Config><PrivateZone>true</PrivateZone></Config></HostedZone>\
                     <HostedZone><Id>/hostedzone/Z1</Id><Name>example.test.</Name></HostedZone></HostedZones>",
                ),
                line if line.contains("/rrset?") => (
                    200,
                    "<ResourceRecordSets><ResourceRecordSet><Name>_acme-challenge.a.example.test.</Name>\
                     <Type>TXT</Type><TTL>77</TTL><ResourceRecords><ResourceRecord><Value>&quot;text&quot;</Value>\
                     </ResourceRecord></ResourceRecords></ResourceRecordSet></ResourceRecordSets>",
                ),
                _ => (200, "<x/>"),
            };
            (status, text.to_owned())
        });
        let values = |id: &str| -> std::collections::BTreeMap<String, String> {
            let values = [("access_key_id", id), ("secret_access_key", "s")];
            values.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
        };
        let service = Service::parse("route53", values("id"))
            .unwrap()
            .at(&fake.base);
        let fetcher = Fetcher::new(&FetchOptions::default());
        let zone = set(&service, &fetcher, NAME, "new", Duration::ZERO).unwrap();
        assert_eq!(zone, "Z1");
        clear(&service, &fetcher, NAME, "text", &zone).unwrap();
        let lines = fake.lines();
        let changes: Vec<_> = lines
            .iter()
            .filter(|line| line.starts_with("POST"))
            .collect();
        assert!(changes[0].contains("<Action>UPSERT</Action>"), "{lines:?}");
        assert!(changes[0].contains("<Value>\"text\"</Value>"), "{lines:?}");
        assert!(changes[0].contains("<Value>\"new\"</Value>"), "{lines:?}");
        assert!(changes[1].contains("<Action>DELETE</Action>"), "{lines:?}");
        assert!(changes[1].contains("<TTL>77</TTL>"), "{lines:?}");
        let mut china: std::collections::BTreeMap<_, _> = values("id");
        china.insert("region".to_owned(), "cn-north-1".to_owned());
        assert!(Service::parse("route53", china).is_err());
        let other = Service::parse("route53", values("other"))
            .unwrap()
            .at(&fake.base);
        let error = set(&other, &fetcher, NAME, "new", Duration::ZERO).unwrap_err();
        assert!(error.contains("status 403: who are you"), "{error}");
    }
}
