//! The failures of a group's servers, which outlive the process in a binary upgrade.

use core::sync::atomic::Ordering::Relaxed;

use super::Group;

impl Group {
    /// The failures of a server, for a process that replaces this one: their number, the latest, and when it was last tried,
    /// in nanoseconds. `None` without failures.
    pub fn failing(&self, index: usize) -> Option<[u64; 3]> {
        let peer = &self.peers[index];
        let fails = u64::from(peer.fails.load(Relaxed));
        let times = [&peer.failed_at, &peer.checked_at].map(|time| time.load(Relaxed));
        (fails > 0).then_some([fails, times[0], times[1]])
    }

    /// Continues with the failures of a server in the process that this one replaces, unless it has some here.
    pub fn resume_failing(&self, index: usize, [fails, failed_at, checked_at]: [u64; 3]) {
        let peer = &self.peers[index];
        let fails = u32::try_from(fails).unwrap_or(u32::MAX);
        let is_new = peer.fails.compare_exchange(0, fails, Relaxed, Relaxed);
        if is_new.is_ok() {
            peer.failed_at.fetch_max(failed_at, Relaxed);
            peer.checked_at.fetch_max(checked_at, Relaxed);
        }
    }
}
