//! What a value in a store says of an upstream: its host and port.

use serde_json::Value;

/// `HOST:PORT`, with an IPv6 address in brackets.
pub fn host_and_port(value: &[u8]) -> Option<(String, u16)> {
    let (host, port) = std::str::from_utf8(value).ok()?.trim().rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None => host,
    };
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty() && host.bytes().all(is_usual)).then(|| (host.to_owned(), port))
}

/// `HOST:PORT`, or a JSON object with that as its `Addr`: so etcd's client for Go registers endpoints of gRPC services.
pub fn registered(value: &[u8]) -> Option<(String, u16)> {
    if !value.trim_ascii_start().starts_with(b"{") {
        return host_and_port(value);
    }
    let endpoint: Value = serde_json::from_slice(value).ok()?;
    host_and_port(endpoint.get("Addr")?.as_str()?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(host: &str, port: u16) -> Option<(String, u16)> {
        Some((host.to_owned(), port))
    }

    #[test]
    fn values_are_hosts_with_ports() {
        let found = |value: &str| host_and_port(value.as_bytes());
        assert_eq!(found("10.0.0.1:8080"), some("10.0.0.1", 8080));
        assert_eq!(found("app-1.internal:80\n"), some("app-1.internal", 80));
        assert_eq!(found("[::1]:9000"), some("::1", 9000));
        for value in [
            "10.0.0.1",
            ":80",
            "a:0",
            "a:99999",
            "a b:80",
            "[::1:80",
            "{\"a\":1}",
        ] {
            assert_eq!(found(value), None, "{value}");
        }
    }

    #[test]
    fn endpoints_of_grpc_services_are_understood() {
        let found = |value: &str| registered(value.as_bytes());
        assert_eq!(found("10.0.0.1:8080"), some("10.0.0.1", 8080));
        let endpoint = r#" {"Op":0,"Addr":"10.0.0.2:50051","Metadata":null}"#;
        assert_eq!(found(endpoint), some("10.0.0.2", 50051));
        for value in [r#"{"Addr":7}"#, r#"{"Addr":"x"}"#, "{", "{}", ""] {
            assert_eq!(found(value), None, "{value}");
        }
    }
}
