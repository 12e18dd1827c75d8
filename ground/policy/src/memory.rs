//! Memory pressure: what to give up as the memory of the process approaches its limit.

use crate::limits::{MEMORY_HYSTERESIS_PERCENT, MEMORY_PRESSURE_PERCENT};

/// How scarce memory is. Each level includes the measures of those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Not at all.
    #[default]
    None,
    /// Unused buffers are freed, and new ones are small.
    SmallBuffers,
    /// Request bodies that nothing was read of yet wait.
    HoldBodies,
    /// Idle connections are closed.
    CloseIdle,
    /// New connections and requests are refused.
    Refuse,
}

/// All levels with measures, in order.
pub const LEVELS: [Pressure; 4] = [
    Pressure::SmallBuffers,
    Pressure::HoldBodies,
    Pressure::CloseIdle,
    Pressure::Refuse,
];

impl Pressure {
    /// The level at `used` bytes of `limit`, after this one. A level begins at its share of the limit, and ends a few
    /// percent below that, so that it does not begin and end with each request.
    #[must_use]
    pub fn next(self, used: u64, limit: u64) -> Pressure {
        if limit == 0 {
            return Pressure::None;
        }
        let percent = used.saturating_mul(100) / limit;
        let mut level = Pressure::None;
        for (next, begins) in LEVELS.into_iter().zip(MEMORY_PRESSURE_PERCENT) {
            let ends = begins - MEMORY_HYSTERESIS_PERCENT;
            if percent >= begins || self >= next && percent >= ends {
                level = next;
            }
        }
        level
    }

    /// The level of this number, as [`Pressure::number`] gives it.
    pub fn of_number(number: u8) -> Pressure {
        let at = usize::from(number).checked_sub(1);
        at.and_then(|at| LEVELS.get(at))
            .copied()
            .unwrap_or_default()
    }

    /// The number of the level: 0 for none, 4 for [`Pressure::Refuse`].
    pub fn number(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_begins_at_its_share_and_ends_below() {
        let mut level = Pressure::None;
        let limit: u64 = 256 << 20;
        for (percent, expected) in [
            (0, Pressure::None),
            (69, Pressure::None),
            (70, Pressure::SmallBuffers),
            (66, Pressure::SmallBuffers),
            (64, Pressure::None),
            (79, Pressure::SmallBuffers),
            (80, Pressure::HoldBodies),
            (75, Pressure::HoldBodies),
            (85, Pressure::CloseIdle),
            (100, Pressure::Refuse),
            (300, Pressure::Refuse),
            (86, Pressure::Refuse),
            (84, Pressure::CloseIdle),
            (79, Pressure::HoldBodies),
            (74, Pressure::SmallBuffers),
            (10, Pressure::None),
            (90, Pressure::Refuse),
        ] {
            level = level.next((limit * percent).div_ceil(100), limit);
            assert_eq!(level, expected, "at {percent} %");
        }
    }

    #[test]
    fn without_a_limit_there_is_no_pressure() {
        assert_eq!(Pressure::Refuse.next(u64::MAX, 0), Pressure::None);
    }

    #[test]
    fn numbers_name_levels() {
        for level in [Pressure::None].into_iter().chain(LEVELS) {
            assert_eq!(Pressure::of_number(level.number()), level);
        }
        assert_eq!(Pressure::of_number(9), Pressure::None);
    }
}
