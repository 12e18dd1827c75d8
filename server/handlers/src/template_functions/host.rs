//! Template functions that need the request, files, digests or the server.

use std::rc::Rc;

use sluice_message::Status;
use sluice_message::hex::hex_text;
use sluice_route::{Found, Key, Values};
use sluice_template::host::{HostCall, Outcome};
use sluice_template::{
    Delimiters, Fault, Host, Object, Program, Room, Text, Time, Value, Zone, parse,
};

use super::files::Files;
use super::request::{Page, Shared};
use super::{front_matter, humanize, markdown, zones};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::values::At;

/// The functions, sorted, with their minimum and maximum number of arguments.
const FUNCTIONS: &[(&str, usize, usize)] = &[
    ("env", 1, 1),
    ("expandenv", 1, 1),
    ("fileExists", 1, 1),
    ("fileStat", 1, 1),
    ("httpError", 1, 1),
    ("httpInclude", 1, 1),
    ("humanize", 2, 2),
    ("import", 1, 1),
    ("include", 1, 200),
    ("listFiles", 1, 1),
    ("markdown", 1, 1),
    ("maybe", 1, 200),
    ("pathEscape", 1, 1),
    ("ph", 1, 1),
    ("placeholder", 1, 1),
    ("readFile", 1, 1),
    ("sha1sum", 1, 1),
    ("sha256sum", 1, 1),
    ("sha512sum", 1, 1),
    ("splitFrontMatter", 1, 1),
    ("stripHTML", 1, 1),
];

/// State shared by the functions of one page.
pub struct Functions<'a> {
    pub exchange: &'a Exchange,
    pub shared: Rc<Shared>,
    pub files: Files,
    pub delimiters: Delimiters<'a>,
    /// The URI that `httpInclude` needs next.
    pub wanted: Option<Text>,
}

impl Functions<'_> {
    /// Parses a text that the page uses as a template.
    pub fn program(&self, name: &str, source: &[u8]) -> Result<Rc<Program>, Fault> {
        parse(source, self.delimiters, self)
            .map(Rc::new)
            .map_err(|error| Fault::failed(format_args!("`{name}`, {error}")))
    }

    fn include(&mut self, call: &mut HostCall<'_>) -> Result<Outcome, Fault> {
        let name = call.text(0)?.clone();
        let source = self.files.read(&name, call.room)?;
        let program = self.program(&name.lossy(), &source)?;
        let dot = Page::dot(&self.shared, &call.args[1..]);
        Ok(Outcome::Run(program, dot))
    }

    fn import(&mut self, call: &mut HostCall<'_>) -> Result<Outcome, Fault> {
        let name = call.text(0)?.clone();
        let source = self.files.read(&name, call.room)?;
        self.program(&name.lossy(), &source).map(Outcome::Import)
    }

    fn simple(&self, function: &str, call: &mut HostCall<'_>) -> Result<Value, Fault> {
        let text = match function {
            "markdown" => shown(&call.args[0], call.room)?,
            "httpError" => return http_error(&call.args[0]),
            _ => call.text(0)?.clone(),
        };
        let made = match function {
            "env" => self.env(&text.lossy()).unwrap_or_default().into_bytes(),
            "expandenv" => expand_env(&text.lossy()).into_bytes(),
            "fileExists" => return Ok(Value::Bool(self.files.exists(&text))),
            "fileStat" => return self.files.facts(&text),
            "humanize" => {
                humanized(&text.lossy(), &call.text(1)?.lossy(), self.now())?.into_bytes()
            }
            "listFiles" => return self.files.list(&text, call.room),
            "markdown" => markdown::render(&text.lossy(), call.room)?.into_bytes(),
            // As in Caddy without plugins, there are no additional functions, so the result is empty.
            "maybe" => Vec::new(),
            "pathEscape" => humanize::path_escaped(text.as_bytes()),
            "ph" | "placeholder" => self.placeholder(&text.lossy()),
            "readFile" => self.files.read(&text, call.room)?,
            "splitFrontMatter" => {
                let document = front_matter::split(text.as_bytes(), call.room)?;
                return Ok(Value::Object(Rc::new(Document {
                    meta: document.meta,
                    body: Text::new(document.body),
                })));
            }
            "stripHTML" => humanize::without_tags(&text.lossy()).into_bytes(),
            other => digest(other, text.as_bytes())?.into_bytes(),
        };
        call.room.take(made.len())?;
        Ok(Value::text(made))
    }

    /// The value of a placeholder. It is data: placeholders and actions in it are not expanded.
    fn placeholder(&self, name: &str) -> Vec<u8> {
        let mut value = Vec::new();
        match At(self.exchange).value(&Key::parse(name), &mut value) {
            Found::Known => value,
            Found::Unknown => Vec::new(),
        }
    }
}

impl Host for Functions<'_> {
    fn has(&self, function: &str) -> bool {
        FUNCTIONS
            .binary_search_by_key(&function, |(name, ..)| name)
            .is_ok()
    }

    fn call(&mut self, function: &str, call: &mut HostCall<'_>) -> Result<Outcome, Fault> {
        let row = FUNCTIONS.iter().find(|(name, ..)| *name == function);
        let (name, min, max) = row.ok_or_else(|| Fault::UnknownFunction(function.into()))?;
        call.expect(name, *min, *max)?;
        match function {
            "include" => self.include(call),
            "import" => self.import(call),
            "httpInclude" => {
                self.wanted = Some(call.text(0)?.clone());
                Ok(Outcome::Later)
            }
            _ => self.simple(function, call).map(Outcome::Value),
        }
    }

    fn now(&self) -> Time {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let mut time = Time::from_unix(now.as_secs() as i64);
        time.nanos = now.subsec_nanos();
        time
    }

    fn zone(&self, name: &str, seconds: i64) -> Option<Zone> {
        zones::find(name, seconds)
    }

    fn random(&self) -> u64 {
        // Pages use it for tokens, so it has to be unpredictable.
        let mut bytes = [0; 8];
        aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random bytes");
        u64::from_ne_bytes(bytes)
    }

    fn env(&self, name: &str) -> Option<String> {
        let value = std::env::var_os(name)?;
        Some(value.to_string_lossy().into_owned())
    }
}

/// The result of `splitFrontMatter`.
struct Document {
    meta: Value,
    body: Text,
}

impl Object for Document {
    fn type_name(&self) -> &'static str {
        "templates.parsedMarkdownDoc"
    }

    fn member(&self, name: &str, args: &[Value], _room: &mut Room) -> Result<Option<Value>, Fault> {
        Ok(match (name, args) {
            ("Meta", []) => Some(self.meta.clone()),
            ("Body", []) => Some(Value::Text(self.body.clone())),
            _ => None,
        })
    }

    fn plain(&self) -> Value {
        Value::Text(self.body.clone())
    }
}

fn shown(value: &Value, room: &mut Room) -> Result<Text, Fault> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        other => {
            let mut out = Vec::new();
            sluice_template::show(other, &mut out, room)?;
            Ok(Text::new(out))
        }
    }
}

/// Ends the page with an error response.
fn http_error(status: &Value) -> Result<Value, Fault> {
    let code = match status {
        Value::Int(code, _) => u16::try_from(*code).ok(),
        _ => None,
    };
    let code = code.filter(|code| Status::new(*code).is_some());
    Err(code.map_or(Fault::failed("`httpError` needs a status"), Fault::Status))
}

fn humanized(form: &str, text: &str, now: Time) -> Result<String, Fault> {
    let (form, layout) = form.split_once(':').unwrap_or((form, ""));
    match form {
        "size" => {
            let bytes = text
                .parse()
                .map_err(|_| Fault::failed("the size is not a number"))?;
            Ok(humanize::size(bytes))
        }
        "time" => {
            let layout = if layout.is_empty() {
                "Mon, 02 Jan 2006 15:04:05 -0700"
            } else {
                layout
            };
            let time = sluice_template::time::parse(layout, text, Zone::UTC);
            let time = time.ok_or(Fault::failed("the time does not fit its layout"))?;
            Ok(humanize::age(time.seconds, now.seconds))
        }
        _ => Err(Fault::failed("`humanize` knows `size` and `time`")),
    }
}

/// Replaces `$NAME` and `${NAME}` in `text` by environment variables.
fn expand_env(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (name, after) = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some(braced) => braced,
            None => {
                let end = match rest.bytes().next() {
                    // As in a shell, these are single-character names.
                    Some(byte) if b"*#$@!?-0123456789".contains(&byte) => 1,
                    _ => rest
                        .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                        .unwrap_or(rest.len()),
                };
                rest.split_at(end)
            }
        };
        if name.is_empty() {
            out.push('$');
        } else if let Some(value) = std::env::var_os(name) {
            out.push_str(&value.to_string_lossy());
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn digest(function: &str, text: &[u8]) -> Result<String, Fault> {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};
    let algorithm = match function {
        "sha1sum" => &SHA1_FOR_LEGACY_USE_ONLY,
        "sha256sum" => &SHA256,
        "sha512sum" => &SHA512,
        other => return Err(Fault::UnknownFunction(other.into())),
    };
    let digest = digest(algorithm, text);
    Ok(hex_text(digest.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(FUNCTIONS.is_sorted_by_key(|(name, ..)| name));
    }

    #[test]
    fn variables_of_the_environment_are_put_in() {
        assert_eq!(
            expand_env("a$ b ${NO_SUCH_NAME}c$NO_SUCH_NAME-d$$e"),
            "a$ b c-de"
        );
        let home = std::env::var("PATH").unwrap();
        assert_eq!(expand_env("${PATH}:x"), format!("{home}:x"));
    }

    #[test]
    fn digests_are_hexadecimal() {
        assert_eq!(
            digest("sha1sum", b"a").unwrap(),
            "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"
        );
        assert!(digest("md5sum", b"a").is_err());
    }
}
