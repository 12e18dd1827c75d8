//! Network outputs: connects, sends lines and reconnects. `output` provides the queue and the thread.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::{Duration, Instant};

use sluice_net::sys::send::is_too_long;

use super::limits::{LOG_REDIAL_FIRST, LOG_REDIAL_MAX, LOG_SEND_MAX};
use super::options::{Family, NetOptions, Network};

/// A network output.
#[derive(Debug)]
pub struct Peer {
    options: NetOptions,
    link: Link,
    /// Lines that were not sent yet; the first may have been sent partially over a broken connection.
    unsent: Vec<u8>,
}

#[derive(Debug)]
enum Link {
    Up(Socket),
    Down { until: Instant, pause: Duration },
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Udp(UdpSocket),
    UnixDatagram(UnixDatagram),
}

impl Peer {
    /// Connects. If that fails and `soft_start` is set, it is retried later.
    pub fn open(options: &NetOptions) -> io::Result<(Peer, Option<io::Error>)> {
        let (link, failure) = match dial(options) {
            Ok(socket) => (Link::Up(socket), None),
            Err(error) if options.soft_start => (Link::down(LOG_REDIAL_FIRST), Some(error)),
            Err(error) => return Err(error),
        };
        let peer = Peer {
            options: options.clone(),
            link,
            unsent: Vec::new(),
        };
        Ok((peer, failure))
    }

    /// The time of the next attempt; `None` if it can be written to now.
    pub fn due(&self) -> Option<Instant> {
        match self.link {
            Link::Up(_) => None,
            Link::Down { until, .. } => Some(until),
        }
    }

    /// Whether lines are pending.
    pub fn is_behind(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends pending lines and then `lines`. What cannot be sent remains pending.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.unsent.extend_from_slice(lines);
        self.send().or_else(|error| {
            // An idle connection may have ended long ago: retry the first failure at once.
            match self.link {
                Link::Up(_) => {
                    self.link = Link::down(Duration::ZERO);
                    self.send()
                }
                Link::Down { .. } => Err(error),
            }
        })
    }

    fn send(&mut self) -> io::Result<()> {
        if let Link::Down { pause, .. } = self.link {
            match dial(&self.options) {
                Ok(socket) => self.link = Link::Up(socket),
                Err(error) => {
                    let pause = (pause * 2).clamp(LOG_REDIAL_FIRST, LOG_REDIAL_MAX);
                    self.link = Link::down(pause);
                    return Err(error);
                }
            }
        }
        let Link::Up(socket) = &mut self.link else {
            unreachable!("a link that was down has just been dialled")
        };
        let (sent, outcome) = socket.send_lines(&self.unsent);
        self.unsent.drain(..sent);
        outcome
    }
}

impl Link {
    fn down(pause: Duration) -> Link {
        Link::Down {
            until: Instant::now() + pause,
            pause,
        }
    }
}

impl Socket {
    /// Sends lines and returns the number of bytes sent, in complete lines.
    fn send_lines(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        match self {
            Socket::Tcp(stream) => send_stream(stream, lines),
            Socket::Unix(stream) => send_stream(stream, lines),
            Socket::Udp(socket) => send_packets(lines, |line| socket.send(line)),
            Socket::UnixDatagram(socket) => send_packets(lines, |line| socket.send(line)),
        }
    }
}

fn send_stream(stream: &mut impl Write, lines: &[u8]) -> (usize, io::Result<()>) {
    let mut sent = 0;
    while sent < lines.len() {
        match stream.write(&lines[sent..]) {
            Ok(0) => return (whole(lines, sent), Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (whole(lines, sent), Err(error)),
        }
    }
    (sent, Ok(()))
}

/// The number of bytes in complete lines among those sent.
fn whole(lines: &[u8], sent: usize) -> usize {
    memchr::memrchr(b'\n', &lines[..sent]).map_or(0, |at| at + 1)
}

fn send_packets(
    lines: &[u8],
    send: impl Fn(&[u8]) -> io::Result<usize>,
) -> (usize, io::Result<()>) {
    let mut sent = 0;
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        match send(line) {
            // A line longer than a datagram can never be sent.
            Err(error) if is_too_long(&error) => {}
            Err(error) => return (sent, Err(error)),
            Ok(_) => {}
        }
        sent += line.len();
    }
    (sent, Ok(()))
}

fn dial(options: &NetOptions) -> io::Result<Socket> {
    let address = options.address.as_str();
    match options.network {
        Network::Tcp(family) => {
            let mut last = None;
            for addr in addresses(address, family)? {
                match TcpStream::connect_timeout(&addr, options.dial_timeout) {
                    Ok(stream) => {
                        stream.set_write_timeout(Some(LOG_SEND_MAX))?;
                        return Ok(Socket::Tcp(stream));
                    }
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(|| io::Error::other("the name has no such address")))
        }
        Network::Udp(family) => {
            let found = addresses(address, family)?.next();
            let addr = found.ok_or_else(|| io::Error::other("the name has no such address"))?;
            let any: SocketAddr = match addr {
                SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(addr)?;
            Ok(Socket::Udp(socket))
        }
        Network::Unix => {
            let stream = UnixStream::connect(address)?;
            stream.set_write_timeout(Some(LOG_SEND_MAX))?;
            Ok(Socket::Unix(stream))
        }
        Network::UnixDatagram => {
            let socket = UnixDatagram::unbound()?;
            socket.connect(address)?;
            socket.set_write_timeout(Some(LOG_SEND_MAX))?;
            Ok(Socket::UnixDatagram(socket))
        }
    }
}

fn addresses(address: &str, family: Family) -> io::Result<impl Iterator<Item = SocketAddr>> {
    let fits = move |addr: &SocketAddr| match family {
        Family::Any => true,
        Family::V4 => addr.is_ipv4(),
        Family::V6 => addr.is_ipv6(),
    };
    Ok(address.to_socket_addrs()?.filter(fits))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use super::*;

    fn options(network: Network, address: String) -> NetOptions {
        NetOptions {
            network,
            address,
            dial_timeout: Duration::from_secs(5),
            soft_start: false,
        }
    }

    #[test]
    fn lines_of_a_broken_connection_come_over_the_next_one() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let options = options(Network::Tcp(Family::Any), address);
        let (mut peer, _) = Peer::open(&options).expect("it listens");
        peer.write(b"1\n").expect("it is taken");
        let (first, _) = listener.accept().expect("it was dialled");
        let mut text = String::new();
        BufReader::new(&first).read_line(&mut text).expect("a line");
        assert_eq!(text, "1\n");
        drop(first);
        // The first send on a closed connection may succeed; the kernel reports the error at the next one.
        let mut number = 1;
        while peer.write(b"again\n").is_ok() {
            number += 1;
            assert!(number < 100, "the broken connection is noticed");
            if listener.set_nonblocking(true).is_ok()
                && let Ok((second, _)) = listener.accept()
            {
                second.set_nonblocking(false).expect("ours");
                let mut text = String::new();
                BufReader::new(second).read_line(&mut text).expect("a line");
                assert_eq!(text, "again\n", "lines stay whole");
                return;
            }
            // The end of a connection is noticed by a write some time after it.
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the listener is still there");
    }

    #[test]
    fn pauses_grow_while_nobody_listens() {
        let closed = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = closed.local_addr().expect("bound").to_string();
        drop(closed);
        let hard = options(Network::Tcp(Family::Any), address);
        assert!(Peer::open(&hard).is_err());
        let soft = NetOptions {
            soft_start: true,
            ..hard
        };
        let (mut peer, failure) = Peer::open(&soft).expect("it need not be there");
        assert!(failure.is_some());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert!(peer.write(b"x\n").is_err());
            let Link::Down { pause, .. } = peer.link else {
                panic!("nobody listens")
            };
            pauses.push(pause);
        }
        assert!(pauses.is_sorted() && pauses[0] < pauses[5]);
        assert_eq!(pauses[11], LOG_REDIAL_MAX);
        assert!(peer.is_behind());
    }

    #[test]
    fn each_line_is_a_packet() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = receiver.local_addr().expect("bound").to_string();
        let options = options(Network::Udp(Family::V4), address);
        let (mut peer, _) = Peer::open(&options).expect("no one is asked");
        peer.write(b"one\ntwo\n").expect("packets go off");
        let mut packet = [0; 64];
        for expected in [&b"one\n"[..], b"two\n"] {
            let count = receiver.recv(&mut packet).expect("a packet");
            assert_eq!(&packet[..count], expected);
        }
    }
}
