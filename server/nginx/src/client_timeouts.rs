//! Client settings of a scope: timeouts, and when connections are closed. The connection enforces them; it queries
//! them once the handler of a request is known.

use std::time::Duration;

use sluice_message::{FieldId, Method};
use sluice_model::nginx::{ClientLimits as Config, HeadLimits};
use sluice_net::{ClientLimits, Linger, Lingering, Settings, Slow};
use sluice_wire::h1::{Leniency, LineEnds, OddNames, TargetBytes, UndeclaredContent};
use sluice_wire::h2::FirstFrame;

use super::{Tree, TreeRef};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::{
    HEADERS_COUNT_MAX, TARGET_BYTES_MAX, min_data_rate, with_head_bytes,
};

/// nginx's `max_headers` default. The total size is limited as well, where HTTP/2 counts 32 bytes extra per header.
const HEADERS_MAX: u64 = 1000;

/// nginx's default size of a buffer for a long request line or header (`large_client_header_buffers 4 8k`).
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Client settings of some scopes.
#[derive(Clone, Debug)]
pub struct ClientTimeouts {
    limits: ClientLimits,
    /// Whether connections of some browsers are closed after each response (`keepalive_disable`).
    disables_msie6: bool,
    disables_safari: bool,
}

impl ClientTimeouts {
    /// Parses the settings of a scope.
    pub fn build(config: &Config) -> Result<ClientTimeouts, Refusal> {
        let time = |given: Option<sluice_model::Duration>, usual: u64| match given {
            None => Duration::from_secs(usual),
            Some(given) => Duration::from_nanos(given.0.unsigned_abs()),
        };
        let when = match config.lingering.as_str() {
            "" | "on" => Lingering::Unread,
            "off" => Lingering::Never,
            "always" => Lingering::Always,
            other => return Err(Refusal::new(format!("`lingering` of clients is `{other}`"))),
        };
        let is_disabled = |browser: &str| match &config.keepalive_disable {
            None => browser == "msie6",
            Some(browsers) => browsers.iter().any(|known| known == browser),
        };
        Ok(ClientTimeouts {
            disables_msie6: is_disabled("msie6"),
            disables_safari: is_disabled("safari"),
            limits: ClientLimits {
                body_idle_timeout: time(config.body_timeout, 60),
                write_idle_timeout: time(config.send_timeout, 60),
                min_rate: min_data_rate(config.min_data_rate.as_ref()),
                write_min_rate: min_data_rate(config.min_data_rate.as_ref()),
                keep_alive_timeout: time(config.keepalive_timeout, 75),
                keep_alive_min: time(Some(config.keepalive_min), 0),
                keep_alive_announced: config.keepalive_announced,
                requests_max: config.keepalive_requests.unwrap_or(1000),
                age_max: time(config.keepalive_time, 3600),
                linger: Linger {
                    when,
                    time: time(config.lingering_time, 30),
                    pause: time(config.lingering_timeout, 5),
                    // nginx reads any amount within that time.
                    bytes_max: u64::MAX,
                },
                slow: match config.reset_timed_out {
                    true => Slow::Reset,
                    false => Slow::Close,
                },
            },
        })
    }

    /// The limits that the connection enforces.
    pub fn limits(&self) -> &ClientLimits {
        &self.limits
    }

    /// Maximum time between two reads of a request body.
    pub fn body_timeout(&self) -> Duration {
        self.limits.body_idle_timeout
    }

    /// Whether the connection is closed after the response because of the browser.
    pub fn turns_away(&self, exchange: &Exchange) -> bool {
        (self.disables_msie6 && exchange.req.method == Method::Post && is_msie6(agent(exchange)))
            || (self.disables_safari && is_safari(agent(exchange)))
    }
}

impl TreeRef {
    /// The `send_timeout` of the scope of a request.
    pub(crate) fn send_timeout(&self, exchange: &Exchange) -> Option<Duration> {
        let tree = self.get()?;
        let limits = tree.timeouts_of(tree.place(exchange)).limits();
        Some(limits.write_idle_timeout)
    }
}

fn agent(exchange: &Exchange) -> &[u8] {
    exchange
        .req
        .fields
        .first(FieldId::UserAgent)
        .unwrap_or_default()
}

/// nginx's criterion: MSIE 4 to 6, except version 6 with `SV1`.
fn is_msie6(agent: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(agent, b"MSIE ") else {
        return false;
    };
    match &agent[at + 5..] {
        [b'4' | b'5', b'.', ..] => true,
        [b'6', b'.', rest @ ..] => memchr::memmem::find(rest, b"SV1").is_none(),
        _ => false,
    }
}

/// nginx's criterion: Safari on macOS, not Chrome.
fn is_safari(agent: &[u8]) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(agent, text).is_some();
    !has(b"Chrome/") && has(b"Safari/") && has(b"Mac OS X")
}

/// The settings of the default server, derived from `settings`, and those of all servers if any differ.
pub fn per_server(tree: &Tree, settings: &Settings) -> (Settings, Option<Vec<Settings>>) {
    let of = |server: &super::Server| {
        let place = &tree.places[server.place as usize];
        of_server(settings, &server.heads, tree.timeouts_of(place).limits())
    };
    let all: Vec<Settings> = tree.servers.iter().map(of).collect();
    let first = all[0].clone();
    let differ = all.iter().any(|settings| *settings != first);
    (first, differ.then_some(all))
}

fn of_server(settings: &Settings, heads: &HeadLimits, client: &ClientLimits) -> Settings {
    let head_timeout = match heads.timeout {
        None => Duration::from_secs(60),
        Some(timeout) => Duration::from_nanos(timeout.0.unsigned_abs()),
    };
    let mut settings = Settings {
        head_timeout,
        first_byte_timeout: head_timeout,
        handshake_timeout: settings.handshake_timeout.min(head_timeout),
        client: client.clone(),
        ..with_head_bytes(settings, heads.bytes_max)
    };
    settings.h1.odd_names = OddNames::PassOver;
    settings.h1.leniency = Leniency {
        line_ends: LineEnds::LfToo,
        targets: TargetBytes::Raw,
        undeclared_content: UndeclaredContent::Empty,
    };
    settings.h2.targets = TargetBytes::Raw;
    settings.h2.first_frame = FirstFrame::Any;
    limit_lines(&mut settings, heads.line_bytes_max);
    let headers = heads.headers_max.unwrap_or(HEADERS_MAX);
    settings.h2.fields_max = u16::try_from(headers)
        .unwrap_or(HEADERS_COUNT_MAX)
        .min(HEADERS_COUNT_MAX);
    settings.h1.fields_max = usize::from(settings.h2.fields_max);
    let h2 = &mut settings.h2;
    let streams = heads.streams_max.and_then(|max| u16::try_from(max).ok());
    h2.streams_max = streams.unwrap_or(h2.streams_max).clamp(1, h2.streams_max);
    if let Some(ahead) = heads.body_ahead {
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        h2.stream_window = ahead.clamp(h2.stream_window, h2.stream_window_max);
    }
    settings
}

/// Limits request lines and header lines to one buffer of `large_client_header_buffers`; 0 means nginx's default. HTTP/2
/// has names and values in place of lines.
fn limit_lines(settings: &mut Settings, bytes_max: u64) {
    let bytes_max = match usize::try_from(bytes_max).unwrap_or(usize::MAX) {
        0 => LINE_BYTES_MAX,
        bytes_max => bytes_max,
    };
    let h1 = &mut settings.h1;
    h1.line_bytes_max = bytes_max;
    h1.target_bytes_max = bytes_max.min(TARGET_BYTES_MAX);
    h1.name_bytes_max = bytes_max.min(usize::from(u16::MAX));
    let h2 = &mut settings.h2;
    h2.target_bytes_max = u16::try_from(bytes_max).unwrap_or(u16::MAX);
    h2.name_bytes_max = u16::try_from(bytes_max).unwrap_or(u16::MAX);
    h2.value_bytes_max = u32::try_from(bytes_max).unwrap_or(u32::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_browsers_are_detected_as_in_nginx() {
        for (agent, expected) in [
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", true),
            (
                "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)",
                false,
            ),
            ("Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)", true),
            ("Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.1)", false),
            ("curl/8", false),
        ] {
            assert_eq!(is_msie6(agent.as_bytes()), expected, "{agent}");
        }
        let safari = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Version/17.0 Safari/605.1";
        assert!(is_safari(safari.as_bytes()));
        let chrome = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Chrome/120 Safari/537.36";
        assert!(!is_safari(chrome.as_bytes()));
    }
}
