//! The kernel's statistics of a TCP connection (`TCP_INFO`, tcp(7)).

use std::mem::{MaybeUninit, size_of};

/// Statistics of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The smoothed round-trip time, in microseconds.
    pub rtt: u32,
    /// The variation of the round-trip time, in microseconds.
    pub rtt_variation: u32,
    /// The congestion window, in segments.
    pub congestion_window: u32,
    /// The receive window, in bytes.
    pub receive_space: u32,
}

/// The statistics of this socket; `None` if it is not a TCP socket or was closed. One system call.
pub fn tcp_info(socket: i32) -> Option<TcpInfo> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `info`, which lives through the call. A number that is not an open socket
    // makes the call fail.
    let outcome = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if outcome != 0 {
        return None;
    }
    // SAFETY: the structure consists of integers, and what the system did not write is zero.
    let info = unsafe { info.assume_init() };
    Some(TcpInfo {
        rtt: info.tcpi_rtt,
        rtt_variation: info.tcpi_rttvar,
        congestion_window: info.tcpi_snd_cwnd,
        receive_space: info.tcpi_rcv_space,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn connections_of_tcp_are_known_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = tcp_info(client.as_raw_fd()).unwrap();
        // The handshake has measured a round trip, and the congestion window is open.
        assert!(info.rtt > 0 && info.congestion_window > 0, "{info:?}");
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(tcp_info(one.as_raw_fd()), None);
        assert_eq!(tcp_info(-1), None);
    }
}
