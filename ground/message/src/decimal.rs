//! Formats integers as decimal digits without allocating.

use alloc::vec::Vec;

/// Appends `value` as decimal digits.
#[inline]
pub fn push_integer(out: &mut Vec<u8>, value: u64) {
    // As the length of most requests.
    match value {
        0..10 => out.push(b'0' + value as u8),
        _ => push_padded(out, value, 1),
    }
}

/// Appends `value` with at least `width` digits, zeros first. A `width` beyond 20, which no `u64` needs, counts as 20.
#[inline]
pub fn push_padded(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while value > 0 {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    let start = at.min(digits.len().saturating_sub(width));
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    #[test]
    fn numbers_have_at_least_the_digits_asked_for() {
        for (value, width, expected) in [
            (0, 1, "0"),
            (0, 0, ""),
            (7, 2, "07"),
            (123, 2, "123"),
            (u64::MAX, 1, "18446744073709551615"),
            (1, 99, "00000000000000000001"),
        ] {
            let mut out = Vec::new();
            push_padded(&mut out, value, width);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
