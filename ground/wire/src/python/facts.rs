//! What an application learns about a request beside its head.

use core::net::SocketAddr;

use sluice_message::{Scheme, TlsInfo};

/// Facts about a request that its head does not contain, after trusted proxies were considered.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The client (`REMOTE_ADDR`, `REMOTE_PORT`, `scope["client"]`); `None` behind a Unix socket.
    pub client: Option<SocketAddr>,
    /// The address the client connected to (`SERVER_PORT`, `scope["server"]`); `None` for a Unix socket.
    pub server: Option<SocketAddr>,
    /// The scheme the client used.
    pub scheme: Scheme,
    /// The percent-decoded path prefix under which the application is mounted (`SCRIPT_NAME`, `root_path`), without a
    /// slash at its end; `head.uri` has the path after it. Empty at the root.
    pub root: &'a [u8],
    /// The authenticated user (`REMOTE_USER`); empty if there is none.
    pub user: &'a [u8],
    /// The length of the request body, where it is known: `CONTENT_LENGTH`. The header of the request is not used.
    pub content_length: Option<u64>,
    /// The TLS session of the client's connection.
    pub tls: Option<&'a TlsInfo>,
}
