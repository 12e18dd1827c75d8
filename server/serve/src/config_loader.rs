//! `admin.config.load`: fetches a further configuration from an HTTP server. The command line parses it and replaces the
//! running one.

use std::fmt;
use std::time::Duration;

use sluice_dns::fetch::{FetchIdentity, FetchOptions, Fetcher};
use sluice_model::{Admin, ConfigSource, HttpLoader, LoaderTls};
use sluice_net::tls::certificates_from_pem;
use sluice_observe::process_values;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use ureq::http::header::CONTENT_TYPE;
use ureq::http::{HeaderName, HeaderValue, Method, Request, Response};

use crate::fleet::Location;
use crate::limits::{CONFIG_BYTES_MAX, HTTP_TIMEOUT};

/// The formats that `adapter` may name.
const ADAPTERS: [&str; 4] = ["caddyfile", "caddy1", "json", "nginx"];

/// Fetches a configuration.
pub struct ConfigLoader {
    fetcher: Fetcher,
    method: Method,
    location: Location,
    login: Option<HeaderValue>,
    headers: Vec<(HeaderName, HeaderValue)>,
    adapter: Option<String>,
    delay: Option<Duration>,
}

/// A configuration that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The text.
    pub text: String,
    /// Its format, as the settings or the response name it; `None` to detect it.
    pub adapter: Option<String>,
    /// Its name in messages: the last segment of the URL.
    pub name: String,
}

impl ConfigLoader {
    /// Reads the settings; `None` if the configuration has none. Nothing is sent yet.
    ///
    /// # Errors
    /// A setting is not valid, or a file of a certificate cannot be read.
    pub fn build(admin: Option<&Admin>) -> Result<Option<ConfigLoader>, Refusal> {
        let Some(config) = admin.and_then(|admin| admin.config.as_ref()) else {
            return Ok(None);
        };
        let loader = match &config.load {
            None => return Ok(None),
            Some(ConfigSource::Http(loader)) => loader,
            Some(other @ ConfigSource::Other(_)) => {
                let what = format!("unknown loader of configurations `{}`", other.module());
                return Err(Refusal::new(what).with_help("sluice has `http`"));
            }
        };
        let location = location(&loader.url)?;
        let options = FetchOptions {
            timeout: given(loader.timeout).unwrap_or(HTTP_TIMEOUT),
            response_bytes_max: CONFIG_BYTES_MAX as u64,
            ..tls(loader.tls.as_ref())?
        };
        Ok(Some(ConfigLoader {
            fetcher: Fetcher::new(&options),
            method: method(&loader.method)?,
            login: location.login().and_then(|login| login.parse().ok()),
            location,
            headers: headers(loader)?,
            adapter: adapter(&loader.adapter)?,
            delay: given(config.load_delay),
        }))
    }

    /// How long to wait before each request; `None` for one request at once.
    pub fn delay(&self) -> Option<Duration> {
        self.delay
    }

    /// Sends one request.
    ///
    /// # Errors
    /// The server cannot be reached, does not respond in time, or does not respond with a text of a configuration. The error
    /// is for people, and has no secrets of the URL.
    pub fn fetch(&self) -> Result<Fetched, String> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.location.target());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let is_given = self.headers.iter().any(|(name, _)| name == "authorization");
        if let Some(login) = self.login.as_ref().filter(|_| !is_given) {
            request = request.header("authorization", login);
        }
        let request = request
            .body(Vec::new())
            .map_err(|error| error.to_string())?;
        self.text_of(self.fetcher.send(request)?)
    }

    fn text_of(&self, response: Response<Vec<u8>>) -> Result<Fetched, String> {
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            return Err(format!("status {}", head.status.as_u16()));
        }
        if body.is_empty() {
            return Err("the response has no body".to_owned());
        }
        let text = String::from_utf8(body);
        let media_type = head
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        Ok(Fetched {
            text: text.map_err(|_| "the configuration is not valid UTF-8".to_owned())?,
            adapter: self
                .adapter
                .clone()
                .or_else(|| media_type.and_then(format_of)),
            name: self.location.name().to_owned(),
        })
    }
}

/// Shows the URL without secrets.
impl fmt::Display for ConfigLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(f)
    }
}

impl fmt::Debug for ConfigLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigLoader({})", self.location)
    }
}

/// The format that a media type names, as `POST /load` of the admin API takes it.
fn format_of(media_type: &str) -> Option<String> {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let (_, format) = essence.split_once('/')?;
    let format = format.to_ascii_lowercase();
    ADAPTERS.contains(&format.as_str()).then_some(format)
}

fn expanded(text: &str, setting: &str) -> Result<String, Refusal> {
    process_values::expand(text).map_err(|error| Refusal::new(format!("{setting}: {error}")))
}

fn location(url: &str) -> Result<Location, Refusal> {
    let url = expanded(url, "url")?;
    let location = Location::parse(&url).ok();
    let is_usable = |location: &Location| {
        location.scheme.is_http()
            && location.hosts.len() == 1
            && location.target().parse::<ureq::http::Uri>().is_ok()
    };
    // The URL may have a password, so it is not repeated.
    location.filter(is_usable).ok_or_else(|| {
        Refusal::new("url: not the URL of an HTTP server").with_help("write https://HOST/PATH")
    })
}

fn method(name: &str) -> Result<Method, Refusal> {
    if name.is_empty() {
        return Ok(Method::GET);
    }
    let method = Method::from_bytes(name.as_bytes());
    method.map_err(|_| Refusal::new(format!("method: `{name}` is not a method")))
}

fn headers(loader: &HttpLoader) -> Result<Vec<(HeaderName, HeaderValue)>, Refusal> {
    let mut found = Vec::new();
    for (name, values) in &loader.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes());
        let parsed =
            parsed.map_err(|_| Refusal::new(format!("headers: `{name}` is not a valid name")))?;
        for value in values {
            let value = HeaderValue::from_str(&expanded(value, "headers")?);
            let value = value.map_err(|_| {
                Refusal::new(format!("headers: the value of `{name}` is not valid"))
            })?;
            found.push((parsed.clone(), value));
        }
    }
    Ok(found)
}

fn adapter(name: &str) -> Result<Option<String>, Refusal> {
    match name {
        "" => Ok(None),
        name if ADAPTERS.contains(&name) => Ok(Some(name.to_owned())),
        name => {
            let help = format!("use `{}`", ADAPTERS.join("`, `"));
            let what = format!("adapter: unknown format `{name}`");
            Err(Refusal::new(what).with_help(help))
        }
    }
}

/// The options for TLS. As in Caddy the files of `root_ca_pem_files` replace the CAs of the system.
fn tls(config: Option<&LoaderTls>) -> Result<FetchOptions, Refusal> {
    let mut options = FetchOptions::default();
    let Some(config) = config else {
        return Ok(options);
    };
    if config.use_server_identity {
        let instead =
            "write the certificate as `client_certificate_file` and `client_certificate_key_file`";
        return Err(Refusal::not_yet("tls.use_server_identity", instead));
    }
    let read = |setting: &str, path: &str| {
        let read = std::fs::read(path);
        read.map_err(|error| Refusal::new(format!("tls.{setting}: cannot read {path}: {error}")))
    };
    if !config.root_ca_pem_files.is_empty() {
        let mut roots = Vec::new();
        for path in &config.root_ca_pem_files {
            let text = read("root_ca_pem_files", path)?;
            let found = certificates_from_pem(&text)
                .map_err(|error| Refusal::new(format!("tls.root_ca_pem_files: {path}: {error}")))?;
            roots.extend(found.into_iter().map(Into::into));
        }
        options.roots = Some(roots);
    }
    let files = (
        config.client_certificate_file.as_str(),
        config.client_certificate_key_file.as_str(),
    );
    options.identity = match files {
        ("", "") => None,
        ("", _) | (_, "") => {
            let what = "tls: a client certificate needs `client_certificate_file` and `client_certificate_key_file`";
            return Err(Refusal::new(what));
        }
        (chain, key) => {
            let chain = read("client_certificate_file", chain)?;
            let key = read("client_certificate_key_file", key)?;
            let identity = FetchIdentity::from_pem(&chain, &key);
            Some(
                identity.map_err(|error| {
                    Refusal::new(format!("tls.client_certificate_file: {error}"))
                })?,
            )
        }
    };
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(load: &str) -> Result<Option<ConfigLoader>, String> {
        let text = format!(r#"{{"config":{{"load":{load},"load_delay":"2s"}}}}"#);
        let admin: Admin = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        ConfigLoader::build(Some(&admin)).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn all_settings_are_taken() {
        let loader = build(
            r#"{"module":"http","method":"POST","url":"https://me:secret@a.test/x/app.conf?token=1","adapter":"caddyfile",
            "headers":{"X-Node":["one","two"]},"timeout":"3s","tls":{}}"#,
        );
        let loader = loader.unwrap().unwrap();
        assert_eq!(loader.method, Method::POST);
        assert_eq!(loader.headers.len(), 2);
        assert_eq!(loader.delay(), Some(Duration::from_secs(2)));
        let shown = format!("{loader} {loader:?}");
        assert!(
            !shown.contains("secret") && !shown.contains("token"),
            "{shown}"
        );
        assert!(loader.login.is_some());
    }

    #[test]
    fn mistakes_are_named() {
        for (load, wanted) in [
            (r#"{"module":"etcd"}"#, "`etcd`"),
            (
                r#"{"module":"http","url":"etcd://a/b"}"#,
                "https://HOST/PATH",
            ),
            (r#"{"module":"http"}"#, "https://HOST/PATH"),
            (
                r#"{"module":"http","url":"http://a","method":"A B"}"#,
                "`A B`",
            ),
            (
                r#"{"module":"http","url":"http://a","headers":{"A B":["c"]}}"#,
                "`A B`",
            ),
            (
                r#"{"module":"http","url":"http://a","adapter":"yaml"}"#,
                "`yaml`",
            ),
            (
                r#"{"module":"http","url":"https://a","tls":{"use_server_identity":true}}"#,
                "not supported yet",
            ),
            (
                r#"{"module":"http","url":"https://a","tls":{"client_certificate_file":"/none"}}"#,
                "client_certificate_key_file",
            ),
            (
                r#"{"module":"http","url":"https://a","tls":{"root_ca_pem_files":["/none"]}}"#,
                "/none",
            ),
            (r#"{"module":"http","url":"http://a","urls":1}"#, "urls"),
        ] {
            let said = build(load).unwrap_err();
            assert!(said.contains(wanted), "{load}: {said}");
        }
    }

    #[test]
    fn media_types_name_formats() {
        assert_eq!(
            format_of("text/caddyfile; charset=utf-8"),
            Some("caddyfile".into())
        );
        assert_eq!(format_of("application/JSON"), Some("json".into()));
        assert_eq!(format_of("text/plain"), None);
    }
}
