//! DNS records at Google Cloud DNS, API version 1: a service account obtains a token with a signed request (RFC 7523),
//! and the TXT values of a name form one record set, which is replaced as a whole.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pki_types::PrivatePkcs8KeyDer;
use pki_types::pem::PemObject;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::fetch::{Fetcher, escaped};
use crate::limits::ACCOUNT_BYTES_MAX;
use crate::rest::{Rest, no_zone, quoted, seconds, texts, token, zones_of};
use crate::service::Service;

const SCOPE: &str = "https://www.googleapis.com/auth/ndev.clouddns.readwrite";
const TOKENS: &str = "https://oauth2.googleapis.com/token";

/// Checks whether the service account file can be used.
pub(crate) fn check(service: &Service) -> Result<(), String> {
    account(service).map(drop)
}

pub(crate) fn set(
    service: &Service,
    fetcher: &Fetcher,
    name: &str,
    text: &str,
    ttl: Duration,
) -> Result<String, String> {
    let api = open(service, fetcher)?;
    let zones = format!("/projects/{}/managedZones", service.value("gcp_project"));
    for zone in zones_of(name) {
        let asked = format!("{zones}?dnsName={}", escaped(&format!("{zone}.")));
        let found = api.demand(Method::GET, &asked, None)?;
        // Private zones may have the same names.
        let list = found["managedZones"].as_array().into_iter().flatten();
        let mut open_ones = list.filter(|zone| zone["visibility"] != "private");
        let Some(id) = open_ones.find_map(|zone| zone["name"].as_str()) else {
            continue;
        };
        let place = format!("{zones}/{id}");
        change(&api, &place, name, seconds(ttl, 60), |values| {
            values.push(quoted(text))
        })?;
        return Ok(place);
    }
    Err(no_zone("Google", name))
}

pub(crate) fn clear(
    service: &Service,
    fetcher: &Fetcher,
    name: &str,
    text: &str,
    place: &str,
) -> Result<(), String> {
    let api = open(service, fetcher)?;
    change(&api, place, name, 60, |values| {
        values.retain(|value| *value != quoted(text))
    })
}

/// Replaces the TXT values of `name` by the result of `edit`.
fn change(
    api: &Rest<'_>,
    place: &str,
    name: &str,
    ttl: u64,
    edit: impl FnOnce(&mut Vec<String>),
) -> Result<(), String> {
    let asked = format!(
        "{place}/rrsets?name={}&type=TXT",
        escaped(&format!("{name}."))
    );
    let found = api.demand(Method::GET, &asked, None)?;
    let before = &found["rrsets"][0];
    let mut values = texts(&before["rrdatas"]);
    edit(&mut values);
    let mut change = json!({});
    if before.is_object() {
        change["deletions"] = json!([before]);
    }
    if !values.is_empty() {
        change["additions"] = json!([{"name": format!("{name}."), "type": "TXT", "ttl": ttl,
            "rrdatas": values}]);
    }
    let path = format!("{place}/changes");
    api.demand(Method::POST, &path, Some(&change)).map(drop)
}

fn account(service: &Service) -> Result<Value, String> {
    let path = Path::new(service.value("gcp_application_default"));
    let text = read(path)?;
    let account: Value = serde_json::from_slice(&text)
        .map_err(|error| format!("`{}` is not JSON: {error}", path.display()))?;
    for member in ["client_email", "private_key"] {
        if !account[member].is_string() {
            let path = path.display();
            return Err(format!(
                "`{path}` is not a service account key: it has no `{member}`"
            ));
        }
    }
    Ok(account)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => format!("there is no file `{}`", path.display()),
        _ => format!("cannot read `{}`: {error}", path.display()),
    };
    let mut text = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    let read = file.take(ACCOUNT_BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(unreadable)?;
    match text.len() as u64 > ACCOUNT_BYTES_MAX {
        true => Err(format!(
            "`{}` is too large for a certificate or key",
            path.display()
        )),
        false => Ok(text),
    }
}

fn open<'a>(service: &'a Service, fetcher: &'a Fetcher) -> Result<Rest<'a>, String> {
    let account = account(service)?;
    // Tests use one server for both.
    let tokens = match service.base().starts_with("https://") {
        true => TOKENS.to_owned(),
        false => format!("{}/token", service.base()),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    let claims = json!({"iss": account["client_email"], "scope": SCOPE, "aud": tokens,
        "iat": now, "exp": now + 600});
    let assertion = signed(account["private_key"].as_str().unwrap_or_default(), &claims)?;
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("assertion", assertion.as_str()),
    ];
    let token = token(fetcher, "Google", &tokens, &form)?;
    Ok(Rest {
        fetcher,
        service: "Google",
        base: service.base(),
        fields: vec![("Authorization", format!("Bearer {token}"))],
    })
}

/// A JSON Web Token signed with RS256.
fn signed(pem: &str, claims: &Value) -> Result<String, String> {
    let unusable = "cannot use the private key of the service account";
    let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| unusable)?;
    let key = KeyPair::from_pkcs8(key.secret_pkcs8_der()).map_err(|_| unusable)?;
    let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","typ":"JWT"}"#);
    let text = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        text.as_bytes(),
        &mut signature,
    )
    .map_err(|_| unusable)?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    use std::path::PathBuf;

    use super::*;
    use crate::fake::Fake;
    use crate::fetch::FetchOptions;

    fn respond(asked: &crate::fake::Asked) -> (u16, String) {
        let is_known = asked
            .fields
            .to_ascii_lowercase()
            .contains("authorization: bearer t0k");
        let (status, text) = match asked.line.as_str() {
            "POST /token" => (200, r#"{"access_token":"t0k"}"#),
            _ if !is_known => (401, "{}"),
            "GET /projects/p/managedZones?dnsName=example.test." => (
                200,
                r#"{"managedZones":[{"name":"in","visibility":"private"},{"name":"z"}]}"#,
            ),
            line if line.contains("/rrsets?") => (
                200,
                r#"{"rrsets":[{"name":"n.","type":"TXT","ttl":60,"rrdatas":["\"other\""]}]}"#,
            ),
            _ => (200, "{}"),
        };
        (status, text.to_owned())
    }

    /// A file that is removed when this is dropped.
    struct TempFile(PathBuf);

    impl TempFile {
        fn new(name: &str, text: &str) -> TempFile {
            let name = format!("sluice-dns-{}-{name}.json", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).unwrap();
            TempFile(path)
        }
    }

    impl Drop for TempFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_service_account_signs_and_a_change_replaces_the_set() {
        let size = rcgen::RsaKeySize::_2048;
        let key = rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size).unwrap();
        let account = json!({"client_email": "a@b", "private_key": key.serialize_pem()});
        let file = TempFile::new("account", &account.to_string());
        let values = [
            ("gcp_project", "p"),
            ("gcp_application_default", file.0.to_str().unwrap()),
        ];
        let fake = Fake::start(respond);
        let values = values.map(|(k, v)| (k.to_owned(), v.to_owned()));
        let service = Service::parse("googleclouddns", values.into())
            .unwrap()
            .at(&fake.base);
        let fetcher = Fetcher::new(&FetchOptions::default());
        let name = "_acme-challenge.a.example.test";
        let place = set(&service, &fetcher, name, "text", Duration::ZERO).unwrap();
        assert_eq!(place, "/projects/p/managedZones/z");
        clear(&service, &fetcher, name, "text", &place).unwrap();
        let lines = fake.lines();
        let changes: Vec<_> = lines
            .iter()
            .filter(|line| line.contains("/changes"))
            .collect();
        assert!(
            changes[0].contains(r#""rrdatas":["\"other\"","\"text\""]"#),
            "{lines:?}"
        );
        assert!(changes[0].contains(r#""deletions":[{"#), "{lines:?}");
        assert!(changes[1].contains(r#""additions""#), "{lines:?}");
        let token = signed(&key.serialize_pem(), &json!({})).unwrap();
        let (text, signature) = token.rsplit_once('.').unwrap();
        let pair = KeyPair::from_pkcs8(&key.serialize_der()).unwrap();
        let public =
            UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        public.verify(text.as_bytes(), &signature).unwrap();
    }

    #[test]
    fn a_file_that_is_not_an_account_is_refused() {
        let file = TempFile::new("no-account", "{}");
        for (path, named) in [
            (file.0.to_str().unwrap(), "client_email"),
            ("/nowhere", "no file"),
        ] {
            let values = [("gcp_project", "p"), ("gcp_application_default", path)];
            let values = values.map(|(k, v)| (k.to_owned(), v.to_owned()));
            let error = Service::parse("googleclouddns", values.into()).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
