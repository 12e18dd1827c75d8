//! Import cycles inside packages: files that import each other cannot be read, moved or tested separately.
//! `import-cycles.toml` has the number of remaining cycles, which may only decrease.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::scan::scan;
use super::{Breach, Source};

/// How many cycles each package may still have. Written by `BLESS=1 cargo xtask tidy --cycles`, which only lowers the
/// numbers.
pub const CEILINGS: &str = "import-cycles.toml";

/// Maximum number of files of a cycle that a breach names.
const SHOWN_MAX: usize = 8;

/// The path of a module in its crate: the names of its parents, then its own.
type Path = Vec<String>;

/// The cycles of one package, each as the paths of its files, longest first.
type Cycles = Vec<Vec<String>>;

/// Breaches: packages with more or larger cycles than the ceilings allow.
pub fn check(sources: &[Source]) -> Vec<Breach> {
    let ceilings = match ceilings(sources) {
        Ok(ceilings) => ceilings,
        Err(message) => return vec![Breach::new(CEILINGS, 0, "cycles", message)],
    };
    let mut breaches = Vec::new();
    for (package, cycles) in all(sources) {
        let (count, files) = sizes(&cycles);
        let (count_max, files_max) = ceilings.get(&package).copied().unwrap_or_default();
        if count <= count_max && files <= files_max {
            continue;
        }
        let longest = cycles.first().map(Vec::as_slice).unwrap_or_default();
        let shown = longest[..longest.len().min(SHOWN_MAX)].join(", ");
        let message = format!(
            "{count} import cycles, the longest of {files} files, but at most {count_max} of {files_max} are allowed: {shown}"
        );
        breaches.push(Breach::new(&package, 0, "cycles", message));
    }
    breaches
}

/// The ceilings lowered to the current counts, as the text of their file. If the file does not exist, it starts with
/// the current counts.
pub fn lowered(sources: &[Source]) -> Result<String, String> {
    let exists = sources.iter().any(|source| source.path == CEILINGS);
    let ceilings = ceilings(sources)?;
    let mut text = "# Import cycles that a package still has, and the files of the longest. `BLESS=1 cargo xtask tidy --cycles` \
                    lowers these\n# numbers and never raises one; a package that is not listed must have none.\n\n"
        .to_owned();
    for (package, cycles) in all(sources) {
        let (count, files) = sizes(&cycles);
        let (count_max, files_max) = ceilings.get(&package).copied().unwrap_or_default();
        let (count, files) = match exists {
            true => (count.min(count_max), files.min(files_max)),
            false => (count, files),
        };
        if count > 0 {
            let _ = writeln!(
                text,
                "\"{package}\" = {{ cycles = {count}, files = {files} }}"
            );
        }
    }
    Ok(text)
}

/// A readable list of all cycles.
pub fn table(sources: &[Source]) -> String {
    let mut text = String::new();
    let (mut total, mut longest) = (0, 0);
    for (package, cycles) in all(sources) {
        let (count, files) = sizes(&cycles);
        total += count;
        longest = longest.max(files);
        for cycle in cycles {
            let _ = writeln!(
                text,
                "{package}: {} files: {}",
                cycle.len(),
                cycle.join(" ")
            );
        }
    }
    let _ = writeln!(
        text,
        "{total} import cycles, the longest of {longest} files"
    );
    text
}

fn sizes(cycles: &Cycles) -> (usize, usize) {
    (cycles.len(), cycles.first().map_or(0, Vec::len))
}

fn ceilings(sources: &[Source]) -> Result<BTreeMap<String, (usize, usize)>, String> {
    let Some(source) = sources.iter().find(|source| source.path == CEILINGS) else {
        return Ok(BTreeMap::new());
    };
    let table: toml::Table = source
        .text
        .parse()
        .map_err(|error| format!("{CEILINGS}: {error}"))?;
    let number = |row: &toml::Value, key: &str| {
        let number = row.get(key).and_then(toml::Value::as_integer);
        number.and_then(|number| usize::try_from(number).ok())
    };
    let mut ceilings = BTreeMap::new();
    for (package, row) in &table {
        let both = number(row, "cycles").zip(number(row, "files"));
        let both =
            both.ok_or_else(|| format!("{CEILINGS}: `{package}` needs `cycles` and `files`"))?;
        ceilings.insert(package.clone(), both);
    }
    Ok(ceilings)
}

/// The cycles of each package.
fn all(sources: &[Source]) -> BTreeMap<String, Cycles> {
    let packages = sources
        .iter()
        .filter_map(|source| source.path.strip_suffix("/Cargo.toml"))
        .filter(|package| !package.starts_with("fuzz"));
    packages
        .map(|package| (package.to_owned(), of_package(package, sources)))
        .collect()
}

fn of_package(package: &str, sources: &[Source]) -> Cycles {
    let below = format!("{package}/src/");
    let mut files: BTreeMap<Path, &Source> = BTreeMap::new();
    for source in sources {
        let inside = source.path.strip_prefix(&below);
        if let Some(path) = inside.and_then(module) {
            files.insert(path, source);
        }
    }
    let modules: BTreeSet<&Path> = files.keys().collect();
    let numbers: BTreeMap<&Path, usize> = modules
        .iter()
        .enumerate()
        .map(|(n, path)| (*path, n))
        .collect();
    let edges: Vec<Vec<usize>> = files
        .iter()
        .map(|(path, source)| {
            let found = imports(path, &code(&source.text), &modules);
            found
                .iter()
                .filter_map(|path| numbers.get(path).copied())
                .collect()
        })
        .collect();
    let names: Vec<&str> = files
        .values()
        .map(|source| &source.path[below.len()..])
        .collect();
    let mut cycles: Cycles = components(&edges)
        .into_iter()
        .filter(|component| component.len() > 1)
        .map(|component| component.iter().map(|at| names[*at].to_owned()).collect())
        .collect();
    cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
    cycles
}

/// The module of a file below `src`; `None` for tests and other files that are not modules.
fn module(path: &str) -> Option<Path> {
    let path = path.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") {
        return Some(Vec::new());
    }
    let path: Path = path.split('/').map(str::to_owned).collect();
    let is_test = |name: &String| name == "tests" || name.ends_with("_tests") || name == "bin";
    (!path.iter().any(is_test)).then_some(path)
}

/// The code of a file without its unit tests.
fn code(text: &str) -> String {
    let lines = scan(text);
    let lines = lines.iter().filter(|line| !line.is_test);
    lines
        .map(|line| line.code.as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The modules that a module refers to by path, except itself and its submodules: a folder's `mod.rs` consists of them.
fn imports<'m>(own: &Path, code: &str, modules: &BTreeSet<&'m Path>) -> BTreeSet<&'m Path> {
    let words = words(code);
    let mut found = BTreeSet::new();
    let mut at = 0;
    while at < words.len() {
        let is_within_path = at > 0 && words[at - 1] == "::";
        if is_within_path || words.get(at + 1).is_none_or(|next| *next != "::") {
            at += 1;
            continue;
        }
        let (base, end) = base(own, &words, at, modules);
        if let Some(base) = base {
            tree(&words, end, base, &mut |path| {
                let target = longest(&path, modules);
                if let Some(target) = target.filter(|target| !target.starts_with(own)) {
                    found.insert(target);
                }
            });
        }
        at = end.max(at + 1);
    }
    found
}

/// Resolves the beginning of a path, and the position of the next name: `crate::`, `self::`, `super::` or a submodule.
fn base(own: &Path, words: &[&str], at: usize, modules: &BTreeSet<&Path>) -> (Option<Path>, usize) {
    match words[at] {
        "crate" => (Some(Vec::new()), at + 2),
        "self" => (Some(own.clone()), at + 2),
        "super" => {
            let (mut base, mut at) = (own.clone(), at);
            while words.get(at) == Some(&"super") && words.get(at + 1) == Some(&"::") {
                base.pop();
                at += 2;
            }
            (Some(base), at)
        }
        name => {
            let mut child = own.clone();
            child.push(name.to_owned());
            (modules.contains(&child).then_some(child), at + 2)
        }
    }
}

/// Follows a path, and all paths in braces; returns the position after it.
fn tree(words: &[&str], mut at: usize, mut path: Path, each: &mut dyn FnMut(Path)) -> usize {
    loop {
        match words.get(at) {
            Some(&"{") => {
                at += 1;
                while let Some(word) = words.get(at) {
                    match *word {
                        "}" => return at + 1,
                        "," => at += 1,
                        "self" => {
                            each(path.clone());
                            at += 1;
                        }
                        _ => at = tree(words, at, path.clone(), each).max(at + 1),
                    }
                }
                return at;
            }
            Some(word) if is_name(word) => {
                path.push((*word).to_owned());
                at += 1;
                match words.get(at) {
                    Some(&"::") => at += 1,
                    _ => {
                        each(path);
                        // `as name`
                        return match words.get(at) {
                            Some(&"as") => at + 2,
                            _ => at,
                        };
                    }
                }
            }
            // `::*`, `::<`
            _ => {
                each(path);
                return at + 1;
            }
        }
    }
}

/// The module that a path refers to: its longest prefix that is one.
fn longest<'m>(path: &Path, modules: &BTreeSet<&'m Path>) -> Option<&'m Path> {
    (0..=path.len())
        .rev()
        .find_map(|length| modules.get(&path[..length].to_vec()).copied())
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, and single characters for everything else.
fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            _ if is_part(first) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        words.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    words
}

/// The strongly connected components of a graph (Kosaraju): computes a finishing order, then follows the reverse edges
/// in it.
fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut order = Vec::new();
    let mut is_seen = vec![false; edges.len()];
    for start in 0..edges.len() {
        finish(start, edges, &mut is_seen, &mut order);
    }
    let mut reverse = vec![Vec::new(); edges.len()];
    for (from, targets) in edges.iter().enumerate() {
        for to in targets {
            reverse[*to].push(from);
        }
    }
    let mut is_seen = vec![false; edges.len()];
    let mut found = Vec::new();
    for start in order.into_iter().rev() {
        let mut component = Vec::new();
        finish(start, &reverse, &mut is_seen, &mut component);
        if !component.is_empty() {
            component.sort_unstable();
            found.push(component);
        }
    }
    found
}

/// Appends the unseen nodes reachable from a node, each after its successors.
fn finish(start: usize, edges: &[Vec<usize>], is_seen: &mut [bool], order: &mut Vec<usize>) {
    let mut stack = vec![(start, 0)];
    if std::mem::replace(&mut is_seen[start], true) {
        return;
    }
    while let Some((node, next)) = stack.pop() {
        match edges[node].get(next) {
            None => order.push(node),
            Some(target) => {
                stack.push((node, next + 1));
                if !std::mem::replace(&mut is_seen[*target], true) {
                    stack.push((*target, 0));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Vec<Source> {
        let manifest = Source::new("a/Cargo.toml", "");
        let files = files
            .iter()
            .map(|(path, text)| Source::new(format!("a/src/{path}"), *text));
        [manifest].into_iter().chain(files).collect()
    }

    fn cycles(files: &[(&str, &str)]) -> Cycles {
        all(&sources(files))
            .remove("a")
            .expect("the package is there")
    }

    #[test]
    fn imports_in_both_directions_are_a_cycle() {
        let found = cycles(&[
            ("lib.rs", "mod one; mod two; mod three;"),
            ("one.rs", "use crate::two::Two; pub struct One;"),
            (
                "two.rs",
                "use std::fmt; use super::{three, one::One as First};",
            ),
            ("three.rs", "fn f() { crate::other() }"),
        ]);
        assert_eq!(found, [["one.rs", "two.rs"]]);
    }

    #[test]
    fn a_module_is_made_of_those_inside_of_it() {
        let found = cycles(&[
            ("lib.rs", "pub mod a; pub mod x; use a::A;"),
            ("a/mod.rs", "mod b; mod c; use b::B; pub struct A;"),
            ("a/b.rs", "use super::A; use c::{self, *};"),
            ("a/c.rs", "use super::A;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
        let found = cycles(&[
            ("a/mod.rs", "mod b; use crate::x::X;"),
            ("a/b.rs", "use super::A;"),
            ("x.rs", "fn x() { crate::a::b::f() }"),
        ]);
        assert_eq!(found, [["a/mod.rs", "a/b.rs", "x.rs"]]);
    }

    #[test]
    fn tests_comments_and_texts_import_nothing() {
        let found = cycles(&[
            ("one.rs", "use crate::two::Two;"),
            (
                "two.rs",
                "// crate::one::One\nconst T: &str = \"crate::one::One\";\n#[cfg(test)]\nmod tests {\n    use crate::one::One;\n}\n",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn more_cycles_than_before_are_a_breach_and_fewer_lower_the_ceiling() {
        let files = [
            ("one.rs", "use crate::two::T;"),
            ("two.rs", "use crate::one::O;"),
        ];
        let mut all = sources(&files);
        assert_eq!(check(&all).len(), 1);
        let begun = lowered(&all).expect("there are no ceilings");
        assert!(
            begun.ends_with("\"a\" = { cycles = 1, files = 2 }\n"),
            "{begun}"
        );
        all.push(Source::new(CEILINGS, begun));
        assert!(check(&all).is_empty());
        all[1].text.clear();
        let text = lowered(&all).expect("they are read");
        assert!(!text.contains("\"a\""), "{text}");
        all.pop();
        all.push(Source::new(CEILINGS, "\"a\" = 3"));
        assert_eq!(check(&all)[0].path, CEILINGS);
    }
}
