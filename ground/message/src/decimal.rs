//! Formats integers as decimal digits without allocating.

use alloc::vec::Vec;

/// Appends `value` as decimal digits. Sizes and statuses have few, so those are written without a loop.
#[inline]
pub fn push_integer(out: &mut Vec<u8>, value: u64) {
    match value {
        0..10 => out.push(b'0' + value as u8),
        10..100 => out.extend_from_slice(&PAIRS[value as usize]),
        100..1000 => {
            let [tens, ones] = PAIRS[(value % 100) as usize];
            out.extend_from_slice(&[b'0' + (value / 100) as u8, tens, ones]);
        }
        _ => push_padded(out, value, 1),
    }
}

/// Appends `value` with at least `width` digits, zeros first. A `width` beyond 20, which no `u64` needs, counts as 20.
pub fn push_padded(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while value >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
    }
    if value > 0 {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    let start = at.min(digits.len().saturating_sub(width));
    out.extend_from_slice(&digits[start..]);
}

/// The last `N` digits of `value`, zeros first: where their number is known, nothing has to be counted.
#[inline]
pub fn padded<const N: usize>(mut value: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for pair in digits.rchunks_mut(2) {
        let [tens, ones] = PAIRS[(value % 100) as usize];
        match pair {
            [first, second] => (*first, *second) = (tens, ones),
            [only] => *only = ones,
            _ => {}
        }
        value /= 100;
    }
    digits
}

/// The numbers from 0 to 99, two digits each.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + value as u8 / 10, b'0' + value as u8 % 10];
        value += 1;
    }
    pairs
};

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
            (100, 3, "100"),
            (100, 1, "100"),
            (1000, 6, "001000"),
        ] {
            let mut out = Vec::new();
            push_padded(&mut out, value, width);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn every_number_of_digits_is_written_as_it_displays() {
        let powers = (0..20).map(|power| 10u64.pow(power));
        let around = powers.flat_map(|power| [power - 1, power, power + 1]);
        for value in around.chain(0..=1100).chain([u64::MAX, u64::MAX - 1]) {
            let mut out = Vec::new();
            push_integer(&mut out, value);
            push_padded(&mut out, value, 7);
            let expected = alloc::format!("{value}{value:07}");
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn a_fixed_number_of_digits_is_the_end_of_the_number() {
        assert_eq!(&padded::<6>(712_460), b"712460");
        assert_eq!(&padded::<9>(145_377), b"000145377");
        assert_eq!(&padded::<3>(1_234), b"234");
        assert_eq!(&padded::<10>(1_795_775_041), b"1795775041");
    }
}
