//! Which socket of a `SO_REUSEPORT` group receives a datagram of QUIC, decided in the kernel by a classic BPF program
//! (socket(7)).

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Where the connection ID of a long header begins: behind the first byte, the version and its own length (RFC 9000,
/// section 17.2).
const LONG_ID_AT: u32 = 6;

/// Where that of a short header begins (RFC 9000, section 17.3.1).
const SHORT_ID_AT: u32 = 1;

/// Makes the first byte of the connection ID choose the socket of the group that `socket` belongs to: 0 is the socket
/// that was bound first. Without such a socket the kernel decides by the addresses. A load beyond the end of a
/// datagram ends the program with 0.
///
/// # Errors
///
/// The kernel refuses the program.
pub fn route_by_connection_id(socket: BorrowedFd<'_>) -> io::Result<()> {
    let load = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    let test = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    let return_loaded = (libc::BPF_RET | BPF_A) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(load, 0, 0, 0),
        step(test, 0, 2, 0x80),
        step(load, 0, 0, LONG_ID_AT),
        step(return_loaded, 0, 0, 0),
        step(load, 0, 0, SHORT_ID_AT),
        step(return_loaded, 0, 0, 0),
    ];
    let described = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the structure points to the program and has its length; both live through the call, which copies them.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const described).cast(),
            size_of_val(&described) as libc::socklen_t,
        )
    };
    match outcome {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The accumulator as the value of a return (linux/filter.h).
const BPF_A: u32 = 0x10;
