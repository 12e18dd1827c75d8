//! Facts about the connection a request came by, which matchers, placeholders and logs use. Sockets are left to
//! `sluice-net`.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};

use crate::head::Scheme;
use crate::moment::Moment;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// An IPv4 or IPv6 peer. IPv4-mapped IPv6 addresses arrive here as IPv4.
    Ip(SocketAddr),
    /// A peer of a unix socket, which has no address.
    Unix,
}

/// What is known of one client connection. It does not change while the connection lives.
#[derive(Clone, Debug)]
pub struct ConnInfo {
    /// The client, or whoever the PROXY protocol says it is.
    pub remote: Remote,
    /// Our own end; `None` on a unix socket.
    pub local: Option<SocketAddr>,
    /// The TLS session; `None` on a plain connection.
    pub tls: Option<Box<TlsInfo>>,
    /// What few ask for.
    pub facts: ConnFacts,
}

/// What few ask of a connection.
#[derive(Clone, Debug, Default)]
pub struct ConnFacts {
    /// Its number among those of its worker, from 1; the number of the worker is left to whoever shows it.
    pub serial: u64,
    /// When it was accepted.
    pub began: Moment,
    /// The number of its socket in this process, of TCP: for whoever asks the system about it, as long as it is open.
    pub socket: Option<i32>,
    /// Requests that came by it, the one at hand included.
    pub requests: Cell<u64>,
    /// What the PROXY protocol says of its ends, where it is only to be noted.
    pub told: Option<Box<Told>>,
    /// What was made of the certificate that the client has shown.
    pub judged: Cell<Option<Judged>>,
}

/// What was made of the certificate of a client, so that it is made once for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// By whose rules, as a number of theirs.
    pub by: u64,
    /// The number of the doubt; 0 where there is none.
    pub doubt: u8,
}

/// What the PROXY protocol says of the ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The client.
    pub source: SocketAddr,
    /// Where it connected to.
    pub destination: SocketAddr,
}

/// An IP address as text, without memory of its own.
#[derive(Clone, Copy, Debug)]
pub struct IpText {
    text: [u8; 45],
    len: u8,
}

impl IpText {
    /// The text of `ip`. Asked for with every proxied request, so IPv4 does without the formatting machinery.
    pub fn new(ip: IpAddr) -> IpText {
        let mut text = IpText {
            text: [0; 45],
            len: 0,
        };
        match ip {
            IpAddr::V4(v4) => {
                for (index, octet) in v4.octets().into_iter().enumerate() {
                    if index > 0 {
                        text.push(b'.');
                    }
                    for (least, unit) in [(100, 100), (10, 10), (0, 1)] {
                        if octet >= least {
                            text.push(b'0' + octet / unit % 10);
                        }
                    }
                }
            }
            IpAddr::V6(v6) => alloc::format!("{v6}")
                .bytes()
                .for_each(|byte| text.push(byte)),
        }
        text
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..usize::from(self.len)]
    }

    fn push(&mut self, byte: u8) {
        self.text[usize::from(self.len)] = byte;
        self.len += 1;
    }
}

impl ConnInfo {
    /// `https` where there is TLS.
    pub fn scheme(&self) -> Scheme {
        if self.tls.is_some() {
            Scheme::Https
        } else {
            Scheme::Http
        }
    }
}

/// What the TLS handshake settled.
#[derive(Clone, Debug, Default)]
pub struct TlsInfo {
    /// `tls1.2` or `tls1.3`.
    pub version: &'static str,
    /// The cipher suite in IANA spelling.
    pub cipher: &'static str,
    /// The server name the client asked for, lower case; empty if none.
    pub server_name: String,
    /// The protocol chosen by ALPN (`h2`, `http/1.1`), empty if none.
    pub alpn: Vec<u8>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The client's certificate chain in DER, its own first; empty if it sent none.
    pub client_certs: Vec<Vec<u8>>,
    /// Whether the client has yet to end its handshake, where it was allowed to speak before that; `None` nearly
    /// always.
    pub early: Option<Early>,
    /// The number of the group of the key exchange (IANA registry); 0 where it is not known.
    pub group: u16,
    /// What the client offered; only where the configuration asks for it.
    pub offered: Option<Box<Offered>>,
}

/// What a client offered in its handshake, as the numbers of the IANA registries, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// Cipher suites.
    pub ciphers: Vec<u16>,
    /// Groups for the key exchange.
    pub groups: Vec<u16>,
    /// Bytes that follow from the secrets of the session, which nothing else has: they tell it from all others.
    pub id: [u8; 32],
}

impl TlsInfo {
    /// Whether what the client says now may be the copy of something that it said before (RFC 8446, section 8): its
    /// handshake has not ended.
    pub fn is_early(&self) -> bool {
        self.early.as_ref().is_some_and(Early::is_on)
    }
}

/// Known to a connection and to all requests on it: the time before the end of the handshake.
#[derive(Clone, Debug)]
pub struct Early(Rc<Cell<bool>>);

impl Early {
    /// It has begun.
    pub fn begun() -> Early {
        Early(Rc::new(Cell::new(true)))
    }

    /// It is over, for all who know of it.
    pub fn end(&self) {
        self.0.set(false);
    }

    /// Whether it goes on.
    pub fn is_on(&self) -> bool {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_library_writes_them() {
        for text in [
            "0.0.0.0",
            "127.0.0.1",
            "10.20.30.255",
            "199.9.90.100",
            "2001:db8::1",
            "::",
        ] {
            assert_eq!(
                IpText::new(text.parse().unwrap()).as_bytes(),
                text.as_bytes()
            );
        }
    }
}
