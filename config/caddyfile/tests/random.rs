//! Properties that hold for any text: nothing panics, every message can be rendered, formatting twice is the same as
//! formatting once, and formatting changes no meaning.
//!
//! The texts are the golden inputs, cut and mixed, and random sequences of words. `SEED=n` repeats a run; a failure
//! prints its seed and its text.

use std::fs;
use std::path::Path;

use sluice_caddyfile::{MemoryLoader, format, parse};
use sluice_diag::Colour;

use crate::invariants;

/// Texts tried by each test; a few seconds without optimisation.
const ROUNDS: usize = 3_000;

/// Pieces that mean something to the lexer or the parser.
const PIECES: [&str; 44] = [
    " ",
    "  ",
    "\t",
    "\n",
    "\n\n\n",
    "\r\n",
    "{",
    "}",
    "{ ",
    " {\n",
    "\n}\n",
    "{}",
    "}}",
    "a{",
    "\"",
    "`",
    "\\",
    "\\\n",
    " \\\n ",
    "#",
    "# c\n",
    "<<E\n",
    "\nE\n",
    " E",
    "<<",
    ",",
    ", ",
    "(s)",
    "&(r)",
    "import s",
    "import f x",
    "{args[0]}",
    "{args[:]}",
    "{block}",
    "{blocks.a}",
    "{$A}",
    "{$B:x  y}",
    "{$",
    "@m",
    ":80",
    "respond",
    "\u{e9}",
    "\u{a0}",
    "\u{0}",
];

/// Marsaglia's xorshift: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn from_environment(stream: u64) -> Random {
        let seed: u64 = std::env::var("SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or(0x5eed);
        println!("SEED={seed}");
        // Distant starts for neighbouring seeds.
        Random((seed << 8 | stream).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn piece(&mut self) -> &'static str {
        PIECES[self.below(PIECES.len())]
    }

    /// A character boundary of `text`.
    fn boundary(&mut self, text: &str) -> usize {
        let mut at = self.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

fn corpus() -> Vec<String> {
    let texts = inputs(|_| true);
    assert!(texts.len() >= 70, "the corpus is missing");
    texts
}

/// The inputs of the golden cases of some topics.
fn inputs(wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut texts = Vec::new();
    for topic in fs::read_dir(golden)
        .expect("the golden folder is there")
        .flatten()
        .filter(|topic| wanted(&topic.file_name().to_string_lossy()))
    {
        for case in fs::read_dir(topic.path()).into_iter().flatten().flatten() {
            let text = fs::read_to_string(case.path()).unwrap_or_default();
            let input = text.split("----\n").next().unwrap_or("");
            texts.push(input.split("=== ").next().unwrap_or("").into());
        }
    }
    texts.sort();
    texts
}

fn mutate(random: &mut Random, corpus: &[String]) -> String {
    let mut text = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.boundary(&text);
        match random.below(4) {
            0 => text.insert_str(at, random.piece()),
            1 => {
                let cut: String = text[at..].chars().take(random.below(12)).collect();
                text.replace_range(at..at + cut.len(), "");
            }
            2 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.boundary(other);
                text.insert_str(at, &other[from..]);
            }
            _ => text.truncate(at),
        }
    }
    text
}

fn put_together(random: &mut Random) -> String {
    (0..random.below(60)).map(|_| random.piece()).collect()
}

fn loader() -> MemoryLoader {
    let mut loader = MemoryLoader::default();
    loader.files.insert(
        "f".into(),
        b"respond {args[0]} {block}\nimport f\nhandle {\n\t{block}\n}\n".into(),
    );
    loader
        .files
        .insert("broken".into(), b"handle {\n\xff\"".into());
    loader
        .variables
        .insert("A".into(), "value \"of\n}a{ #".into());
    loader
}

/// Everything that must hold for one text.
fn check(text: &str) {
    let parsed = parse("Caddyfile", text, &loader());
    let report = &parsed.report;
    assert_eq!(report.human(Colour::Never).is_empty(), report.is_empty());
    assert_eq!(
        report.short().lines().count(),
        report.json().lines().count()
    );
    let Ok(formatted) = format("Caddyfile", text) else {
        // Both reject a text that cannot be split into words. The reverse need not hold, since only one of them
        // substitutes variables.
        assert!(
            report.has_errors() || text.contains("{$"),
            "refused by `format` only"
        );
        return;
    };
    let again = format("Caddyfile", &formatted).map_err(|report| report.short());
    assert_eq!(
        again.as_ref(),
        Ok(&formatted),
        "formatting again changes something"
    );
    if !report.has_errors() && !text.contains("{$") {
        let reparsed = parse("Caddyfile", &formatted, &loader());
        assert_eq!(
            reparsed.file.to_string(),
            parsed.file.to_string(),
            "formatting changes meaning"
        );
        assert!(!reparsed.report.has_errors(), "{}", reparsed.report.short());
    }
}

fn check_many(stream: u64, make: impl FnMut(&mut Random) -> String) {
    check_all(stream, make, check);
}

fn check_all(stream: u64, mut make: impl FnMut(&mut Random) -> String, check: fn(&str)) {
    let mut random = Random::from_environment(stream);
    for round in 0..ROUNDS {
        let text = make(&mut random);
        let outcome = std::panic::catch_unwind(|| check(&text));
        assert!(outcome.is_ok(), "round {round} fails for {text:?}");
    }
}

#[test]
fn mutated_texts() {
    let corpus = corpus();
    check_many(1, |random| mutate(random, &corpus));
}

#[test]
fn random_texts() {
    check_many(2, put_together);
}

#[test]
fn golden_texts() {
    for text in corpus() {
        check(&text);
    }
}

/// Those of Caddy 1, and what becomes of them.
#[test]
fn mutated_old_texts() {
    let corpus = inputs(|topic| topic == "v1");
    assert!(corpus.len() >= 40, "the corpus is missing");
    check_all(3, |random| mutate(random, &corpus), invariants::check);
}
