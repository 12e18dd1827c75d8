//! Splits text into words, semicolons and braces, as nginx does. `parse` interprets the words.

use sluice_diag::{SourceId, Span};

/// What a piece of text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A word, without its quotes and escapes.
    Word(String),
    /// `;`
    Semicolon,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// Why a piece of text is none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexError {
    /// A quote that nothing closes.
    OpenQuote,
    /// Something follows a closing quote that may not.
    AfterQuote,
}

/// Cuts a text.
pub struct Lexer<'a> {
    text: &'a str,
    source: SourceId,
    at: usize,
}

/// A token, or why there is none, with its place.
pub type Lexed = (Result<Token, LexError>, Span);

impl<'a> Lexer<'a> {
    /// Begins with the text that the report calls `source`.
    pub fn new(text: &'a str, source: SourceId) -> Self {
        Lexer {
            text,
            source,
            at: 0,
        }
    }

    fn span(&self, start: usize) -> Span {
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span::new(self.source, offset(start), offset(self.at))
    }

    fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b'#' => {
                    let rest = &bytes[self.at..];
                    let line = rest.iter().position(|byte| *byte == b'\n');
                    self.at += line.unwrap_or(rest.len());
                }
                _ => break,
            }
        }
    }

    /// A word in quotes, whose first quote is at `self.at`.
    fn quoted(&mut self, quote: u8) -> Lexed {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        loop {
            match bytes.get(end) {
                None => {
                    self.at = bytes.len();
                    return (Err(LexError::OpenQuote), self.span(start));
                }
                Some(b'\\') => end += 2,
                Some(byte) if *byte == quote => break,
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        let word = unescape(&self.text[start + 1..end]);
        match bytes.get(self.at) {
            // A closing parenthesis ends a condition: `if ($a = "b")`.
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b')') => {
                (Ok(Token::Word(word)), self.span(start))
            }
            Some(_) => {
                let from = self.at;
                self.at += self.text[from..].chars().next().map_or(1, char::len_utf8);
                (Err(LexError::AfterQuote), self.span(from))
            }
        }
    }

    fn plain(&mut self) -> Lexed {
        let start = self.at;
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'\\' => self.at += 1,
                // The brace of `${name}` opens no block.
                b'$' if bytes.get(self.at + 1) == Some(&b'{') => self.at += 1,
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' => break,
                _ => {}
            }
            self.at += self.text[self.at..]
                .chars()
                .next()
                .map_or(1, char::len_utf8);
        }
        self.at = self.at.min(bytes.len());
        let word = unescape(&self.text[start..self.at]);
        (Ok(Token::Word(word)), self.span(start))
    }
}

impl Iterator for Lexer<'_> {
    type Item = Lexed;

    fn next(&mut self) -> Option<Lexed> {
        self.skip_blanks();
        let start = self.at;
        let token = match self.text.as_bytes().get(start)? {
            b';' => Token::Semicolon,
            b'{' => Token::Open,
            b'}' => Token::Close,
            quote @ (b'"' | b'\'') => return Some(self.quoted(*quote)),
            _ => return Some(self.plain()),
        };
        self.at += 1;
        Some((Ok(token), self.span(start)))
    }
}

/// Undoes the escapes that nginx knows; others keep their backslash, which patterns need.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(letter) = chars.next() {
        let escaped = match (letter, chars.peek()) {
            ('\\', Some(quote @ ('"' | '\'' | '\\'))) => *quote,
            ('\\', Some('t')) => '\t',
            ('\\', Some('r')) => '\r',
            ('\\', Some('n')) => '\n',
            _ => {
                out.push(letter);
                continue;
            }
        };
        chars.next();
        out.push(escaped);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_diag::Sources;

    fn lex(text: &str) -> Vec<Result<Token, LexError>> {
        let source = Sources::new().add("t", text);
        Lexer::new(text, source).map(|(token, _)| token).collect()
    }

    fn words(text: &str) -> Vec<String> {
        lex(text)
            .into_iter()
            .filter_map(|token| match token {
                Ok(Token::Word(word)) => Some(word),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn words_end_where_nginx_ends_them() {
        assert_eq!(
            words("a b\tc\n# d\ne;f{g}"),
            ["a", "b", "c", "e", "f", "g}"]
        );
        assert_eq!(words("a#b }"), ["a#b"]);
        assert_eq!(words("${host}x $a{"), ["${host}x", "$a"]);
        assert_eq!(
            words(r"\.php$ a\;b a\ b \{"),
            [r"\.php$", r"a\;b", r"a\ b", r"\{"]
        );
        assert_eq!(words("é;"), ["é"]);
        assert_eq!(words("a\\"), ["a\\"]);
    }

    #[test]
    fn quotes_hold_what_ends_words() {
        assert_eq!(
            words(r#""a b;{" 'c"d' "" "e\"f\n\d""#),
            ["a b;{", "c\"d", "", "e\"f\n\\d"]
        );
        assert_eq!(
            words(r#"a"b" "#),
            [r#"a"b""#],
            "quotes inside of a word are letters"
        );
        assert_eq!(words(r#"("a")"#).len(), 1);
        assert_eq!(words(r#"= "b") {"#), ["=", "b", ")"]);
        assert_eq!(lex("\"a"), [Err(LexError::OpenQuote)]);
        assert_eq!(lex("\"a\\"), [Err(LexError::OpenQuote)]);
        assert_eq!(lex("\"a\"b")[0], Err(LexError::AfterQuote));
    }
}
