//! Finds commands such as `<!--# echo var="name" -->` in a page. Pages arrive in pieces that may split a command
//! anywhere. Commands are executed by `page`.

use std::ops::Range;

/// The start of a command.
const OPENING: &[u8] = b"<!--#";

/// The end of a command.
const CLOSING: &[u8] = b"-->";

/// Maximum number of parameters per command, as in nginx.
const PARAMETERS_MAX: usize = 16;

/// Maximum length of a command name in bytes, as in nginx.
const NAME_BYTES_MAX: usize = 32;

/// Maximum length of a parameter name in bytes, as in nginx.
const PARAMETER_BYTES_MAX: usize = 64;

/// Maximum total white space in a command, in bytes: ample for aligned columns.
const SPACE_BYTES_MAX: usize = 4096;

/// A command with its unexpanded parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    pub name: String,
    pub parameters: Vec<(String, Vec<u8>)>,
}

impl Command {
    /// The value of a parameter.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| known == name);
        found.map(|(_, value)| &value[..])
    }
}

/// The next element of a page. Ranges refer to [`Parser::bytes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Text outside of commands.
    Text(Range<usize>),
    /// A command and its position.
    Command(Command, Range<usize>),
    /// A malformed command that has ended; the reason in nginx's wording.
    Broken(String),
    /// More input is needed.
    Nothing,
}

/// Splits a page into text and commands.
pub struct Parser {
    buf: Vec<u8>,
    at: usize,
    /// Why the command whose rest is being skipped is malformed.
    broken: Option<String>,
    value_bytes_max: usize,
}

/// The result of parsing a command.
enum Look {
    Done(Command, usize),
    /// Malformed; the search for its end starts after this many bytes.
    Broken(String, usize),
    /// The command continues in the next piece.
    Cut,
}

impl Parser {
    /// Creates a parser that accepts values shorter than this.
    pub fn new(value_bytes_max: usize) -> Parser {
        Parser {
            buf: Vec::new(),
            at: 0,
            broken: None,
            value_bytes_max,
        }
    }

    /// Appends the next piece; all preceding elements have been returned.
    pub fn read(&mut self, piece: &[u8]) {
        self.buf.drain(..self.at);
        self.at = 0;
        self.buf.extend_from_slice(piece);
    }

    /// The bytes of the range returned last.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buf[range]
    }

    /// The next element; `is_end` also returns text held back as a possible start of a command.
    pub fn next(&mut self, is_end: bool) -> Next {
        if self.broken.is_some() {
            return self.skip();
        }
        let rest = &self.buf[self.at..];
        if rest.is_empty() {
            return Next::Nothing;
        }
        let opening = memchr::memmem::find(rest, OPENING);
        let text = match opening {
            Some(at) => at,
            None if is_end => rest.len(),
            None => rest.len() - held(rest),
        };
        if text > 0 {
            let range = self.at..self.at + text;
            self.at += text;
            return Next::Text(range);
        }
        if opening.is_none() {
            return Next::Nothing;
        }
        match self.look() {
            Look::Done(command, length) => {
                let range = self.at..self.at + length;
                self.at += length;
                Next::Command(command, range)
            }
            Look::Broken(why, length) => {
                self.at += length;
                self.broken = Some(why);
                self.skip()
            }
            Look::Cut => {
                if is_end {
                    self.at = self.buf.len();
                }
                Next::Nothing
            }
        }
    }

    /// Skips the rest of a malformed command, which is reported at its end, as in nginx.
    fn skip(&mut self) -> Next {
        let rest = &self.buf[self.at..];
        match memchr::memmem::find(rest, CLOSING) {
            Some(at) => {
                self.at += at + CLOSING.len();
                Next::Broken(self.broken.take().unwrap_or_default())
            }
            None => {
                let kept = rest.len().min(CLOSING.len() - 1);
                self.at = self.buf.len() - kept;
                Next::Nothing
            }
        }
    }

    fn look(&self) -> Look {
        let mut cursor = Cursor {
            rest: &self.buf[self.at..],
            at: OPENING.len(),
            space: 0,
        };
        match cursor.command(self.value_bytes_max) {
            Ok(command) => Look::Done(command, cursor.at),
            Err(Stop::Cut) => Look::Cut,
            Err(Stop::Broken(why)) => Look::Broken(why, cursor.at),
        }
    }
}

/// The number of bytes at the end of a text that may start a command.
fn held(text: &[u8]) -> usize {
    let most = text.len().min(OPENING.len() - 1);
    let found = (1..=most).rev().find(|count| {
        let tail = &text[text.len() - count..];
        OPENING.starts_with(tail)
    });
    found.unwrap_or(0)
}

/// Why the parser stopped within a command.
enum Stop {
    Cut,
    Broken(String),
}

struct Cursor<'t> {
    rest: &'t [u8],
    at: usize,
    /// Bytes of white space so far.
    space: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Result<u8, Stop> {
        self.rest.get(self.at).copied().ok_or(Stop::Cut)
    }

    fn skip_space(&mut self) -> Result<(), Stop> {
        while matches!(self.peek()?, b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
            self.space += 1;
            if self.space > SPACE_BYTES_MAX {
                return Err(Stop::Broken("too much space in SSI command".to_owned()));
            }
        }
        Ok(())
    }

    /// Reports an unexpected byte. A hyphen stays unread, as it may begin the end of the command.
    fn unexpected<T>(&mut self, byte: u8, of: &str) -> Result<T, Stop> {
        self.at += usize::from(byte != b'-');
        let shown = char::from(byte);
        let behind = match of {
            "" => "symbol in SSI command".to_owned(),
            name => format!("symbol in \"{name}\" SSI command"),
        };
        Err(Stop::Broken(format!("unexpected \"{shown}\" {behind}")))
    }

    fn name(&mut self, most: usize, what: &str) -> Result<String, Stop> {
        let start = self.at;
        while self.peek()?.is_ascii_lowercase() {
            self.at += 1;
            if self.at - start > most {
                return Err(Stop::Broken(format!("the {what} is too long")));
            }
        }
        Ok(String::from_utf8_lossy(&self.rest[start..self.at]).into_owned())
    }

    fn command(&mut self, value_bytes_max: usize) -> Result<Command, Stop> {
        self.skip_space()?;
        let name = self.name(NAME_BYTES_MAX, "SSI command")?;
        let mut command = Command {
            name,
            parameters: Vec::new(),
        };
        let byte = self.peek()?;
        if command.name.is_empty() && byte == b'-' {
            // nginx makes it part of the name.
            self.at += 1;
        }
        if command.name.is_empty() || !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'-') {
            return self.unexpected(byte, &command.name);
        }
        loop {
            self.skip_space()?;
            match self.peek()? {
                b'-' => {
                    self.closing(&command.name)?;
                    return Ok(command);
                }
                b'a'..=b'z' if command.parameters.len() == PARAMETERS_MAX => {
                    let why = format!("too many \"{}\" SSI command parameters", command.name);
                    return Err(Stop::Broken(why));
                }
                b'a'..=b'z' => {
                    let parameter = self.name(PARAMETER_BYTES_MAX, "name of a parameter")?;
                    let value = self.value(&command.name, &parameter, value_bytes_max)?;
                    command.parameters.push((parameter, value));
                }
                byte => return self.unexpected(byte, &command.name),
            }
        }
    }

    fn closing(&mut self, of: &str) -> Result<(), Stop> {
        for expected in CLOSING {
            let byte = self.peek()?;
            self.at += 1;
            if byte != *expected {
                self.at -= usize::from(byte != b'-');
                return self.unexpected(byte, of);
            }
        }
        Ok(())
    }

    fn value(&mut self, of: &str, parameter: &str, most: usize) -> Result<Vec<u8>, Stop> {
        self.skip_space()?;
        match self.peek()? {
            b'=' => self.at += 1,
            byte => return self.unexpected(byte, of),
        }
        self.skip_space()?;
        let quote = match self.peek()? {
            quote @ (b'"' | b'\'') => quote,
            byte => return self.unexpected(byte, of),
        };
        self.at += 1;
        let mut value = Vec::new();
        loop {
            let byte = self.peek()?;
            self.at += 1;
            if byte == quote {
                return Ok(value);
            }
            value.push(byte);
            if byte == b'\\' {
                let next = self.peek()?;
                self.at += 1;
                if next == quote {
                    value.pop();
                }
                value.push(next);
            }
            if value.len() >= most {
                let start = String::from_utf8_lossy(&value[..value.len().min(10)]).into_owned();
                let why = format!(
                    "too long \"{start}...\" value of \"{parameter}\" parameter in \"{of}\" SSI command"
                );
                return Err(Stop::Broken(why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of a page, one line each.
    fn commands(page: &str, cuts: &[usize]) -> Vec<String> {
        let mut parser = Parser::new(32);
        let (mut commands, mut text) = (Vec::new(), String::new());
        let mut from = 0;
        for (index, cut) in cuts.iter().chain([&page.len()]).enumerate() {
            parser.read(&page.as_bytes()[from..*cut]);
            from = *cut;
            let is_end = index == cuts.len();
            loop {
                let line = match parser.next(is_end) {
                    Next::Nothing => break,
                    Next::Text(range) => {
                        text.push_str(std::str::from_utf8(parser.bytes(range)).unwrap());
                        continue;
                    }
                    Next::Command(command, range) => {
                        assert!(parser.bytes(range).starts_with(OPENING));
                        let values = command.parameters.iter();
                        let values: Vec<String> = values
                            .map(|(name, value)| {
                                format!("{name}={}", String::from_utf8_lossy(value))
                            })
                            .collect();
                        format!("{}({})", command.name, values.join(","))
                    }
                    Next::Broken(why) => format!("! {why}"),
                };
                if !text.is_empty() {
                    commands.push(std::mem::take(&mut text));
                }
                commands.push(line);
            }
        }
        if !text.is_empty() {
            commands.push(text);
        }
        commands
    }

    #[test]
    fn commands_are_found_however_pages_are_cut() {
        let cases: [(&str, &[&str]); 17] = [
            (
                "<!--# echo var=\"x\" junk -->z",
                &["! unexpected \"-\" symbol in \"echo\" SSI command", "z"],
            ),
            ("a<!--# echo ->x", &["a"]),
            ("a<!--# echo var=\"x\" -->b", &["a", "echo(var=x)", "b"]),
            ("<!--#else-->", &["else()"]),
            (
                "<!--#\n set\n var = 'v' value='it\\'s' -->",
                &["set(var=v,value=it's)"],
            ),
            (
                "<!--#set value=\"\\x\\\"y\\\\\"-->",
                &["set(value=\\x\"y\\\\)"],
            ),
            (
                "<!--# set value=\"--> <b>\" -->c",
                &["set(value=--> <b>)", "c"],
            ),
            ("a<!-- b --><!--- <!-", &["a<!-- b --><!--- <!-"]),
            ("a<!--", &["a<!--"]),
            ("a<!--# echo var=\"x\"", &["a"]),
            (
                "1<!--# echo var=x -->2",
                &[
                    "1",
                    "! unexpected \"x\" symbol in \"echo\" SSI command",
                    "2",
                ],
            ),
            (
                "<!--#-->4<!--# -->5",
                &["! unexpected \"-\" symbol in SSI command", "5"],
            ),
            (
                "<!--# echo --->|-->z",
                &["! unexpected \"-\" symbol in \"echo\" SSI command", "z"],
            ),
            (
                "<!--# ECHO -->z",
                &["! unexpected \"E\" symbol in SSI command", "z"],
            ),
            ("<<!--#a-->", &["<", "a()"]),
            (
                "<!--# set value=\"0123456789012345678901234567890x\" -->.",
                &[
                    "! too long \"0123456789...\" value of \"value\" parameter in \"set\" SSI command",
                    ".",
                ],
            ),
            (
                "<!--#abcdefghijklmnopqrstuvwxyzabcdefgh-->.",
                &["! the SSI command is too long", "."],
            ),
        ];
        for (page, expected) in cases {
            assert_eq!(commands(page, &[]), expected, "{page}");
            for first in 0..=page.len() {
                for second in first..=page.len() {
                    assert_eq!(
                        commands(page, &[first, second]),
                        expected,
                        "{page} at {first}, {second}"
                    );
                }
            }
        }
    }

    #[test]
    fn little_is_held_back() {
        let mut parser = Parser::new(32);
        parser.read("<!--# set ".as_bytes());
        assert_eq!(parser.next(false), Next::Nothing);
        parser.read(&b" ".repeat(SPACE_BYTES_MAX + 1));
        assert_eq!(parser.next(false), Next::Nothing);
        parser.read(&b"x".repeat(100_000));
        assert_eq!(parser.next(false), Next::Nothing);
        parser.read(b"-->");
        assert_eq!(parser.buf.len(), 2 * CLOSING.len() - 1);
        assert!(matches!(parser.next(false), Next::Broken(_)));
    }
}
