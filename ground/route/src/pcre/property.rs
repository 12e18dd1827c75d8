//! Unicode properties of bytes, `\p{…}`. Patterns read bytes, as nginx's do without `(*UTF8)`: a byte is the character
//! of Latin-1 with its number, so what other scripts contain matches no byte.

use alloc::string::String;

use super::tree::ByteSet;

/// The bytes with the property of this name: a general category, a script, or one of PCRE's own such as `Xan`. Case,
/// blanks, hyphens and underscores in it have no meaning. `None` if it is unknown.
pub fn property(name: &[u8]) -> Option<ByteSet> {
    let (is_negated, name) = match name.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    let name: String = name
        .iter()
        .filter(|byte| !matches!(byte, b' ' | b'_' | b'-'))
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect();
    let set = general(&name).or_else(|| script(&name))?;
    Some(match is_negated {
        true => set.inverted(),
        false => set,
    })
}

/// Ranges of bytes, both ends included.
type Ranges = &'static [(u8, u8)];

/// The general categories that Latin-1 has characters of, in the Unicode Character Database's own short names.
const CATEGORIES: [(&str, Ranges); 18] = [
    ("lu", &[(0x41, 0x5a), (0xc0, 0xd6), (0xd8, 0xde)]),
    (
        "ll",
        &[(0x61, 0x7a), (0xb5, 0xb5), (0xdf, 0xf6), (0xf8, 0xff)],
    ),
    ("lo", &[(0xaa, 0xaa), (0xba, 0xba)]),
    ("nd", &[(0x30, 0x39)]),
    ("no", &[(0xb2, 0xb3), (0xb9, 0xb9), (0xbc, 0xbe)]),
    ("pc", &[(0x5f, 0x5f)]),
    ("pd", &[(0x2d, 0x2d)]),
    ("ps", &[(0x28, 0x28), (0x5b, 0x5b), (0x7b, 0x7b)]),
    ("pe", &[(0x29, 0x29), (0x5d, 0x5d), (0x7d, 0x7d)]),
    ("pi", &[(0xab, 0xab)]),
    ("pf", &[(0xbb, 0xbb)]),
    (
        "po",
        &[
            (0x21, 0x23),
            (0x25, 0x27),
            (0x2a, 0x2a),
            (0x2c, 0x2c),
            (0x2e, 0x2f),
            (0x3a, 0x3b),
            (0x3f, 0x40),
            (0x5c, 0x5c),
            (0xa1, 0xa1),
            (0xa7, 0xa7),
            (0xb6, 0xb7),
            (0xbf, 0xbf),
        ],
    ),
    (
        "sm",
        &[
            (0x2b, 0x2b),
            (0x3c, 0x3e),
            (0x7c, 0x7c),
            (0x7e, 0x7e),
            (0xac, 0xac),
            (0xb1, 0xb1),
            (0xd7, 0xd7),
            (0xf7, 0xf7),
        ],
    ),
    ("sc", &[(0x24, 0x24), (0xa2, 0xa5)]),
    (
        "sk",
        &[
            (0x5e, 0x5e),
            (0x60, 0x60),
            (0xa8, 0xa8),
            (0xaf, 0xaf),
            (0xb4, 0xb4),
            (0xb8, 0xb8),
        ],
    ),
    (
        "so",
        &[(0xa6, 0xa6), (0xa9, 0xa9), (0xae, 0xae), (0xb0, 0xb0)],
    ),
    ("zs", &[(0x20, 0x20), (0xa0, 0xa0)]),
    ("cf", &[(0xad, 0xad)]),
];

/// The categories without a character in Latin-1.
const ELSEWHERE: [&str; 10] = ["lt", "lm", "nl", "zl", "zp", "cn", "co", "cs", "mn", "mc"];

fn general(name: &str) -> Option<ByteSet> {
    let all = |beginning: &str| {
        let mut set = ByteSet::EMPTY;
        for (category, ranges) in CATEGORIES {
            if category.starts_with(beginning) {
                ranges
                    .iter()
                    .for_each(|(low, high)| set.add_range(*low, *high));
            }
        }
        set
    };
    let with = |mut set: ByteSet, ranges: Ranges| {
        ranges
            .iter()
            .for_each(|(low, high)| set.add_range(*low, *high));
        set
    };
    let letters_and_numbers = || {
        let mut set = all("l");
        set.add_all(&all("n"));
        set
    };
    const CONTROLS: Ranges = &[(0x00, 0x1f), (0x7f, 0x9f)];
    Some(match name {
        "any" => ByteSet::ALL,
        "l&" | "lc" => {
            let mut set = all("lu");
            set.add_all(&all("ll"));
            set
        }
        "l" | "n" | "p" | "s" | "z" => all(name),
        "c" => with(all("cf"), CONTROLS),
        "cc" => with(ByteSet::EMPTY, CONTROLS),
        "m" | "me" => ByteSet::EMPTY,
        "xan" => letters_and_numbers(),
        "xwd" => with(letters_and_numbers(), &[(b'_', b'_')]),
        "xsp" | "xps" => with(all("z"), &[(b'\t', b'\r'), (0x85, 0x85)]),
        "xuc" => with(
            ByteSet::EMPTY,
            &[(b'$', b'$'), (b'@', b'@'), (b'`', b'`'), (0xa0, 0xff)],
        ),
        _ if ELSEWHERE.contains(&name) => ByteSet::EMPTY,
        _ => {
            let known = CATEGORIES.iter().any(|(category, _)| *category == name);
            return known.then(|| all(name));
        }
    })
}

/// Scripts: all but two have no character in Latin-1.
fn script(name: &str) -> Option<ByteSet> {
    let prefixes = ["script=", "script:", "sc=", "sc:"];
    let mut prefixed = prefixes
        .iter()
        .filter_map(|prefix| name.strip_prefix(prefix));
    let name = prefixed.next().unwrap_or(name);
    let mut latin = ByteSet::EMPTY;
    for (category, ranges) in CATEGORIES {
        // The micro sign is a letter of all scripts.
        let letters = ranges.iter().filter(|range| **range != (0xb5, 0xb5));
        if category.starts_with('l') {
            letters.for_each(|(low, high)| latin.add_range(*low, *high));
        }
    }
    match name {
        "latin" | "latn" => Some(latin),
        "common" | "zyyy" => Some(latin.inverted()),
        _ => SCRIPTS.contains(&name).then_some(ByteSet::EMPTY),
    }
}

/// Scripts without a character in Latin-1, those that languages of today are written in.
const SCRIPTS: [&str; 42] = [
    "arab",
    "arabic",
    "armenian",
    "armn",
    "beng",
    "bengali",
    "bopomofo",
    "cher",
    "cherokee",
    "cyrillic",
    "cyrl",
    "deva",
    "devanagari",
    "ethi",
    "ethiopic",
    "geor",
    "georgian",
    "greek",
    "grek",
    "gujarati",
    "gurmukhi",
    "han",
    "hang",
    "hangul",
    "hani",
    "hebr",
    "hebrew",
    "hira",
    "hiragana",
    "inherited",
    "kana",
    "kannada",
    "katakana",
    "khmer",
    "lao",
    "malayalam",
    "mongolian",
    "myanmar",
    "sinhala",
    "tamil",
    "telugu",
    "thai",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges of a property, without the line feed.
    fn shown(name: &str) -> String {
        let set = property(name.as_bytes()).unwrap_or_else(|| panic!("{name} is known"));
        let mut text = String::new();
        let mut byte = 0usize;
        let has = |byte: usize| u8::try_from(byte).is_ok_and(|byte| byte != b'\n' && set.has(byte));
        while byte < 256 {
            let first = byte;
            while has(byte) {
                byte += 1;
            }
            match byte - first {
                0 => byte += 1,
                1 => text.push_str(&alloc::format!("{first:02x} ")),
                _ => text.push_str(&alloc::format!("{first:02x}-{:02x} ", byte - 1)),
            }
        }
        text.trim_end().into()
    }

    /// What PCRE2 10.42 matches, byte for byte (`grep -aP` in the C locale; a line has no line feed).
    #[test]
    fn properties_are_those_of_pcre() {
        for (name, expected) in [
            ("Lu", "41-5a c0-d6 d8-de"),
            ("Ll", "61-7a b5 df-f6 f8-ff"),
            ("Lo", "aa ba"),
            ("L&", "41-5a 61-7a b5 c0-d6 d8-f6 f8-ff"),
            ("No", "b2-b3 b9 bc-be"),
            (
                "Po",
                "21-23 25-27 2a 2c 2e-2f 3a-3b 3f-40 5c a1 a7 b6-b7 bf",
            ),
            ("Sm", "2b 3c-3e 7c 7e ac b1 d7 f7"),
            ("Sk", "5e 60 a8 af b4 b8"),
            ("So", "a6 a9 ae b0"),
            ("Zs", "20 a0"),
            ("Cc", "00-09 0b-1f 7f-9f"),
            ("Any", "00-09 0b-ff"),
            (
                "Xan",
                "30-39 41-5a 61-7a aa b2-b3 b5 b9-ba bc-be c0-d6 d8-f6 f8-ff",
            ),
            ("Xsp", "09 0b-0d 20 85 a0"),
            (
                "Xwd",
                "30-39 41-5a 5f 61-7a aa b2-b3 b5 b9-ba bc-be c0-d6 d8-f6 f8-ff",
            ),
            ("Xuc", "24 40 60 a0-ff"),
            ("Latin", "41-5a 61-7a aa ba c0-d6 d8-f6 f8-ff"),
            ("sc:Latn", "41-5a 61-7a aa ba c0-d6 d8-f6 f8-ff"),
            ("Common", "00-09 0b-40 5b-60 7b-a9 ab-b9 bb-bf d7 f7"),
            ("Greek", ""),
            ("Lt", ""),
            (" l_U-", "41-5a c0-d6 d8-de"),
            ("^Latin", "00-09 0b-40 5b-60 7b-a9 ab-b9 bb-bf d7 f7"),
        ] {
            assert_eq!(shown(name), expected, "{name}");
        }
        for unknown in ["", "Nonsense", "A", "lowercaseletter"] {
            assert!(property(unknown.as_bytes()).is_none(), "{unknown}");
        }
    }
}
