//! Single requests to ZeroSSL's API and their responses. `zerossl` decides which requests are made.

use std::time::SystemTime;

use serde_json::Value;
use sluice_dns::fetch::{Fetcher, escaped};
use ureq::http::{Method, Request};

use super::{failed, odd};
use crate::acme::retry_at;
use crate::failure::{CertsError, Fault};
use crate::limits::ZEROSSL_DETAILS_MAX;

/// The API with an access key.
pub(super) struct Api<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) base: &'a str,
    pub(super) key: &'a str,
}

impl Api<'_> {
    pub(super) fn read(&self, path: &str) -> Result<Value, CertsError> {
        self.ask(Method::GET, path, None)
    }

    pub(super) fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, CertsError> {
        self.ask(Method::POST, path, body)
    }

    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, CertsError> {
        let url = format!("{}{path}?access_key={}", self.base, escaped(self.key));
        let mut request = Request::builder().method(method).uri(url);
        if body.is_some() {
            request = request.header("Content-Type", "application/json");
        }
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = request.body(body).map_err(|_| odd("no usable address"))?;
        let response = self.fetcher.send(request);
        let response =
            response.map_err(|what| failed(Fault::Unreachable, self.without_key(&what)))?;
        let status = response.status();
        let read: Option<Value> = serde_json::from_slice(response.body()).ok();
        let fault = match status.as_u16() {
            429 => Fault::Busy,
            500.. => Fault::Unreachable,
            _ => Fault::Refused,
        };
        let refused = |what: String| CertsError::Authority {
            issuer: super::ID.to_owned(),
            fault,
            what: self.without_key(&what),
            retry_at: retry_at(response.headers(), SystemTime::now())
                .filter(|_| fault != Fault::Refused),
        };
        match read {
            // Errors may have any status, including 200.
            Some(read) if is_refusal(&read) => Err(refused(reason(&read))),
            Some(read) if status.is_success() => Ok(read),
            Some(_) | None => Err(refused(format!("it responded with status {status}"))),
        }
    }

    /// Removes the access key from messages, which are logged.
    fn without_key(&self, what: &str) -> String {
        what.replace(&escaped(self.key), "…").replace(self.key, "…")
    }
}

/// `success` is a boolean or a number, and absent on success.
fn is_refusal(read: &Value) -> bool {
    match &read["success"] {
        Value::Bool(is_well) => !is_well,
        Value::Number(number) => number.as_i64() == Some(0),
        _ => read["error"].is_object(),
    }
}

/// The message of an error.
fn reason(read: &Value) -> String {
    let error = &read["error"];
    let kind = error["type"].as_str().unwrap_or("no reason given");
    let mut reason = match error["code"].as_i64() {
        Some(code) => format!("it refused with code {code}: {kind}"),
        None => format!("it refused: {kind}"),
    };
    let is_empty = |details: &Value| {
        details.as_array().is_some_and(Vec::is_empty)
            || details.as_object().is_some_and(serde_json::Map::is_empty)
    };
    if !error["details"].is_null() && !is_empty(&error["details"]) {
        let details = error["details"].to_string();
        reason.push(' ');
        reason.extend(details.chars().take(ZEROSSL_DETAILS_MAX));
    }
    reason
}
