//! JSON and YAML documents as values, with the place of a mistake. YAML is read with the core schema of YAML 1.2.2
//! (section 10.3), as OpenAPI requires it, and merge keys (`<<`). Aliases are copies, whose sum is limited.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

use crate::limits::{YAML_DEPTH_MAX, YAML_VALUES_MAX};

/// Reads JSON. The error has the form `source:line:column: what is wrong`.
pub fn json(source: &str, text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let place = format!(" at line {line} column {column}");
        let what = text.strip_suffix(&place).unwrap_or(&text);
        format!("{source}:{line}:{column}: not JSON: {what}")
    })
}

/// Reads the only document of a YAML text. The error has the form `source:line:column: what is wrong`.
pub fn yaml(source: &str, text: &str) -> Result<Value, String> {
    let mut reader = Reader::default();
    reader.read(text).map_err(|mistake| {
        let (line, column) = mistake.place;
        format!("{source}:{line}:{column}: {}", mistake.text)
    })
}

/// A mistake and where it is: line and column from 1.
struct Mistake {
    place: (usize, usize),
    text: String,
}

fn mistake(at: Marker, text: impl Into<String>) -> Mistake {
    Mistake {
        place: (at.line(), at.col() + 1),
        text: text.into(),
    }
}

/// A list or mapping that is being read, with its anchor.
struct Open {
    anchor: usize,
    what: Collection,
}

enum Collection {
    List(Vec<Value>),
    Mapping {
        entries: Map<String, Value>,
        /// The mappings behind `<<`, whose entries fill in what this one does not have.
        merged: Vec<Value>,
        key: Option<Key>,
    },
}

/// The key of the next value.
enum Key {
    Name(String),
    Merge,
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    /// Values with an anchor, and of how many values each consists.
    anchors: BTreeMap<usize, (Value, usize)>,
    /// Values until now, with those that aliases copy.
    values: usize,
    whole: Option<Value>,
}

impl Reader {
    fn read(&mut self, text: &str) -> Result<Value, Mistake> {
        for event in Parser::new_from_str(text) {
            let (event, span) = event
                .map_err(|error| mistake(*error.marker(), format!("not YAML: {}", error.info())))?;
            let at = span.start;
            match event {
                Event::Scalar(text, style, anchor, tag) => {
                    if self.expects_key() {
                        self.key(&text, style, at)?;
                        continue;
                    }
                    let value =
                        scalar(&text, style, tag.as_deref()).map_err(|text| mistake(at, text))?;
                    self.value(value, anchor, at)?;
                }
                Event::Alias(anchor) => {
                    // An anchor is known from its end on, so a value cannot contain itself.
                    let found = self.anchors.get(&anchor).cloned();
                    let (value, size) =
                        found.ok_or_else(|| mistake(at, "an alias of a value around it"))?;
                    self.count(size, at)?;
                    self.value(value, 0, at)?;
                }
                Event::SequenceStart(anchor, _) => {
                    self.begin(anchor, Collection::List(Vec::new()), at)?;
                }
                Event::MappingStart(anchor, _) => {
                    let (entries, merged, key) = (Map::new(), Vec::new(), None);
                    let what = Collection::Mapping {
                        entries,
                        merged,
                        key,
                    };
                    self.begin(anchor, what, at)?;
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    if let Some(Open { anchor, what }) = self.open.pop() {
                        self.value(what.close(), anchor, at)?;
                    }
                }
                Event::DocumentStart(_) if self.whole.is_some() => {
                    return Err(mistake(at, "a second document; only one is read"));
                }
                Event::Nothing
                | Event::StreamStart
                | Event::StreamEnd
                | Event::DocumentStart(_)
                | Event::DocumentEnd => {}
            }
        }
        Ok(self.whole.take().unwrap_or(Value::Null))
    }

    fn expects_key(&self) -> bool {
        let last = self.open.last().map(|open| &open.what);
        matches!(last, Some(Collection::Mapping { key: None, .. }))
    }

    /// Counts values against the limit.
    fn count(&mut self, more: usize, at: Marker) -> Result<(), Mistake> {
        self.values = self.values.saturating_add(more);
        match self.values > YAML_VALUES_MAX {
            true => Err(mistake(
                at,
                format!("more than {YAML_VALUES_MAX} values, with the copies that aliases make"),
            )),
            false => Ok(()),
        }
    }

    fn key(&mut self, text: &str, style: ScalarStyle, at: Marker) -> Result<(), Mistake> {
        self.count(1, at)?;
        let Some(Open {
            what: Collection::Mapping { entries, key, .. },
            ..
        }) = self.open.last_mut()
        else {
            return Ok(());
        };
        *key = Some(match style == ScalarStyle::Plain && text == "<<" {
            true => Key::Merge,
            false if entries.contains_key(text) => {
                return Err(mistake(at, format!("`{text}` stands twice in a mapping")));
            }
            false => Key::Name(text.to_string()),
        });
        Ok(())
    }

    fn begin(&mut self, anchor: usize, what: Collection, at: Marker) -> Result<(), Mistake> {
        if self.expects_key() {
            return Err(mistake(at, "a key that is a list or a mapping"));
        }
        if self.open.len() >= YAML_DEPTH_MAX {
            let text = format!("more than {YAML_DEPTH_MAX} lists and mappings within each other");
            return Err(mistake(at, text));
        }
        self.open.push(Open { anchor, what });
        Ok(())
    }

    /// Puts a whole value into the list or mapping around it.
    fn value(&mut self, value: Value, anchor: usize, at: Marker) -> Result<(), Mistake> {
        self.count(1, at)?;
        if anchor > 0 {
            let size = size(&value);
            // The anchored copy takes memory as well.
            self.count(size, at)?;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        match self.open.last_mut().map(|open| &mut open.what) {
            None => self.whole = Some(value),
            Some(Collection::List(list)) => list.push(value),
            Some(Collection::Mapping {
                entries,
                merged,
                key,
            }) => match key.take() {
                Some(Key::Name(name)) => {
                    entries.insert(name, value);
                }
                Some(Key::Merge) => match value {
                    Value::Array(list) if list.iter().all(Value::is_object) => merged.extend(list),
                    Value::Object(_) => merged.push(value),
                    _ => return Err(mistake(at, "`<<` takes a mapping, or a list of mappings")),
                },
                None => return Err(mistake(at, "a key that is an alias of a value")),
            },
        }
        Ok(())
    }
}

impl Collection {
    fn close(self) -> Value {
        match self {
            Collection::List(list) => Value::Array(list),
            Collection::Mapping {
                mut entries,
                merged,
                ..
            } => {
                for one in merged {
                    let Value::Object(one) = one else { continue };
                    for (name, value) in one {
                        entries.entry(name).or_insert(value);
                    }
                }
                Value::Object(entries)
            }
        }
    }
}

/// Of how many values a value consists.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Object(entries) => 1 + entries.values().map(|one| 1 + size(one)).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

/// The value of a scalar by its tag, or else by its form.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let string = || Ok(Value::from(text));
    let resolved = || plain(text);
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => resolved(),
            _ => string(),
        };
    };
    let of_core = tag.is_yaml_core_schema();
    match tag.suffix.as_str() {
        "null" | "bool" | "int" | "float" if of_core => resolved(),
        "str" | "binary" | "timestamp" if of_core => string(),
        // `!` alone: not a plain scalar.
        "" | "!" => string(),
        other => Err(format!("the tag `{}{other}` is not supported", tag.handle)),
    }
}

/// A plain scalar of the core schema.
fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => return Err(format!("JSON has no number `{text}`")),
        _ => {}
    }
    if let Some(number) = whole(text) {
        return Ok(Value::Number(number));
    }
    Ok(match decimal(text) {
        Some(number) => Value::Number(number),
        None => Value::from(text),
    })
}

fn whole(text: &str) -> Option<Number> {
    let radix = |digits: &str, radix| u64::from_str_radix(digits, radix).ok().map(Number::from);
    let is_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8).filter(|_| is_digits(digits));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16).filter(|_| is_digits(digits));
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let digits = unsigned.strip_prefix('-').unwrap_or(unsigned);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = unsigned.parse::<u64>().map(Number::from);
    number
        .or_else(|_| unsigned.parse::<i64>().map(Number::from))
        .ok()
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn decimal(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !before.is_empty() || !after.is_empty();
    let exponent = exponent.map(|digits| digits.strip_prefix(['-', '+']).unwrap_or(digits));
    let fits = exponent.is_none_or(|digits| !digits.is_empty() && is_number(digits));
    if !has_digits || !is_number(before) || !is_number(after) || !fits {
        return None;
    }
    Number::from_f64(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        yaml("a.yaml", text).unwrap()
    }

    fn wrong(text: &str) -> String {
        yaml("a.yaml", text).unwrap_err()
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        let text = "a: [~, null, true, False, yes, 12, -7, +7, 0o17, 0x1F, 1.5, .5, 6., 1e3, -1.5E-2, 007, 1_000,\n\
                    \x20 2026-01-02, 3.0.3, 'true', \"12\", !!str 12, !!int 12, e5, '.', +, 18446744073709551615,\n\
                    \x20 99999999999999999999]\n";
        let expected = json!({"a": [null, null, true, false, "yes", 12, -7, 7, 15, 31, 1.5, 0.5, 6.0, 1000.0, -0.015, 7,
            "1_000", "2026-01-02", "3.0.3", "true", "12", "12", 12, "e5", ".", "+", 18446744073709551615_u64,
            99999999999999999999.0]});
        assert_eq!(read(text), expected);
        let blocks =
            "text: |\n  one\n  two\nfolded: >-\n  one\n  two\n? long\n: v\n200: {}\nempty:\n";
        let expected = json!({"text": "one\ntwo\n", "folded": "one two", "long": "v", "200": {}, "empty": null});
        assert_eq!(read(blocks), expected);
        assert_eq!(read("# nothing\n"), Value::Null);
        assert_eq!(read("--- 5\n...\n"), json!(5));
    }

    #[test]
    fn aliases_and_merge_keys_are_copies() {
        let text = "base: &b {x: 1, y: 2}\nmore: &m\n  z: 3\n  y: 9\none:\n  <<: *b\n  y: 5\nboth:\n  <<: [*b, *m]\nquoted:\n  '<<': 1\nlist: [*b, *b]\n";
        let whole = read(text);
        assert_eq!(whole["one"], json!({"x": 1, "y": 5}));
        assert_eq!(whole["both"], json!({"x": 1, "y": 2, "z": 3}));
        assert_eq!(whole["quoted"], json!({"<<": 1}));
        assert_eq!(whole["list"], json!([{"x": 1, "y": 2}, {"x": 1, "y": 2}]));
    }

    #[test]
    fn mistakes_have_a_place() {
        for (text, expected) in [
            (
                "a: 1\nb: 2\na: 3\n",
                "a.yaml:3:1: `a` stands twice in a mapping",
            ),
            ("a: 1\n---\nb: 2\n", "a.yaml:2:1: a second document"),
            (
                "a:\n  ? [x]\n  : 1\n",
                "a.yaml:2:5: a key that is a list or a mapping",
            ),
            ("a: &x 1\n*x : 2\n", "a.yaml:2:1: a key that is an alias"),
            ("a: .inf\n", "a.yaml:1:4: JSON has no number `.inf`"),
            ("a: !thing 1\n", "the tag `!thing` is not supported"),
            ("a:\n  <<: 5\n", "a.yaml:2:7: `<<` takes a mapping"),
            ("a: [1, 2\nb: 3\n", "a.yaml:"),
            ("a: b: c\n", "a.yaml:1:5: not YAML: "),
            ("a: *nobody\n", "a.yaml:1:4: not YAML: "),
            ("a: &x [1, *x]\n", "a.yaml:1:11: "),
            ("a: \"\\q\"\n", "a.yaml:1:"),
            ("a:\n\t- b\n", "a.yaml:2:"),
        ] {
            let error = wrong(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        let error = json("a.json", "{\n  \"a\": ]\n}").unwrap_err();
        assert_eq!(error, "a.json:2:8: not JSON: expected value");
    }

    #[test]
    fn depth_and_copies_are_limited() {
        let deep = format!(
            "{}{}",
            "[".repeat(YAML_DEPTH_MAX),
            "]".repeat(YAML_DEPTH_MAX)
        );
        assert!(yaml("a.yaml", &deep).is_ok());
        assert!(wrong(&format!("[{deep}]")).contains("within each other"));
        let blocks: String = (0..200)
            .map(|at| format!("{}a:\n", " ".repeat(at)))
            .collect();
        assert!(wrong(&blocks).contains("within each other"));
        // The parser has limits of its own.
        for open in ["[", "{a: ", "- "] {
            assert!(wrong(&open.repeat(100_000)).starts_with("a.yaml:1:"));
        }
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..40 {
            let below = format!("*a{}", level - 1);
            bomb += &format!(
                "a{level}: &a{level} [{}]\n",
                [below.as_str(); 10].join(", ")
            );
        }
        let error = wrong(&bomb);
        assert!(
            error.starts_with("a.yaml:") && error.contains("copies that aliases make"),
            "{error}"
        );
        // The same through merge keys.
        let mut bomb = String::from("a0: &a0 {x: 1}\n");
        for level in 1..60 {
            let below = level - 1;
            bomb += &format!(
                "a{level}: &a{level} {{<<: *a{below}, x{level}: *a{below}, y{level}: *a{below}}}\n"
            );
        }
        assert!(wrong(&bomb).contains("copies that aliases make"));
    }
}
