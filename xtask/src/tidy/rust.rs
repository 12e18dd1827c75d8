//! Rules for single Rust files: headings, names, sizes, unsafe code, channels, leftovers.

use super::scan::{Line, block_end, scan};
use super::{Breach, Source};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Lines above an unsafe block in which its reason must be given.
const SAFETY_LINES: usize = 8;

/// Method names prescribed by traits of other crates.
const FOREIGN_METHODS: [&str; 1] = ["get_type"];

/// Module names that say nothing about their contents.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "common", "helper", "helpers", "misc", "manager", "managers",
];

/// All breaches in one file.
pub fn check(source: &Source) -> Vec<Breach> {
    let lines = scan(&source.text);
    let mut breaches = Vec::new();
    let mut add = |line: usize, rule: &'static str, message: String| {
        breaches.push(Breach::new(&source.path, line, rule, message));
    };
    heading(source, &mut add);
    module_name(source, &mut add);
    for (at, line) in lines.iter().enumerate() {
        names(line, at + 1, &mut add);
        leftovers(line, at + 1, &mut add);
        if !line.is_test && !is_test_file(&source.path) {
            channels(line, at + 1, &mut add);
        }
        places(source, &lines, at, &mut add);
    }
    if !is_test_file(&source.path) {
        sizes(&lines, &mut add);
    }
    breaches
}

/// Collects breaches: line, rule, message.
type Add<'a> = &'a mut dyn FnMut(usize, &'static str, String);

fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || path.split('/').any(|part| part == "tests")
}

fn heading(source: &Source, add: Add<'_>) {
    let first = source.text.lines().find(|line| !line.trim().is_empty());
    // A file of unit tests is documented by the module it tests.
    let is_unit_test_file =
        source.path.ends_with("/tests.rs") || source.path.ends_with("_tests.rs");
    if !is_unit_test_file && !first.is_some_and(|line| line.starts_with("//!")) {
        add(
            1,
            "heading",
            "a module opens with `//!`: its purpose, then what it leaves to others".into(),
        );
    }
}

fn module_name(source: &Source, add: Add<'_>) {
    let names = source
        .path
        .split('/')
        .map(|part| part.strip_suffix(".rs").unwrap_or(part));
    for name in names.filter(|name| EMPTY_NAMES.contains(name)) {
        add(
            0,
            "names",
            format!("`{name}` says nothing: name a module after what it holds"),
        );
    }
}

fn names(line: &Line, number: usize, add: Add<'_>) {
    let words: Vec<&str> = line
        .code
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|w| !w.is_empty())
        .collect();
    for pair in words.windows(2) {
        let ours = !FOREIGN_METHODS.contains(&pair[1]);
        if pair[0] == "fn" && pair[1].starts_with("get_") && ours {
            add(number, "names", format!("`{}`: leave out `get_`", pair[1]));
        }
        if pair[0] == "mod" && EMPTY_NAMES.contains(&pair[1]) {
            add(
                number,
                "names",
                format!(
                    "`{}` says nothing: name a module after what it holds",
                    pair[1]
                ),
            );
        }
    }
}

fn leftovers(line: &Line, number: usize, add: Add<'_>) {
    for mark in [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
    ] {
        if line.comment.contains(mark) {
            add(
                number,
                "leftovers",
                format!("{mark}: open an issue instead"),
            );
        }
    }
    if line.code.contains(concat!("dbg", "!(")) || line.code.contains(concat!("todo", "!(")) {
        add(number, "leftovers", "code that is not finished".into());
    }
    if is_commented_code(&line.comment) && line.code.trim().is_empty() {
        add(
            number,
            "leftovers",
            "commented-out code: delete it, the history has it".into(),
        );
    }
}

/// Whether a plain comment reads like a statement. Examples in documentation are not plain comments.
fn is_commented_code(comment: &str) -> bool {
    let Some(text) = comment.strip_prefix("//").map(str::trim) else {
        return false;
    };
    if comment.starts_with("///") || comment.starts_with("//!") {
        return false;
    }
    let opens = [
        "let ", "fn ", "pub ", "use ", "if ", "for ", "while ", "match ", "return ", "self.",
    ];
    let statement = text.ends_with(';') && (text.contains('(') || text.contains(" = "));
    let opening = text.ends_with('{') && opens.iter().any(|word| text.starts_with(word));
    let declared = text.ends_with(';') && opens.iter().any(|word| text.starts_with(word));
    let bracket = ["}", "});", "},", "})", "};"].contains(&text);
    statement || opening || declared || bracket
}

fn channels(line: &Line, number: usize, add: Add<'_>) {
    let code: String = line.code.chars().filter(|c| !c.is_whitespace()).collect();
    let without_limit = code.contains("unbounded")
        || code.contains("mpsc::channel()")
        || code.contains("mpsc::channel::<") && code.contains(">()");
    if without_limit {
        add(
            number,
            "channels",
            "a channel without a limit: use a bounded one with a named limit".into(),
        );
    }
}

/// Unsafe code and `cfg(target_os)` are allowed only in certain places.
fn places(source: &Source, lines: &[Line], at: usize, add: Add<'_>) {
    let code = &lines[at].code;
    let in_sys = source.path.starts_with("engine/net/src/sys/");
    let uses_unsafe = code
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == "unsafe");
    if uses_unsafe && !in_sys {
        add(
            at + 1,
            "unsafe",
            "unsafe code belongs into engine/net/src/sys/".into(),
        );
    }
    let above = &lines[at.saturating_sub(SAFETY_LINES)..=at];
    let reasoned = above.iter().any(|line| line.comment.contains("SAFETY:"));
    if uses_unsafe && in_sys && !reasoned {
        add(
            at + 1,
            "unsafe",
            "an unsafe block has a `// SAFETY:` comment that says why it is sound".into(),
        );
    }
    if code.contains("target_os") && !in_sys {
        add(
            at + 1,
            "target_os",
            "`cfg(target_os)` belongs into engine/net/src/sys/".into(),
        );
    }
}

fn sizes(lines: &[Line], add: Add<'_>) {
    let own = lines.iter().filter(|line| !line.is_test).count();
    if own > FILE_LINES_MAX {
        add(
            0,
            "size",
            format!("{own} lines without tests; {FILE_LINES_MAX} at most, aim at 300"),
        );
    }
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_test) {
        if !begins_function(&line.code) {
            continue;
        }
        // Counted as clippy does: the lines of code between the braces.
        let inside = lines[at..block_end(lines, at)].iter().skip(1);
        let length = inside.filter(|line| !line.code.trim().is_empty()).count();
        if length > FUNCTION_LINES_MAX {
            add(
                at + 1,
                "size",
                format!("a function of {length} lines; {FUNCTION_LINES_MAX} at most"),
            );
        }
    }
}

fn begins_function(code: &str) -> bool {
    let mut words = code.split_whitespace().skip_while(|word| {
        [
            "pub", "const", "async", "unsafe", "extern", "\"\"", "default",
        ]
        .contains(word)
            || word.starts_with("pub(")
    });
    words.next() == Some("fn")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        check(&Source::new(path, text))
            .into_iter()
            .map(|breach| breach.rule)
            .collect()
    }

    fn inside(code: &str) -> Vec<&'static str> {
        rules("ground/a/src/b.rs", &format!("//! About this.\n{code}\n"))
    }

    #[test]
    fn a_module_needs_a_heading() {
        assert_eq!(
            rules("ground/a/src/b.rs", "\nuse core::fmt;\n"),
            ["heading"]
        );
        assert!(rules("ground/a/src/b.rs", "//! Purpose.\n").is_empty());
        assert!(rules("ground/a/src/b/tests.rs", "use super::*;\n").is_empty());
    }

    #[test]
    fn empty_names_are_refused() {
        assert_eq!(rules("ground/a/src/util.rs", "//! A.\n"), ["names"]);
        assert_eq!(rules("ground/helpers/src/a.rs", "//! A.\n"), ["names"]);
        assert_eq!(inside("mod misc;"), ["names"]);
        assert_eq!(inside("fn get_name() {}"), ["names"]);
        assert!(inside("fn get_type(&self) -> &Type {}").is_empty());
        assert!(inside("fn get() {}\nlet a = map.get_mut(1); mod utilities;").is_empty());
    }

    #[test]
    fn leftovers_are_refused() {
        assert_eq!(inside(&format!("// {}DO: later", "TO")), ["leftovers"]);
        assert_eq!(inside(&format!("let a = {}!(b);", "dbg")), ["leftovers"]);
        assert_eq!(inside("    // let a = 1;"), ["leftovers"]);
        assert_eq!(inside("// foo(bar);"), ["leftovers"]);
        assert_eq!(inside("// }"), ["leftovers"]);
        assert!(
            inside("// A load and a store; then (perhaps) more\n/// `let a = 1;`\nfn b() {}")
                .is_empty()
        );
        assert!(inside(&format!("let a = \"{}DO\";", "TO")).is_empty());
    }

    #[test]
    fn unsafe_code_has_one_place_and_a_reason() {
        assert_eq!(inside("unsafe { a() }"), ["unsafe"]);
        let sys = |code: &str| rules("engine/net/src/sys/a.rs", &format!("//! A.\n{code}\n"));
        assert_eq!(sys("unsafe { a() }"), ["unsafe"]);
        assert!(sys("// SAFETY: a takes nothing.\nlet b =\n    unsafe { a() };").is_empty());
        assert!(inside("#![forbid(unsafe_code)]\n// unsafe here\nlet a = \"unsafe\";").is_empty());
        assert_eq!(inside("#[cfg(target_os = \"linux\")]"), ["target_os"]);
    }

    #[test]
    fn channels_need_a_limit() {
        assert_eq!(inside("let (a, b) = mpsc::channel();"), ["channels"]);
        assert_eq!(inside("let (a, b) = mpsc::channel::<u8>();"), ["channels"]);
        assert_eq!(
            inside(&format!("tokio::sync::mpsc::un{}_channel();", "bounded")),
            ["channels"]
        );
        assert!(inside("let (a, b) = mpsc::channel(COMMANDS_MAX); oneshot::channel();").is_empty());
    }

    #[test]
    fn files_and_functions_have_a_size() {
        let long = format!("pub const fn a() {{\n{}}}", "    b();\n".repeat(71));
        assert_eq!(inside(&long), ["size"]);
        let fitting = format!("pub fn a() {{\n{}}}", "    b();\n    // why\n".repeat(70));
        assert!(inside(&fitting).is_empty());
        assert_eq!(inside(&"const A: u8 = 1;\n".repeat(800)), ["size"]);
        let tests = format!(
            "#[cfg(test)]\nmod tests {{\nfn a() {{\n{}}}\n}}",
            "b();\n".repeat(900)
        );
        assert!(inside(&tests).is_empty());
        assert!(rules("tests/e2e/a.rs", &format!("//! A.\n{long}")).is_empty());
    }
}
