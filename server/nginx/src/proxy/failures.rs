//! What nginx's error log says of an upstream that does not respond: each time, in nginx's words, with the upstream.

use std::io;

use sluice_net::{Failure, FailureKind, Retry, Side};

use super::NginxProxy;
use sluice_observe::log::Severity;
use sluice_pipeline::context::Exchange;
use sluice_proxy::reverse_proxy::dialect::{Destination, Reported};
use sluice_proxy::reverse_proxy::upstream::Upstream;

/// Logs a failed try, unless nginx says nothing about such a failure.
pub fn report(
    proxy: &NginxProxy,
    exchange: &mut Exchange,
    failure: &Failure,
    of: &Destination<'_>,
) -> Reported {
    let Some((severity, what)) = words(failure, of.chosen) else {
        return Reported::WithRequest;
    };
    let scheme = match of.protocol {
        Some(protocol) => protocol.to_owned(),
        None => {
            let is_secure = |upstream: &Upstream| upstream.endpoint.options().tls.is_some();
            let name = if proxy.trailers { "grpc" } else { "http" };
            let end = of
                .any
                .map_or("", |any| if is_secure(any) { "s" } else { "" });
            format!("{name}{end}")
        }
    };
    // Requests to applications have no target of HTTP; a colon ends the path of their socket.
    let (uri, colon) = match of.protocol {
        Some(_) => (String::new(), ":"),
        None => (proxy.target_text(exchange), ""),
    };
    let address = match of.chosen.map(|chosen| chosen.address.as_str()) {
        None => proxy.host_text(exchange),
        Some(address) => match address.strip_prefix("unix/") {
            Some(path) => format!("unix:{path}{colon}"),
            None => address.to_owned(),
        },
    };
    let upstream = format!("{scheme}://{address}{uri}");
    proxy.tree.log_error(exchange, severity, &what, &upstream);
    Reported::AtOnce
}

/// A connection that is not established within `*_connect_timeout` is a timeout to nginx: the response is 504, and
/// `*_next_upstream timeout` applies. The system's own timeout is not.
pub fn classify(failure: &mut Failure) {
    let is_ours = |error: &io::Error| {
        error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none()
    };
    if failure.side == Side::Upstream
        && failure.kind == FailureKind::Dial
        && let Some(source) = &failure.source
        && source.downcast_ref::<io::Error>().is_some_and(is_ours)
    {
        failure.kind = FailureKind::Timeout;
    }
}

/// The log level and message of a failure; `None` if a response was discarded.
fn words(failure: &Failure, chosen: Option<&Upstream>) -> Option<(Severity, String)> {
    use FailureKind as K;
    let connecting = failure.retry == Retry::Always;
    let reading = "while reading response header from upstream";
    let doing = if connecting {
        "while connecting to upstream"
    } else {
        reading
    };
    let what = match (failure.side, failure.kind) {
        (Side::Upstream, K::Unavailable | K::Limit) if chosen.is_none() => {
            "no live upstreams while connecting to upstream".to_owned()
        }
        (Side::Upstream, K::Unavailable) => return None,
        (Side::Upstream, K::Dial | K::Io) => {
            let target = match chosen.and_then(|chosen| chosen.address.strip_prefix("unix/")) {
                Some(path) => format!(" to unix:{path}"),
                None => String::new(),
            };
            format!("connect(){target} failed{} {doing}", cause(failure))
        }
        (Side::Upstream, K::Timeout) => {
            format!("upstream timed out (110: Connection timed out) {doing}")
        }
        (Side::Upstream, K::Closed) => match system_error(failure) {
            Some(io::ErrorKind::ConnectionReset) => {
                format!("recv() failed{} {reading}", cause(failure))
            }
            _ => format!("upstream prematurely closed connection {reading}"),
        },
        (Side::Upstream, K::Protocol) => format!("upstream sent invalid header {reading}"),
        (Side::Upstream, K::Limit) if connecting => format!("upstream is busy {doing}"),
        (Side::Upstream, K::Limit) => format!("upstream sent too big header {reading}"),
        (Side::Upstream, K::Tls) => {
            format!(
                "SSL_do_handshake() failed{} while SSL handshaking to upstream",
                cause(failure)
            )
        }
        (Side::Internal, _) => {
            let source = failure.source.as_ref();
            return Some((
                Severity::Alert,
                source.map_or_else(String::new, |s| s.to_string()),
            ));
        }
        // Failures of the client are logged where its body is read.
        (Side::Client, _) => return None,
    };
    Some((Severity::Error, what))
}

fn system_error(failure: &Failure) -> Option<io::ErrorKind> {
    let source = failure.source.as_ref()?;
    Some(source.downcast_ref::<io::Error>()?.kind())
}

/// The cause in parentheses: the system's error number and message as in nginx, otherwise its text.
fn cause(failure: &Failure) -> String {
    let Some(source) = &failure.source else {
        return String::new();
    };
    let text = source.to_string();
    let code = source
        .downcast_ref::<io::Error>()
        .and_then(io::Error::raw_os_error);
    match code {
        Some(code) => {
            let words = text
                .strip_suffix(&format!(" (os error {code})"))
                .unwrap_or(&text);
            format!(" ({code}: {words})")
        }
        None => format!(" ({text})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(failure: Failure) -> Option<String> {
        words(&failure, None).map(|(_, what)| what)
    }

    #[test]
    fn a_slow_dial_is_a_timeout() {
        let dial = |source: io::Error| {
            let mut failure = Failure::new(Side::Upstream, FailureKind::Dial).because(source);
            classify(&mut failure);
            failure.kind
        };
        let own = io::Error::new(io::ErrorKind::TimedOut, "too slow");
        assert_eq!(dial(own), FailureKind::Timeout);
        let of_system = io::Error::from_raw_os_error(110);
        assert_eq!(of_system.kind(), io::ErrorKind::TimedOut);
        assert_eq!(dial(of_system), FailureKind::Dial);
    }

    #[test]
    fn the_words_are_nginxs() {
        let failure = |kind| Failure::new(Side::Upstream, kind);
        let refused = failure(FailureKind::Dial)
            .with_retry(Retry::Always)
            .because(io::Error::from_raw_os_error(111));
        assert_eq!(
            message(refused).as_deref(),
            Some("connect() failed (111: Connection refused) while connecting to upstream")
        );
        let slow = failure(FailureKind::Timeout);
        let expected = "upstream timed out (110: Connection timed out) while reading response header from upstream";
        assert_eq!(message(slow).as_deref(), Some(expected));
        let none = failure(FailureKind::Unavailable).with_retry(Retry::Always);
        let expected = "no live upstreams while connecting to upstream";
        assert_eq!(message(none).as_deref(), Some(expected));
        let reset = failure(FailureKind::Closed).because(io::Error::from_raw_os_error(104));
        let expected = "recv() failed (104: Connection reset by peer) while reading response header from upstream";
        assert_eq!(message(reset).as_deref(), Some(expected));
        assert_eq!(
            message(Failure::new(Side::Client, FailureKind::Closed)),
            None
        );
    }
}
