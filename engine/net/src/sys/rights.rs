//! Sends and receives descriptors over Unix sockets (SCM_RIGHTS, unix(7)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Descriptors accepted with one read: the kernel's limit (SCM_MAX_FD).
const DESCRIPTORS_MAX: usize = 253;

/// Room for ancillary data with [`DESCRIPTORS_MAX`] descriptors, aligned as its header has to be.
#[repr(align(8))]
struct Ancillary([MaybeUninit<u8>; ancillary_bytes(DESCRIPTORS_MAX)]);

const fn ancillary_bytes(descriptors: usize) -> usize {
    // SAFETY: the function only computes; the length is far below its limit.
    unsafe { libc::CMSG_SPACE((descriptors * size_of::<RawFd>()) as libc::c_uint) as usize }
}

/// Receives bytes into the spare capacity of `buf`, without blocking; descriptors that come with them are added to
/// `descriptors`, close-on-exec. Returns the number of bytes: 0 at the end of the stream, or if there is no capacity.
///
/// # Errors
///
/// That of the system call; [`io::ErrorKind::WouldBlock`] if there is nothing. If descriptors were lost because this
/// process has too many open files, that is an error, too.
pub fn receive(
    socket: BorrowedFd<'_>,
    buf: &mut Vec<u8>,
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let spare = buf.spare_capacity_mut();
    let mut part = libc::iovec {
        iov_base: spare.as_mut_ptr().cast(),
        iov_len: spare.len(),
    };
    let mut ancillary = Ancillary([MaybeUninit::uninit(); ancillary_bytes(DESCRIPTORS_MAX)]);
    // SAFETY: all fields are integers and pointers, for which zero is valid.
    let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.0.as_mut_ptr().cast();
    message.msg_controllen = ancillary.0.len() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message describes the spare capacity of `buf` and the ancillary buffer, which live through the call.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) };
    let Ok(count) = usize::try_from(count) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: the kernel has written `count` bytes into the spare capacity.
    unsafe { buf.set_len(buf.len() + count) };
    if message.msg_controllen > 0 {
        // SAFETY: the kernel has filled the message.
        unsafe { take(&message, descriptors) };
    }
    match message.msg_flags & libc::MSG_CTRUNC {
        0 => Ok(count),
        _ => Err(io::Error::other(
            "descriptors were lost: too many open files",
        )),
    }
}

/// Takes the descriptors out of a received message.
///
/// # Safety
/// `message` was filled by recvmsg, and its buffers are alive.
// SAFETY: callers keep to the section above.
unsafe fn take(message: &libc::msghdr, descriptors: &mut Vec<OwnedFd>) {
    // SAFETY: the macros walk the ancillary data that the kernel has written, and give null at its end. The data of
    // SCM_RIGHTS are descriptors that were opened for this process and that nothing else owns.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                for index in 0..bytes / size_of::<RawFd>() {
                    let number = data.add(index).read_unaligned();
                    descriptors.push(OwnedFd::from_raw_fd(number));
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// Sends `bytes`, at least one, with copies of `descriptors`, which arrive with the first byte. Returns how many bytes
/// were sent.
///
/// # Errors
///
/// That of the system call, or too many descriptors.
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    if descriptors.len() > DESCRIPTORS_MAX || bytes.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut ancillary = Ancillary([MaybeUninit::zeroed(); ancillary_bytes(DESCRIPTORS_MAX)]);
    // SAFETY: all fields are integers and pointers, for which zero is valid.
    let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    if !numbers.is_empty() {
        message.msg_control = ancillary.0.as_mut_ptr().cast();
        message.msg_controllen = ancillary_bytes(numbers.len()) as _;
        let data_bytes = size_of_val(&numbers[..]) as libc::c_uint;
        // SAFETY: the buffer has room for a header and all numbers, and is aligned for the header.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(data_bytes) as _;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            std::ptr::copy_nonoverlapping(numbers.as_ptr(), data, numbers.len());
        }
    }
    // SAFETY: the message describes `bytes`, which is only read, and the ancillary buffer; both live through the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn file(text: &str) -> File {
        let mut file = crate::sys::memory_file::create(c"test", b"").unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn descriptors_arrive_with_their_bytes_in_order() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let files = [file("one"), file("two"), file("three")];
        (&ours).write_all(b"before").unwrap();
        let two: Vec<BorrowedFd<'_>> = files[..2].iter().map(AsFd::as_fd).collect();
        assert_eq!(send(ours.as_fd(), b"with", &two).unwrap(), 4);
        assert_eq!(send(ours.as_fd(), b"more", &[files[2].as_fd()]).unwrap(), 4);
        (&ours).write_all(b"after").unwrap();
        // Closing would not do: a process that another test is starting may have a copy of it for a moment.
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        let (mut buf, mut found) = (Vec::with_capacity(100), Vec::new());
        loop {
            match receive(theirs.as_fd(), &mut buf, &mut found).unwrap() {
                0 => break,
                _ if buf.len() <= 6 => assert!(found.is_empty()),
                _ if buf.len() <= 10 => assert_eq!(found.len(), 2),
                _ => assert_eq!(found.len(), 3),
            }
        }
        assert_eq!(buf, b"beforewithmoreafter");
        for (descriptor, text) in found.into_iter().zip(["one", "two", "three"]) {
            let mut content = String::new();
            let mut file = File::from(descriptor);
            std::io::Seek::rewind(&mut file).unwrap();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(content, text);
            // SAFETY: reads the flags of an open descriptor.
            let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
            assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        }
    }

    #[test]
    fn an_empty_socket_would_block() {
        let (_ours, theirs) = UnixStream::pair().unwrap();
        let mut buf = Vec::with_capacity(10);
        let error = receive(theirs.as_fd(), &mut buf, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(send(theirs.as_fd(), b"", &[]).is_err());
    }
}
