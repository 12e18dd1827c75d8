//! A timer that wakes an epoll loop with nanosecond precision. The timeout of `epoll_wait(2)` is in whole milliseconds;
//! `epoll_pwait2(2)` needs Linux 5.11 and is only as precise as the thread's timer slack (50 us). A timerfd works
//! everywhere and has no slack.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::clock::Ns;

/// The token of the alarm's event; slots count from 0, so none has it.
pub const ALARM: u64 = u64::MAX;

/// A timer in an epoll instance.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    /// Creates an unset alarm registered with `epoll`. Each expiry produces one event; there is nothing to read.
    pub fn watched_by(epoll: &OwnedFd) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let events = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(epoll, &timer, epoll::EventData::new_u64(ALARM), events)?;
        Ok(Alarm { timer })
    }

    /// Expires once, `wait` nanoseconds from now; 0 disarms it.
    pub fn set(&self, wait: Ns) -> io::Result<()> {
        let once = Itimerspec {
            it_interval: timespec(0),
            it_value: timespec(wait),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

/// Nanoseconds as a `Timespec`.
pub fn timespec(ns: Ns) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as _,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::buffer::spare_capacity;
    use rustix::time::timerfd_gettime;

    #[test]
    fn the_kernel_takes_parts_of_a_millisecond() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let alarm = Alarm::watched_by(&epoll).unwrap();
        let hour = 3_600_000_000_000;
        alarm.set(hour + 123_456).unwrap();
        // The remaining time is the time set less what has passed; whole milliseconds would have been rounded up.
        let left = timerfd_gettime(&alarm.timer).unwrap().it_value;
        let left = left.tv_sec as u64 * 1_000_000_000 + left.tv_nsec as u64;
        assert!(left <= hour + 123_456, "{left}");
    }

    #[test]
    fn each_ring_is_one_event_and_needs_no_reading() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let alarm = Alarm::watched_by(&epoll).unwrap();
        let mut events = Vec::with_capacity(4);
        for _ in 0..3 {
            alarm.set(1_000).unwrap();
            epoll::wait(&epoll, spare_capacity(&mut events), None).unwrap();
            let seen: Vec<u64> = events.drain(..).map(|event| event.data.u64()).collect();
            assert_eq!(seen, [ALARM]);
            let none = Some(&timespec(0));
            epoll::wait(&epoll, spare_capacity(&mut events), none).unwrap();
            assert!(events.is_empty());
        }
    }
}
