//! What a reverse proxy says of itself when a request is explained: whom it would ask, what it would send, and what
//! each answer would lead to. Nobody is asked.

use sluice_diag::shown;
use sluice_net::RequestBody;

use super::upstream::Upstream;
use super::{Content, ReverseProxy};
use crate::context::Exchange;
use crate::handler::{Account, Assumed, Step};

/// Upstreams that are named one by one; more are not read.
const UPSTREAMS_TOLD_MAX: usize = 8;

impl ReverseProxy {
    /// Its account of one request.
    pub(super) fn account_of(&self, x: &mut Exchange) -> Account {
        let chosen = self.selection.foresee(&self.upstreams, x);
        let mut says = vec![self.whom(x, chosen)];
        if let Some(upstream) = chosen.or(self.upstreams.first()) {
            // Placeholders in what it is sent may name it.
            x.context.upstream.address.clone_from(&upstream.address);
            match self.prepare(x, upstream, &RequestBody::None, None) {
                Ok(prepared) => {
                    says.extend(match self.fastcgi {
                        None => sent(&prepared.head),
                        Some(_) => script(&prepared.head),
                    });
                    x.worker.buffers.give_back(prepared.head);
                }
                Err(fault) => {
                    return Account {
                        says: Vec::new(),
                        assumed: Some(Assumed::Step(Step::Fail(fault))),
                    };
                }
            }
        }
        // Where the content stays for whoever comes after, this upstream only says whether the request may pass.
        let mut assumed = Assumed::Elsewhere;
        for rule in &self.interceptions {
            let mut text = format!("if it answers {}, ", rule.when());
            match (rule.list(), &assumed) {
                (Some(list), Assumed::Elsewhere) if self.content == Content::Keep => {
                    text.push_str("the request goes on, which is assumed here");
                    assumed = Assumed::Step(Step::Enter(list));
                }
                (Some(_), _) => text.push_str("other routes take over"),
                (None, _) => text.push_str("the answer gets another status"),
            }
            says.push(text);
        }
        Account {
            says,
            assumed: Some(assumed),
        }
    }

    /// The upstream that it would ask, or those among which it would choose.
    fn whom(&self, x: &Exchange, chosen: Option<&Upstream>) -> String {
        let does = match self.content {
            Content::Keep => "would ask",
            Content::Send => "would be proxied to",
        };
        if self.dynamic.is_some() {
            return format!("{does} an upstream that is looked up when a request comes");
        }
        let name = |upstream: &Upstream| {
            let address = shown(&upstream.address);
            match self.selection.may_get(upstream, x) {
                true => address,
                false => format!("{address} (down or full)"),
            }
        };
        let told = self.upstreams.iter().take(UPSTREAMS_TOLD_MAX);
        let mut list = told.map(name).collect::<Vec<_>>().join(", ");
        if let Some(more @ 1..) = self.upstreams.len().checked_sub(UPSTREAMS_TOLD_MAX) {
            list.push_str(&format!(" and {more} more"));
        }
        match (self.upstreams.len(), chosen) {
            (0, _) => format!("{does} nobody: there is no upstream"),
            (_, None) => format!("{does} nobody, as none is available: {list}"),
            (1, Some(_)) => format!("{does} {list}"),
            (_, Some(one)) if self.selection.is_settled() => {
                format!("{does} {}, chosen from {list}", shown(&one.address))
            }
            (_, Some(_)) => format!("{does} one of {list}"),
        }
    }
}

/// The request line and the host of an encoded head, in words.
fn sent(head: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let line = lines.next()?.strip_suffix(" HTTP/1.1")?;
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let host = host.map(|host| format!(", Host `{}`", shown(host)));
    Some(format!("as `{}`{}", shown(line), host.unwrap_or_default()))
}

/// The script that encoded FastCGI parameters name (FastCGI specification, section 3.4).
fn script(params: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"SCRIPT_FILENAME";
    let at = memchr::memmem::find(params, NAME)?;
    let (before, value) = (&params[..at], &params[at + NAME.len()..]);
    // Before the name stand its own length and that of the value, in one byte or in four.
    const NAME_LEN: u8 = NAME.len() as u8;
    let len = match before {
        [.., NAME_LEN, len] if *len < 0x80 => usize::from(*len),
        [.., NAME_LEN, a, b, c, d] => u32::from_be_bytes([a & 0x7f, *b, *c, *d]) as usize,
        _ => return None,
    };
    let path = String::from_utf8_lossy(value.get(..len)?);
    Some(format!("to run `{}`", shown(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_by_their_line_and_host() {
        let head = b"GET /a HTTP/1.1\r\nA: b\r\nhost: x.test\r\n\r\n";
        assert_eq!(sent(head), Some("as `GET /a`, Host `x.test`".to_owned()));
        assert_eq!(sent(b"\x01\x01"), None);
    }

    #[test]
    fn scripts_are_found_among_parameters() {
        let short = b"\x01\x01AB\x0f\x06SCRIPT_FILENAME/a.php\x01\x01CD";
        assert_eq!(script(short), Some("to run `/a.php`".to_owned()));
        let path = "/".repeat(70);
        let mut long = b"\x0f\x80\0\0\x46SCRIPT_FILENAME".to_vec();
        long.extend_from_slice(path.as_bytes());
        assert_eq!(script(&long), Some(format!("to run `{path}`")));
        assert_eq!(script(b"SCRIPT_FILENAME"), None);
    }
}
