//! Random Caddyfiles from a grammar: the same seed produces the same file.

use std::collections::BTreeMap;

const GRAMMAR: &str = include_str!("grammar.txt");

/// Maximum nesting of blocks; deeper ones have plain directives only.
const DEPTH_MAX: u32 = 3;

/// A reproducible random generator: xorshift64*.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        // Zero would produce only zeros, and small seeds start with similar numbers.
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..8).for_each(|_| _ = chance.next());
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits fit") % end.max(1)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// The rules by name.
pub struct Grammar(BTreeMap<&'static str, Vec<&'static str>>);

impl Grammar {
    pub fn read() -> Grammar {
        let mut rules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut name = "";
        for line in GRAMMAR
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            match line.strip_prefix("  ") {
                Some(way) => rules.entry(name).or_default().push(way),
                None => name = line,
            }
        }
        Grammar(rules)
    }

    /// A complete configuration.
    pub fn file(&self, chance: &mut Chance) -> String {
        let mut sites = String::new();
        for _ in 0..=chance.below(3) {
            sites.push_str(&self.site(chance));
        }
        let mut out = String::new();
        if chance.one_in(2) {
            let count = 1 + chance.below(3);
            let lines: Vec<String> = (0..count)
                .map(|_| self.expand("global", 0, chance))
                .collect();
            out.push_str(&format!("{{\n{}\n}}\n", lines.join("\n")));
        }
        let defined = [
            ("plain", "header X-Plain yes\nencode gzip"),
            ("args", "header X-Args {args[0]}\nrespond /args {args[1]}"),
            ("blocky", "route {\n{block}\n}"),
            ("named", "handle /{args[0]} {\n{blocks.lines}\n}"),
        ];
        for (name, body) in defined {
            if sites.contains(&format!("import {name}")) {
                out.push_str(&format!("({name}) {{\n{body}\n}}\n"));
            }
        }
        for name in ["named", "other"] {
            if sites.contains("invoke ") {
                let body = self.expand("answer", DEPTH_MAX, chance);
                let body = body
                    .replace("@a", "/a")
                    .replace("@b", "/b")
                    .replace("@c", "/c");
                out.push_str(&format!("&({name}) {{\n{body}\n}}\n"));
            }
        }
        out + &sites
    }

    fn site(&self, chance: &mut Chance) -> String {
        let mut lines = Vec::new();
        for name in ["@a", "@b", "@c"] {
            lines.push(format!("{name} {}", self.expand("matcher", 0, chance)));
        }
        for _ in 0..1 + chance.below(5) {
            lines.push(self.expand("dir", 0, chance));
        }
        for _ in 0..chance.below(3) {
            lines.push(self.expand("siteonly", 0, chance));
        }
        // Order matters for some of them, so it is random as well.
        for last in (1..lines.len()).rev() {
            lines.swap(last, chance.below(last + 1));
        }
        let address = self.expand("site", 0, chance);
        format!("{address} {{\n{}\n}}\n", lines.join("\n"))
    }

    fn expand(&self, name: &str, depth: u32, chance: &mut Chance) -> String {
        let name = if name == "dir" && depth >= DEPTH_MAX {
            "leaf"
        } else {
            name
        };
        let ways = self.0.get(name).unwrap_or_else(|| panic!("no rule {name}"));
        let mut rest = ways[chance.below(ways.len())];
        let mut out = String::new();
        // A rule ends with its alternative; only braces increase the depth.
        let depth = depth + u32::from(rest.contains('{'));
        while let Some((before, behind)) = rest.split_once('<') {
            let named = behind.split_once('>').filter(|(name, _)| {
                let name = name.trim_end_matches(['?', '+', '.']);
                self.0.contains_key(name)
            });
            out.push_str(before);
            let Some((name, after)) = named else {
                out.push('<');
                rest = behind;
                continue;
            };
            rest = after;
            let count = 1 + chance.below(3);
            let (name, count, between) = if let Some(name) = name.strip_suffix("..") {
                (name, count, " ")
            } else if let Some(name) = name.strip_suffix('+') {
                (name, count, "\n")
            } else if let Some(name) = name.strip_suffix('?') {
                (name, usize::from(!chance.one_in(2)), "")
            } else {
                (name, 1, "")
            };
            let parts: Vec<String> = (0..count)
                .map(|_| self.expand(name, depth, chance))
                .collect();
            out.push_str(&parts.join(between));
        }
        out.push_str(rest);
        out.replace(" ; ", "\n")
    }
}

/// A file with one possible mistake in it.
pub fn mutate(text: &str, chance: &mut Chance) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = chance.below(lines.len());
    let mut words: Vec<String> = lines[at].split(' ').map(str::to_owned).collect();
    let word = chance.below(words.len());
    match chance.below(8) {
        0 => _ = lines.remove(at),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = chance.below(lines.len());
            lines.swap(at, other);
        }
        kind => {
            match kind {
                3 => _ = words.remove(word),
                4 => words.insert(word, words[word].clone()),
                5 => words[word] = "nonsense".to_owned(),
                6 => words.push("extra".to_owned()),
                _ => words[word] = "-1".to_owned(),
            }
            lines[at] = words.join(" ");
        }
    }
    lines.join("\n") + "\n"
}

/// The same words in an untidy layout.
pub fn untidy(text: &str, chance: &mut Chance) -> String {
    let mut out = String::new();
    for line in text.lines() {
        out.push_str(&" \t ".repeat(chance.below(3)));
        // White space between quotes belongs to a word.
        let is_plain = !line.contains(['"', '`', '\\']);
        match is_plain {
            true => {
                let words: Vec<&str> = line.split_whitespace().collect();
                out.push_str(&words.join(["  ", " ", "\t"][chance.below(3)]));
            }
            false => out.push_str(line),
        }
        if chance.one_in(12) {
            out.push_str([" # note", "\n# a line of words", "   ", "\n\n\n#x"][chance.below(4)]);
        }
        out.push_str(&"\n".repeat(1 + chance.below(8) / 5));
    }
    out
}
