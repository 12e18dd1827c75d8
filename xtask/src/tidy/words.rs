//! The phrases that `glossary.toml` rules out: how often each occurs in each context, against a ceiling that may only
//! decrease. A count without a ceiling must be zero.

use std::collections::BTreeMap;
use std::fmt::Write;

use toml::{Table, Value};

use super::scan::scan;
use super::{Breach, Source};

/// The list of phrases and contexts.
pub const GLOSSARY: &str = "glossary.toml";

/// How often a phrase may still occur in a context. Written by `BLESS=1 cargo xtask tidy --words`, which only lowers
/// the numbers.
pub const CEILINGS: &str = "glossary.ceilings.toml";

/// Maximum number of occurrences shown for a count above its ceiling.
const SHOWN_MAX: usize = 12;

/// The part of a file that a context covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// All prose of a document: no fenced code, no `code`.
    Prose,
    /// Comments of Rust code, without `code`.
    Comments,
    /// Doc comments (`///`) of Rust code, which clap turns into help.
    DocComments,
    /// Text literals of Rust code outside tests.
    Literals,
    /// Names in Rust code, split into their words, and the name of the file.
    Identifiers,
}

/// A kind of text with its own ceilings.
#[derive(Debug)]
struct Context {
    name: String,
    part: Part,
    /// Prefixes of paths that belong to it.
    paths: Vec<String>,
    /// Prefixes of paths that are excluded.
    except: Vec<String>,
}

/// Phrases that are ruled out, all for the same concept.
#[derive(Debug)]
struct Phrase {
    /// Spellings, lower case; the first is the name of the phrase.
    words: Vec<String>,
    /// What to write instead.
    instead: String,
    /// Longer phrases in which the words are allowed.
    except: Vec<String>,
    /// The only contexts in which it is ruled out; empty for all contexts of prose.
    contexts: Vec<String>,
}

impl Phrase {
    fn is_for(&self, context: &Context) -> bool {
        match self.contexts.is_empty() {
            true => context.part != Part::Identifiers,
            false => self.contexts.contains(&context.name),
        }
    }
}

#[derive(Debug)]
struct Glossary {
    contexts: Vec<Context>,
    phrases: Vec<Phrase>,
}

/// One occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hit {
    path: String,
    line: usize,
}

/// Occurrences by context and phrase.
type Hits = BTreeMap<(String, String), Vec<Hit>>;

/// Counts above their ceilings; each occurrence is one breach, up to a limit.
pub fn check(sources: &[Source]) -> Vec<Breach> {
    let find = |path: &str| sources.iter().find(|source| source.path == path);
    let Some(glossary) = find(GLOSSARY) else {
        return Vec::new();
    };
    let breach = |path: &str, message: String| Breach::new(path, 0, "words", message);
    let glossary = match Glossary::parse(&glossary.text) {
        Ok(glossary) => glossary,
        Err(error) => return vec![breach(GLOSSARY, error)],
    };
    let ceilings = match ceilings(sources) {
        Ok(ceilings) => ceilings,
        Err(error) => return vec![breach(CEILINGS, error)],
    };
    let mut breaches = Vec::new();
    for ((context, phrase), hits) in glossary.hits(sources) {
        let ceiling = ceiling(&ceilings, &context, &phrase);
        if hits.len() <= ceiling {
            continue;
        }
        let instead = glossary.instead(&context, &phrase);
        for hit in hits.iter().take(SHOWN_MAX) {
            let mut message = format!("`{phrase}` in {context}: write {instead}");
            if ceiling > 0 {
                let _ = write!(message, " ({} of at most {ceiling})", hits.len());
            }
            breaches.push(Breach::new(&hit.path, hit.line, "words", message));
        }
    }
    breaches
}

/// Counts and ceilings, one line for each phrase and context that has either.
pub fn table(sources: &[Source]) -> Result<String, String> {
    let glossary = glossary(sources)?;
    let ceilings = ceilings(sources)?;
    let hits = glossary.hits(sources);
    let mut text = String::new();
    for context in &glossary.contexts {
        let mut sum = 0;
        for phrase in glossary.phrases.iter().filter(|one| one.is_for(context)) {
            let name = phrase.words[0].as_str();
            let count = hits
                .get(&(context.name.clone(), name.to_owned()))
                .map_or(0, Vec::len);
            sum += count;
            let ceiling = ceiling(&ceilings, &context.name, name);
            if count > 0 || ceiling > 0 {
                let _ = writeln!(text, "{:12} {count:6} of {ceiling:6}  {name}", context.name);
            }
        }
        let _ = writeln!(text, "{:12} {sum:6} in all", context.name);
    }
    Ok(text)
}

/// Every occurrence in one context, one line each with the source line.
pub fn occurrences(sources: &[Source], context: &str) -> Result<String, String> {
    let glossary = glossary(sources)?;
    if !glossary.contexts.iter().any(|known| known.name == context) {
        return Err(format!("{GLOSSARY} has no context `{context}`"));
    }
    let mut text = String::new();
    for ((name, phrase), hits) in glossary.hits(sources) {
        for hit in hits.iter().filter(|_| name == context) {
            let source = sources.iter().find(|source| source.path == hit.path);
            let line = source.and_then(|source| source.text.lines().nth(hit.line - 1));
            let line = line.unwrap_or_default().trim();
            let _ = writeln!(text, "{}:{}: [{phrase}] {line}", hit.path, hit.line);
        }
    }
    Ok(text)
}

/// The ceilings as a file, none of them higher than before. If the file does not exist, they are the counts.
pub fn lowered(sources: &[Source]) -> Result<String, String> {
    let glossary = glossary(sources)?;
    let exists = sources.iter().any(|source| source.path == CEILINGS);
    let ceilings = ceilings(sources)?;
    let hits = glossary.hits(sources);
    let mut text = "# How often a phrase of glossary.toml may still occur. `BLESS=1 cargo xtask tidy --words` lowers \
                    these\n# numbers to the counts and never raises one; what is not listed must not occur.\n"
        .to_owned();
    for context in &glossary.contexts {
        let mut section = format!("\n[{}]\n", context.name);
        let mut is_empty = true;
        for phrase in glossary.phrases.iter().filter(|one| one.is_for(context)) {
            let name = phrase.words[0].as_str();
            let count = hits
                .get(&(context.name.clone(), name.to_owned()))
                .map_or(0, Vec::len);
            let count = match exists {
                true => count.min(ceiling(&ceilings, &context.name, name)),
                false => count,
            };
            if count > 0 {
                is_empty = false;
                let _ = writeln!(section, "\"{name}\" = {count}");
            }
        }
        if !is_empty {
            text.push_str(&section);
        }
    }
    Ok(text)
}

fn glossary(sources: &[Source]) -> Result<Glossary, String> {
    let source = sources.iter().find(|source| source.path == GLOSSARY);
    let source = source.ok_or_else(|| format!("{GLOSSARY} is missing"))?;
    Glossary::parse(&source.text)
}

fn ceilings(sources: &[Source]) -> Result<Table, String> {
    match sources.iter().find(|source| source.path == CEILINGS) {
        Some(source) => source.text.parse::<Table>().map_err(|e| e.to_string()),
        None => Ok(Table::new()),
    }
}

fn ceiling(ceilings: &Table, context: &str, phrase: &str) -> usize {
    let number = ceilings
        .get(context)
        .and_then(Value::as_table)
        .and_then(|section| section.get(phrase))
        .and_then(Value::as_integer);
    usize::try_from(number.unwrap_or(0)).unwrap_or(0)
}

impl Glossary {
    fn parse(text: &str) -> Result<Glossary, String> {
        let table = text.parse::<Table>().map_err(|error| error.to_string())?;
        let contexts = table.get("contexts").and_then(Value::as_table);
        let contexts = contexts.ok_or("`[contexts]` is missing")?;
        let phrases = table.get("phrase").and_then(Value::as_array);
        let phrases = phrases.ok_or("`[[phrase]]` is missing")?;
        let contexts = contexts.iter().map(|(name, value)| {
            Ok(Context {
                name: name.clone(),
                part: match value.get("part").and_then(Value::as_str) {
                    Some("prose") => Part::Prose,
                    Some("comments") => Part::Comments,
                    Some("doc-comments") => Part::DocComments,
                    Some("literals") => Part::Literals,
                    Some("identifiers") => Part::Identifiers,
                    _ => return Err(format!("unknown or missing `part` in context `{name}`")),
                },
                paths: texts(value, "paths"),
                except: texts(value, "except"),
            })
        });
        let phrases = phrases.iter().map(|value| {
            let words = texts(value, "words");
            match words.is_empty() {
                true => Err("a `[[phrase]]` without `words`".to_owned()),
                false => Ok(Phrase {
                    words,
                    instead: value
                        .get("use")
                        .and_then(Value::as_str)
                        .unwrap_or("another word")
                        .to_owned(),
                    except: texts(value, "except"),
                    contexts: texts(value, "contexts"),
                }),
            }
        });
        Ok(Glossary {
            contexts: contexts.collect::<Result<_, String>>()?,
            phrases: phrases.collect::<Result<_, String>>()?,
        })
    }

    fn instead(&self, context: &str, phrase: &str) -> &str {
        let context = self.contexts.iter().find(|known| known.name == context);
        let is_for = |known: &Phrase| context.is_some_and(|context| known.is_for(context));
        let mut phrases = self.phrases.iter();
        let found = phrases.find(|known| known.words[0] == phrase && is_for(known));
        found.map_or("another word", |phrase| phrase.instead.as_str())
    }

    fn hits(&self, sources: &[Source]) -> Hits {
        let mut hits = Hits::new();
        for context in &self.contexts {
            for source in sources.iter().filter(|source| context.contains(source)) {
                let prose = Prose::of(source, context.part);
                for phrase in self.phrases.iter().filter(|one| one.is_for(context)) {
                    for line in prose.find(phrase) {
                        let key = (context.name.clone(), phrase.words[0].clone());
                        hits.entry(key).or_default().push(Hit {
                            path: source.path.clone(),
                            line,
                        });
                    }
                }
            }
        }
        hits
    }
}

/// The strings of an array, lower case.
fn texts(value: &Value, name: &str) -> Vec<String> {
    let items = value.get(name).and_then(Value::as_array);
    let items = items.into_iter().flatten().filter_map(Value::as_str);
    match name {
        "words" | "except" => items.map(str::to_lowercase).collect(),
        _ => items.map(str::to_owned).collect(),
    }
}

impl Context {
    fn contains(&self, source: &Source) -> bool {
        let path = source.path.as_str();
        let is_kind = match self.part {
            Part::Prose => path.ends_with(".md") || path.ends_with(".html"),
            Part::Comments | Part::DocComments | Part::Literals | Part::Identifiers => {
                path.ends_with(".rs")
            }
        };
        let lower = path.to_lowercase();
        is_kind
            && (self.paths.is_empty() || self.paths.iter().any(|p| path.starts_with(p.as_str())))
            && !self.except.iter().any(|p| lower.starts_with(p.as_str()))
    }
}

/// Running text in lower case, with single spaces, and the line number of each byte. A line feed ends a paragraph, so
/// that no phrase spans two.
struct Prose {
    text: String,
    lines: Vec<usize>,
}

impl Prose {
    fn of(source: &Source, part: Part) -> Prose {
        let mut prose = Prose {
            text: String::new(),
            lines: Vec::new(),
        };
        if part == Part::Prose {
            let mut in_code = false;
            for (number, line) in source.lines() {
                let is_fence = line.trim_start().starts_with("```");
                in_code ^= is_fence;
                if !is_fence && !in_code {
                    prose.push(number, line.trim_start_matches(['>', '#', ' ']), true);
                }
            }
            return prose;
        }
        let in_tests = source.path.split('/').any(|part| part == "tests")
            || source.path.ends_with("/tests.rs")
            || source.path.ends_with("_tests.rs");
        if part == Part::Identifiers {
            prose.push_identifiers(1, source.path.rsplit('/').next().unwrap_or_default());
        }
        for (index, line) in scan(&source.text).iter().enumerate() {
            if part == Part::Identifiers {
                prose.push_identifiers(index + 1, &line.code);
                continue;
            }
            let is_doc = line.comment.starts_with("///");
            let text = match part {
                Part::Literals if line.is_test || in_tests || names_field(&line.code) => "",
                Part::Literals => line.literals.as_str(),
                Part::DocComments if !is_doc => "",
                Part::Comments | Part::DocComments | Part::Prose | Part::Identifiers => {
                    line.comment.trim_start_matches(['/', '!'])
                }
            };
            prose.push(index + 1, text, part != Part::Literals);
        }
        prose
    }

    /// Appends a line; an empty one ends the paragraph. `omits_code` drops `code` between backquotes.
    fn push(&mut self, number: usize, line: &str, omits_code: bool) {
        let line = line.trim();
        let starts_item = line.starts_with("- ") || line.starts_with('|');
        if (line.is_empty() || starts_item) && !self.text.ends_with('\n') {
            self.append(number, '\n');
        }
        let mut is_code = false;
        for c in line.chars() {
            if c == '`' && omits_code {
                is_code = !is_code;
                self.append(number, '`');
            } else if !is_code {
                c.to_lowercase().for_each(|c| self.append(number, c));
            }
        }
        self.append(number, ' ');
    }

    /// Appends the words of all names in a line of code: `is_told` and `IsTold` are `is told`. Each name ends with a bar,
    /// so that no phrase spans two.
    fn push_identifiers(&mut self, number: usize, code: &str) {
        let mut before = ' ';
        for c in code.chars() {
            let is_name = c.is_alphanumeric() || c == '_';
            if is_name && c.is_uppercase() && before.is_lowercase() {
                self.append(number, ' ');
            }
            match is_name {
                true if c == '_' => self.append(number, ' '),
                true => c.to_lowercase().for_each(|c| self.append(number, c)),
                false if before == '|' => {}
                false => self.append(number, '|'),
            }
            before = if is_name { c } else { '|' };
        }
        self.append(number, '|');
    }

    fn append(&mut self, number: usize, c: char) {
        let c = if c.is_whitespace() && c != '\n' {
            ' '
        } else {
            c
        };
        if c == ' ' && self.text.ends_with([' ', '\n']) {
            return;
        }
        self.text.push(c);
        self.lines.resize(self.text.len(), number);
    }

    /// The lines on which the phrase occurs, in order, one entry for each occurrence.
    fn find(&self, phrase: &Phrase) -> Vec<usize> {
        let mut at: Vec<usize> = Vec::new();
        for words in &phrase.words {
            for (start, _) in self.text.match_indices(words.as_str()) {
                let end = start + words.len();
                if self.is_whole(start, end) && !self.is_excepted(start, end, phrase) {
                    at.push(start);
                }
            }
        }
        at.sort_unstable();
        at.dedup();
        at.into_iter().map(|start| self.lines[start]).collect()
    }

    fn is_whole(&self, start: usize, end: usize) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let before = self.text[..start].chars().next_back();
        let after = self.text[end..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    }

    fn is_excepted(&self, start: usize, end: usize, phrase: &Phrase) -> bool {
        phrase.except.iter().any(|except| {
            except
                .match_indices(phrase_at(&self.text, start, end))
                .any(|(offset, _)| {
                    let from = start.checked_sub(offset);
                    from.is_some_and(|from| {
                        self.text.is_char_boundary(from)
                            && self.text[from..].starts_with(except.as_str())
                    })
                })
        })
    }
}

/// Whether a line of code gives a field its name in JSON or TOML, which cannot change.
fn names_field(code: &str) -> bool {
    ["rename = ", "alias = "]
        .iter()
        .any(|name| code.contains(name))
}

fn phrase_at(text: &str, start: usize, end: usize) -> &str {
    &text[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "[contexts]\ndocs = { part = \"prose\", paths = [\"docs/\"], except = [\"docs/old\"] }\n\
        comments = { part = \"comments\" }\nliterals = { part = \"literals\", paths = [\"config/\"] }\n\
        help = { part = \"doc-comments\", paths = [\"bin/\"] }\n\
        [[phrase]]\nwords = [\"answer\", \"answers\"]\nuse = \"response\"\nexcept = [\"DNS answer\"]\n\
        [[phrase]]\nwords = [\"is told\"]\nuse = \"is reported\"\n";

    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let list = Source::new(GLOSSARY, LIST);
        let sources = sources.iter().map(|(path, text)| Source::new(*path, *text));
        let breaches = check(&sources.chain([list]).collect::<Vec<_>>());
        let lines = breaches
            .iter()
            .map(|b| format!("{}:{} {}", b.path, b.line, b.message));
        lines.collect()
    }

    #[test]
    fn phrases_of_documents_are_found_across_lines_and_not_in_code() {
        let page = "# The Answer\n\nA client is\ntold. `answer` Answers, answering.\n```\nanswer\n```\n\
                    A DNS answer, is not told; is\n\ntold\n";
        assert_eq!(
            found(&[("docs/a.md", page), ("docs/old.md", page), ("a.md", page)]),
            [
                "docs/a.md:1 `answer` in docs: write response",
                "docs/a.md:4 `answer` in docs: write response",
                "docs/a.md:3 `is told` in docs: write is reported",
            ]
        );
    }

    #[test]
    fn parts_of_rust_files_are_distinguished() {
        let code = "//! No answer.\n/// Help: answer.\nfn answer() {\n    // answer `answer`\n    a(\"the answer\", \"is\",\
                    \"told\");\n}\n#[cfg(test)]\nmod tests {\n    fn a() { b(\"answer\") }\n}\n";
        let lines = |path: &str, context: &str| {
            let all = found(&[(path, code)]);
            let mark = format!(" in {context}:");
            all.iter().filter(|line| line.contains(&mark)).count()
        };
        assert_eq!(lines("config/a.rs", "comments"), 3);
        assert_eq!(lines("config/a.rs", "literals"), 1);
        assert_eq!(lines("config/tests/a.rs", "literals"), 0);
        assert_eq!(lines("bin/a.rs", "help"), 1);
    }

    #[test]
    fn words_of_identifiers_are_found_in_each_case() {
        let list = "[contexts]\nnames = { part = \"identifiers\", paths = [\"bin/\"], except = [\"bin/dns\"] }\n\
            help = { part = \"literals\", paths = [\"bin/\"] }\n\
            [[phrase]]\nwords = [\"told\"]\ncontexts = [\"names\"]\nuse = \"shown\"\nexcept = [\"told stories\"]\n\
            [[phrase]]\nwords = [\"answer\"]\nuse = \"response\"\n";
        let code = "fn is_told(told_stories: u8) -> ToldClaim {\n    // told\n    IS_TOLD.answer(\"told\", untold)\n}\n";
        let found = |path: &str| {
            let sources = [Source::new(GLOSSARY, list), Source::new(path, code)];
            let breaches = check(&sources);
            breaches.iter().map(|b| b.line).collect::<Vec<_>>()
        };
        assert_eq!(found("bin/a.rs"), [1, 1, 3]);
        assert_eq!(found("bin/as_told.rs"), [1, 1, 1, 3]);
        assert_eq!(found("bin/dns.rs"), [0; 0]);
    }

    #[test]
    fn ceilings_only_fall() {
        let sources = |ceiling: &str, page: &str| {
            let mut sources = vec![Source::new(GLOSSARY, LIST), Source::new("docs/a.md", page)];
            if !ceiling.is_empty() {
                sources.push(Source::new(CEILINGS, ceiling));
            }
            sources
        };
        let two = "an answer, an answer";
        let ceilings = "[docs]\n\"answer\" = 1\n";
        assert!(
            lowered(&sources("", two))
                .expect("it is read")
                .contains("\"answer\" = 2")
        );
        assert!(
            lowered(&sources(ceilings, two))
                .expect("it is read")
                .contains("\"answer\" = 1")
        );
        assert!(
            !lowered(&sources(ceilings, "none"))
                .expect("it is read")
                .contains("answer")
        );
        assert_eq!(check(&sources(ceilings, two)).len(), 2);
        assert!(check(&sources(ceilings, "one answer")).is_empty());
        let table = table(&sources(ceilings, two)).expect("it is read");
        assert!(
            table.contains("docs              2 of      1  answer\n"),
            "{table}"
        );
    }
}
