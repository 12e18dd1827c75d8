//! Common parts of DNS service APIs: finding the zone, JSON requests, error messages. Each service has its own file.

use serde_json::Value;
use ureq::http::{Method, Request};

use crate::fetch::{Fetcher, escaped};

/// Sends requests to one API.
pub(crate) struct Rest<'a> {
    pub(crate) fetcher: &'a Fetcher,
    /// The service's name, for messages.
    pub(crate) service: &'static str,
    /// The base URL.
    pub(crate) base: &'a str,
    /// Headers of all requests, such as the one with the token.
    pub(crate) fields: Vec<(&'static str, String)>,
}

/// A 2xx response, or 404.
pub(crate) enum Found {
    There(Value),
    Nothing,
}

impl Found {
    /// The body, or `null` for 404.
    pub(crate) fn value(self) -> Value {
        match self {
            Found::There(value) => value,
            Found::Nothing => Value::Null,
        }
    }
}

impl Rest<'_> {
    /// Sends a request for `path`; any status but 2xx and 404 is an error.
    pub(crate) fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Found, String> {
        let text = body.map(|body| body.to_string().into_bytes());
        let (status, read) = self.send(method, path, &self.fields, text)?;
        match status {
            404 => Ok(Found::Nothing),
            200..=299 => Ok(Found::There(read)),
            _ => Err(self.refused(status, &read)),
        }
    }

    /// Like [`Rest::ask`], but 404 is an error as well.
    pub(crate) fn demand(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        match self.ask(method, path, body)? {
            Found::There(value) => Ok(value),
            Found::Nothing => Err(format!("{} has nothing at `{path}`", self.service)),
        }
    }

    /// Sends a request; returns the status and the body, `null` if it is not JSON.
    pub(crate) fn send(
        &self,
        method: Method,
        path: &str,
        fields: &[(&'static str, String)],
        body: Option<Vec<u8>>,
    ) -> Result<(u16, Value), String> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("Accept", "application/json");
        if body.is_some() {
            request = request.header("Content-Type", "application/json");
        }
        for (name, value) in fields {
            request = request.header(*name, value);
        }
        let request = request.body(body.unwrap_or_default());
        let response = self
            .fetcher
            .send(request.map_err(|error| error.to_string())?)?;
        let read = serde_json::from_slice(response.body()).unwrap_or_default();
        Ok((response.status().as_u16(), read))
    }

    pub(crate) fn refused(&self, status: u16, read: &Value) -> String {
        // Where the services report the error.
        let places = [
            &read["message"],
            &read["error"]["message"],
            &read["error_description"],
            &read["detail"],
            &read["errors"][0]["message"],
        ];
        let said = places
            .iter()
            .find_map(|place| place.as_str())
            .unwrap_or_default();
        format!("{} refused with status {status}: {said}", self.service)
    }
}

/// The zones that may contain `name`, the longest first.
pub(crate) fn zones_of(name: &str) -> impl Iterator<Item = &str> {
    fn parent(text: &str) -> Option<&str> {
        text.split_once('.').map(|(_, rest)| rest)
    }
    std::iter::successors(parent(name), |text| parent(text))
}

/// `name` relative to `zone`; empty for the zone itself.
pub(crate) fn relative<'a>(name: &'a str, zone: &str) -> &'a str {
    let bare = name.strip_suffix(zone).unwrap_or(name);
    bare.strip_suffix('.').unwrap_or(bare)
}

/// The error if no zone was found.
pub(crate) fn no_zone(service: &str, name: &str) -> String {
    format!("{service} has no zone for `{name}` that these credentials may change")
}

/// A TTL in seconds, at least `min`, which is also the default.
pub(crate) fn seconds(ttl: std::time::Duration, min: u64) -> u64 {
    ttl.as_secs().max(min)
}

/// A string as in zone files.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Converts a list of strings.
pub(crate) fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// Obtains an OAuth 2.0 token (RFC 6749, section 4.4) with the parameters `form`.
pub(crate) fn token(
    fetcher: &Fetcher,
    service: &'static str,
    url: &str,
    form: &[(&str, &str)],
) -> Result<String, String> {
    let body: Vec<String> = form
        .iter()
        .map(|(k, v)| format!("{k}={}", escaped(v)))
        .collect();
    let request = Request::post(url)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(body.join("&").into_bytes())
        .map_err(|error| error.to_string())?;
    let response = fetcher.send(request)?;
    let read: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    match read["access_token"].as_str() {
        Some(token) => Ok(token.to_owned()),
        None => {
            let said = read["error_description"].as_str().unwrap_or_default();
            Err(format!(
                "{service} issued no token, status {}: {said}",
                response.status()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_looked_for_from_the_longest_name_on() {
        let zones: Vec<&str> = zones_of("_acme-challenge.a.example.test").collect();
        assert_eq!(zones, ["a.example.test", "example.test", "test"]);
        assert_eq!(zones_of("test").count(), 0);
        assert_eq!(
            relative("_acme-challenge.a.example.test", "example.test"),
            "_acme-challenge.a"
        );
        assert_eq!(relative("example.test", "example.test"), "");
    }
}
