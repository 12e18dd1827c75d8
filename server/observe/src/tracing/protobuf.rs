//! The few Protocol Buffers wire types that spans need. A code generator and its runtime would be larger than the code
//! they replace.

/// Appends a varint.
pub fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a varint field.
pub fn push_number(out: &mut Vec<u8>, field: u32, value: u64) {
    push_varint(out, u64::from(field) << 3);
    push_varint(out, value);
}

/// Appends a fixed 64-bit field.
pub fn push_fixed(out: &mut Vec<u8>, field: u32, value: u64) {
    push_varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a length-delimited field: bytes, a string or a message.
pub fn push_bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    push_varint(out, u64::from(field) << 3 | 2);
    push_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a string attribute (`KeyValue` of opentelemetry/proto/common/v1).
pub fn push_text_attribute(out: &mut Vec<u8>, field: u32, key: &str, value: &[u8]) {
    // Protocol Buffers strings are UTF-8; text from clients need not be.
    let value = String::from_utf8_lossy(value);
    let mut any = Vec::new();
    push_bytes(&mut any, 1, value.as_bytes());
    push_attribute(out, field, key, &any);
}

/// Appends an integer attribute.
pub fn push_number_attribute(out: &mut Vec<u8>, field: u32, key: &str, value: u64) {
    let mut any = Vec::new();
    push_number(&mut any, 3, value);
    push_attribute(out, field, key, &any);
}

fn push_attribute(out: &mut Vec<u8>, field: u32, key: &str, any: &[u8]) {
    let mut attribute = Vec::new();
    push_bytes(&mut attribute, 1, key.as_bytes());
    push_bytes(&mut attribute, 2, any);
    push_bytes(out, field, &attribute);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_encoding_guide_shows() {
        let mut out = Vec::new();
        push_number(&mut out, 1, 150);
        push_bytes(&mut out, 2, b"testing");
        push_fixed(&mut out, 7, 1);
        assert_eq!(
            out,
            [
                &b"\x08\x96\x01\x12\x07testing"[..],
                b"\x39\x01\0\0\0\0\0\0\0"
            ]
            .concat()
        );
    }
}
