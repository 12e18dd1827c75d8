//! Connection limits of a server: those of the model, or our defaults with their rationale.

use std::time::Duration;

use sluice_model::Server;
use sluice_model::http::MinDataRate as Config;
use sluice_net::limits::FIRST_HEAD_TIMEOUT;
use sluice_net::{
    AddressValidation, ClientLimits, Congestion, Http3, Probes, Segmentation, Settings,
    SocketSettings,
};
use sluice_policy::MinDataRate;
use sluice_wire::{h1, h2};

/// Timeout for a complete request head, from its first byte: long enough for users on bad connections, short enough to
/// end a slow-header attack of ten thousand connections within a minute.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for a pause while the client sends a body.
const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout for a pause while the client receives a response.
const WRITE_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Minimum rate at which a client has to send a body or receive a response, in bytes per second: a tenth of the rate of
/// the oldest modems, and ten times what an attacker sends to hold thousands of connections. Kestrel's default.
const MIN_DATA_RATE: u32 = 240;

/// How long we wait for a client in total before the minimum rate applies: half of the idle timeout.
const MIN_DATA_RATE_GRACE: Duration = Duration::from_secs(30);

/// Caddy's idle timeout. Idle connections need little memory, and are closed first when slots run out.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// A TLS handshake takes at most two round trips and the client's signature.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of TCP keep-alive probes; Caddy's default. A client that vanished is detected after about two minutes.
/// Accepted sockets inherit the setting, so it costs nothing per connection.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);

/// The name of the listener wrapper with socket options. An extension of sluice.
pub const SOCKET_WRAPPER: &str = "socket";

/// Upper bound for the maximum length of a request target: HTTP/2 counts it in 16 bits, and no client sends longer ones.
pub const TARGET_BYTES_MAX: usize = u16::MAX as usize;

/// Upper bound for the maximum number of headers: HTTP/2 counts them, plus one, in 16 bits.
pub const HEADERS_COUNT_MAX: u16 = u16::MAX - 1;

/// Concurrent requests on an HTTP/3 connection: each has a bit in the set of those that are ready.
const HTTP3_STREAMS_MAX: u8 = 128;

/// The limits of a server.
pub fn settings(server: &Server) -> Settings {
    let limits = h1_limits(server.max_header_bytes);
    let usual = min_data_rate(server.min_data_rate.as_ref());
    Settings {
        h2: h2_limits(&limits),
        h1: limits,
        h3: http3(server),
        head_timeout: given(server.read_header_timeout).unwrap_or(HEAD_TIMEOUT),
        first_byte_timeout: FIRST_HEAD_TIMEOUT,
        client: ClientLimits {
            body_idle_timeout: given(server.read_idle_timeout)
                .or(given(server.read_timeout))
                .unwrap_or(BODY_IDLE_TIMEOUT),
            write_idle_timeout: given(server.write_idle_timeout)
                .or(given(server.write_timeout))
                .unwrap_or(WRITE_IDLE_TIMEOUT),
            min_rate: rate_after(server.read_min_rate, server.read_idle_timeout).or(usual),
            write_min_rate: rate_after(server.write_min_rate, server.write_idle_timeout).or(usual),
            ..ClientLimits::patient(given(server.idle_timeout).unwrap_or(KEEP_ALIVE_TIMEOUT))
        },
        handshake_timeout: HANDSHAKE_TIMEOUT,
        // Each request counts in the percentiles of its site. Coarse times would be up to a tenth of a second off.
        exact_times: true,
        times_stages: server.logs.as_ref().is_some_and(|logs| logs.timings),
        sockets: sockets(server),
        probes: probes(server),
    }
}

/// The limits of HTTP/3. The secret of `host_key_file` is read where the server is built.
fn http3(server: &Server) -> Http3 {
    let usual = Http3::default();
    let Some(config) = &server.http3 else {
        return usual;
    };
    let streams = u8::try_from(config.max_streams).ok();
    let window = u32::try_from(config.stream_window).ok();
    let stream_window_bytes = window
        .filter(|bytes| *bytes > 0)
        .unwrap_or(usual.stream_window_bytes);
    Http3 {
        streams_max: streams
            .filter(|count| (1..=HTTP3_STREAMS_MAX).contains(count))
            .unwrap_or(usual.streams_max),
        stream_window_bytes,
        // One upload may use all of it.
        window_bytes: usual.window_bytes.max(stream_window_bytes),
        congestion: match config.congestion.as_str() {
            "bbr" => Congestion::Bbr,
            _ => Congestion::Cubic,
        },
        address_validation: match config.always_retry {
            true => AddressValidation::Always,
            false => AddressValidation::UnderLoad,
        },
        segmentation: match config.no_segmentation_offload {
            true => Segmentation::Own,
            false => Segmentation::Offloaded,
        },
        ..usual
    }
}

/// The minimum data rate of clients; the default if it is not configured.
pub fn min_data_rate(config: Option<&Config>) -> Option<MinDataRate> {
    let rate = config.map_or(MIN_DATA_RATE, |config| {
        u32::try_from(config.rate).unwrap_or(u32::MAX)
    });
    let grace = config.and_then(|config| given(config.grace));
    MinDataRate::new(rate, grace.unwrap_or(MIN_DATA_RATE_GRACE))
}

/// A minimum data rate in bytes per second that counts after a grace period; `None` unless both are given.
pub fn rate_after(rate: i64, grace: sluice_model::Duration) -> Option<MinDataRate> {
    let rate = u32::try_from(rate.max(0)).unwrap_or(u32::MAX);
    MinDataRate::new(rate, given(grace)?)
}

/// The same limits with a different maximum head size; 0 means the default.
pub fn with_head_bytes(settings: &Settings, bytes_max: u64) -> Settings {
    let limits = h1_limits(bytes_max);
    Settings {
        h2: h2_limits(&limits),
        h1: limits,
        ..settings.clone()
    }
}

fn h1_limits(head_bytes_max: u64) -> h1::Limits {
    let mut limits = h1::Limits::default();
    if let Ok(max) = usize::try_from(head_bytes_max)
        && max > 0
    {
        limits.head_bytes_max = max;
        let usual = h1::Limits::DEFAULT;
        // A quarter of it, as by default; of the four buffers that nginx has by default, one is for the request line.
        let target = usual.target_bytes_max.saturating_mul(max) / usual.head_bytes_max;
        limits.target_bytes_max = target
            .clamp(usual.target_bytes_max, TARGET_BYTES_MAX)
            .min(max);
        // A larger maximum allows proportionally more headers; a smaller one does not reduce their number.
        let headers = usual.fields_max.saturating_mul(max) / usual.head_bytes_max;
        limits.fields_max = headers.clamp(usual.fields_max, usize::from(HEADERS_COUNT_MAX));
    }
    limits
}

/// The same head size as for HTTP/1.
fn h2_limits(h1: &h1::Limits) -> h2::Limits {
    let usual = h2::Limits::SERVER;
    let header_list_bytes_max = u32::try_from(h1.head_bytes_max).unwrap_or(u32::MAX);
    h2::Limits {
        header_list_bytes_max,
        // Allow as many open heads as with the default size, and at least one of the maximum size.
        open_heads_bytes_max: usual.open_heads_bytes_max.max(header_list_bytes_max),
        block_bytes_max: header_list_bytes_max,
        fields_max: u16::try_from(h1.fields_max)
            .unwrap_or(HEADERS_COUNT_MAX)
            .max(usual.fields_max),
        target_bytes_max: u16::try_from(h1.target_bytes_max).unwrap_or(u16::MAX),
        ..usual
    }
}

/// Socket options from our `socket` wrapper, which corresponds to parameters of nginx's `listen`.
fn sockets(server: &Server) -> SocketSettings {
    let mut wrappers = server.listener_wrappers.iter();
    let found = wrappers.find(|wrapper| {
        let name = wrapper.get("wrapper").and_then(serde_json::Value::as_str);
        name == Some(SOCKET_WRAPPER)
    });
    let Some(wrapper) = found else {
        return SocketSettings::default();
    };
    let number = |name: &str| wrapper.get(name).and_then(serde_json::Value::as_u64);
    let count = |name: &str| number(name).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let bytes = |name: &str| number(name).and_then(|bytes| usize::try_from(bytes).ok());
    SocketSettings {
        backlog: count("backlog"),
        receive_bytes: bytes("receive_bytes"),
        send_bytes: bytes("send_bytes"),
        fast_open: count("fast_open"),
        deferred: number("deferred_seconds").map(Duration::from_secs),
    }
}

/// As in Caddy, a negative interval disables probes, and the default is Caddy's.
fn probes(server: &Server) -> Option<Probes> {
    (server.keepalive_interval.0 >= 0).then(|| Probes {
        idle: given(server.keepalive_idle).unwrap_or(PROBE_INTERVAL),
        interval: given(server.keepalive_interval).unwrap_or(PROBE_INTERVAL),
        count: u32::try_from(server.keepalive_count)
            .ok()
            .filter(|count| *count > 0),
    })
}

/// The duration, if it is set.
pub fn given(duration: sluice_model::Duration) -> Option<Duration> {
    u64::try_from(duration.0)
        .ok()
        .filter(|nanos| *nanos > 0)
        .map(Duration::from_nanos)
}
