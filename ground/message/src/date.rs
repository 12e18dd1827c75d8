//! Calendar dates as HTTP writes them (RFC 9110, section 5.6.7). Asking a clock is left to the caller.

/// Days of the week, from Thursday: 1 January 1970 was one.
const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// `unix_seconds` as an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`. Years beyond 9999 are not meant.
pub fn format_http(unix_seconds: u64) -> [u8; 29] {
    let days = unix_seconds / 86_400;
    let second = (unix_seconds % 86_400) as u32;
    let (year, month, day) = civil(days);
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(DAYS[(days % 7) as usize]);
    two_digits(&mut out, 5, day);
    out[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    two_digits(&mut out, 12, (year / 100) as u32 % 100);
    two_digits(&mut out, 14, (year % 100) as u32);
    two_digits(&mut out, 17, second / 3600);
    two_digits(&mut out, 20, second / 60 % 60);
    two_digits(&mut out, 23, second % 60);
    out
}

fn two_digits(out: &mut [u8; 29], at: usize, value: u32) {
    out[at] = b'0' + (value / 10 % 10) as u8;
    out[at + 1] = b'0' + (value % 10) as u8;
}

/// Year, month and day of a day counted from 1970, by eras of 400 years that begin on 1 March.
pub fn civil(days: u64) -> (u64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_imf_fixdate() {
        assert_eq!(&format_http(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&format_http(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format_http(951_782_400), b"Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(&format_http(1_795_305_599), b"Sat, 21 Nov 2026 23:59:59 GMT");
    }
}
