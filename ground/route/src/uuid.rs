//! Universally unique identifiers (RFC 9562), as placeholders and templates show them.

use alloc::format;
use alloc::string::String;

/// A UUID of version 4 with these random bits, of which six are fixed (section 5.4).
pub fn version_4(bits: u128) -> u128 {
    bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62
}

/// Its text: 32 hexadecimal digits in five groups (section 4).
pub fn text(uuid: u128) -> String {
    let hex = format!("{uuid:032x}");
    let groups = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_variant_are_fixed_and_all_else_is_random() {
        let of = |bits| text(version_4(bits));
        assert_eq!(of(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(of(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
