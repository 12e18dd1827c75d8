//! Notifies the service manager: systemd with `Type=notify`, as in Caddy's own unit. The protocol is that of
//! sd_notify(3): a datagram with `NAME=value` lines to the socket in `$NOTIFY_SOCKET`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use sluice_net::sys::process::monotonic_micros;
use sluice_observe::log::Log;

/// The notification socket, if there is one.
#[derive(Debug)]
pub struct Readiness {
    /// The value of `$NOTIFY_SOCKET`: a path, or an abstract socket name after `@`.
    socket: Option<OsString>,
    log: Log,
}

impl Readiness {
    /// Reads the environment.
    pub fn new(log: &Log) -> Readiness {
        Readiness {
            socket: std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()),
            log: log.clone(),
        }
    }

    /// Requests are served, for the first time or with a new configuration. Includes the PID, which changes in a binary
    /// upgrade; systemd accepts it if the unit has `NotifyAccess=all`.
    pub fn ready(&self) {
        self.notify(&format!("READY=1\nMAINPID={}", std::process::id()));
    }

    /// Another process serves from now on, and is the main one. systemd believes that from the main process in any case; from
    /// then on it takes notifications from the other one.
    pub fn hand_over_to(&self, pid: u32) {
        self.notify(&format!("READY=1\nMAINPID={pid}"));
    }

    /// A configuration is being loaded; [`Readiness::ready`] follows, whatever the outcome.
    pub fn reloading(&self) {
        if self.socket.is_some() {
            let now = monotonic_micros();
            self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
        }
    }

    /// The process is stopping.
    pub fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    /// Sends a notification. If that fails, the server runs on.
    fn notify(&self, what: &str) {
        let Some(socket) = &self.socket else {
            return;
        };
        if let Err(error) = send(socket, what) {
            self.log
                .warn("", "cannot notify the service manager")
                .text("socket", socket.as_bytes())
                .text("told", what)
                .shown("error", error)
                .send();
        }
    }
}

fn send(socket: &OsStr, what: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    // A full queue must not block the server.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(what.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(receiver: &UnixDatagram, socket: &str) -> String {
        send(OsStr::new(socket), "READY=1").expect("somebody hears it");
        let mut bytes = [0; 64];
        let count = receiver.recv(&mut bytes).expect("it was sent");
        String::from_utf8(bytes[..count].to_vec()).expect("it is text")
    }

    #[test]
    fn sockets_have_paths_or_abstract_names() {
        let name = format!("sluice-readiness-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let receiver = UnixDatagram::bind_addr(&address).expect("a name of our own");
        assert_eq!(heard(&receiver, &format!("@{name}")), "READY=1");
        let path = std::env::temp_dir().join(&name);
        let receiver = UnixDatagram::bind(&path).expect("a path of our own");
        assert_eq!(heard(&receiver, &path.to_string_lossy()), "READY=1");
        std::fs::remove_file(&path).expect("it is there");
        assert!(send(path.as_os_str(), "READY=1").is_err());
    }
}
