//! TCP keep-alive probes: detect that the peer of an idle connection has vanished. Closing idle connections is a matter
//! of their timeouts.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// Settings of TCP keep-alive probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Idle time before the first probe.
    pub idle: Duration,
    /// The interval between probes.
    pub interval: Duration,
    /// How many probes may remain unacknowledged; the system's default if `None`.
    pub count: Option<u32>,
}

/// The kernel accepts whole seconds, from one to this many.
const SECONDS_MAX: u64 = 32_767;

/// The kernel's maximum for the number of unacknowledged probes.
const COUNT_MAX: u32 = 127;

impl Probes {
    /// Probes after, and then every `interval`.
    pub fn every(interval: Duration) -> Probes {
        Probes {
            idle: interval,
            interval,
            count: None,
        }
    }

    /// Enables probes on `socket`. Sockets accepted from a listening socket inherit them without another system call.
    pub fn set(&self, socket: SockRef<'_>) -> io::Result<()> {
        let mut settings = TcpKeepalive::new()
            .with_time(whole_seconds(self.idle))
            .with_interval(whole_seconds(self.interval));
        if let Some(count) = self.count {
            settings = settings.with_retries(count.clamp(1, COUNT_MAX));
        }
        socket.set_tcp_keepalive(&settings)
    }
}

fn whole_seconds(duration: Duration) -> Duration {
    let rounded = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    Duration::from_secs(rounded.clamp(1, SECONDS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_connections_inherit_the_probes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let probes = Probes {
            idle: Duration::from_millis(2_500),
            interval: Duration::from_secs(7),
            count: Some(4),
        };
        probes.set(SockRef::from(&listener)).unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let accepted = SockRef::from(&accepted);
        assert!(accepted.keepalive().unwrap());
        assert_eq!(accepted.tcp_keepalive_time().unwrap().as_secs(), 3);
        assert_eq!(accepted.tcp_keepalive_interval().unwrap().as_secs(), 7);
        assert_eq!(accepted.tcp_keepalive_retries().unwrap(), 4);
    }
}
