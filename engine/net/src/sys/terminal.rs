//! The terminal of a program that draws a screen: its size, and keys as they are pressed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The size of a terminal in columns and rows; `None` if it is not one, or does not know its size.
pub fn size(terminal: BorrowedFd<'_>) -> Option<(u16, u16)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the structure lives through the call, which writes nothing else.
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (done == 0 && size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// A terminal that reports each key at once and shows none of them, until this is dropped. Control-C is a key as well,
/// so that the program can restore the screen.
pub struct Keys {
    terminal: OwnedFd,
    before: libc::termios,
}

impl Keys {
    /// Starts to read keys.
    ///
    /// # Errors
    /// It is not a terminal.
    pub fn read_from(terminal: BorrowedFd<'_>) -> io::Result<Keys> {
        let terminal = terminal.try_clone_to_owned()?;
        // SAFETY: a `termios` consists of integers, for which zero is valid.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the structure lives through the call.
        if unsafe { libc::tcgetattr(terminal.as_raw_fd(), &raw mut settings) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let before = settings;
        settings.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ISIG);
        set(terminal.as_fd(), &settings)?;
        Ok(Keys { terminal, before })
    }

    /// The bytes of the next key, at most eight; none if no key is pressed within `pause`.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn next(&self, pause: Duration) -> io::Result<Vec<u8>> {
        let mut wanted = libc::pollfd {
            fd: self.terminal.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let millis = i32::try_from(pause.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one structure, which lives through the call.
        match unsafe { libc::poll(&raw mut wanted, 1, millis) } {
            0 => return Ok(Vec::new()),
            // A signal, such as that of a changed size.
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {
                return Ok(Vec::new());
            }
            -1 => return Err(io::Error::last_os_error()),
            _ => {}
        }
        let mut bytes = vec![0u8; 8];
        let fd = self.terminal.as_raw_fd();
        // SAFETY: the buffer lives through the call and has the length given.
        let count = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) };
        match usize::try_from(count) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                bytes.truncate(count);
                Ok(bytes)
            }
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A terminal that is gone needs no settings.
        let _ = set(self.terminal.as_fd(), &self.before);
    }
}

fn set(terminal: BorrowedFd<'_>, settings: &libc::termios) -> io::Result<()> {
    // SAFETY: the structure lives through the call.
    match unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, settings) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_a_terminal() {
        let file = std::fs::File::open("/dev/null").expect("it exists");
        assert_eq!(size(file.as_fd()), None);
        assert!(Keys::read_from(file.as_fd()).is_err());
    }
}
