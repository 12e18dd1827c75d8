//! Decimal arithmetic without the rounding errors of binary floating point: 0.1 and 0.2 make 0.3.

use alloc::format;

use crate::show::split_exponent;

/// A number as whole digits and a power of ten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal {
    digits: i128,
    /// How many of the digits stand behind the point.
    behind: u32,
}

/// Digits behind the point that are still computed exactly; more than any price or measure has.
const BEHIND_MAX: u32 = 18;

impl Decimal {
    /// The decimal that a number is written as; `None` if it has too many digits.
    pub(super) fn of(number: f64) -> Option<Decimal> {
        if !number.is_finite() || number.abs() > 1e18 {
            return None;
        }
        let scientific = format!("{number:e}");
        let (text, exponent) = split_exponent(&scientific);
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let mut digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let mut behind = fraction.len() as i32 - exponent;
        while behind < 0 {
            digits = digits.checked_mul(10)?;
            behind += 1;
        }
        let behind = behind as u32;
        (behind <= BEHIND_MAX).then_some(Decimal { digits, behind })
    }

    fn with(self, behind: u32) -> Option<i128> {
        self.digits.checked_mul(10_i128.pow(behind - self.behind))
    }

    pub(super) fn plus(self, other: Decimal) -> Option<Decimal> {
        let behind = self.behind.max(other.behind);
        let digits = self.with(behind)?.checked_add(other.with(behind)?)?;
        Some(Decimal { digits, behind })
    }

    pub(super) fn minus(self, other: Decimal) -> Option<Decimal> {
        let digits = -other.digits;
        self.plus(Decimal { digits, ..other })
    }

    pub(super) fn times(self, other: Decimal) -> Option<Decimal> {
        Some(Decimal {
            digits: self.digits.checked_mul(other.digits)?,
            behind: self.behind + other.behind,
        })
    }

    pub(super) fn to_float(self) -> Option<f64> {
        format!("{}e-{}", self.digits, self.behind).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_no_binary_dust() {
        let of = |number| Decimal::of(number).unwrap();
        assert_eq!(of(0.1).plus(of(0.2)).unwrap().to_float(), Some(0.3));
        assert_eq!(of(1.5e3).minus(of(0.01)).unwrap().to_float(), Some(1499.99));
        assert_eq!(of(1.1).times(of(-3.0)).unwrap().to_float(), Some(-3.3));
        assert!(Decimal::of(1e300).is_none());
        assert!(Decimal::of(f64::NAN).is_none());
    }
}
