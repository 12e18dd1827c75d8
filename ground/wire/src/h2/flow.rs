//! Flow-control windows (RFC 9113, section 5.2): how much content may be in flight. `conn` decides which frames change
//! them.

use super::limits::WINDOW_MAX;

/// What we may send: a number that changed settings can make negative (section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendWindow(i64);

/// A window above 2^31-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

impl SendWindow {
    pub fn new(size: u32) -> SendWindow {
        SendWindow(i64::from(size))
    }

    /// The bytes that may be sent now.
    pub fn available(self) -> usize {
        self.0.max(0) as usize
    }

    /// So many bytes, at most those available, are sent.
    pub fn spend(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.available());
        self.0 -= bytes as i64;
    }

    /// The peer gives more, or with another initial size more or less.
    pub fn shift(&mut self, by: i64) -> Result<(), Overflow> {
        self.0 += by;
        if self.0 > i64::from(WINDOW_MAX) {
            Err(Overflow)
        } else {
            Ok(())
        }
    }
}

/// What the peer may send, and what we hold of it unread.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveWindow {
    /// What the peer may send before it hears from us.
    open: u32,
    /// What arrived and is not consumed.
    held: u32,
    /// What both are together once all is given back.
    target: u32,
}

impl ReceiveWindow {
    /// A window of `open` bytes that will grow to `target`, which is at least as large.
    pub fn new(open: u32, target: u32) -> ReceiveWindow {
        ReceiveWindow {
            open,
            held: 0,
            target: target.clamp(open, WINDOW_MAX),
        }
    }

    /// What the peer may send before it hears from us.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// So many bytes arrived. `Err` if they were not allowed.
    pub fn take(&mut self, bytes: u32) -> Result<(), Overflow> {
        self.open = self.open.checked_sub(bytes).ok_or(Overflow)?;
        self.held += bytes;
        Ok(())
    }

    /// Marks `bytes` of the buffered bytes as consumed. Returns the increment to send to the peer, if it is worth a
    /// frame: half of the window or more.
    pub fn consume(&mut self, bytes: u32) -> Option<u32> {
        self.held -= bytes.min(self.held);
        self.update()
    }

    /// As [`ReceiveWindow::consume`]; when a frame is sent the window grows to twice its size, at most `target_max`.
    pub fn consume_and_grow(&mut self, bytes: u32, target_max: u32) -> Option<u32> {
        self.held -= bytes.min(self.held);
        if self.due() >= self.target / 2 {
            self.target = self
                .target
                .saturating_mul(2)
                .min(target_max)
                .max(self.target);
        }
        self.update()
    }

    /// The increment that opens the window up to its target, whatever it is worth.
    pub fn open_up(&mut self) -> Option<u32> {
        let due = self.due();
        self.open += due;
        (due > 0).then_some(due)
    }

    fn due(&self) -> u32 {
        self.target.saturating_sub(self.open + self.held)
    }

    fn update(&mut self) -> Option<u32> {
        if self.due() >= self.target / 2 {
            self.open_up()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_to_send_have_both_limits() {
        let mut window = SendWindow::new(10);
        window.spend(10);
        assert_eq!(window.shift(-10), Ok(()));
        assert_eq!(window.available(), 0);
        assert_eq!(window.shift(i64::from(WINDOW_MAX) + 10), Ok(()));
        assert_eq!(window.available(), WINDOW_MAX as usize);
        assert_eq!(window.shift(1), Err(Overflow));
    }

    #[test]
    fn receive_windows_are_returned_by_halves_and_bound_buffers() {
        let mut window = ReceiveWindow::new(100, 100);
        assert_eq!(window.take(101), Err(Overflow));
        assert_eq!(window.take(100), Ok(()));
        assert_eq!(window.take(1), Err(Overflow));
        assert_eq!(window.consume(49), None);
        assert_eq!(window.consume(1), Some(50));
        assert_eq!(window.take(51), Err(Overflow));
        assert_eq!(window.held, 50);
    }

    #[test]
    fn a_window_that_is_read_grows_to_its_bound() {
        let mut window = ReceiveWindow::new(100, 100);
        for (bytes, grown) in [(100, 200), (200, 300), (300, 300)] {
            assert_eq!(window.take(bytes), Ok(()));
            assert_eq!(window.consume_and_grow(bytes, 300), Some(grown));
        }
    }
}
