//! The configuration of a server with one Python application.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::messages::Failed;
use crate::quick_servers::logging;

/// A server to configure.
pub struct Site {
    pub listen: Vec<String>,
    /// A host name to serve over HTTPS.
    pub domain: Option<String>,
    /// What handles requests.
    pub handlers: Vec<Value>,
    /// A path prefix and the folder that its files are in.
    pub files: Option<(String, PathBuf)>,
    pub access_log: bool,
    pub debug: bool,
}

impl Site {
    /// The configuration as JSON.
    pub fn config(self) -> Value {
        let mut routes = Vec::new();
        if let Some((prefix, folder)) = &self.files {
            routes.push(json!({
                "match": [{ "path": [format!("{prefix}/*")] }],
                "handle": [
                    { "handler": "rewrite", "strip_path_prefix": prefix },
                    { "handler": "file_server", "root": folder.to_string_lossy() },
                ],
            }));
        }
        routes.push(json!({ "handle": self.handlers }));
        let mut route = json!({ "handle": [{ "handler": "subroute", "routes": routes }] });
        if let Some(domain) = &self.domain {
            route["match"] = json!([{ "host": [domain] }]);
        }
        let mut server = json!({ "listen": self.listen, "routes": [route] });
        if self.domain.is_none() {
            server["automatic_https"] = json!({ "disable": true });
        }
        if self.access_log {
            server["logs"] = json!({});
        }
        let mut config = json!({
            "admin": { "disabled": true, "config": { "persist": false } },
            "apps": { "http": { "servers": { "python": server } } },
        });
        if let Some(logging) = logging(self.debug) {
            config["logging"] = logging;
        }
        config
    }
}

/// The folder that an application runs in, as a whole path.
pub fn folder(given: Option<&Path>) -> Result<PathBuf, Failed> {
    let folder = given.unwrap_or(Path::new("."));
    folder
        .canonicalize()
        .map_err(|error| Failed::new(format!("cannot use folder `{}`: {error}", folder.display())))
}

/// The virtual environment: the given one, the active one, or one in the folder.
pub fn venv(given: Option<&Path>, folder: &Path) -> Option<PathBuf> {
    if let Some(given) = given {
        return Some(std::path::absolute(given).unwrap_or_else(|_| given.to_owned()));
    }
    if let Some(active) = std::env::var_os("VIRTUAL_ENV").filter(|active| !active.is_empty()) {
        return Some(PathBuf::from(active));
    }
    let usual = [".venv", "venv"].map(|name| folder.join(name));
    usual
        .into_iter()
        .find(|venv| venv.join("bin/python").exists())
}

/// Adds files with variables and single ones to a handler.
pub fn add_environment(
    handler: &mut Value,
    files: &[String],
    variables: &[String],
) -> Result<(), Failed> {
    if !files.is_empty() {
        // Relative to the current directory, as everything on a command line.
        let whole = |file: &String| {
            let path = std::path::absolute(file).unwrap_or_else(|_| file.into());
            path.to_string_lossy().into_owned()
        };
        handler["env_files"] = files.iter().map(whole).collect();
    }
    let mut values = Map::new();
    for variable in variables {
        let Some((name, value)) = variable.split_once('=') else {
            let failed = Failed::new(format!("`{variable}` is not an environment variable"));
            return Err(failed.help("write it as `NAME=VALUE`"));
        };
        values.insert(name.to_owned(), json!(value));
    }
    if !values.is_empty() {
        handler["env_vars"] = Value::Object(values);
    }
    Ok(())
}

/// An address as gunicorn takes it: `host:port`, `:port`, a port alone, or `unix:path`.
pub fn address(text: &str) -> String {
    match text.strip_prefix("unix:") {
        Some(path) => format!("unix/{}", path.trim_start_matches("//")),
        None if text.parse::<u16>().is_ok() => format!(":{text}"),
        None if text.contains(':') => text.to_owned(),
        None => joined(text, 8000),
    }
}

/// Host and port; IPv6 addresses get brackets.
pub fn joined(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// The URL of an address, for people.
pub fn url(address: &str) -> String {
    let Some((host, port)) = address.rsplit_once(':') else {
        return address.to_owned();
    };
    let host = match host {
        "" | "0.0.0.0" | "[::]" => "localhost",
        host => host,
    };
    format!("http://{host}:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_gunicorn_takes_them() {
        for (text, expected) in [
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            (":9000", ":9000"),
            ("9000", ":9000"),
            ("localhost", "localhost:8000"),
            ("unix:/run/app.sock", "unix//run/app.sock"),
            ("[::1]:9000", "[::1]:9000"),
        ] {
            assert_eq!(address(text), expected);
        }
        assert_eq!(joined("::1", 80), "[::1]:80");
        assert_eq!(url(":80"), "http://localhost:80");
        assert_eq!(url("0.0.0.0:80"), "http://localhost:80");
        assert_eq!(url("unix//run/app.sock"), "unix//run/app.sock");
    }
}
