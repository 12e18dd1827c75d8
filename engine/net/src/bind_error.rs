//! Why an address cannot be listened on, and what to do about it.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use crate::listener::ListenAddr;

/// An address that could not be bound.
#[derive(Debug)]
pub struct BindError {
    /// The address.
    pub addr: ListenAddr,
    /// The reason.
    pub source: io::Error,
}

/// Ports from here on need no privileges, unless `net.ipv4.ip_unprivileged_port_start` says otherwise.
const UNPRIVILEGED_PORT_MIN: u16 = 1024;

impl BindError {
    /// What to do about it: a clause for the `help` line of a diagnostic.
    pub fn help(&self) -> &'static str {
        match self.source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => self.help_with_privileges(),
            Some(libc::EADDRNOTAVAIL) => {
                "this machine does not have that address (`ip address` lists those it has); \
                 choose one of them, or only a port"
            }
            Some(libc::EAFNOSUPPORT) => {
                "the kernel does not support this kind of address, such as IPv6; choose another one"
            }
            Some(libc::EMFILE) => {
                "raise the limit of open files of the process (`ulimit -n`, in a systemd unit `LimitNOFILE=`)"
            }
            Some(libc::ENFILE) => {
                "the machine has too many open files; close some, or raise the sysctl fs.file-max"
            }
            Some(libc::ENOENT | libc::ENOTDIR) => {
                "create the folder of the socket, or choose another path"
            }
            _ if self.source.kind() == ErrorKind::AlreadyExists => {
                "remove that file, or choose another path"
            }
            _ if self.source.kind() == ErrorKind::AddrInUse => {
                "stop what listens there, or choose another address"
            }
            _ => "choose another address",
        }
    }

    fn help_with_privileges(&self) -> &'static str {
        match self.addr.port() {
            None => {
                "let the user of sluice write to the folder of the socket, or choose another path"
            }
            Some(..UNPRIVILEGED_PORT_MIN) => {
                "ports below 1024 need root or CAP_NET_BIND_SERVICE, or a lower sysctl \
                 net.ipv4.ip_unprivileged_port_start; grant one of them, or choose a higher port"
            }
            Some(_) => {
                "the sysctl net.ipv4.ip_unprivileged_port_start or a security module such as SELinux \
                 denies this port; allow it, run with root or CAP_NET_BIND_SERVICE, or choose another port"
            }
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.addr, self.source)
    }
}

impl Error for BindError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(addr: ListenAddr, code: i32) -> &'static str {
        let source = io::Error::from_raw_os_error(code);
        BindError { addr, source }.help()
    }

    #[test]
    fn each_reason_has_a_help_of_its_own() {
        let socket = || ListenAddr::Unix {
            path: "/a/b".into(),
            mode: None,
        };
        for (addr, code, expected) in [
            (
                ListenAddr::AnyTcp(80),
                libc::EACCES,
                "root or CAP_NET_BIND_SERVICE",
            ),
            (
                ListenAddr::AnyTcp(80),
                libc::EACCES,
                "net.ipv4.ip_unprivileged_port_start",
            ),
            (ListenAddr::AnyTcp(8080), libc::EACCES, "SELinux"),
            (socket(), libc::EACCES, "the folder of the socket"),
            (socket(), libc::ENOENT, "create the folder"),
            (
                ListenAddr::AnyTcp(80),
                libc::EADDRINUSE,
                "stop what listens there",
            ),
            (
                ListenAddr::AnyTcp(80),
                libc::EADDRNOTAVAIL,
                "does not have that address",
            ),
            (ListenAddr::AnyTcp6(80), libc::EAFNOSUPPORT, "IPv6"),
            (ListenAddr::AnyTcp(80), libc::EMFILE, "LimitNOFILE"),
            (ListenAddr::AnyTcp(80), libc::ENFILE, "fs.file-max"),
            (ListenAddr::AnyTcp(80), libc::EIO, "choose another address"),
        ] {
            let help = help(addr, code);
            assert!(help.contains(expected), "{code}: {help}");
        }
    }

    #[test]
    fn errors_of_our_own_checks_have_a_help_as_well() {
        for (kind, expected) in [
            (ErrorKind::AddrInUse, "stop what listens there"),
            (ErrorKind::AlreadyExists, "remove that file"),
        ] {
            let addr = ListenAddr::Unix {
                path: "/a".into(),
                mode: None,
            };
            let source = io::Error::from(kind);
            assert!(BindError { addr, source }.help().contains(expected));
        }
    }
}
