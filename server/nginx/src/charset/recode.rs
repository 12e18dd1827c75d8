//! Charset conversion by tables (`charset_map`). The filter chooses the source and target charsets.

use std::collections::HashMap;
use std::sync::Arc;

use sluice_message::hex::hex_pair;
use sluice_model::nginx::{CharsetMap as Config, Nginx};

use sluice_pipeline::refusal::Refusal;

/// Replaces characters that the target charset does not have.
const UNKNOWN: u8 = b'?';

/// The charsets of a configuration and the tables between them.
#[derive(Debug, Default)]
pub struct Charsets {
    names: Vec<Box<[u8]>>,
    /// By source and target index.
    tables: HashMap<(usize, usize), Arc<Table>>,
}

/// A conversion table.
#[derive(Debug)]
pub enum Table {
    /// Between two single-byte charsets.
    Bytes(Box<[u8; 256]>),
    /// To UTF-8.
    Into(Box<[Option<char>; 256]>),
    /// From UTF-8.
    From(HashMap<char, u8>),
}

impl Charsets {
    /// Parses the tables.
    pub fn build(config: &Nginx) -> Result<Charsets, Refusal> {
        let mut charsets = Charsets::default();
        for name in &config.charsets {
            charsets.number(name);
        }
        for map in &config.charset_maps {
            let (from, to) = (charsets.number(&map.from), charsets.number(&map.to));
            let (there, back) = tables(map)?;
            charsets.tables.insert((from, to), Arc::new(there));
            charsets.tables.insert((to, from), Arc::new(back));
        }
        Ok(charsets)
    }

    fn number(&mut self, name: &str) -> usize {
        self.find(name.as_bytes()).unwrap_or_else(|| {
            self.names.push(name.as_bytes().into());
            self.names.len() - 1
        })
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        let mut names = self.names.iter();
        names.position(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether the configuration mentions a charset.
    pub fn know(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }

    /// The table from one charset to another.
    pub fn table(&self, from: &[u8], to: &[u8]) -> Option<&Arc<Table>> {
        self.tables.get(&(self.find(from)?, self.find(to)?))
    }
}

/// Decodes hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(hex_pair).collect()
}

/// The tables of a map in both directions.
fn tables(map: &Config) -> Result<(Table, Table), Refusal> {
    let wrong = |text: &str| Refusal::new(format!("`{text}` is not a character code"));
    let mut rows = Vec::with_capacity(map.rows.len());
    for row in &map.rows {
        let key = bytes_of(&row.key).ok_or_else(|| wrong(&row.key))?;
        let [key] = key[..] else {
            return Err(wrong(&row.key));
        };
        let value = bytes_of(&row.value).ok_or_else(|| wrong(&row.value))?;
        rows.push((key, value, &row.value));
    }
    if map.to.eq_ignore_ascii_case("utf-8") {
        let mut into: Box<[Option<char>; 256]> = Box::new([None; 256]);
        let mut from = HashMap::new();
        for byte in 0..0x80u8 {
            into[usize::from(byte)] = Some(char::from(byte));
        }
        for (key, value, text) in rows {
            let mut letters = std::str::from_utf8(&value).unwrap_or_default().chars();
            let letter = letters.next().filter(|_| letters.next().is_none());
            let letter = letter.ok_or_else(|| wrong(text))?;
            into[usize::from(key)] = Some(letter);
            from.insert(letter, key);
        }
        return Ok((Table::Into(into), Table::From(from)));
    }
    let mut there = Box::new([UNKNOWN; 256]);
    for byte in 0..0x80u8 {
        there[usize::from(byte)] = byte;
    }
    let mut back = there.clone();
    for (key, value, text) in rows {
        let [other] = value[..] else {
            return Err(wrong(text));
        };
        there[usize::from(key)] = other;
        back[usize::from(other)] = key;
    }
    Ok((Table::Bytes(there), Table::Bytes(back)))
}

impl Table {
    /// Whether the output is as long as the input.
    pub fn keeps_length(&self) -> bool {
        matches!(self, Table::Bytes(_))
    }
}

/// Converts a stream of bytes.
pub struct Recoder {
    table: Arc<Table>,
    /// An incomplete character, to be continued by the next piece.
    held: Vec<u8>,
}

impl Recoder {
    /// Recodes by this table.
    pub fn new(table: Arc<Table>) -> Recoder {
        Recoder {
            table,
            held: Vec::new(),
        }
    }

    /// Converts the next bytes and appends the result to `out`.
    pub fn read(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        match &*self.table {
            Table::Bytes(table) => out.extend(piece.iter().map(|byte| table[usize::from(*byte)])),
            Table::Into(table) => {
                let mut buf = [0; 4];
                for byte in piece {
                    match table[usize::from(*byte)] {
                        Some(letter) => {
                            out.extend_from_slice(letter.encode_utf8(&mut buf).as_bytes())
                        }
                        None => out.push(UNKNOWN),
                    }
                }
            }
            Table::From(table) => match self.held.is_empty() {
                true => {
                    let left = letters(piece, table, out);
                    self.held.extend_from_slice(left);
                }
                false => {
                    let mut held = std::mem::take(&mut self.held);
                    held.extend_from_slice(piece);
                    self.held = letters(&held, table, out).to_vec();
                }
            },
        }
    }

    /// Ends the input.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if !self.held.is_empty() {
            self.held.clear();
            out.push(UNKNOWN);
        }
    }
}

/// Converts UTF-8 text; returns the incomplete character at its end, if any. Characters that the target charset
/// lacks become HTML character references whatever the media type, as in nginx. Invalid sequences become question
/// marks; nginx would swallow the following byte, which may be part of a tag.
fn letters<'t>(text: &'t [u8], table: &HashMap<char, u8>, out: &mut Vec<u8>) -> &'t [u8] {
    let mut rest = text;
    loop {
        let (good, bad) = match std::str::from_utf8(rest) {
            Ok(good) => (good, None),
            Err(error) => {
                let good = &rest[..error.valid_up_to()];
                let good = std::str::from_utf8(good).unwrap_or_default();
                (good, Some(error.error_len()))
            }
        };
        for letter in good.chars() {
            match table.get(&letter) {
                Some(byte) => out.push(*byte),
                None if letter.is_ascii() => out.push(letter as u8),
                None => out.extend_from_slice(format!("&#{};", u32::from(letter)).as_bytes()),
            }
        }
        rest = &rest[good.len()..];
        match bad {
            None | Some(None) => return rest,
            Some(Some(length)) => {
                out.push(UNKNOWN);
                rest = &rest[length..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::nginx::TableRow;

    fn charsets() -> Charsets {
        let map = |from: &str, to: &str, rows: &[(&str, &str)]| Config {
            from: from.to_owned(),
            to: to.to_owned(),
            rows: rows
                .iter()
                .map(|(key, value)| TableRow {
                    key: (*key).to_owned(),
                    value: (*value).to_owned(),
                })
                .collect(),
        };
        let config = Nginx {
            charsets: vec!["named".to_owned()],
            charset_maps: vec![
                map("koi8-r", "utf-8", &[("F0", "D09F"), ("80", "E282AC")]),
                map("a", "b", &[("80", "81"), ("82", "81"), ("41", "42")]),
            ],
            ..Nginx::default()
        };
        Charsets::build(&config).expect("the tables are right")
    }

    fn recoded(from: &str, to: &str, text: &[u8]) -> Vec<u8> {
        let charsets = charsets();
        let table = charsets
            .table(from.as_bytes(), to.as_bytes())
            .expect("there is one");
        let mut whole = Vec::new();
        for cut in 0..=text.len() {
            let mut recoder = Recoder::new(table.clone());
            let mut out = Vec::new();
            recoder.read(&text[..cut], &mut out);
            recoder.read(&text[cut..], &mut out);
            recoder.end(&mut out);
            assert!(cut == 0 || out == whole, "cut at {cut}");
            whole = out;
        }
        whole
    }

    #[test]
    fn letters_have_other_codes() {
        assert_eq!(
            recoded("koi8-r", "UTF-8", b"x\xf0\x80\x90"),
            "xП€?".as_bytes()
        );
        assert_eq!(recoded("a", "b", b"A\x80\x82\xff"), b"B\x81\x81?");
        assert_eq!(recoded("b", "a", b"B\x81\x80A"), b"A\x82?A");
        let text = "П€é日😀<".as_bytes();
        let expected = b"\xf0\x80&#233;&#26085;&#128512;<";
        assert_eq!(recoded("utf-8", "koi8-r", text), expected);
    }

    #[test]
    fn broken_letters_take_nothing_with_them() {
        let text = b"a\xd0<\xff\xd0\x9f\xe2\x82z\xd0";
        assert_eq!(recoded("utf-8", "koi8-r", text), b"a?<?\xf0?z?");
    }

    #[test]
    fn encodings_are_known_by_name() {
        let charsets = charsets();
        assert!(charsets.know(b"NAMED") && charsets.know(b"a") && !charsets.know(b"other"));
        assert!(charsets.table(b"a", b"koi8-r").is_none());
    }
}
