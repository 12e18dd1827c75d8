//! Header compression (RFC 7541): the examples of its appendix C, malformed input, and round trips.

use sluice_message::{FieldId, Status};
use sluice_wire::h2::hpack::{Decoder, Encoder, HpackError, Keep};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<String, HpackError> {
    let mut text = String::new();
    decoder.decode(block, |field| {
        text += &format!(
            "{}: {}\n",
            field.name.escape_ascii(),
            field.value.escape_ascii()
        );
    })?;
    Ok(text)
}

/// Decodes blocks one after the other with one table.
fn check(table: u16, blocks: &[(&str, &str)]) {
    let mut decoder = Decoder::new(table);
    for (hex, fields) in blocks {
        assert_eq!(decode(&mut decoder, &bytes(hex)).as_deref(), Ok(*fields));
    }
}

/// Appendix C.2: each kind of field by itself.
#[test]
fn single_fields() {
    check(
        4096,
        &[
            (
                "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
                "custom-key: custom-header\n",
            ),
            ("be", "custom-key: custom-header\n"),
            (
                "040c 2f73 616d 706c 652f 7061 7468",
                ":path: /sample/path\n",
            ),
            (
                "1008 7061 7373 776f 7264 0673 6563 7265 74",
                "password: secret\n",
            ),
            ("82", ":method: GET\n"),
        ],
    );
}

const REQUESTS: [&str; 3] = [
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n",
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n",
    ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n",
];

/// Appendix C.3: requests without Huffman coding.
#[test]
fn requests_in_plain_text() {
    check(
        4096,
        &[
            (
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                REQUESTS[0],
            ),
            ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1]),
            (
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                REQUESTS[2],
            ),
        ],
    );
}

/// Appendix C.4: requests with Huffman coding.
#[test]
fn requests_in_the_code() {
    check(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0]),
            ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1]),
            (
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
                REQUESTS[2],
            ),
        ],
    );
}

const RESPONSES: [&str; 3] = [
    ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
     location: https://www.example.com\n",
    ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\n\
     location: https://www.example.com\n",
    ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\n\
     location: https://www.example.com\ncontent-encoding: gzip\n\
     set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n",
];

/// Appendix C.5: responses whose table of 256 bytes is too small for all fields.
#[test]
fn responses_in_plain_text() {
    check(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a \
                 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                RESPONSES[0],
            ),
            ("4803 3330 37c1 c0bf", RESPONSES[1]),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 \
                 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 \
                 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                RESPONSES[2],
            ),
        ],
    );
}

/// Appendix C.6: the same with Huffman coding.
#[test]
fn responses_in_the_code() {
    check(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e \
                 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                RESPONSES[0],
            ),
            ("4883 640e ffc1 c0bf", RESPONSES[1]),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 \
                 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed \
                 4ee5 b106 3d50 07",
                RESPONSES[2],
            ),
        ],
    );
}

/// Sections 2.3.3, 4.2, 5.1, 5.2 and 6.1: what cannot be decoded ends the connection.
#[test]
fn faults_are_refused() {
    use HpackError::*;
    for (hex, fault) in [
        ("80", Index),
        ("be", Index),
        ("7e0161", Index),
        ("ff808080808001", IntegerTooLarge),
        ("ff", Truncated),
        ("00", Truncated),
        ("0001", Truncated),
        ("000161", Truncated),
        ("0001610261", Truncated),
        ("0001618100", HuffmanPadding),
        ("00016184ffffffff", HuffmanEos),
        ("8220", SizeLate),
        ("823fe11f", SizeLate),
        ("3fe21f", SizeTooLarge),
    ] {
        let mut decoder = Decoder::new(4096);
        assert_eq!(decode(&mut decoder, &bytes(hex)), Err(fault), "{hex}");
    }
    // At its front a block may change the size, also more than once.
    assert_eq!(
        decode(&mut Decoder::new(4096), &bytes("203fe11f82")).as_deref(),
        Ok(":method: GET\n")
    );
}

/// Section 4.2: a peer that was given a smaller limit has to acknowledge it with a size update.
#[test]
fn a_smaller_table_limit_must_be_acknowledged() {
    let mut decoder = Decoder::new(4096);
    decoder.limit_table(100);
    assert_eq!(decode(&mut decoder, &[0x82]), Err(HpackError::SizeMissing));
    let mut decoder = Decoder::new(4096);
    decoder.limit_table(100);
    assert!(decode(&mut decoder, &bytes("3f4582")).is_ok());
    assert!(decode(&mut decoder, &[0x82]).is_ok());
}

/// A field whose name is that of the entry it pushes out (section 4.4).
#[test]
fn a_name_outlives_its_entry() {
    let mut decoder = Decoder::new(64);
    let mut block = vec![0x40, 10];
    block.extend_from_slice(b"name-of-10");
    block.push(10);
    block.extend_from_slice(b"0123456789");
    block.extend_from_slice(&[0x7e, 20]);
    block.extend_from_slice(b"01234567890123456789");
    block.push(0xbe);
    let line = "name-of-10: 01234567890123456789\n";
    assert_eq!(
        decode(&mut decoder, &block).unwrap(),
        format!("name-of-10: 0123456789\n{line}{line}")
    );
}

/// A small generator; all that matters is that a seed gives the same numbers everywhere.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn blocks_come_back_whatever_the_tables_sizes() {
    for seed in 1..=200u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let ours = [0, 60, 300, 4096, 8192][next(&mut state) as usize % 5];
        let (mut encoder, mut decoder) = (Encoder::new(ours), Decoder::new(4096));
        let mut limit = 4096;
        for round in 0..60 {
            if next(&mut state).is_multiple_of(5) {
                // Sometimes twice in a row; only the smallest and the last size are announced.
                for _ in 0..1 + next(&mut state) % 2 {
                    limit = [0, 40, 200, 4096, 10_000][next(&mut state) as usize % 5];
                    encoder.limit_table(limit);
                }
                decoder.limit_table(limit as u16);
            }
            let (mut block, mut expected) = (Vec::new(), String::new());
            encoder.begin(&mut block);
            for _ in 0..next(&mut state) % 12 {
                let value: Vec<u8> = (0..next(&mut state) % 50)
                    .map(|_| next(&mut state) as u8)
                    .collect();
                let again = next(&mut state) % 4;
                let (id, name, value) = match next(&mut state) % 4 {
                    0 => (FieldId::Server, "server", b"sluice".to_vec()),
                    1 => (FieldId::Other, "x-again", vec![b'a' + again as u8; 20]),
                    2 => (FieldId::SetCookie, "set-cookie", value),
                    _ => (FieldId::Other, "x-once", value),
                };
                let keep = if id == FieldId::SetCookie {
                    Keep::Never
                } else {
                    Keep::Allowed
                };
                encoder.field(id, name.to_uppercase().as_bytes(), &value, keep, &mut block);
                expected += &format!("{name}: {}\n", value.escape_ascii());
            }
            let found = decode(&mut decoder, &block);
            assert_eq!(
                found.as_deref(),
                Ok(&expected[..]),
                "seed {seed} round {round}"
            );
        }
    }
}

/// A header that every response has costs one byte from the third time on; sensitive headers are never in the table.
#[test]
fn fields_that_come_again_become_short() {
    let mut encoder = Encoder::new(4096);
    let mut lens = Vec::new();
    for _ in 0..4 {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.status(Status::OK, &mut block);
        encoder.field(
            FieldId::Server,
            b"Server",
            b"sluice",
            Keep::Allowed,
            &mut block,
        );
        encoder.field(
            FieldId::Other,
            b"X-Foo",
            b"some value",
            Keep::Allowed,
            &mut block,
        );
        lens.push(block.len());
    }
    assert!(lens[0] > 15 && lens[1] > 15, "{lens:?}");
    assert_eq!(lens[2..], [3, 3]);
    let mut blocks = Vec::new();
    for _ in 0..4 {
        let mut block = Vec::new();
        encoder.field(
            FieldId::Cookie,
            b"Cookie",
            b"secret=1",
            Keep::Never,
            &mut block,
        );
        blocks.push(block);
    }
    assert!(
        blocks
            .iter()
            .all(|block| block == &blocks[0] && block[0] & 0xf0 == 0x10)
    );
}
