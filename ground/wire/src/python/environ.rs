//! The environment of a WSGI application (PEP 3333, "environ Variables"): what differs from request to request. The
//! worker adds the rest of `wsgi.*`.

use core::net::SocketAddr;

use sluice_message::{Field, FieldId, Fields, IpText, RequestHead, Scheme};

use super::facts::Facts;
use super::value::{Values, one};

/// Writes the environment of a request. All texts are the latin-1 view of the bytes that the client sent.
///
/// Left out are headers with an underscore in their name, since applications could not tell them from those with a
/// hyphen; `Proxy`, which CGI libraries take for a setting (CVE-2016-5385); and `Transfer-Encoding`, as the body arrives
/// decoded.
pub fn write_environ(values: &mut impl Values, head: &RequestHead, facts: &Facts<'_>) {
    values.open_dict();
    values.key("REQUEST_METHOD");
    values.text(head.method.as_str());
    values.key("SCRIPT_NAME");
    values.latin1(one(facts.root));
    values.key("PATH_INFO");
    values.latin1(one(head.uri.path()));
    values.key("QUERY_STRING");
    values.latin1(one(head.uri.query().unwrap_or_default()));
    values.key("REQUEST_URI");
    values.latin1(one(&head.target));
    values.key("SERVER_PROTOCOL");
    values.text(head.version.as_str());
    values.key("wsgi.url_scheme");
    values.text(facts.scheme.as_str());
    write_addresses(values, head, facts);
    if facts.scheme == Scheme::Https {
        values.key("HTTPS");
        values.text("on");
    }
    if !facts.user.is_empty() {
        values.key("REMOTE_USER");
        values.latin1(one(facts.user));
    }
    if let Some(length) = facts.content_length {
        values.key("CONTENT_LENGTH");
        values.latin1(one(Digits::new(length).as_bytes()));
    }
    write_headers(values, head);
    values.close_dict();
}

fn write_addresses(values: &mut impl Values, head: &RequestHead, facts: &Facts<'_>) {
    values.key("SERVER_NAME");
    match (&head.host[..], facts.server) {
        ([], Some(server)) => values.latin1(one(IpText::new(server.ip()).as_bytes())),
        ([], None) => values.text("localhost"),
        (host, _) => values.latin1(one(host)),
    }
    values.key("SERVER_PORT");
    let port = facts.server.map_or_else(
        || match facts.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        },
        |server| server.port(),
    );
    values.latin1(one(Digits::new(u64::from(port)).as_bytes()));
    // PEP 3333 asks for a text, which is empty where there is no address.
    values.key("REMOTE_ADDR");
    match facts.client {
        Some(client) => {
            values.latin1(one(IpText::new(client.ip()).as_bytes()));
            write_client_port(values, client);
        }
        None => values.text(""),
    }
}

fn write_client_port(values: &mut impl Values, client: SocketAddr) {
    // Forwarded addresses have no port.
    if client.port() != 0 {
        values.key("REMOTE_PORT");
        values.latin1(one(Digits::new(u64::from(client.port())).as_bytes()));
    }
}

fn write_headers(values: &mut impl Values, head: &RequestHead) {
    let repeated = Repeated::in_fields(&head.fields);
    for (index, field) in head.fields.iter().enumerate() {
        match field.id {
            FieldId::ContentLength | FieldId::TransferEncoding => continue,
            FieldId::Other if !is_passed(field.name) => continue,
            _ => {}
        }
        let may_repeat = repeated.may_have(&field);
        if may_repeat {
            let mut before = head.fields.iter().take(index);
            if before.any(|other| is_same(&other, &field)) {
                continue;
            }
        }
        match field.id {
            FieldId::ContentType => values.key("CONTENT_TYPE"),
            id => values.header_key(id, field.name),
        }
        match may_repeat {
            true => write_values(values, head, &field, index),
            false => values.latin1(one(field.value)),
        }
    }
}

/// Which names may occur more than once. Most heads have none, and then no two names are compared.
struct Repeated {
    /// A bit for each known name.
    known: u128,
    /// A bit for each of 128 classes of other names.
    others: u128,
}

impl Repeated {
    fn in_fields(fields: &Fields) -> Repeated {
        let mut repeated = Repeated {
            known: 0,
            others: 0,
        };
        let (mut known_once, mut others_once) = (0, 0);
        for field in fields.iter() {
            let bit = Repeated::bit(&field);
            let (once, twice) = match field.id {
                FieldId::Other => (&mut others_once, &mut repeated.others),
                _ => (&mut known_once, &mut repeated.known),
            };
            *twice |= *once & bit;
            *once |= bit;
        }
        repeated
    }

    fn bit(field: &Field<'_>) -> u128 {
        let class = match (field.id, field.name) {
            // Letters of both cases are in one class.
            (FieldId::Other, [first, .., last]) => {
                let sum = usize::from(first & 0x1f) * 5 + usize::from(last & 0x1f) * 11;
                sum + field.name.len() * 23
            }
            (FieldId::Other, _) => 0,
            (id, _) => id as usize,
        };
        1 << (class & 127)
    }

    fn may_have(&self, field: &Field<'_>) -> bool {
        let twice = match field.id {
            FieldId::Other => self.others,
            _ => self.known,
        };
        twice & Repeated::bit(field) != 0
    }
}

/// The values of all headers with the name of `field`, which is the first of them, joined as PEP 3333 and RFC 9110,
/// section 5.3 say; those of `Cookie` as RFC 6265 does.
fn write_values(values: &mut impl Values, head: &RequestHead, field: &Field<'_>, index: usize) {
    let separator: &[u8] = match field.id {
        FieldId::Cookie => b"; ",
        _ => b", ",
    };
    let rest = (index + 1..head.fields.len())
        .filter_map(|at| head.fields.at(at))
        .filter(|other| is_same(other, field))
        .flat_map(|other| [separator, other.value]);
    values.latin1(one(field.value).chain(rest));
}

fn is_same(other: &Field<'_>, field: &Field<'_>) -> bool {
    other.id == field.id
        && (field.id != FieldId::Other || other.name.eq_ignore_ascii_case(field.name))
}

/// Whether a header without a number is passed to applications.
pub(super) fn is_passed(name: &[u8]) -> bool {
    !name.contains(&b'_') && !name.eq_ignore_ascii_case(b"proxy")
}

/// A number as decimal digits, without memory of its own.
struct Digits {
    text: [u8; 20],
    at: usize,
}

impl Digits {
    fn new(mut value: u64) -> Digits {
        let mut digits = Digits {
            text: [b'0'; 20],
            at: 20,
        };
        loop {
            digits.at -= 1;
            digits.text[digits.at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return digits;
            }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.text[self.at..]
    }
}
