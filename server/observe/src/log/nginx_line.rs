//! nginx's error log format: `2026/11/22 09:47:08 [error] 7#9: message, client: …, server: …, request: "…", host: "…"`.
//! Programs such as fail2ban search for these words in this order. The callers decide which entries to write.

use std::time::SystemTime;

use sluice_net::sys::placement::thread_number;

use super::encode::Head;
use super::entry::CONNECTION_COUNTS;
use super::node::Node;
use super::time_text::TimeFormat;
use super::zone::Zone;

/// Appends a line without terminator. `fields` are the fields specific to this entry, a JSON object.
pub fn push(out: &mut Vec<u8>, time: SystemTime, head: &Head<'_>, fields: &[u8]) {
    TimeFormat::from_name("wall").push(out, time, Zone::Local);
    let (process, thread) = (std::process::id(), thread_number());
    out.extend_from_slice(format!(" [{}] {process}#{thread}: ", head.severity.as_str()).as_bytes());
    let members = match Node::parse(fields) {
        Some(Node::Object(members)) => members,
        _ => Vec::new(),
    };
    match member(&members, "request") {
        Some(Node::Object(request)) => of_request(out, head, &members, request),
        _ => of_process(out, head, &members),
    }
}

fn of_process(out: &mut Vec<u8>, head: &Head<'_>, members: &[(String, Node)]) {
    let counted = (head.logger == CONNECTION_COUNTS).then(|| member(members, "worker_connections"));
    if let Some(Some(count)) = counted {
        push_value(out, count);
        out.push(b' ');
        return push_text(out, head.message);
    }
    push_text(out, head.message);
    for (name, value) in members {
        push_text(out, &format!(", {name}: "));
        push_value(out, value);
    }
}

fn of_request(
    out: &mut Vec<u8>,
    head: &Head<'_>,
    members: &[(String, Node)],
    request: &[(String, Node)],
) {
    let of = |name: &str| match member(request, name) {
        Some(Node::Text(text)) => text.as_str(),
        _ => "",
    };
    if let Some(Node::Scalar(connection)) = member(members, "connection") {
        push_text(out, &format!("*{connection} "));
    }
    match member(members, "error") {
        Some(Node::Text(error)) => push_text(out, error),
        _ => push_text(out, head.message),
    }
    let client = match of("client_ip") {
        "" => "unix:",
        client => client,
    };
    push_text(out, &format!(", client: {client}"));
    if let Some(Node::Text(server)) = member(members, "server") {
        push_text(out, &format!(", server: {server}"));
    }
    let (method, uri, protocol) = (of("method"), of("uri"), of("proto"));
    push_text(out, &format!(", request: \"{method} {uri} {protocol}\""));
    if let Some(Node::Text(upstream)) = member(members, "upstream") {
        push_text(out, &format!(", upstream: \"{upstream}\""));
    }
    if !of("host").is_empty() {
        push_text(out, &format!(", host: \"{}\"", of("host")));
    }
    if let Some(Node::Object(headers)) = member(request, "headers")
        && let Some(Node::Array(values)) = member(headers, "Referer")
        && let Some(Node::Text(referrer)) = values.first()
    {
        push_text(out, &format!(", referrer: \"{referrer}\""));
    }
    // Only with `request_id`, which nginx does not have.
    if let Some(Node::Text(id)) = member(members, "request_id") {
        push_text(out, &format!(", request_id: \"{id}\""));
    }
}

fn member<'a>(members: &'a [(String, Node)], wanted: &str) -> Option<&'a Node> {
    let found = members.iter().find(|(name, _)| name == wanted);
    found.map(|(_, value)| value)
}

fn push_value(out: &mut Vec<u8>, value: &Node) {
    match value {
        Node::Text(text) => push_text(out, text),
        Node::Scalar(value) => push_text(out, &value.to_string()),
        Node::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b' ');
                }
                push_value(out, element);
            }
        }
        Node::Object(_) => {}
    }
}

/// Text from clients must not end a line or control a terminal.
fn push_text(out: &mut Vec<u8>, text: &str) {
    for c in text.chars() {
        match c {
            '\n' => out.extend_from_slice(b"; "),
            c if c.is_control() => {
                out.extend_from_slice(format!("\\x{:02X}", u32::from(c)).as_bytes())
            }
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::super::{Level, Severity};
    use super::*;

    fn line(severity: Severity, logger: &str, message: &str, fields: &str) -> String {
        let mut out = Vec::new();
        let head = Head {
            severity,
            logger,
            message,
            caller: Location::caller(),
        };
        push(&mut out, SystemTime::now(), &head, fields.as_bytes());
        let text = String::from_utf8(out).unwrap();
        let (time, rest) = text.split_at(20);
        let shape: String = time
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        assert_eq!(shape, "0000/00/00 00:00:00 ");
        let (level, rest) = rest.split_once("] ").unwrap();
        let (numbers, message) = rest.split_once(": ").unwrap();
        let (process, thread) = numbers.split_once('#').unwrap();
        assert_eq!(process.parse(), Ok(std::process::id()));
        assert!(thread.parse::<u32>().is_ok());
        format!("{level}] {message}")
    }

    #[test]
    fn lines_about_requests_are_nginxs() {
        let fields = r#"{"error":"open() \"/a\" failed","server":"a.test","request":{"client_ip":"::1","proto":"HTTP/1.1",
            "method":"GET","host":"a.test:80","uri":"/\u001b","headers":{"Referer":["http://b/"]}},"status":404}"#;
        assert_eq!(
            line(Severity::Error, "http.log.error", "request failed", fields),
            "[error] open() \"/a\" failed, client: ::1, server: a.test, request: \"GET /\\x1B HTTP/1.1\", host: \"a.test:80\", \
             referrer: \"http://b/\""
        );
    }

    #[test]
    fn entries_about_requests_have_nginxs_level_connection_and_upstream() {
        let fields = r#"{"error":"none","connection":7,"server":"a","request":{"client_ip":"::1","proto":"HTTP/1.1","method":"GET",
            "host":"b","uri":"/"},"upstream":"http://c/"}"#;
        assert_eq!(
            line(
                Severity::Notice,
                "http.log.error.nginx1.notice",
                "request",
                fields
            ),
            "[notice] *7 none, client: ::1, server: a, request: \"GET / HTTP/1.1\", upstream: \"http://c/\", host: \"b\""
        );
        assert!(line(Severity::Alert, "http.log.error.alert", "", fields).starts_with("[alert] "));
    }

    #[test]
    fn lines_about_the_process_name_what_varies() {
        assert_eq!(
            line(
                Severity::Emergency,
                "config",
                "refused",
                r#"{"trigger":"SIGHUP","error":"a\nb","n":3,"l":["x","y"]}"#
            ),
            "[emerg] refused, trigger: SIGHUP, error: a; b, n: 3, l: x y"
        );
        assert_eq!(
            line(Level::Info.into(), "", "serving", "{}"),
            "[notice] serving"
        );
        assert_eq!(
            line(
                Severity::Alert,
                CONNECTION_COUNTS,
                "are too few",
                r#"{"worker_connections":512}"#
            ),
            "[alert] 512 are too few"
        );
    }
}
