//! Access to files: open files cached per worker, site roots, and the `file` matcher. `handlers::file_server` sends
//! files.

use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use sluice_cache::{Access, Content, Facts, Found, Missing, OpenFiles};
use sluice_message::{Moment, Status, path};
use sluice_route::{Template, UnfitPath, Values};

use crate::failure::Fault;
use crate::refusal::Refusal;

pub use matcher::FileHook;

mod matcher;

thread_local! {
    /// A worker is a thread, and matchers do not know workers, so the open files are thread-local.
    static FILES: OpenFiles = OpenFiles::default();
    static PATHS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Opens the file at `path`, using the cache of this worker.
pub fn open(path: &[u8], access: impl Into<Access>, now: Moment) -> Found {
    FILES.with(|files| files.open(path, access, now))
}

/// Metadata of the file at `path`, using the cache of this worker.
pub fn facts(path: &[u8], access: impl Into<Access>, now: Moment) -> Result<Facts, Missing> {
    FILES.with(|files| files.facts(path, access, now))
}

/// The content of the file at `path` if it exists and has at most `bytes_max` bytes.
pub fn read_whole(
    path: &[u8],
    access: impl Into<Access>,
    bytes_max: u64,
    now: Moment,
) -> Option<Vec<u8>> {
    let Found::File(file) = open(path, access, now) else {
        return None;
    };
    if file.facts.size > bytes_max {
        return None;
    }
    match &file.content {
        Content::Bytes(bytes) => Some(bytes.to_vec()),
        Content::Handle(handle) => {
            let mut bytes = vec![0; file.facts.size as usize];
            handle.read_exact_at(&mut bytes, 0).ok()?;
            Some(bytes)
        }
    }
}

/// The error for a request whose values do not fit into a configured path.
pub fn unfit(UnfitPath: UnfitPath) -> Fault {
    Fault::new(Status::BAD_REQUEST, UNFIT)
}

/// The message of such an error.
pub const UNFIT: &str = "a value of the request does not fit into a path";

/// Refuses a file system other than the default, the local disk.
pub fn check_file_system(name: &str) -> Result<(), Refusal> {
    if matches!(name, "" | "default" | "{http.vars.fs}") {
        return Ok(());
    }
    let refusal = Refusal::new(format!("file system `{name}` is not known"));
    Err(refusal.with_help("`default` is the local disk; there are no others"))
}

/// Runs `f` with an empty path buffer, which is reused.
pub fn with_path<T>(f: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut path = PATHS.with_borrow_mut(Vec::pop).unwrap_or_default();
    path.clear();
    let result = f(&mut path);
    PATHS.with_borrow_mut(|paths| paths.push(path));
    result
}

/// The end of the script name in a path with path info: after the first segment that ends with the first of `endings`
/// that occurs. The endings are in lower case.
///
/// The comparison ignores case for ASCII letters only: folding other letters can change their length, and thereby which
/// part is the script name.
pub fn split_script(path: &[u8], endings: &[Vec<u8>]) -> Option<usize> {
    endings.iter().find_map(|ending| {
        let first = ending.first()?;
        let starts = memchr::memchr2_iter(*first, first.to_ascii_uppercase(), path);
        let ends = starts.filter_map(|at| {
            let end = at + ending.len();
            let is_ending = path.get(at..end)?.eq_ignore_ascii_case(ending);
            is_ending.then_some(end)
        });
        let mut ends = ends.filter(|end| matches!(path.get(*end), None | Some(b'/')));
        ends.next()
    })
}

/// The root folder of a site.
#[derive(Debug)]
pub struct Root {
    template: Template,
    /// The root, if it does not depend on the request.
    fixed: Option<Vec<u8>>,
    /// The base of a relative root: the working directory at startup.
    working_dir: Vec<u8>,
}

impl Root {
    /// Parses a configured root; an empty text means the value set by the `root` directive.
    pub fn build(text: &str) -> Result<Root, Refusal> {
        let text = if text.is_empty() {
            "{http.vars.root}"
        } else {
            text
        };
        let template = Template::parse(text)
            .map_err(|error| Refusal::new(format!("root `{text}`: {error}")))?;
        let dir = std::env::current_dir()
            .map_err(|error| Refusal::new(format!("the working folder is unknown: {error}")))?;
        let mut root = Root {
            template,
            fixed: None,
            working_dir: dir.as_os_str().as_bytes().into(),
        };
        if let Some(literal) = root.template.literal() {
            let mut fixed = Vec::new();
            root.resolve(literal, &mut fixed);
            root.fixed = Some(fixed);
        }
        Ok(root)
    }

    /// What [`Root::write`] appends, if it does not depend on the request.
    pub fn fixed(&self) -> Option<&[u8]> {
        self.fixed.as_deref()
    }

    /// Appends the root to `out`: absolute, normalized and without a trailing slash, so `/` itself is empty.
    ///
    /// # Errors
    /// A value of the request would select a folder outside the one intended by the configuration.
    pub fn write(&self, values: &dyn Values, out: &mut Vec<u8>) -> Result<(), UnfitPath> {
        match &self.fixed {
            Some(fixed) => out.extend_from_slice(fixed),
            None => with_path(|text| {
                self.template.expand_path(values, text)?;
                self.resolve(text, out);
                Ok(())
            })?,
        }
        Ok(())
    }

    fn resolve(&self, text: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        if text.starts_with(b"/") {
            path::clean(text, out);
        } else {
            with_path(|whole| {
                whole.extend_from_slice(&self.working_dir);
                whole.push(b'/');
                whole.extend_from_slice(text);
                path::clean(whole, out);
            });
        }
        if out.len() > start && out.ends_with(b"/") {
            out.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_route::Provenance;
    use sluice_route::placeholder::{Found, Key};

    struct Root0(&'static str);

    impl Values for Root0 {
        fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
            assert!(matches!(key, Key::Var(name) if &**name == "root"));
            out.extend_from_slice(self.0.as_bytes());
            Found::Known
        }

        fn provenance(&self, _: &Key) -> Provenance {
            Provenance::Configured
        }
    }

    fn written(text: &str, variable: &'static str) -> String {
        let mut out = Vec::new();
        let root = Root::build(text).unwrap();
        root.write(&Root0(variable), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn scripts_end_with_the_first_ending_that_ends_a_segment() {
        for (path, endings, expected) in [
            ("/a.php", &[".php"][..], Some(6)),
            ("/a.PhP/b", &[".php"], Some(6)),
            ("/a.phpx", &[".php"], None),
            ("/a.phpx/b.php/c.php", &[".php"], Some(13)),
            ("/a.php.php", &[".php"], Some(10)),
            ("/a.ph", &[".php"], None),
            ("", &[".php"], None),
            ("/a.php/b.cgi", &[".cgi", ".php"], Some(12)),
            ("/a.php", &["", ".php"], Some(6)),
            ("/xaaa", &["aa"], Some(5)),
            ("/xAaa/b", &["aa"], Some(5)),
            ("/run", &["run"], Some(4)),
            ("/a.php", &[], None),
        ] {
            let endings: Vec<Vec<u8>> = endings.iter().map(|text| text.as_bytes().into()).collect();
            assert_eq!(split_script(path.as_bytes(), &endings), expected, "{path}");
        }
    }

    #[test]
    fn roots_are_absolute_and_clean() {
        let here = std::env::current_dir().unwrap().display().to_string();
        assert_eq!(written("/srv/www/", ""), "/srv/www");
        assert_eq!(written("/srv//a/../www", ""), "/srv/www");
        assert_eq!(written("/", ""), "");
        assert_eq!(written("www", ""), format!("{here}/www"));
        assert_eq!(written("", "/srv/x/"), "/srv/x");
        assert_eq!(written("", "."), here);
        assert_eq!(written("", ""), here);
    }
}
