//! Splits the source of a template into tokens, one by one. `parse` interprets them.

use alloc::string::String;
use alloc::vec::Vec;

use crate::error::Fault;

/// A piece of a source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// Text outside of actions, from and to.
    Plain(usize, usize),
    /// An action begins.
    Open,
    /// An action ends.
    Close,
    /// The end of the source.
    End,
    /// `name` or a keyword.
    Word(String),
    /// `.name`
    Field(String),
    /// `$name`, or `$` alone.
    Variable(String),
    /// `.`
    Dot,
    /// A text in quotes, unescaped.
    Text(Vec<u8>),
    /// A character in quotes.
    Letter(char),
    /// A number as written.
    Number(String),
    /// `:=`
    Declare,
    /// `=`
    Assign,
    /// `|`
    Pipe,
    /// `,`
    Comma,
    /// `(`
    OpenParen,
    /// `)`
    CloseParen,
}

/// Reads tokens.
pub(crate) struct Lexer<'a> {
    source: &'a [u8],
    open: &'a [u8],
    close: &'a [u8],
    at: usize,
    /// The line of `at`.
    line: u32,
    state: State,
    /// Whether space stood before the last token.
    pub spaced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Plain,
    /// Plain text whose first spaces are left out.
    Trimmed,
    /// The text ended at an action.
    BeforeAction,
    Action,
}

const SPACES: &[u8] = b" \t\r\n";

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a [u8], open: &'a str, close: &'a str) -> Lexer<'a> {
        Lexer {
            source,
            open: open.as_bytes(),
            close: close.as_bytes(),
            at: 0,
            line: 1,
            state: State::Plain,
            spaced: false,
        }
    }

    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    pub(crate) fn next(&mut self) -> Result<Token, Fault> {
        loop {
            match self.state {
                State::Plain | State::Trimmed => {
                    if let Some(token) = self.plain() {
                        return Ok(token);
                    }
                }
                State::BeforeAction => {
                    if self.begin_action()? {
                        return Ok(Token::Open);
                    }
                }
                State::Action => return self.in_action(),
            }
        }
    }

    fn skip(&mut self, count: usize) {
        let passed = &self.source[self.at..self.at + count];
        self.line += memchr::memchr_iter(b'\n', passed).count() as u32;
        self.at += count;
    }

    fn rest(&self) -> &'a [u8] {
        &self.source[self.at..]
    }

    /// The text up to the next action, or the end; `None` where there is none.
    fn plain(&mut self) -> Option<Token> {
        if self.state == State::Trimmed {
            self.skip(spaces(self.rest()));
        }
        let found = memchr::memmem::find(self.rest(), self.open);
        let length = found.unwrap_or(self.rest().len());
        let mut end = self.at + length;
        if found.is_some() && has_trim(&self.rest()[length + self.open.len()..]) {
            let text = &self.source[self.at..end];
            end -= text.iter().rev().take_while(|b| SPACES.contains(b)).count();
        }
        let token = Token::Plain(self.at, end);
        let empty = self.at == end;
        self.skip(length);
        self.state = State::BeforeAction;
        if !empty {
            return Some(token);
        }
        if found.is_none() {
            return Some(Token::End);
        }
        None
    }

    /// Consumes the opening delimiter and a comment; returns whether an action begins.
    fn begin_action(&mut self) -> Result<bool, Fault> {
        if self.rest().is_empty() {
            // The end is reported again on every call.
            self.state = State::Plain;
            return Ok(false);
        }
        self.skip(self.open.len());
        if has_trim(self.rest()) {
            self.skip(2);
        }
        self.spaced = false;
        if self.rest().starts_with(b"/*") {
            self.comment()?;
            return Ok(false);
        }
        self.state = State::Action;
        Ok(true)
    }

    fn comment(&mut self) -> Result<(), Fault> {
        let length = memchr::memmem::find(self.rest(), b"*/")
            .ok_or(Fault::Syntax("a comment is not closed"))?;
        self.skip(length + 2);
        match self.closing() {
            Some(length) => self.close(length),
            None => return Err(Fault::Syntax("a comment ends before its action does")),
        }
        Ok(())
    }

    /// The length of the closing delimiter that stands here, its trim marker included.
    fn closing(&self) -> Option<usize> {
        let rest = self.rest();
        if rest.starts_with(self.close) {
            return Some(self.close.len());
        }
        let [space, b'-', after @ ..] = rest else {
            return None;
        };
        (SPACES.contains(space) && after.starts_with(self.close)).then(|| 2 + self.close.len())
    }

    fn close(&mut self, length: usize) {
        self.skip(length);
        self.state = if length > self.close.len() {
            State::Trimmed
        } else {
            State::Plain
        };
    }

    fn in_action(&mut self) -> Result<Token, Fault> {
        self.spaced = false;
        loop {
            if let Some(length) = self.closing() {
                self.close(length);
                return Ok(Token::Close);
            }
            match self.rest().first() {
                None => return Err(Fault::Syntax("an action is not closed")),
                Some(byte) if SPACES.contains(byte) => {
                    self.spaced = true;
                    self.skip(1);
                }
                Some(byte) => return self.token(*byte),
            }
        }
    }

    fn token(&mut self, first: u8) -> Result<Token, Fault> {
        let single = match first {
            b'=' => Some(Token::Assign),
            b'|' => Some(Token::Pipe),
            b',' => Some(Token::Comma),
            b'(' => Some(Token::OpenParen),
            b')' => Some(Token::CloseParen),
            _ => None,
        };
        if let Some(token) = single {
            self.skip(1);
            return Ok(token);
        }
        let second = self.rest().get(1).copied().unwrap_or(0);
        match first {
            b':' if second == b'=' => {
                self.skip(2);
                Ok(Token::Declare)
            }
            b'"' => self.quoted(),
            b'`' => self.raw(),
            b'\'' => self.letter(),
            b'.' if second.is_ascii_digit() => self.number(),
            b'.' => {
                self.skip(1);
                let name = self.word();
                self.at_end_of_word()?;
                Ok(if name.is_empty() {
                    Token::Dot
                } else {
                    Token::Field(name)
                })
            }
            b'$' => {
                self.skip(1);
                let mut name = String::from("$");
                name.push_str(&self.word());
                self.at_end_of_word()?;
                Ok(Token::Variable(name))
            }
            b'0'..=b'9' | b'+' | b'-' => self.number(),
            _ => {
                let word = self.word();
                if word.is_empty() {
                    return Err(Fault::Syntax("an action has a character without meaning"));
                }
                self.at_end_of_word()?;
                Ok(Token::Word(word))
            }
        }
    }

    /// The letters and digits that stand here.
    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(letter) = first_letter(&self.rest()[word.len()..])
            && (letter == '_' || letter.is_alphanumeric())
        {
            word.push(letter);
        }
        self.skip(word.len());
        word
    }

    /// Words do not run into each other: `$a"b"` is a slip, not two arguments.
    fn at_end_of_word(&self) -> Result<(), Fault> {
        let rest = self.rest();
        let ends = match rest.first() {
            None => true,
            Some(byte) => b" \t\r\n.,|:=()".contains(byte) || rest.starts_with(self.close),
        };
        if ends {
            Ok(())
        } else {
            Err(Fault::Syntax("an invalid character after a word"))
        }
    }

    fn number(&mut self) -> Result<Token, Fault> {
        let rest = self.rest();
        let mut end = usize::from(matches!(rest[0], b'+' | b'-'));
        while let Some(byte) = rest.get(end) {
            let exponent_sign = matches!(byte, b'+' | b'-')
                && matches!(rest[end - 1], b'e' | b'E' | b'p' | b'P')
                && !rest[..end].windows(2).any(|two| {
                    two.eq_ignore_ascii_case(b"0x") && matches!(rest[end - 1], b'e' | b'E')
                });
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || exponent_sign) {
                break;
            }
            end += 1;
        }
        let text = core::str::from_utf8(&rest[..end]).expect("only ASCII was let through");
        let number = String::from(text);
        self.skip(end);
        Ok(Token::Number(number))
    }

    fn raw(&mut self) -> Result<Token, Fault> {
        let length = memchr::memchr(b'`', &self.rest()[1..])
            .ok_or(Fault::Syntax("a raw text is not closed"))?;
        let text = self.rest()[1..=length].to_vec();
        self.skip(length + 2);
        Ok(Token::Text(text))
    }

    fn quoted(&mut self) -> Result<Token, Fault> {
        let mut text = Vec::new();
        self.skip(1);
        loop {
            match self.rest().first() {
                None | Some(b'\n') => return Err(Fault::Syntax("a text in quotes is not closed")),
                Some(b'"') => {
                    self.skip(1);
                    return Ok(Token::Text(text));
                }
                Some(b'\\') => self.escape(b'"', &mut text)?,
                Some(byte) => {
                    text.push(*byte);
                    self.skip(1);
                }
            }
        }
    }

    fn letter(&mut self) -> Result<Token, Fault> {
        const WRONG: Fault = Fault::Syntax("single quotes hold one character");
        self.skip(1);
        let mut bytes = Vec::new();
        match self.rest().first() {
            Some(b'\\') => self.escape(b'\'', &mut bytes)?,
            Some(b'\'' | b'\n') | None => return Err(WRONG),
            Some(_) => {
                let letter = first_letter(self.rest()).ok_or(WRONG)?;
                bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                self.skip(bytes.len());
            }
        }
        if self.rest().first() != Some(&b'\'') {
            return Err(WRONG);
        }
        self.skip(1);
        let letter = match (core::str::from_utf8(&bytes), bytes.as_slice()) {
            (Ok(text), _) => text.chars().next().ok_or(WRONG)?,
            (Err(_), [byte]) => char::from(*byte),
            (Err(_), _) => return Err(WRONG),
        };
        Ok(Token::Letter(letter))
    }

    /// An escape of Go's texts.
    fn escape(&mut self, quote: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
        const WRONG: Fault = Fault::Syntax("an invalid escape");
        let letter = *self.rest().get(1).ok_or(WRONG)?;
        let simple = match letter {
            b'a' => Some(7),
            b'b' => Some(8),
            b'f' => Some(12),
            b'n' => Some(b'\n'),
            b'r' => Some(b'\r'),
            b't' => Some(b'\t'),
            b'v' => Some(11),
            b'\\' => Some(b'\\'),
            other if other == quote => Some(quote),
            _ => None,
        };
        if let Some(byte) = simple {
            out.push(byte);
            self.skip(2);
            return Ok(());
        }
        let (start, length, radix) = match letter {
            b'x' => (2, 2, 16),
            b'u' => (2, 4, 16),
            b'U' => (2, 8, 16),
            b'0'..=b'7' => (1, 3, 8),
            _ => return Err(WRONG),
        };
        let digits = self.rest().get(start..start + length).ok_or(WRONG)?;
        let digits = core::str::from_utf8(digits).map_err(|_| WRONG)?;
        if digits.starts_with('+') {
            return Err(WRONG);
        }
        let code = u32::from_str_radix(digits, radix).map_err(|_| WRONG)?;
        if matches!(letter, b'u' | b'U') {
            let letter = char::from_u32(code).ok_or(WRONG)?;
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            out.push(u8::try_from(code).map_err(|_| WRONG)?);
        }
        self.skip(start + length);
        Ok(())
    }
}

/// The character that `text` begins with. It looks at no more than that one: a source is read by many calls.
pub(crate) fn first_letter(text: &[u8]) -> Option<char> {
    (1..=text.len().min(4)).find_map(|length| {
        let letter = core::str::from_utf8(&text[..length]).ok()?;
        letter.chars().next()
    })
}

fn spaces(text: &[u8]) -> usize {
    text.iter().take_while(|byte| SPACES.contains(byte)).count()
}

/// Whether `- ` stands here: what is before the action loses its spaces.
fn has_trim(text: &[u8]) -> bool {
    matches!(text, [b'-', space, ..] if SPACES.contains(space))
}
