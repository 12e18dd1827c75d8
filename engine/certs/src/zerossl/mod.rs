//! Certificates from ZeroSSL's own API (zerossl.com/documentation/api), which is neither ACME nor free: a certificate
//! is requested with the access key of an account, validated by a file or a CNAME record, and downloaded. Each order
//! blocks the thread of its caller; `maintain` decides when to order, `api` makes single requests.

mod api;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pki_types::CertificateDer;
use serde_json::{Value, json};
use sluice_dns::fetch::{FetchOptions, Fetcher};
use sluice_dns::{DnsOptions, DnsRecord};

use crate::acme::{csr, run};
use crate::challenges::{Challenges, FILE_PREFIX, Shown};
use crate::failure::{CertsError, Fault};
use crate::gate::{Gate, GateKind};
use crate::issuer::{Issued, Issuer, Request};
use crate::limits::{RENEWAL_SHARE, ZEROSSL_PAUSE_MAX, ZEROSSL_PAUSE_MIN};
use crate::subject::Subject;
use api::Api;

/// The base URL of the API.
pub const ZEROSSL_API: &str = "https://api.zerossl.com";

/// The issuer name under which its certificates are stored, as in Caddy.
const ID: &str = "zerossl";

/// Options for ZeroSSL's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZeroSslOptions {
    /// The base URL of the API, without a trailing slash.
    pub api_url: String,
    /// The access key of the account.
    pub api_key: String,
    /// The requested certificate lifetime; ZeroSSL's default if `None`. They accept 90 days and, for some accounts,
    /// 365.
    pub validity_days: Option<u32>,
    /// The port for file validation.
    pub http_port: u16,
    /// The address to listen on for file validation if no server of ours does; all addresses if empty.
    pub listen_host: String,
    /// Options for CNAME validation; `None` for file validation.
    pub cname: Option<DnsOptions>,
    /// Timeout of one order.
    pub timeout: Duration,
}

/// An issuer that uses ZeroSSL's API.
pub struct ZeroSslIssuer {
    options: ZeroSslOptions,
    challenges: Arc<Challenges>,
    fetcher: Fetcher,
}

/// A validation response, active while this is held.
enum Proof<'a> {
    File { _shown: Shown, _gate: Option<Gate> },
    Cname { _record: DnsRecord<'a> },
}

impl ZeroSslIssuer {
    /// Creates an issuer; our servers respond to `challenges`.
    pub fn new(options: ZeroSslOptions, challenges: Arc<Challenges>) -> ZeroSslIssuer {
        ZeroSslIssuer {
            options,
            challenges,
            fetcher: Fetcher::new(&FetchOptions {
                // A redirect would leak the access key.
                redirects: 0,
                ..FetchOptions::default()
            }),
        }
    }

    fn api(&self) -> Api<'_> {
        Api {
            fetcher: &self.fetcher,
            base: &self.options.api_url,
            key: &self.options.api_key,
        }
    }

    fn check(&self, subject: &Subject) -> Result<(), CertsError> {
        let what = match (&self.options.cname, subject.ip()) {
            (None, _) if subject.is_wildcard() => {
                "a wildcard needs the DNS check: `issuer zerossl <api_key> { dns … }`"
            }
            (Some(_), Some(_)) => "an address cannot be proved by DNS: leave `dns` out for it",
            _ => return Ok(()),
        };
        Err(CertsError::Setting {
            name: "issuer zerossl",
            what: format!("`{subject}`: {what}"),
        })
    }

    /// Creates an order.
    fn create(&self, request: &Request<'_>) -> Result<Value, CertsError> {
        // As in Caddy: ZeroSSL requires a common name, although clients ignore it.
        let made =
            csr(request, true).map_err(|error| CertsError::Signing(format!("a CSR: {error}")))?;
        let mut wish = json!({
            "certificate_domains": request.subject.to_string(),
            "certificate_csr": pem(&made),
            // Otherwise ZeroSSL adds the `www.` variant of names.
            "strict_domains": 1,
        });
        if let Some(days) = self.options.validity_days {
            wish["certificate_validity_days"] = days.into();
        }
        self.api().post("/certificates", Some(&wish))
    }

    /// Validates an order and downloads the certificate.
    fn complete(&self, subject: &Subject, id: &str, order: &Value) -> Result<Issued, CertsError> {
        let begun = Instant::now();
        let proof = self.prove(subject, order)?;
        let method = match proof {
            Proof::File { .. } => "HTTP_CSR_HASH",
            Proof::Cname { .. } => "CNAME_CSR_HASH",
        };
        let path = format!("/certificates/{id}");
        let wish = json!({"validation_method": method});
        let mut about = self
            .api()
            .post(&format!("{path}/challenges"), Some(&wish))?;
        let mut pause = ZEROSSL_PAUSE_MIN;
        loop {
            match about["status"].as_str().unwrap_or_default() {
                "issued" => break,
                "pending_validation" if begun.elapsed() < self.options.timeout => {}
                "pending_validation" => {
                    let seconds = self.options.timeout.as_secs();
                    let what = format!("the certificate is not issued after {seconds} s");
                    return Err(failed(Fault::Refused, what));
                }
                other => {
                    let what = format!("the certificate is `{other}` instead of issued");
                    return Err(failed(Fault::Refused, what));
                }
            }
            std::thread::sleep(pause);
            pause = pause.mul_f32(1.5).min(ZEROSSL_PAUSE_MAX);
            about = self.api().read(&path)?;
        }
        drop(proof);
        let bundle = self.api().read(&format!("{path}/download/return"))?;
        Ok(Issued {
            chain: chain(&bundle)?,
            about,
        })
    }

    /// Provides the validation response that the order requires.
    fn prove(&self, subject: &Subject, order: &Value) -> Result<Proof<'_>, CertsError> {
        let methods = order["validation"]["other_methods"].as_object();
        let name = subject.to_string();
        // An order has a single name; its spelling in the response does not matter.
        let method = methods.and_then(|all| all.get(&name).or_else(|| all.values().next()));
        let method = method.ok_or_else(|| odd("no way to prove the name"))?;
        if let Some(dns) = &self.options.cname {
            let record = method["cname_validation_p1"].as_str().unwrap_or_default();
            let target = method["cname_validation_p2"].as_str().unwrap_or_default();
            let (record, target) = (record.trim_end_matches('.'), target.trim_end_matches('.'));
            if !is_below(record, &name) || target.is_empty() {
                return Err(odd("a record that does not belong to the name"));
            }
            let shown = run(dns.show_alias(&self.fetcher, record, target))??;
            return Ok(Proof::Cname { _record: shown });
        }
        let url = method["file_validation_url_http"]
            .as_str()
            .unwrap_or_default();
        let file = url.split_once("://").and_then(|(_, rest)| {
            let path = rest.find('/').map(|at| &rest[at..])?;
            path.strip_prefix(FILE_PREFIX)
        });
        let file = file.ok_or_else(|| odd("a file in an unusual place"))?;
        let lines = method["file_validation_content"].as_array();
        let lines: Vec<&str> = lines
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if lines.is_empty() {
            return Err(odd("a file without content"));
        }
        let shown = self.challenges.show_file(file, &lines.join("\n"))?;
        let (host, port) = (&self.options.listen_host, self.options.http_port);
        let gate = Gate::open(GateKind::Http, host, port, &self.challenges);
        Ok(Proof::File {
            _shown: shown,
            _gate: gate,
        })
    }
}

impl Issuer for ZeroSslIssuer {
    fn id(&self) -> &str {
        ID
    }

    fn issue(&self, request: &Request<'_>, _now: SystemTime) -> Result<Issued, CertsError> {
        self.check(request.subject)?;
        let order = self.create(request)?;
        let id = order["id"].as_str().unwrap_or_default();
        // It becomes part of URL paths.
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(odd("an order without an id"));
        }
        let done = self.complete(request.subject, id, &order);
        if done.is_err() {
            // Pending orders count against the account. If one cannot be cancelled, it has ended or will expire.
            let _ = self.api().post(&format!("/certificates/{id}/cancel"), None);
        }
        done
    }

    fn accepts(&self, _chain: &[CertificateDer<'_>]) -> bool {
        true
    }

    fn renewal_share(&self) -> f64 {
        RENEWAL_SHARE
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// Whether `record` is below `name`, or below a wildcard's parent domain: no other part of the zone must be changed.
fn is_below(record: &str, name: &str) -> bool {
    let bare = name.strip_prefix("*.").unwrap_or(name).to_ascii_lowercase();
    let record = record.to_ascii_lowercase();
    let label = record.strip_suffix(&bare).and_then(|l| l.strip_suffix('.'));
    label.is_some_and(|label| !label.is_empty())
}

/// The leaf, followed by the intermediates.
fn chain(bundle: &Value) -> Result<Vec<u8>, CertsError> {
    let mut chain = String::new();
    for part in ["certificate.crt", "ca_bundle.crt"] {
        let text = bundle[part].as_str().unwrap_or_default().trim();
        if !text.is_empty() {
            chain.push_str(text);
            chain.push('\n');
        }
    }
    if !chain.starts_with("-----BEGIN CERTIFICATE-----") {
        return Err(odd("no certificate"));
    }
    Ok(chain.into_bytes())
}

/// RFC 7468, section 7.
fn pem(der: &[u8]) -> String {
    let mut text = "-----BEGIN CERTIFICATE REQUEST-----\n".to_owned();
    for (at, c) in STANDARD.encode(der).char_indices() {
        if at > 0 && at % 64 == 0 {
            text.push('\n');
        }
        text.push(c);
    }
    text + "\n-----END CERTIFICATE REQUEST-----\n"
}

/// The error for an unexpected response of ZeroSSL.
fn odd(what: &str) -> CertsError {
    failed(Fault::Refused, format!("it gives {what}"))
}

fn failed(fault: Fault, what: String) -> CertsError {
    CertsError::Authority {
        issuer: ID.to_owned(),
        fault,
        what,
        retry_at: None,
    }
}
