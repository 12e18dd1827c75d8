//! The reverse proxy's part of an explanation: which upstream it would use, what it would send, and what each response
//! would lead to. No request is sent.

use std::sync::Arc;

use sluice_diag::shown;
use sluice_net::RequestBody;

use super::dynamic::Dynamic;
use super::fastcgi::FastCgi;
use super::upstream::Upstream;
use super::{Content, ReverseProxy};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Account, Assumed, Step};

/// Maximum number of upstreams to name individually; nobody reads longer lists.
const UPSTREAMS_SHOWN_MAX: usize = 8;

impl ReverseProxy {
    /// Describes the handling of one request.
    pub(super) fn account_of(&self, exchange: &mut Exchange) -> Account {
        let chosen = self.selection.foresee(&self.upstreams, exchange);
        let mut says = vec![self.whom(exchange, chosen)];
        if let Some(upstream) = chosen.or(self.upstreams.first().map(|first| &**first)) {
            // Placeholders in the request to the upstream may refer to it.
            exchange
                .context
                .upstream
                .address
                .clone_from(&upstream.address);
            match self.prepare(exchange, upstream, &RequestBody::None, None) {
                Ok(prepared) => {
                    says.extend(match &self.fastcgi {
                        None => sent(&prepared.head),
                        Some(fastcgi) => script(fastcgi, &prepared.head),
                    });
                    exchange.worker.buffers.give_back(prepared.head);
                }
                Err(fault) => {
                    return Account {
                        says: Vec::new(),
                        assumed: Some(Assumed::Step(Step::Fail(fault))),
                    };
                }
            }
        }
        // If later handlers get the body, this upstream only authorizes the request.
        let mut assumed = Assumed::Elsewhere;
        for rule in &self.interceptions {
            let mut text = format!("if it responds {}, ", rule.when());
            match (rule.list(), &assumed) {
                (Some(list), Assumed::Elsewhere) if self.content == Content::Keep => {
                    text.push_str("the request goes on, which is assumed here");
                    assumed = Assumed::Step(Step::Enter(list));
                }
                (Some(_), _) => text.push_str("other routes take over"),
                (None, _) => text.push_str("the response gets another status"),
            }
            says.push(text);
        }
        Account {
            says,
            assumed: Some(assumed),
        }
    }

    /// The upstream that would get the request, or the candidates.
    fn whom(&self, exchange: &Exchange, chosen: Option<&Upstream>) -> String {
        let does = match self.content {
            Content::Keep => "would ask",
            Content::Send => "would be proxied to",
        };
        if let Some(dynamic) = &self.dynamic {
            let shown_upstreams = self.upstreams.iter().take(UPSTREAMS_SHOWN_MAX);
            let names: Vec<_> = shown_upstreams.map(|one| shown(&one.address)).collect();
            return match &**dynamic {
                Dynamic::Group(_) => format!(
                    "{does} an address of {}, looked up when a request comes",
                    names.join(", ")
                ),
                Dynamic::Sources(_) | Dynamic::Named(_) => {
                    format!("{does} an upstream that is looked up when a request comes")
                }
            };
        }
        let name = |upstream: &Arc<Upstream>| {
            let address = shown(&upstream.address);
            match self.selection.may_get(&self.upstreams, upstream, exchange) {
                true => address,
                false => format!("{address} (down or full)"),
            }
        };
        let shown_upstreams = self.upstreams.iter().take(UPSTREAMS_SHOWN_MAX);
        let mut list = shown_upstreams.map(name).collect::<Vec<_>>().join(", ");
        if let Some(more @ 1..) = self.upstreams.len().checked_sub(UPSTREAMS_SHOWN_MAX) {
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

/// Describes the request line and the host of an encoded head.
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

/// Describes the script of an encoded request.
fn script(fastcgi: &FastCgi, request: &[u8]) -> Option<String> {
    let path = fastcgi.script_of(request)?;
    Some(format!(
        "to run `{}`",
        shown(&String::from_utf8_lossy(&path))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_described_by_their_line_and_host() {
        let head = b"GET /a HTTP/1.1\r\nA: b\r\nhost: x.test\r\n\r\n";
        assert_eq!(sent(head), Some("as `GET /a`, Host `x.test`".to_owned()));
        assert_eq!(sent(b"\x01\x01"), None);
    }
}
