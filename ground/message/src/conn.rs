//! Facts about the connection that carried a request, for matchers, placeholders and logs. The sockets themselves are
//! in `sluice-net`.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

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
    /// The client: the peer of the socket, or the source address that the PROXY protocol gives.
    pub remote: Remote,
    /// Our own end.
    pub local: LocalEnd,
    /// The TLS session; `None` on a plain connection.
    pub tls: Option<Box<TlsInfo>>,
    /// Details that few users need.
    pub facts: ConnFacts,
}

/// Our own end of a connection. Few requests need it, so the operating system may be asked only then.
#[derive(Clone, Debug, Default)]
pub struct LocalEnd {
    address: Cell<Option<SocketAddr>>,
    unasked: Cell<Option<Socket>>,
}

/// A socket, and how its own address is found.
#[derive(Clone, Copy, Debug)]
struct Socket {
    descriptor: i32,
    address: fn(i32) -> Option<SocketAddr>,
}

impl LocalEnd {
    /// The end of the open socket `descriptor`. `address` asks the operating system; it is called at most once, and not
    /// after [`LocalEnd::settle`].
    pub fn of_socket(descriptor: i32, address: fn(i32) -> Option<SocketAddr>) -> LocalEnd {
        LocalEnd {
            address: Cell::new(None),
            unasked: Cell::new(Some(Socket {
                descriptor,
                address,
            })),
        }
    }

    /// The address; `None` on a unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.settle();
        self.address.get()
    }

    /// Finds the address now, because the socket is about to be closed and its descriptor may become that of another.
    pub fn settle(&self) {
        if let Some(socket) = self.unasked.take() {
            self.address.set((socket.address)(socket.descriptor));
        }
    }
}

impl From<Option<SocketAddr>> for LocalEnd {
    fn from(address: Option<SocketAddr>) -> LocalEnd {
        LocalEnd {
            address: Cell::new(address),
            unasked: Cell::new(None),
        }
    }
}

/// Rarely needed facts about a connection.
#[derive(Clone, Debug, Default)]
pub struct ConnFacts {
    /// Its number among the connections of its worker, from 1. It does not contain the number of the worker.
    pub serial: u64,
    /// When it was accepted.
    pub began: Moment,
    /// How long its TLS handshake took, to within the tick of the clock. Zero over QUIC.
    pub handshake: Duration,
    /// The file descriptor of a TCP socket, to query the operating system about the connection while it is open.
    pub socket: Option<i32>,
    /// Requests received on this connection, including the current one.
    pub requests: Cell<u64>,
    /// The addresses in the PROXY protocol header, if they are only recorded and do not replace `remote`.
    pub proxied: Option<Box<ProxiedAddresses>>,
    /// The result of verifying the client certificate.
    pub judged: Cell<Option<Judged>>,
}

/// The result of verifying a client certificate, kept so that it is verified once per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Number of the rules that were applied.
    pub by: u64,
    /// Number of the objection; 0 if there is none.
    pub doubt: u8,
}

/// The addresses of a connection in its PROXY protocol header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxiedAddresses {
    /// The client.
    pub source: SocketAddr,
    /// Where it connected to.
    pub destination: SocketAddr,
    /// The extensions of the header, as they came.
    pub extensions: Box<[u8]>,
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
                let octets = v4.octets();
                octets.iter().for_each(|octet| text.push_octet(*octet));
                // The dot behind the last.
                text.len -= 1;
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

    /// Adds an octet and the dot behind it.
    fn push_octet(&mut self, octet: u8) {
        let (digits, count) = OCTETS[usize::from(octet)];
        let at = usize::from(self.len);
        // What follows overwrites the places of digits that it does not have.
        self.text[at..at + digits.len()].copy_from_slice(&digits);
        self.len += count;
    }
}

/// The digits of each octet from the left and a dot, and the number of these bytes.
const OCTETS: [([u8; 4], u8); 256] = {
    let mut octets = [([0; 4], 0); 256];
    let mut octet = 0;
    while octet < 256 {
        let [hundreds, tens, ones] = [octet / 100, octet / 10 % 10, octet % 10];
        let [hundreds, tens, ones] = [b'0' + hundreds as u8, b'0' + tens as u8, b'0' + ones as u8];
        octets[octet] = match octet {
            0..10 => ([ones, b'.', 0, 0], 2),
            10..100 => ([tens, ones, b'.', 0], 3),
            _ => ([hundreds, tens, ones, b'.'], 4),
        };
        octet += 1;
    }
    octets
};

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
        for octet in 0..=255u8 {
            let ip = core::net::Ipv4Addr::new(octet, 255, octet, octet);
            let text = alloc::format!("{ip}");
            assert_eq!(IpText::new(ip.into()).as_bytes(), text.as_bytes());
        }
    }
}
