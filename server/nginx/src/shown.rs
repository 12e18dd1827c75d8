//! How nginx shows values.

use std::io::Write;

use sluice_message::Fields;

/// Appends seconds with three decimals, as nginx formats times.
pub(super) fn seconds(time: std::time::Duration, out: &mut Vec<u8>) {
    show(
        out,
        format_args!("{}.{:03}", time.as_secs(), time.subsec_millis()),
    );
}

/// Appends a formatted value.
pub(super) fn show(out: &mut Vec<u8>, value: std::fmt::Arguments<'_>) {
    out.write_fmt(value)
        .expect("writing to memory does not fail");
}

/// Appends all values of a header field, as nginx joins them.
pub(super) fn join(fields: &Fields, name: &[u8], out: &mut Vec<u8>) {
    for (index, value) in fields.find(name).enumerate() {
        if index > 0 {
            let is_cookie = name.eq_ignore_ascii_case(b"cookie");
            out.extend_from_slice(if is_cookie { b"; " } else { b", " });
        }
        out.extend_from_slice(value);
    }
}
