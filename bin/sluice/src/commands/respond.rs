//! `sluice respond`: sends the same response to every request.

use std::io::{IsTerminal, Read};
use std::net::TcpListener;

use serde_json::{Map, Value, json};

use crate::Exit;
use crate::messages::{Failed, MessageFormat};
use crate::quick_servers::{field, logging, serve_json};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Response body, or the status if it is a three-digit number.
    response: Option<String>,
    /// Address to listen on; a port range starts several servers, port 0 picks a free port.
    #[arg(short, long, value_name = "ADDRESS", default_value = ":0")]
    listen: String,
    /// Response status.
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(100..=999))]
    status: Option<u16>,
    /// Response body; `{{.N}}`, `{{.Port}}` and `{{.Address}}` are the server's index, port and address.
    #[arg(short, long)]
    body: Option<String>,
    /// Set a response header (`Name: value`, repeatable).
    #[arg(short = 'H', long, value_name = "HEADER")]
    header: Vec<String>,
    /// Enable the access log.
    #[arg(long)]
    access_log: bool,
    /// Enable debug logs.
    #[arg(short = 'v', long)]
    debug: bool,
}

impl Args {
    /// Serves until the server is stopped.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let response = self.response.as_deref();
        let named = response
            .filter(|text| text.len() == 3)
            .and_then(|text| text.parse::<u16>().ok());
        let status = self.status.or(named);
        let body = match (&self.body, response) {
            (Some(body), _) => body.clone(),
            (None, Some(text)) if named.is_none() || self.status.is_some() => text.to_owned(),
            (None, Some(_)) => String::new(),
            (None, None) => piped()?,
        };
        let mut servers = Map::new();
        for (number, address) in addresses(&self.listen)?.into_iter().enumerate() {
            say!("Server address: {address}");
            let server = self.server(number, &address, status, &body)?;
            servers.insert(format!("static{number}"), server);
        }
        let mut config = json!({
            "admin": { "disabled": true, "config": { "persist": false } },
            "apps": { "http": { "servers": servers } },
        });
        if let Some(logging) = logging(self.debug) {
            config["logging"] = logging;
        }
        serve_json(config, format)
    }

    fn server(
        &self,
        number: usize,
        address: &str,
        status: Option<u16>,
        body: &str,
    ) -> Result<Value, Failed> {
        let port = address.rsplit(':').next().unwrap_or_default();
        let body = body
            .replace("{{.N}}", &number.to_string())
            .replace("{{.Port}}", port)
            .replace("{{.Address}}", address);
        let mut handler = json!({ "handler": "static_response", "body": body });
        if let Some(status) = status {
            handler["status_code"] = json!(status);
        }
        let mut headers: Map<String, Value> = Map::new();
        for line in &self.header {
            let (name, value) = field(line)?;
            let values = headers.entry(name).or_insert_with(|| json!([]));
            values
                .as_array_mut()
                .expect("it was made as a list above")
                .push(json!(value));
        }
        if !headers.is_empty() {
            handler["headers"] = Value::Object(headers);
        }
        let mut server = json!({ "listen": [address], "routes": [{ "handle": [handler] }] });
        // No automatic HTTPS, whatever the port.
        server["automatic_https"] = json!({ "disable": true });
        if self.access_log {
            server["logs"] = json!({});
        }
        Ok(server)
    }
}

/// Reads the body from standard input, if something is piped into it.
fn piped() -> Result<String, Failed> {
    if std::io::stdin().is_terminal() {
        return Ok(String::new());
    }
    let mut body = String::new();
    std::io::stdin()
        .read_to_string(&mut body)
        .map_err(|error| Failed::new(format!("cannot read the body: {error}")))?;
    Ok(body)
}

/// Expands a port range to single addresses; port 0 becomes a free one.
fn addresses(listen: &str) -> Result<Vec<String>, Failed> {
    let wrong = |why: &dyn std::fmt::Display| Failed::new(format!("address `{listen}`: {why}"));
    let address = sluice_model::Address::parse(listen).map_err(|error| wrong(&error))?;
    let Some(ports) = address.ports else {
        return Err(wrong(&"it has no port"));
    };
    let host = if address.host.contains(':') {
        format!("[{}]", address.host)
    } else {
        address.host.clone()
    };
    if (ports.first, ports.last) == (0, 0) {
        let probe = if host.is_empty() {
            "0.0.0.0:0".to_owned()
        } else {
            format!("{host}:0")
        };
        let free = TcpListener::bind(probe).and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| wrong(&error))?.port();
        return Ok(vec![format!("{host}:{port}")]);
    }
    Ok((ports.first..=ports.last)
        .map(|port| format!("{host}:{port}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_is_several_servers() {
        let list = |listen: &str| addresses(listen).map_err(|failed| failed.text().to_owned());
        assert_eq!(list(":8080-8081"), Ok(vec![":8080".into(), ":8081".into()]));
        assert_eq!(list("[::1]:1"), Ok(vec!["[::1]:1".into()]));
        assert!(list("localhost").is_err());
        let free = list("127.0.0.1:0").expect("there is a free port");
        assert!(!free[0].ends_with(":0"));
    }
}
