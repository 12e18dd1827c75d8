//! Hop-by-hop headers, which concern one connection only and must not be forwarded (RFC 9110, section 7.6.1). The codec
//! of the next connection writes its own.

use alloc::vec::Vec;

use crate::fields::Fields;
use crate::limits::CONNECTION_NAMES_MAX;
use crate::name::FieldId;

/// Removes the headers that concern only the connection a message arrived on, in either direction: those that the RFC
/// names, and those listed in its `Connection` header. `TE` stays as `trailers` if it offered them.
///
/// A proxy adds its own headers after this call, so that no peer can remove them by listing them in `Connection`.
pub fn strip_hop_by_hop(fields: &mut Fields) {
    // Most heads have none, and a Connection field is one itself.
    if !fields.ids().any(is_hop_by_hop) {
        return;
    }
    let named = named_fields(fields);
    let takes_trailers = fields
        .all(FieldId::Te)
        .any(|value| items(value).any(is_trailers));
    fields.retain(|field| {
        !is_hop_by_hop(field.id)
            && !named
                .iter()
                .any(|name| field.name.eq_ignore_ascii_case(name))
    });
    if takes_trailers {
        fields.push(FieldId::Te, b"trailers");
    }
}

/// The fields that no Connection field needs to name. Alt-Svc is among them as in Caddy: what an upstream says
/// about its own ports means nothing for ours.
fn is_hop_by_hop(id: FieldId) -> bool {
    matches!(
        id,
        FieldId::Connection
            | FieldId::KeepAlive
            | FieldId::ProxyConnection
            | FieldId::ProxyAuthenticate
            | FieldId::ProxyAuthorization
            | FieldId::Te
            | FieldId::Trailer
            | FieldId::TransferEncoding
            | FieldId::Upgrade
            | FieldId::AltSvc
    )
}

/// The names in the Connection fields that may be removed on a peer's word. Nothing is allocated where there are
/// none, which is nearly always.
///
/// A known name is either hop-by-hop anyway or meant for every recipient, and such a field must not be named
/// (RFC 9110, section 7.6.1): `Connection: authorization, content-length, x-forwarded-for` would otherwise let a
/// client take away what the servers before and after us rely on. Beyond the limit names are ignored: the field
/// then passes, which harms none but its sender.
fn named_fields(fields: &Fields) -> Vec<Vec<u8>> {
    let mut named = Vec::new();
    for value in fields.all(FieldId::Connection) {
        for option in items(value) {
            let is_name = !option.is_empty() && !option.eq_ignore_ascii_case(b"close");
            if is_name && FieldId::of(option) == FieldId::Other && !is_protected(option) {
                if named.len() == CONNECTION_NAMES_MAX {
                    return named;
                }
                named.push(option.to_vec());
            }
        }
    }
    named
}

/// Names without a number that tell the next server who asked and how.
fn is_protected(name: &[u8]) -> bool {
    const FAMILIES: [&[u8]; 4] = [b"x-forwarded-", b"x-real-", b"content-", b"sec-"];
    let in_family = |family: &&[u8]| {
        name.get(..family.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(family))
    };
    FAMILIES.iter().any(in_family)
}

fn is_trailers(item: &[u8]) -> bool {
    item.eq_ignore_ascii_case(b"trailers")
}

fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn stripped(lines: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut fields = Fields::new();
        for (name, value) in lines {
            let name = name.as_bytes();
            fields.push_raw(FieldId::of(name), name, value.as_bytes());
        }
        strip_hop_by_hop(&mut fields);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields
            .iter()
            .map(|field| (text(field.name), text(field.value)))
            .collect()
    }

    fn names(lines: &[(&str, &str)]) -> Vec<String> {
        stripped(lines).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn fields_of_the_connection_are_removed_in_any_case_and_number() {
        let left = names(&[
            ("Host", "a"),
            ("CONNECTION", "keep-alive"),
            ("connection", "close"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Connection", "keep-alive"),
            ("Proxy-Authenticate", "Basic"),
            ("Proxy-Authorization", "Basic x"),
            ("Trailer", "X-Sum"),
            ("Transfer-Encoding", "chunked"),
            ("upgrade", "websocket"),
            ("Alt-Svc", "clear"),
            ("Accept", "*/*"),
        ]);
        assert_eq!(left, ["Host", "Accept"]);
    }

    #[test]
    fn named_fields_are_removed() {
        let left = names(&[
            ("Connection", "close, X-Hop"),
            ("Connection", "x-other ,, HTTP2-Settings"),
            ("x-hop", "1"),
            ("X-Other", "2"),
            ("X-Other", "3"),
            ("Http2-Settings", "AAMAAABk"),
            ("X-Stays", "4"),
        ]);
        assert_eq!(left, ["X-Stays"]);
    }

    #[test]
    fn fields_for_every_recipient_cannot_be_named_away() {
        let all = "host, content-length, x-forwarded-for, X-Forwarded-Prefix, authorization, cookie, \
                   cache-control, x-real-ip, content-digest, forwarded";
        let lines = [
            ("Host", "a"),
            ("Content-Length", "1"),
            ("X-Forwarded-For", "1.2.3.4"),
            ("X-Forwarded-Prefix", "/p"),
            ("Authorization", "x"),
            ("Cookie", "c"),
            ("Cache-Control", "no-store"),
            ("X-Real-Ip", "1.2.3.4"),
            ("Content-Digest", "d"),
            ("Forwarded", "for=_x"),
        ];
        let mut named = lines.to_vec();
        named.push(("Connection", all));
        assert_eq!(names(&named).len(), lines.len());
    }

    #[test]
    fn names_beyond_the_limit_are_ignored() {
        let many: Vec<String> = (0..40).map(|n| alloc::format!("x-{n}")).collect();
        let list = many.join(",");
        let mut lines = alloc::vec![("Connection", list.as_str())];
        lines.extend(many.iter().map(|name| (name.as_str(), "v")));
        assert_eq!(names(&lines).len(), 40 - CONNECTION_NAMES_MAX);
    }

    #[test]
    fn only_the_trailers_of_te_pass() {
        assert_eq!(
            stripped(&[("TE", "gzip;q=0.5, Trailers"), ("Connection", "TE")]),
            [("Te".into(), "trailers".into())]
        );
        assert!(stripped(&[("TE", "gzip")]).is_empty());
    }
}
