//! `*_bind`, `*_connect_timeout`, `*_read_timeout`, `*_send_timeout` and `*_socket_*`: connections to upstreams. Each
//! module with upstreams has these directives under its own prefix.

use sluice_diag::Diagnostic;
use sluice_model::Duration;
use sluice_model::proxy::SocketBuffers;

use crate::definition::Takes::{Flag, Size, Time, Words};
use crate::definition::Verdict::{Always, Partly};
use crate::definition::{Definition, Wrong, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::tree::Directive;

/// The directives of all modules with upstreams.
pub const DIRECTIVES: &[Definition] = &[
    once("bind", Words(1, 2))
        .but(Partly(
            "without `transparent`; an address that cannot be bound gives 502 instead of 500",
        ))
        .checked(bind),
    once("connect_timeout", Time),
    once("read_timeout", Time),
    once("send_timeout", Time),
    once("socket_keepalive", Flag).but(Always("TCP keep-alive is always on")),
];

/// Those of modules that also set the buffers of sockets.
pub const SOCKET_BUFFERS: &[Definition] =
    &[once("socket_rcvbuf", Size), once("socket_sndbuf", Size)];

fn bind(directive: &Directive) -> Option<Wrong> {
    let first = directive.arg(0)?;
    let fits = first == "off"
        || first.contains('$')
        || first.parse::<std::net::IpAddr>().is_ok()
        || first.parse::<std::net::SocketAddr>().is_ok();
    if !fits {
        return Some((0, "an IP address, perhaps with a port, or `off`"));
    }
    (directive.arg(1)? != "transparent")
        .then_some((1, "an address alone, or `transparent` behind it"))
}

/// nginx's default timeout.
const SIXTY: Duration = Duration::seconds(60);

/// How connections to upstreams are opened, and how long they may be silent.
pub struct Connection {
    /// The address that they are dialled from; empty for any.
    pub local_address: String,
    /// `*_connect_timeout`.
    pub dial_timeout: Duration,
    /// `*_read_timeout`.
    pub read_timeout: Duration,
    /// `*_send_timeout`.
    pub write_timeout: Duration,
}

/// Lowers the directives that begin with `prefix`.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts, prefix: &str) -> Connection {
    let time = |name: &str| level.time(&format!("{prefix}_{name}")).unwrap_or(SIXTY);
    Connection {
        local_address: bound(cx, level, facts, &format!("{prefix}_bind")),
        dial_timeout: time("connect_timeout"),
        read_timeout: time("read_timeout"),
        write_timeout: time("send_timeout"),
    }
}

/// The address that upstreams are dialled from; none where it is empty.
fn bound(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts, name: &str) -> String {
    let Some(line) = level.find(name) else {
        return String::new();
    };
    if let Some(second) = line.args.get(1) {
        cx.report.push(
            Diagnostic::error("unsupported-directive", format!("`transparent` of `{name}`"))
                .at(second.span, "not supported")
                .imported(second.import)
                .note("workers would have to keep a privilege of root (CAP_NET_RAW)")
                .help("remove it; `proxy_protocol` and `X-Forwarded-For` show upstreams the client's address"),
        );
    }
    let word = &line.args[0];
    match word.text.as_str() {
        "off" => String::new(),
        text if has_variables(text) => cx.text(word, facts),
        text => text.to_owned(),
    }
}

/// How much the system keeps of what comes from upstreams, and of what goes to them.
pub fn socket_buffers(level: &Level<'_>, prefix: &str) -> SocketBuffers {
    let size = |name: &str| {
        let bytes = level.size(&format!("{prefix}_socket_{name}"));
        bytes.map_or(0, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX))
    };
    SocketBuffers {
        receive: size("rcvbuf"),
        send: size("sndbuf"),
    }
}
