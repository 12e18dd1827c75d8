//! A connection's socket, with or without TLS: connecting, reading, writing. Protocols are in `talk`.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use quinn_udp::UdpSocketState;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use rustls::{ClientConnection, pki_types::ServerName};

use super::target::Address;
use crate::result::FailureClass;

/// A connection's socket.
#[derive(Debug)]
pub struct Link {
    pub(super) socket: OwnedFd,
    pub(super) layer: Layer,
}

/// What is on top of the socket.
#[derive(Debug)]
pub(super) enum Layer {
    /// The bytes of the protocol.
    Plain,
    /// TLS.
    Tls(Box<ClientConnection>),
    /// Nothing, and it carries datagrams: see `udp`.
    Datagrams(Box<UdpSocketState>),
}

/// TLS settings of a connection.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Trust anchors, versions, ALPN.
    pub config: Arc<rustls::ClientConfig>,
    /// The server name (SNI).
    pub name: ServerName<'static>,
    /// The same for QUIC, if that is the transport.
    pub quic: Option<quinn_proto::ClientConfig>,
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind.
    pub class: FailureClass,
    /// The system's error message.
    pub text: String,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// This many bytes.
    Bytes(usize),
    /// Nothing available yet.
    Nothing,
    /// The peer has closed its sending side.
    End,
    /// The peer reset the connection.
    Reset,
}

/// The result of starting to connect.
#[derive(Debug)]
pub enum Dial {
    /// In progress or done: the socket becomes writable.
    Begun(Link),
    /// The queue of a unix socket is full: retry shortly.
    Busy,
    /// It failed at once.
    Failed(Fault),
}

impl Link {
    /// Starts to connect. `source` is the local address to connect from.
    pub fn dial(address: &Address, source: Option<std::net::Ipv4Addr>) -> Dial {
        let failed = |errno| Dial::Failed(connect_fault(errno));
        let family = match address {
            Address::Tcp(std::net::SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Tcp(std::net::SocketAddr::V6(_)) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = match net::socket_with(family, SocketType::STREAM, flags, None) {
            Ok(socket) => socket,
            Err(errno) => return failed(errno),
        };
        let begun = match address {
            Address::Tcp(to) => {
                let from = source.map(|ip| std::net::SocketAddrV4::new(ip, 0));
                let bound = from.map_or(Ok(()), |from| net::bind(&socket, &from));
                bound
                    .and_then(|()| sockopt::set_tcp_nodelay(&socket, true))
                    .and_then(|()| net::connect(&socket, to))
            }
            Address::Unix(path) => {
                net::SocketAddrUnix::new(path).and_then(|address| net::connect(&socket, &address))
            }
        };
        match begun {
            Ok(()) | Err(Errno::INPROGRESS) => Dial::Begun(Link {
                socket,
                layer: Layer::Plain,
            }),
            // Only unix sockets return this: the queue is full (connect(2)).
            Err(Errno::AGAIN) if family == AddressFamily::UNIX => Dial::Busy,
            Err(errno) => failed(errno),
        }
    }

    /// Whether the connection is established, once the socket is writable.
    pub fn finish_dial(&self) -> Result<(), Fault> {
        match sockopt::socket_error(&self.socket) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(errno)) | Err(errno) => Err(connect_fault(errno)),
        }
    }

    /// Starts TLS on an open connection.
    pub fn begin_tls(&mut self, tls: &Tls) -> Result<(), Fault> {
        let session = ClientConnection::new(tls.config.clone(), tls.name.clone());
        let mut session = session.map_err(|error| tls_fault(&error))?;
        // Output is bounded by the request; a limit would only split large uploads into more calls.
        session.set_buffer_limit(None);
        self.layer = Layer::Tls(Box::new(session));
        Ok(())
    }

    /// Continues the handshake. Returns whether it is complete.
    pub fn handshake(&mut self) -> Result<bool, Fault> {
        let Layer::Tls(tls) = &mut self.layer else {
            return Ok(true);
        };
        loop {
            while tls.wants_write() {
                match tls.write_tls(&mut Socket(self.socket.as_fd())) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(handshake_fault(&error)),
                }
            }
            if !tls.is_handshaking() {
                return Ok(true);
            }
            match tls.read_tls(&mut Socket(self.socket.as_fd())) {
                Ok(0) => {
                    let text = "the connection ended during the handshake".into();
                    let class = FailureClass::TlsHandshake;
                    return Err(Fault { class, text });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(handshake_fault(&error)),
            }
            if let Err(error) = tls.process_new_packets() {
                // The alert gives the server the reason; whether it is still received does not matter.
                let _ = tls.write_tls(&mut Socket(self.socket.as_fd()));
                return Err(tls_fault(&error));
            }
        }
    }

    /// The TLS session, if there is one.
    pub fn session(&self) -> Option<&ClientConnection> {
        match &self.layer {
            Layer::Tls(tls) => Some(tls),
            Layer::Plain | Layer::Datagrams(_) => None,
        }
    }

    /// Reads available bytes into `buf`.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<Input, Fault> {
        let Layer::Tls(tls) = &mut self.layer else {
            return match net::recv(&self.socket, buf, RecvFlags::empty()) {
                Ok((0, _)) => Ok(Input::End),
                Ok((got, _)) => Ok(Input::Bytes(got)),
                Err(Errno::AGAIN | Errno::INTR) => Ok(Input::Nothing),
                Err(Errno::CONNRESET | Errno::PIPE) => Ok(Input::Reset),
                Err(errno) => Err(read_fault(errno)),
            };
        };
        loop {
            match tls.reader().read(buf) {
                Ok(0) => return Ok(Input::End),
                Ok(got) => return Ok(Input::Bytes(got)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // End without close_notify: the response may have been truncated in transit.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(Input::Reset);
                }
                Err(error) => return Err(other_fault(&error)),
            }
            match tls.read_tls(&mut Socket(self.socket.as_fd())) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Input::Nothing);
                }
                Err(error) if is_reset(&error) => return Ok(Input::Reset),
                Err(error) => return Err(other_fault(&error)),
            }
            if let Err(error) = tls.process_new_packets() {
                let text = format!("TLS: {error}");
                let class = FailureClass::Malformed;
                return Err(Fault { class, text });
            }
        }
    }

    /// Writes buffers and returns the number of bytes accepted: none on a broken connection, which the next read
    /// reports.
    pub fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, Fault> {
        let Layer::Tls(tls) = &mut self.layer else {
            let sent = match pieces {
                [piece] => net::send(&self.socket, piece, SendFlags::NOSIGNAL),
                pieces => rustix::io::writev(&self.socket, pieces),
            };
            return match sent {
                Ok(sent) => Ok(sent),
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNRESET | Errno::PIPE) => Ok(0),
                Err(errno) => Err(Fault {
                    class: FailureClass::Write,
                    text: io::Error::from(errno).to_string(),
                }),
            };
        };
        let mut taken = 0;
        for piece in pieces {
            taken += tls
                .writer()
                .write(piece)
                .map_err(|error| other_fault(&error))?;
        }
        self.push_tls()?;
        Ok(taken)
    }

    /// Sends pending TLS output. Returns whether all of it was sent.
    pub fn push_tls(&mut self) -> Result<bool, Fault> {
        let Layer::Tls(tls) = &mut self.layer else {
            return Ok(true);
        };
        while tls.wants_write() {
            match tls.write_tls(&mut Socket(self.socket.as_fd())) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if is_reset(&error) => return Ok(false),
                Err(error) => return Err(other_fault(&error)),
            }
        }
        Ok(true)
    }

    /// Whether TLS has output that the socket has not accepted yet.
    pub fn wants_write(&self) -> bool {
        self.session().is_some_and(|tls| tls.wants_write())
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// `Read` and `Write` for rustls.
struct Socket<'a>(BorrowedFd<'a>);

impl Read for Socket<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (got, _) = net::recv(self.0, buf, RecvFlags::empty())?;
        Ok(got)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_reset(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(
        kind,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

/// What a failed connect means.
pub(super) fn connect_fault(errno: Errno) -> Fault {
    let class = match errno {
        Errno::CONNREFUSED | Errno::NOENT => FailureClass::Refused,
        Errno::TIMEDOUT => FailureClass::ConnectTimeout,
        Errno::CONNRESET | Errno::PIPE => FailureClass::Reset,
        Errno::ADDRNOTAVAIL
        | Errno::ADDRINUSE
        | Errno::MFILE
        | Errno::NFILE
        | Errno::NOBUFS
        | Errno::NOMEM
        | Errno::AGAIN => FailureClass::NoLocalResource,
        _ => FailureClass::Unreachable,
    };
    Fault {
        class,
        text: io::Error::from(errno).to_string(),
    }
}

fn read_fault(errno: Errno) -> Fault {
    let class = match errno {
        Errno::NOBUFS | Errno::NOMEM => FailureClass::NoLocalResource,
        _ => FailureClass::Unreachable,
    };
    Fault {
        class,
        text: io::Error::from(errno).to_string(),
    }
}

fn other_fault(error: &io::Error) -> Fault {
    Fault {
        class: FailureClass::Write,
        text: error.to_string(),
    }
}

fn handshake_fault(error: &io::Error) -> Fault {
    Fault {
        class: FailureClass::TlsHandshake,
        text: error.to_string(),
    }
}

fn tls_fault(error: &rustls::Error) -> Fault {
    let class = match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            FailureClass::Certificate
        }
        _ => FailureClass::TlsHandshake,
    };
    Fault {
        class,
        text: error.to_string(),
    }
}
