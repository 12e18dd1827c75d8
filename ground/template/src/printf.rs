//! `printf`: the verbs and flags of Go's fmt for the value types of templates.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use sluice_message::hex;

use crate::error::Fault;
use crate::limits::PRINTF_WIDTH_MAX;
use crate::quote::{Letters, quote, quote_letter};
use crate::room::Room;
use crate::show::{shown, split_exponent, unusual, write_exponent, write_shortest};
use crate::value::{IntKind, Value};

/// One verb with its flags.
#[derive(Clone, Copy, Debug, Default)]
struct Verb {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
    letter: char,
}

/// `args` as `format` says.
pub(crate) fn printf(format: &str, args: &[Value], room: &mut Room) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    let mut rest = format;
    let mut used = 0;
    while let Some(at) = rest.find('%') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let mut verb = Verb::default();
        rest = verb.read(rest, args, &mut used)?;
        if verb.letter == '\0' {
            out.extend_from_slice(b"%!(NOVERB)");
        } else if verb.letter == '%' {
            out.push(b'%');
        } else if let Some(value) = args.get(used) {
            used += 1;
            verb.write(value, &mut out, room)?;
        } else {
            out.extend_from_slice(format!("%!{}(MISSING)", verb.letter).as_bytes());
        }
        room.take(out.len().min(PRINTF_WIDTH_MAX))?;
    }
    out.extend_from_slice(rest.as_bytes());
    if used < args.len() {
        write_extra(&args[used..], &mut out, room)?;
    }
    room.take(out.len())?;
    Ok(out)
}

fn write_extra(args: &[Value], out: &mut Vec<u8>, room: &mut Room) -> Result<(), Fault> {
    out.extend_from_slice(b"%!(EXTRA ");
    for (at, value) in args.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(value.type_name().as_bytes());
        if !matches!(value, Value::Nil) {
            out.push(b'=');
            out.extend_from_slice(&shown(value, room)?);
        }
    }
    out.push(b')');
    Ok(())
}

impl Verb {
    /// Reads flags, width, precision and letter; gives what follows them.
    fn read<'a>(
        &mut self,
        mut rest: &'a str,
        args: &[Value],
        used: &mut usize,
    ) -> Result<&'a str, Fault> {
        loop {
            match rest.as_bytes().first() {
                Some(b'+') => self.plus = true,
                Some(b'-') => self.minus = true,
                Some(b'#') => self.sharp = true,
                Some(b' ') => self.space = true,
                Some(b'0') => self.zero = true,
                Some(_) | None => break,
            }
            rest = &rest[1..];
        }
        (self.width, rest) = number(rest, args, used)?;
        if let Some(after) = rest.strip_prefix('.') {
            let (precision, after) = number(after, args, used)?;
            self.precision = Some(precision.unwrap_or(0));
            rest = after;
        }
        let mut letters = rest.chars();
        self.letter = letters.next().unwrap_or('\0');
        Ok(letters.as_str())
    }

    fn write(self, value: &Value, out: &mut Vec<u8>, room: &mut Room) -> Result<(), Fault> {
        let plain = match value {
            Value::Object(object) => &object.plain(),
            other => other,
        };
        let text = match (self.letter, plain) {
            ('T', _) => value.type_name().as_bytes().to_vec(),
            ('v', _) if self.sharp => self.source_form(plain, room)?,
            ('v', Value::Float(number)) => self.float(*number, 'g').into_bytes(),
            ('v', _) => shown(plain, room)?,
            (_, Value::List(list)) => {
                let mut inner = Vec::new();
                inner.push(b'[');
                for (at, item) in list.items().iter().enumerate() {
                    room.step()?;
                    if at > 0 {
                        inner.push(b' ');
                    }
                    self.write(item, &mut inner, room)?;
                }
                inner.push(b']');
                out.extend_from_slice(&inner);
                return Ok(());
            }
            _ => match self.simple(plain, room)? {
                Some(text) => text,
                None => return self.write_wrong(plain, out, room),
            },
        };
        self.pad(&text, plain, out);
        Ok(())
    }

    /// The form of a value that is neither list nor map; `None` if the letter does not fit it.
    fn simple(self, value: &Value, room: &mut Room) -> Result<Option<Vec<u8>>, Fault> {
        Ok(match (self.letter, value) {
            ('t', Value::Bool(_)) => Some(shown(value, room)?),
            ('s' | 'q' | 'x' | 'X', Value::Text(text)) => Some(self.text(text.as_bytes())),
            ('s', Value::Time(_) | Value::Duration(_)) => Some(shown(value, room)?),
            ('q', Value::Time(_)) => Some(self.text(&shown(value, room)?)),
            (
                'd' | 'b' | 'o' | 'O' | 'x' | 'X' | 'c' | 'q' | 'U',
                Value::Int(number, _) | Value::Duration(number),
            ) => Some(self.int(*number)),
            ('e' | 'E' | 'f' | 'F' | 'g' | 'G', Value::Float(number)) => {
                Some(self.sign(self.float(*number, self.letter)).into_bytes())
            }
            _ => None,
        })
    }

    fn text(self, text: &[u8]) -> Vec<u8> {
        let cut = match self.precision {
            // Characters count for `%s` and `%q`, bytes for `%x`.
            Some(max) if matches!(self.letter, 's' | 'q') => {
                let lossy = String::from_utf8_lossy(text);
                let end = lossy
                    .char_indices()
                    .nth(max)
                    .map_or(text.len(), |(at, _)| at);
                &text[..end.min(text.len())]
            }
            Some(max) => &text[..max.min(text.len())],
            None => text,
        };
        let mut out = Vec::new();
        match self.letter {
            'q' if self.sharp && !cut.contains(&b'`') => {
                out.push(b'`');
                out.extend_from_slice(cut);
                out.push(b'`');
            }
            'q' => quote(cut, self.letters(), &mut out),
            'x' => hex::push_hex(&mut out, cut),
            'X' => hex::push_hex_upper(&mut out, cut),
            _ => out.extend_from_slice(cut),
        }
        out
    }

    fn int(self, number: i64) -> Vec<u8> {
        let letter = u32::try_from(number).ok().and_then(char::from_u32);
        let digits = number.unsigned_abs();
        let text = match self.letter {
            'b' => format!("{}{digits:b}", if self.sharp { "0b" } else { "" }),
            'o' => format!("{}{digits:o}", if self.sharp { "0" } else { "" }),
            'O' => format!("0o{digits:o}"),
            'x' => format!("{}{digits:x}", if self.sharp { "0x" } else { "" }),
            'X' => format!("{}{digits:X}", if self.sharp { "0X" } else { "" }),
            'c' => {
                return letter
                    .unwrap_or('\u{fffd}')
                    .encode_utf8(&mut [0; 4])
                    .as_bytes()
                    .to_vec();
            }
            'q' => {
                let mut out = Vec::new();
                quote_letter(letter.unwrap_or('\u{fffd}'), self.letters(), &mut out);
                return out;
            }
            'U' => return format!("U+{number:04X}").into_bytes(),
            _ => format!("{digits}"),
        };
        let filled = match self.precision {
            Some(min) if text.len() < min => {
                let zeros = min.min(PRINTF_WIDTH_MAX) - text.len();
                format!("{}{text}", "0".repeat(zeros))
            }
            Some(_) | None => text,
        };
        let signed = if number < 0 {
            format!("-{filled}")
        } else {
            filled
        };
        self.sign(signed).into_bytes()
    }

    fn letters(self) -> Letters {
        if self.plus {
            Letters::Ascii
        } else {
            Letters::All
        }
    }

    /// Adds the sign that flags ask for.
    fn sign(self, text: String) -> String {
        let negative = text.starts_with(['-', '+']);
        match (negative, self.plus, self.space) {
            (false, true, _) => format!("+{text}"),
            (false, false, true) => format!(" {text}"),
            (true, ..) | (false, false, false) => text,
        }
    }

    fn float(self, number: f64, letter: char) -> String {
        if let Some(name) = unusual(number) {
            return String::from_utf8_lossy(name).into_owned();
        }
        let upper = letter.is_ascii_uppercase();
        let mut out = Vec::new();
        match (letter, self.precision) {
            ('f' | 'F', precision) => {
                return format!("{number:.*}", precision.unwrap_or(6));
            }
            ('e' | 'E', precision) => {
                let text = format!("{number:.*e}", precision.unwrap_or(6));
                let (digits, exponent) = split_exponent(&text);
                out.extend_from_slice(digits.as_bytes());
                write_exponent(if upper { 'E' } else { 'e' }, exponent, &mut out);
            }
            (_, None) => write_shortest(number, 6, &mut out),
            (_, Some(precision)) => write_general(number, precision.max(1), &mut out),
        }
        let text = String::from_utf8_lossy(&out).into_owned();
        if upper {
            text.to_ascii_uppercase()
        } else {
            text
        }
    }

    /// A value as it would stand in a Go program.
    fn source_form(self, value: &Value, room: &mut Room) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        match value {
            Value::Text(text) => quote(text.as_bytes(), Letters::All, &mut out),
            Value::Int(number, IntKind::Uint8 | IntKind::Uint64) => {
                out.extend_from_slice(format!("{number:#x}").as_bytes());
            }
            Value::List(list) => {
                out.extend_from_slice(value.type_name().as_bytes());
                out.push(b'{');
                for (at, item) in list.items().iter().enumerate() {
                    room.step()?;
                    if at > 0 {
                        out.extend_from_slice(b", ");
                    }
                    out.extend(self.source_form(item, room)?);
                }
                out.push(b'}');
            }
            Value::Map(map) => {
                out.extend_from_slice(value.type_name().as_bytes());
                out.push(b'{');
                for (at, (name, item)) in map.entries().iter().enumerate() {
                    room.step()?;
                    if at > 0 {
                        out.extend_from_slice(b", ");
                    }
                    quote(name.as_bytes(), Letters::All, &mut out);
                    out.push(b':');
                    out.extend(self.source_form(item, room)?);
                }
                out.push(b'}');
            }
            other => out = shown(other, room)?,
        }
        room.take(out.len())?;
        Ok(out)
    }

    /// `%!d(string=x)`: the letter does not fit the value.
    fn write_wrong(self, value: &Value, out: &mut Vec<u8>, room: &mut Room) -> Result<(), Fault> {
        out.extend_from_slice(format!("%!{}(", self.letter).as_bytes());
        if matches!(value, Value::Nil) {
            out.extend_from_slice(b"<nil>");
        } else {
            out.extend_from_slice(value.type_name().as_bytes());
            out.push(b'=');
            out.extend_from_slice(&shown(value, room)?);
        }
        out.push(b')');
        Ok(())
    }

    fn pad(self, text: &[u8], value: &Value, out: &mut Vec<u8>) {
        let letters = String::from_utf8_lossy(text).chars().count();
        let missing = self.width.unwrap_or(0).saturating_sub(letters);
        let numeric = matches!(value, Value::Int(..) | Value::Float(_));
        if self.minus {
            out.extend_from_slice(text);
            out.extend(core::iter::repeat_n(b' ', missing));
        } else if self.zero && (numeric || self.precision.is_none()) {
            let sign = usize::from(numeric && text.starts_with(b"-") || text.starts_with(b"+"));
            out.extend_from_slice(&text[..sign]);
            out.extend(core::iter::repeat_n(b'0', missing));
            out.extend_from_slice(&text[sign..]);
        } else {
            out.extend(core::iter::repeat_n(b' ', missing));
            out.extend_from_slice(text);
        }
    }
}

/// `%.3g`: so many digits at most, without zeros at the end.
fn write_general(number: f64, precision: usize, out: &mut Vec<u8>) {
    let text = format!("{number:.*e}", precision - 1);
    let (digits, exponent) = split_exponent(&text);
    if exponent < -4 || exponent >= precision as i32 {
        out.extend_from_slice(without_zeros(digits).as_bytes());
        write_exponent('e', exponent, out);
    } else {
        let behind = (precision as i32 - 1 - exponent).max(0) as usize;
        out.extend_from_slice(without_zeros(&format!("{number:.behind$}")).as_bytes());
    }
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

/// A width or precision: digits, or `*` for the next value.
fn number<'a>(
    text: &'a str,
    args: &[Value],
    used: &mut usize,
) -> Result<(Option<usize>, &'a str), Fault> {
    let (number, rest) = if let Some(rest) = text.strip_prefix('*') {
        let Some(Value::Int(number, _)) = args.get(*used) else {
            return Err(Fault::failed("`*` in a format needs a whole number"));
        };
        *used += 1;
        (usize::try_from(*number).ok(), rest)
    } else {
        let end = text.bytes().take_while(u8::is_ascii_digit).count();
        let number = text[..end].parse().unwrap_or(usize::MAX);
        (if end == 0 { None } else { Some(number) }, &text[end..])
    };
    if number.is_some_and(|number| number > PRINTF_WIDTH_MAX) {
        return Err(Fault::Limit("width in a format"));
    }
    Ok((number, rest))
}
