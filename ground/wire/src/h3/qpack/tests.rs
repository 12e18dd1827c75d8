//! The examples of RFC 9204, and a model of an encoder that uses the dynamic table in all ways.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use sluice_message::{FieldId, Status};

use super::super::limits::Limits;
use super::*;
use crate::h2::hpack::{HpackError, Keep, integer};

const LIMITS: Limits = Limits {
    table_bytes_max: 220,
    blocked_streams_max: 2,
    ..Limits::SERVER
};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect()
}

fn decode(decoder: &mut Decoder, stream: u64, section: &[u8]) -> Result<String, QpackError> {
    let mut text = String::new();
    let outcome = decoder.decode(stream, section, |field| {
        let shown = |bytes: &[u8]| core::str::from_utf8(bytes).unwrap().to_string();
        text += &format!("{}={}\n", shown(field.name), shown(field.value));
    })?;
    Ok(match outcome {
        Outcome::Done => text,
        Outcome::Blocked => "blocked".to_string(),
    })
}

fn output(decoder: &mut Decoder) -> Vec<u8> {
    core::mem::take(decoder.output())
}

/// RFC 9204, appendix B. Other than there each insertion is acknowledged at once.
#[test]
fn examples_of_the_standard() {
    let mut decoder = Decoder::new(&LIMITS);
    let section = bytes("0000 510b 2f69 6e64 6578 2e68 746d 6c");
    assert_eq!(
        decode(&mut decoder, 0, &section),
        Ok(":path=/index.html\n".into())
    );
    assert_eq!(output(&mut decoder), b"");

    let section = bytes("0381 10 11");
    assert_eq!(decode(&mut decoder, 4, &section), Ok("blocked".into()));
    let stream = bytes(
        "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468",
    );
    assert_eq!(decoder.ready(), None);
    for byte in stream {
        decoder.receive(&[byte]).unwrap();
    }
    assert_eq!((decoder.ready(), decoder.ready()), (Some(4), None));
    assert_eq!(output(&mut decoder), [1, 1]);
    let fields = ":authority=www.example.com\n:path=/sample/path\n";
    assert_eq!(decode(&mut decoder, 4, &section), Ok(fields.into()));
    assert_eq!(output(&mut decoder), [0x84]);

    let stream = bytes("4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565");
    decoder.receive(&stream).unwrap();
    assert_eq!(output(&mut decoder), [0x01]);

    decoder.receive(&bytes("02")).unwrap();
    let section = bytes("0500 80 c1 81");
    decoder.cancel(8);
    assert_eq!(output(&mut decoder), [0x01, 0x48]);
    let fields = ":authority=www.example.com\n:path=/\ncustom-key=custom-value\n";
    assert_eq!(decode(&mut decoder, 12, &section), Ok(fields.into()));

    decoder
        .receive(&bytes("810d 6375 7374 6f6d 2d76 616c 7565 32"))
        .unwrap();
    let section = bytes("0600 80 81 82");
    let fields = "custom-key=custom-value2\n:authority=www.example.com\ncustom-key=custom-value\n";
    assert_eq!(decode(&mut decoder, 16, &section), Ok(fields.into()));
    // The first entry was dropped for the last one.
    assert_eq!(
        decode(&mut decoder, 16, &bytes("0600 84")),
        Err(QpackError::Index)
    );
}

/// An encoder that inserts fields in all ways and refers to them in all ways, driven by a sequence of numbers.
struct Model {
    entries: VecDeque<(String, String)>,
    inserted: u64,
    size: usize,
    random: u64,
}

impl Model {
    fn next(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn insert(&mut self, out: &mut Vec<u8>) {
        let value = "v".repeat(self.next(40) as usize);
        let count = self.entries.len() as u64;
        let (name, value) = match self.next(4) {
            0 if count > 0 => {
                let at = self.next(count) as usize;
                integer::encode(at, 5, 0, out);
                self.entries[at].clone()
            }
            1 if count > 0 => {
                let at = self.next(count) as usize;
                integer::encode(at, 6, 0x80, out);
                push(&value, 7, 0, out);
                (self.entries[at].0.clone(), value)
            }
            2 => {
                integer::encode(95, 6, 0xc0, out);
                push(&value, 7, 0, out);
                ("user-agent".to_string(), value)
            }
            _ => {
                let name = format!("x-{}", self.next(1000));
                push(&name, 5, 0x40, out);
                push(&value, 7, 0, out);
                (name, value)
            }
        };
        self.size += name.len() + value.len() + 32;
        self.entries.push_front((name, value));
        while self.size > 220 {
            let (name, value) = self.entries.pop_back().unwrap();
            self.size -= name.len() + value.len() + 32;
        }
        self.inserted += 1;
    }

    /// A section, and its fields as text.
    fn section(&mut self) -> (Vec<u8>, String) {
        let entries_max = 220 / 32;
        let base = self.inserted - self.next(self.entries.len() as u64 + 1);
        let (mut lines, mut text) = (Vec::new(), String::new());
        for _ in 0..self.next(6) {
            let value = "w".repeat(self.next(5) as usize);
            let at = self.next(self.entries.len() as u64) as usize;
            let number = self.inserted - 1 - at as u64;
            let (name, known) = self.entries[at].clone();
            let with_value = self.next(2) == 0;
            match (number < base, with_value) {
                (true, false) => integer::encode((base - 1 - number) as usize, 6, 0x80, &mut lines),
                (true, true) => integer::encode((base - 1 - number) as usize, 4, 0x40, &mut lines),
                (false, false) => integer::encode((number - base) as usize, 4, 0x10, &mut lines),
                (false, true) => integer::encode((number - base) as usize, 3, 0, &mut lines),
            }
            if with_value {
                push(&value, 7, 0, &mut lines);
            }
            text += &format!("{name}={}\n", if with_value { value } else { known });
        }
        let mut section = Vec::new();
        let encoded = (self.inserted % (2 * entries_max)) + 1;
        integer::encode(encoded as usize, 8, 0, &mut section);
        match base == self.inserted {
            true => section.push(0),
            false => integer::encode((self.inserted - base - 1) as usize, 7, 0x80, &mut section),
        }
        section.extend_from_slice(&lines);
        (section, text)
    }
}

fn push(text: &str, prefix: u32, pattern: u8, out: &mut Vec<u8>) {
    integer::encode(text.len(), prefix, pattern, out);
    out.extend_from_slice(text.as_bytes());
}

#[test]
fn sections_of_an_encoder_with_a_table_are_read() {
    for seed in 1..200u64 {
        let mut model = Model {
            entries: VecDeque::new(),
            inserted: 0,
            size: 0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let mut decoder = Decoder::new(&LIMITS);
        let mut stream = Vec::new();
        integer::encode(220, 5, 0x20, &mut stream);
        for round in 0..40u64 {
            for _ in 0..=model.next(3) {
                model.insert(&mut stream);
            }
            let (section, text) = model.section();
            let number = 4 * round;
            let is_early = model.next(2) == 0;
            if is_early {
                assert_eq!(decode(&mut decoder, number, &section), Ok("blocked".into()));
            }
            decoder.receive(&core::mem::take(&mut stream)).unwrap();
            assert_eq!(decoder.ready(), is_early.then_some(number));
            assert_eq!(
                decode(&mut decoder, number, &section),
                Ok(text),
                "seed {seed}"
            );
            assert_eq!(decoder.inserted_count(), model.inserted);
        }
        assert!(decoder.capacity_bytes() < 8 * 1024);
    }
}

#[test]
fn what_our_encoder_writes_is_read() {
    let mut encoder = Encoder::default();
    let mut section = Vec::new();
    encoder.begin(&mut section);
    let mut expected = String::new();
    for code in [
        100, 103, 200, 201, 204, 206, 302, 304, 400, 403, 404, 418, 421, 425, 500, 503,
    ] {
        encoder.status(Status::new(code).unwrap(), &mut section);
        expected += &format!(":status={code}\n");
    }
    for method in ["GET", "POST", "PATCH", "CONNECT"] {
        encoder.method(method, &mut section);
        expected += &format!(":method={method}\n");
    }
    encoder.scheme(true, &mut section);
    encoder.scheme(false, &mut section);
    encoder.path(b"/", &mut section);
    encoder.path(b"/a?b", &mut section);
    encoder.authority(b"a.example", &mut section);
    encoder.protocol(b"websocket", &mut section);
    expected += ":scheme=https\n:scheme=http\n:path=/\n:path=/a?b\n:authority=a.example\n:protocol=websocket\n";
    for (name, value, keep) in [
        ("Content-Type", "text/html; charset=utf-8", Keep::Allowed),
        ("Content-Type", "text/html", Keep::Allowed),
        ("Set-Cookie", "a=b", Keep::Never),
        (
            "X-Own-Name",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            Keep::Allowed,
        ),
        ("X-Secret", "\u{fc}", Keep::Never),
        ("Via", "", Keep::Allowed),
    ] {
        let id = FieldId::of(name.as_bytes());
        encoder.field(id, name.as_bytes(), value.as_bytes(), keep, &mut section);
        expected += &format!("{}={value}\n", name.to_lowercase());
    }
    let mut decoder = Decoder::new(&Limits {
        table_bytes_max: 0,
        ..Limits::SERVER
    });
    assert_eq!(decode(&mut decoder, 0, &section), Ok(expected));
    assert_eq!(output(&mut decoder), b"");
}

/// Whatever an encoder has written before, by whichever connection: of the same name, longer than it remembers, or secret.
#[test]
fn a_field_is_written_the_same_each_time() {
    let mut shared = Encoder::default();
    let long = "x".repeat(100);
    let fields = [
        ("Date", "Thu, 26 Nov 2026 23:59:59 GMT", Keep::Allowed),
        ("Date", "Fri, 27 Nov 2026 00:00:00 GMT", Keep::Allowed),
        ("Content-Type", "text/html; charset=utf-8", Keep::Allowed),
        ("Content-Type", "text/html", Keep::Allowed),
        ("Content-Type", "", Keep::Allowed),
        ("Server", &long, Keep::Allowed),
        ("Server", "sluice", Keep::Allowed),
        ("Set-Cookie", "a=b", Keep::Never),
        ("Set-Cookie", "a=b", Keep::Allowed),
        ("X-Own-Name", "x", Keep::Allowed),
    ];
    let write = |encoder: &mut Encoder, (name, value, keep): (&str, &str, Keep)| {
        let (mut out, id) = (Vec::new(), FieldId::of(name.as_bytes()));
        encoder.field(id, name.as_bytes(), value.as_bytes(), keep, &mut out);
        out
    };
    for before in fields {
        for field in fields {
            write(&mut shared, before);
            let alone = write(&mut Encoder::default(), field);
            for _ in 0..2 {
                assert_eq!(
                    write(&mut shared, field),
                    alone,
                    "{field:?} after {before:?}"
                );
            }
        }
    }
}

#[test]
fn wrong_sections_are_refused() {
    for (hex, error) in [
        ("", QpackError::Text(HpackError::Truncated)),
        ("00", QpackError::Text(HpackError::Truncated)),
        // A count that no table has, a count without an entry, and a base below the first entry.
        ("0d00", QpackError::Prefix),
        ("0080", QpackError::Prefix),
        // An entry of the fixed table that does not exist.
        ("0000 ff24", QpackError::Index),
        ("0000 80", QpackError::Index),
        ("0000 10", QpackError::Unannounced),
        ("0000 00 01 61", QpackError::Unannounced),
        ("0000 51 05 61", QpackError::Text(HpackError::Truncated)),
        (
            "0000 ffffffffffff",
            QpackError::Text(HpackError::IntegerTooLarge),
        ),
        (
            "0000 51 81 00",
            QpackError::Text(HpackError::HuffmanPadding),
        ),
    ] {
        let mut decoder = Decoder::new(&LIMITS);
        assert_eq!(decode(&mut decoder, 0, &bytes(hex)), Err(error), "{hex}");
    }
    let mut decoder = Decoder::new(&LIMITS);
    for stream in [0, 4] {
        assert_eq!(
            decode(&mut decoder, stream, &bytes("0200 80")),
            Ok("blocked".into())
        );
    }
    assert_eq!(
        decode(&mut decoder, 8, &bytes("0200 80")),
        Err(QpackError::TooManyBlocked)
    );
    decoder.cancel(4);
    assert_eq!(
        decode(&mut decoder, 8, &bytes("0200 80")),
        Ok("blocked".into())
    );
}

#[test]
fn wrong_instructions_are_refused() {
    for (hex, error) in [
        // A table above the limit, and entries larger than the table.
        ("3fbe01", QpackError::Capacity),
        ("c0 00", QpackError::EntryTooLarge),
        (
            "3f01 c0 17 6161616161616161616161616161616161616161616161",
            QpackError::EntryTooLarge,
        ),
        ("3fbd01 c0 7f7f", QpackError::EntryTooLarge),
        ("3fbd01 5f ffff01", QpackError::EntryTooLarge),
        ("3fbd01 00", QpackError::Index),
        ("3fbd01 80 00", QpackError::Index),
        ("ff24 00", QpackError::Index),
    ] {
        let mut decoder = Decoder::new(&LIMITS);
        assert_eq!(decoder.receive(&bytes(hex)), Err(error), "{hex}");
    }
}
