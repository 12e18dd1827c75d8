//! Parses escape sequences and bracket expressions.

use super::PatternError;
use super::parse::{Parser, Piece, line_end};
use super::property::property;
use super::tree::{ByteSet, Node, Place, Target};

/// What an escape stands for, in brackets and outside of them.
enum Meaning {
    Byte(u8),
    Set(ByteSet),
    /// As a set, but it is not folded: in PCRE case makes no difference to properties.
    Property(ByteSet),
}

/// The set that a letter behind a backslash stands for.
fn set_of(letter: u8) -> Option<ByteSet> {
    let mut set = ByteSet::EMPTY;
    match letter.to_ascii_lowercase() {
        b'd' => set.add_range(b'0', b'9'),
        b'w' => {
            set.add_range(b'0', b'9');
            set.add_range(b'a', b'z');
            set.add_range(b'A', b'Z');
            set.add(b'_');
        }
        b's' => {
            set.add(b' ');
            set.add_range(b'\t', b'\r');
        }
        // Horizontal space; bytes are read as Latin-1, whose hard space is one, too.
        b'h' => [b' ', b'\t', 0xa0].iter().for_each(|byte| set.add(*byte)),
        b'v' => {
            set.add_range(0x0a, 0x0d);
            set.add(0x85);
        }
        _ => return None,
    }
    Some(match letter.is_ascii_uppercase() {
        true => set.inverted(),
        false => set,
    })
}

/// The set with this name in `[:…:]`.
fn class_of(name: &[u8]) -> Option<ByteSet> {
    let holds: fn(u8) -> bool = match name {
        b"alpha" => |byte| byte.is_ascii_alphabetic(),
        b"lower" => |byte| byte.is_ascii_lowercase(),
        b"upper" => |byte| byte.is_ascii_uppercase(),
        b"alnum" => |byte| byte.is_ascii_alphanumeric(),
        b"digit" => |byte| byte.is_ascii_digit(),
        b"xdigit" => |byte| byte.is_ascii_hexdigit(),
        b"punct" => |byte| byte.is_ascii_punctuation(),
        b"cntrl" => |byte| byte.is_ascii_control(),
        b"graph" => |byte| byte.is_ascii_graphic(),
        b"print" => |byte| byte == b' ' || byte.is_ascii_graphic(),
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"space" => |byte| byte == b' ' || (b'\t'..=b'\r').contains(&byte),
        b"word" => |byte| byte == b'_' || byte.is_ascii_alphanumeric(),
        b"ascii" => |byte| byte.is_ascii(),
        _ => return None,
    };
    let mut set = ByteSet::EMPTY;
    (0..=u8::MAX)
        .filter(|byte| holds(*byte))
        .for_each(|byte| set.add(byte));
    Some(set)
}

impl Parser<'_> {
    /// Where an escape begins, and its letter.
    fn after_backslash(&mut self) -> Result<(usize, u8), PatternError> {
        let start = self.at;
        let Some(letter) = self.text.get(start + 1).copied() else {
            return Err(PatternError::malformed(
                start,
                "the pattern ends with a backslash",
            ));
        };
        self.at += 2;
        Ok((start, letter))
    }

    /// An escape outside of brackets.
    pub(super) fn escape(&mut self) -> Result<Piece, PatternError> {
        let (start, letter) = self.after_backslash()?;
        let place = match letter {
            b'A' | b'G' => Some(Place::Start),
            b'z' => Some(Place::End),
            b'Z' => Some(Place::LastEnd),
            b'b' => Some(Place::WordEdge),
            b'B' => Some(Place::NoWordEdge),
            _ => None,
        };
        if let Some(place) = place {
            return Ok(Piece::Fixed(Node::At(place)));
        }
        match letter {
            b'Q' => {
                self.is_quoting = true;
                Ok(Piece::Nothing)
            }
            b'E' => Ok(Piece::Nothing),
            b'N' => Ok(Piece::Node(Node::Set(ByteSet::but_line_feed()))),
            b'C' => Ok(Piece::Node(Node::Set(ByteSet::ALL))),
            b'R' => Ok(Piece::Node(line_end())),
            b'K' if self.looks > 0 => {
                Err(PatternError::unsupported(start, "`\\K` in a look around"))
            }
            b'K' => Ok(Piece::Fixed(Node::Keep)),
            b'X' => Err(PatternError::unsupported(start, "`\\X`")),
            b'g' | b'k' => self.reference(start, letter).map(Piece::Node),
            b'1'..=b'9' => self.digits(start).map(Piece::Node),
            _ => {
                self.at = start;
                Ok(Piece::Node(match self.meaning()? {
                    Meaning::Byte(byte) => self.literal(byte),
                    Meaning::Set(set) | Meaning::Property(set) => Node::Set(set),
                }))
            }
        }
    }

    /// `\g…` or `\k…`.
    fn reference(&mut self, start: usize, letter: u8) -> Result<Node, PatternError> {
        let closing = match self.peek() {
            Some(b'{') => Some(b'}'),
            Some(b'<') if letter == b'k' => Some(b'>'),
            Some(b'\'') if letter == b'k' => Some(b'\''),
            Some(b'<' | b'\'') => return Err(PatternError::unsupported(start, "a recursion")),
            _ if letter == b'k' => {
                return Err(PatternError::malformed(
                    start,
                    "`\\k` without the name of a group",
                ));
            }
            _ => None,
        };
        self.at += usize::from(closing.is_some());
        let sign = self.peek().filter(|byte| matches!(byte, b'+' | b'-'));
        self.at += usize::from(sign.is_some());
        let target = match (letter, self.number(), closing) {
            (b'g', Some(number), _) => {
                let number = match sign {
                    None => Some(number),
                    Some(b'+') => self.groups.checked_add(number),
                    Some(_) if number == 0 => None,
                    Some(_) => (self.groups + 1).checked_sub(number),
                };
                if closing.is_some_and(|closing| !self.eat(&[closing])) {
                    return Err(PatternError::malformed(start, "`\\g` without a group"));
                }
                // No group has the number 0: it is said below that it is not there.
                Target::Number(number.unwrap_or(0))
            }
            (_, None, Some(closing)) if sign.is_none() => Target::Name(self.name(closing)?),
            _ => return Err(PatternError::malformed(start, "`\\g` without a group")),
        };
        Ok(self.back(start, target))
    }

    /// A backslash and digits: a group, or a byte in octal digits if there are not that many groups.
    fn digits(&mut self, start: usize) -> Result<Node, PatternError> {
        self.at = start + 1;
        let number = self.number().unwrap_or_default();
        let first = self.text[start + 1];
        if number < 10 || matches!(first, b'8' | b'9') || number <= self.all_groups {
            return Ok(self.back(start, Target::Number(number)));
        }
        self.at = start + 1;
        self.octal(start, 3).map(|byte| self.literal(byte))
    }

    fn octal(&mut self, start: usize, digits_max: usize) -> Result<u8, PatternError> {
        let mut number = 0u32;
        let end = self.at + digits_max;
        while let Some(digit) = self.peek().filter(|digit| matches!(digit, b'0'..=b'7')) {
            if self.at == end {
                break;
            }
            number = number
                .saturating_mul(8)
                .saturating_add(u32::from(digit - b'0'));
            self.at += 1;
        }
        u8::try_from(number).map_err(|_| too_large(start))
    }

    /// What an escape stands for that has the same meaning in brackets.
    fn meaning(&mut self) -> Result<Meaning, PatternError> {
        let (start, letter) = self.after_backslash()?;
        if let Some(set) = set_of(letter) {
            return Ok(Meaning::Set(set));
        }
        let byte = match letter {
            b'a' => 0x07,
            b'e' => 0x1b,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'0' => {
                self.at -= 1;
                self.octal(start, 3)?
            }
            b'o' if self.eat(b"{") => {
                let byte = self.octal(start, 8)?;
                match self.eat(b"}") {
                    true => byte,
                    false => {
                        return Err(PatternError::malformed(start, "`\\o{` takes octal digits"));
                    }
                }
            }
            b'x' => self.hexadecimal(start)?,
            b'c' => match self.peek() {
                Some(control) if (0x20..0x7f).contains(&control) => {
                    self.at += 1;
                    control.to_ascii_uppercase() ^ 0x40
                }
                _ => return Err(PatternError::malformed(start, "`\\c` without a letter")),
            },
            b'p' | b'P' => return self.property(start, letter).map(Meaning::Property),
            letter if letter.is_ascii_alphanumeric() => {
                return Err(PatternError::malformed(start, "no escape has this letter"));
            }
            byte => byte,
        };
        Ok(Meaning::Byte(byte))
    }

    /// A property behind `\p` or `\P`: one letter, or a name in braces.
    fn property(&mut self, start: usize, letter: u8) -> Result<ByteSet, PatternError> {
        let name = match self.eat(b"{") {
            false => self.text.get(self.at..self.at + 1),
            true => {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let end = rest.iter().position(|byte| *byte == b'}');
                end.map(|end| &rest[..end])
            }
        };
        let Some(name) = name else {
            let why = "`\\p` takes a letter, or a name in braces";
            return Err(PatternError::malformed(start, why));
        };
        let in_braces = self.text[self.at - 1] == b'{';
        self.at += name.len() + usize::from(in_braces);
        let Some(set) = property(name) else {
            let what = "this property of characters";
            return Err(PatternError::unsupported(start, what));
        };
        Ok(match letter {
            b'P' => set.inverted(),
            _ => set,
        })
    }

    fn hexadecimal(&mut self, start: usize) -> Result<u8, PatternError> {
        let in_braces = self.eat(b"{");
        let digits_max = if in_braces { 8 } else { 2 };
        let first = self.at;
        let mut number = 0u32;
        while let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) {
            if self.at - first == digits_max {
                break;
            }
            number = number * 16 + digit;
            self.at += 1;
        }
        if in_braces && (self.at == first || !self.eat(b"}")) {
            return Err(PatternError::malformed(
                start,
                "`\\x{` takes hexadecimal digits",
            ));
        }
        u8::try_from(number).map_err(|_| too_large(start))
    }

    /// A set in brackets.
    pub(super) fn set(&mut self) -> Result<ByteSet, PatternError> {
        let start = self.at;
        self.at += 1;
        let negated = self.eat(b"^");
        let mut set = ByteSet::EMPTY;
        let mut unfolded = ByteSet::EMPTY;
        let mut is_first = true;
        loop {
            let Some(byte) = self.peek() else {
                return Err(PatternError::malformed(start, "this set is not closed"));
            };
            if self.is_quoting {
                if self.eat(b"\\E") {
                    self.is_quoting = false;
                    continue;
                }
            } else if byte == b']' && !is_first {
                self.at += 1;
                break;
            } else if self.eat(b"\\Q") {
                self.is_quoting = true;
                continue;
            } else if self.eat(b"\\E") {
                continue;
            }
            is_first = false;
            let item = self.at;
            match self.member()? {
                Meaning::Set(members) => set.add_all(&members),
                Meaning::Property(members) => unfolded.add_all(&members),
                Meaning::Byte(low) => match self.range_end()? {
                    None => set.add(low),
                    Some(high) if high < low => {
                        let why = "this range ends before it begins";
                        return Err(PatternError::malformed(item, why));
                    }
                    Some(high) => set.add_range(low, high),
                },
            }
        }
        let mut set = match self.flags.folds {
            true => set.folded(),
            false => set,
        };
        set.add_all(&unfolded);
        Ok(if negated { set.inverted() } else { set })
    }

    /// What follows a hyphen, if that makes a range. A hyphen at the end, or beside a set, is one of the bytes.
    fn range_end(&mut self) -> Result<Option<u8>, PatternError> {
        let before = self.at;
        let is_range = !self.is_quoting
            && self.peek() == Some(b'-')
            && !matches!(self.text.get(before + 1), None | Some(b']'));
        if !is_range {
            return Ok(None);
        }
        self.at += 1;
        match self.member()? {
            Meaning::Byte(high) => Ok(Some(high)),
            Meaning::Set(_) | Meaning::Property(_) => {
                self.at = before;
                Ok(None)
            }
        }
    }

    /// One byte of a set, or several that have a name.
    fn member(&mut self) -> Result<Meaning, PatternError> {
        let start = self.at;
        let Some(byte) = self.peek() else {
            return Err(PatternError::malformed(start, "this set is not closed"));
        };
        if self.is_quoting {
            self.at += 1;
            return Ok(Meaning::Byte(byte));
        }
        if byte == b'['
            && matches!(self.text.get(start + 1), Some(b':' | b'.' | b'='))
            && let Some(members) = self.named_class()?
        {
            return Ok(Meaning::Set(members));
        }
        if byte != b'\\' {
            self.at += 1;
            return Ok(Meaning::Byte(byte));
        }
        match self.text.get(start + 1) {
            Some(b'b') => {
                self.at += 2;
                Ok(Meaning::Byte(0x08))
            }
            Some(b'1'..=b'7') => {
                self.at += 1;
                self.octal(start, 3).map(Meaning::Byte)
            }
            Some(b'B' | b'R' | b'X' | b'N') => Err(PatternError::malformed(
                start,
                "this escape has no meaning in brackets",
            )),
            _ => self.meaning(),
        }
    }

    /// `[:name:]`; `None` if it is not closed, and then its bracket is one of the bytes.
    fn named_class(&mut self) -> Result<Option<ByteSet>, PatternError> {
        let start = self.at;
        let kind = self.text[start + 1];
        let rest = &self.text[start + 2..];
        let is_word = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'^';
        let end = rest
            .iter()
            .position(|byte| !is_word(byte))
            .unwrap_or(rest.len());
        if !rest[end..].starts_with(&[kind, b']']) {
            return Ok(None);
        }
        if kind != b':' {
            return Err(PatternError::unsupported(start, "a collating element"));
        }
        let (negated, name) = match rest[..end].strip_prefix(b"^") {
            Some(name) => (true, name),
            None => (false, &rest[..end]),
        };
        let Some(members) = class_of(name) else {
            return Err(PatternError::malformed(start, "no set has this name"));
        };
        self.at = start + 2 + end + 2;
        Ok(Some(if negated { members.inverted() } else { members }))
    }
}

fn too_large(start: usize) -> PatternError {
    PatternError::malformed(
        start,
        "no byte has this number: patterns read bytes, not characters",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_the_bytes_that_pcre_gives_them() {
        assert_eq!(set_of(b's').unwrap().ranges(), [(9, 13), (32, 32)]);
        assert_eq!(
            set_of(b'h').unwrap().ranges(),
            [(9, 9), (32, 32), (160, 160)]
        );
        assert_eq!(
            set_of(b'V').unwrap().ranges(),
            [(0, 9), (14, 132), (134, 255)]
        );
        assert!(set_of(b'q').is_none() && class_of(b"foo").is_none());
    }

    #[test]
    fn numbers_of_groups_are_targets() {
        let parsed = super::super::parse::parse(br"(a)\g{-1}\g1", false).unwrap();
        let Node::Sequence(nodes) = parsed.node else {
            panic!("a sequence")
        };
        for node in &nodes[1..] {
            assert!(matches!(
                node,
                Node::Back {
                    target: Target::Number(1),
                    ..
                }
            ));
        }
    }
}
