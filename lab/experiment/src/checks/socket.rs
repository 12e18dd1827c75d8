//! Options of a server's own sockets: its side of a connection is duplicated into this process (pidfd_getfd(2)), which takes
//! the privileges of a debugger, and looked at.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use rustix::net::{getpeername, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::limits::TRACER_MAX;
use sluice_load::generator::Plan;
use sluice_load::generator::kind;
use sluice_load::generator::target::{Address, Protocol};
use sluice_load::sample;

/// Whether `TCP_NODELAY` is set on the server's side of a connection. It has had one response and is used for another: servers
/// set the option when they are first asked, when they respond, or when they keep a connection.
pub fn nodelay(plan: &Plan, roots: &[u32]) -> Result<bool, String> {
    let Address::Tcp(address) = plan.target.address else {
        return Err("the server listens on a unix socket".into());
    };
    if plan.target.protocol != Protocol::Http1 {
        return Err("only connections of HTTP/1.1 without TLS are looked at".into());
    }
    let response = kind::ask(plan).map_err(|fault| fault.text.to_string())?;
    let length = response.body.len();
    let exchange = || -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&address, TRACER_MAX)?;
        stream.set_read_timeout(Some(TRACER_MAX))?;
        for _ in 0..2 {
            stream.write_all(&plan.requests[0].wire)?;
            read_response(&mut stream, length)?;
        }
        Ok(stream)
    };
    let stream = exchange().map_err(|error| format!("a connection of its own: {error}"))?;
    let own = stream.local_addr().map_err(|error| error.to_string())?;
    let socket = socket_to(own, roots)?;
    sockopt::tcp_nodelay(socket).map_err(|error| error.to_string())
}

/// Reads a head, and a body of this length.
fn read_response(stream: &mut TcpStream, length: usize) -> io::Result<()> {
    let (mut all, mut buf) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        let head = all.windows(4).position(|four| four == b"\r\n\r\n");
        if head.is_some_and(|at| all.len() >= at + 4 + length) {
            return Ok(());
        }
        match stream.read(&mut buf)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => all.extend_from_slice(&buf[..got]),
        }
    }
}

/// The socket of one of the processes, or their descendants, that is connected to an address.
fn socket_to(peer: SocketAddr, roots: &[u32]) -> Result<OwnedFd, String> {
    let mut refused = None;
    for pid in sample::processes(roots) {
        let opened = Pid::from_raw(pid as i32).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let Some(Ok(process)) = opened else { continue };
        let entries = fs::read_dir(format!("/proc/{pid}/fd"));
        for entry in entries.into_iter().flatten().flatten() {
            let is_socket = fs::read_link(entry.path())
                .is_ok_and(|link| link.to_string_lossy().starts_with("socket:"));
            let number = entry.file_name().to_string_lossy().parse::<i32>();
            let (true, Ok(number)) = (is_socket, number) else {
                continue;
            };
            match pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
                Ok(socket) if is_connected_to(&socket, peer) => return Ok(socket),
                Ok(_) => {}
                Err(error) => refused = Some(error),
            }
        }
    }
    Err(match refused {
        Some(error) => format!("sockets of the server cannot be looked at: {error}"),
        None => "the server's side of the connection was not found".into(),
    })
}

fn is_connected_to(socket: &OwnedFd, peer: SocketAddr) -> bool {
    let address = getpeername(socket).ok().flatten();
    let Some(Ok(address)) = address.map(SocketAddr::try_from) else {
        return false;
    };
    // A listener of both versions has addresses of version 4 within those of version 6.
    address.port() == peer.port() && address.ip().to_canonical() == peer.ip()
}
