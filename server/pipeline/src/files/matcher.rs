//! The `file` matcher: selects a file that exists from several candidates.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use sluice_cache::{Facts, Kind, Reach};
use sluice_message::{Moment, Status, path};
use sluice_model::matcher::FileMatcher;
use sluice_net::clock;
use sluice_route::glob::Glob;
use sluice_route::matcher::{Hook, Input};
use sluice_route::placeholder::Unknown;
use sluice_route::scratch::FoundFile;
use sluice_route::{Template, Values, matcher};

use super::{Root, facts, split_script, with_path};
use crate::refusal::Refusal;

use crate::limits::GLOB_ENTRIES_MAX;

/// Matches if one of the candidates exists, and records which.
#[derive(Debug)]
pub struct FileHook {
    root: Root,
    candidates: Vec<Candidate>,
    policy: Policy,
    split: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Candidate {
    /// `=404`: fails the request with that status.
    Refuse(Status),
    Path(Pattern),
}

#[derive(Debug)]
struct Pattern {
    template: Template,
    /// A trailing slash requires a folder.
    kind: Wanted,
    /// Whether the configured text contains wildcards. Wildcards in placeholder values do not count.
    wild: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    File,
    Directory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    FirstExisting,
    /// Like `first_exist`, but the last candidate matches whether it exists or not.
    FirstExistingElseLast,
    Smallest,
    Largest,
    Latest,
}

/// A candidate that exists.
struct Hit {
    found: FoundFile,
    facts: Facts,
}

impl FileHook {
    /// Compiles the matcher of a configuration.
    pub fn build(config: &FileMatcher) -> Result<FileHook, Refusal> {
        super::check_file_system(&config.fs)?;
        let policy = match config.try_policy.as_str() {
            "" | "first_exist" => Policy::FirstExisting,
            "first_exist_fallback" => Policy::FirstExistingElseLast,
            "smallest_size" => Policy::Smallest,
            "largest_size" => Policy::Largest,
            "most_recently_modified" => Policy::Latest,
            other => {
                let known = "first_exist, first_exist_fallback, smallest_size, largest_size or \
                             most_recently_modified";
                return Err(Refusal::new(format!("unknown `try_policy` `{other}`"))
                    .with_help(format!("write {known}")));
            }
        };
        let mut candidates = Vec::new();
        for text in &config.try_files {
            candidates.push(Candidate::build(text)?);
        }
        if candidates.is_empty() {
            candidates.push(Candidate::build("{http.request.uri.path}")?);
        }
        let split = config
            .split_path
            .iter()
            .map(|text| text.to_ascii_lowercase().into())
            .collect();
        Ok(FileHook {
            root: Root::build(&config.root)?,
            candidates,
            policy,
            split,
        })
    }

    fn choose(
        &self,
        values: &dyn Values,
        now: Moment,
    ) -> Result<Option<FoundFile>, matcher::Refusal> {
        let mut best: Option<Hit> = None;
        for (at, candidate) in self.candidates.iter().enumerate() {
            let pattern = match candidate {
                // Policies that compare all candidates ignore statuses.
                Candidate::Refuse(_) if !self.policy.takes_first() => continue,
                Candidate::Refuse(status) => return Err(matcher::Refusal::asked_for(*status)),
                Candidate::Path(pattern) => pattern,
            };
            let is_last = at + 1 == self.candidates.len();
            // As in Caddy, the last one is taken without a look: the files may be on another machine. Only what a
            // wildcard stands for is looked up.
            let falls_back = is_last && self.policy == Policy::FirstExistingElseLast;
            if falls_back && !pattern.wild {
                return Ok(self.assume(pattern, values));
            }
            let done = self.look(pattern, values, now, &mut |hit: Hit| match self.policy {
                Policy::FirstExisting | Policy::FirstExistingElseLast => {
                    if !falls_back && !pattern.kind.is(hit.facts.kind) {
                        return ControlFlow::Continue(());
                    }
                    best = Some(hit);
                    ControlFlow::Break(())
                }
                Policy::Smallest | Policy::Largest | Policy::Latest => {
                    if best
                        .as_ref()
                        .is_none_or(|best| self.policy.prefers(&hit.facts, &best.facts))
                    {
                        best = Some(hit);
                    }
                    ControlFlow::Continue(())
                }
            });
            if done.is_break() {
                break;
            }
            if falls_back {
                return Ok(self.assume(pattern, values));
            }
        }
        Ok(best.map(|hit| hit.found))
    }

    /// The file that `pattern` names, whether or not it exists; `None` if a value does not fit into the path.
    fn assume(&self, pattern: &Pattern, values: &dyn Values) -> Option<FoundFile> {
        let (mut text, mut full) = (Vec::new(), Vec::new());
        pattern.template.expand_path(values, &mut text).ok()?;
        self.root.write(values, &mut full).ok()?;
        let root_len = full.len();
        path::clean(&text, &mut full);
        let end = split_script(&full[root_len..], &self.split);
        let remainder = end.map(|end| full.split_off(root_len + end));
        if pattern.kind == Wanted::File && names_folder(&full[root_len..]) {
            full.pop();
        }
        Some(FoundFile {
            relative: full[root_len..].to_vec(),
            absolute: full,
            is_dir: false,
            remainder: remainder.unwrap_or_default(),
        })
    }

    /// Calls `each` with every existing file that matches `pattern`.
    fn look(
        &self,
        pattern: &Pattern,
        values: &dyn Values,
        now: Moment,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if pattern.wild {
            return self.look_wild(pattern, values, now, each);
        }
        with_path(|text| {
            // If a value does not fit into the path, the file does not exist.
            if pattern.template.expand_path(values, text).is_err() {
                return ControlFlow::Continue(());
            }
            with_path(|full| {
                if self.root.write(values, full).is_err() {
                    return ControlFlow::Continue(());
                }
                let root_len = full.len();
                path::clean(text, full);
                let end = split_script(&full[root_len..], &self.split);
                let remainder = end.map(|end| full.split_off(root_len + end));
                let remainder = remainder.unwrap_or_default();
                if pattern.kind == Wanted::File && names_folder(&full[root_len..]) {
                    return ControlFlow::Continue(());
                }
                self.try_path(full, root_len, pattern.kind, remainder, now, each)
            })
        })
    }

    /// Like `look`, for a pattern with wildcards.
    fn look_wild(
        &self,
        pattern: &Pattern,
        values: &dyn Values,
        now: Moment,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut root, mut plain) = (Vec::new(), Vec::new());
        let fits = self.root.write(values, &mut root);
        if fits
            .and(pattern.template.expand_path(values, &mut plain))
            .is_err()
        {
            return ControlFlow::Continue(());
        }
        let mut escaped = Vec::new();
        pattern
            .template
            .expand_each(values, Unknown::Empty, &mut escaped, |_, out, start| {
                let value = out.split_off(start);
                for byte in value {
                    if b"*?[]\\".contains(&byte) {
                        out.push(b'\\');
                    }
                    out.push(byte);
                }
            });
        let mut clean = Vec::new();
        path::clean(&escaped, &mut clean);
        let end = split_script(&clean, &self.split);
        let remainder = end.map(|end| clean.split_off(end)).unwrap_or_default();
        if pattern.kind == Wanted::File && names_folder(&clean) {
            return ControlFlow::Continue(());
        }
        let mut budget = GLOB_ENTRIES_MAX;
        for name in expand_names(&root, &clean, &mut budget) {
            self.try_path(
                &name,
                root.len(),
                pattern.kind,
                remainder.clone(),
                now,
                each,
            )?;
        }
        ControlFlow::Continue(())
    }

    fn try_path(
        &self,
        full: &[u8],
        root_len: usize,
        wanted: Wanted,
        remainder: Vec<u8>,
        now: Moment,
        each: &mut dyn FnMut(Hit) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Ok(facts) = facts(full, Reach::Anywhere, now) else {
            return ControlFlow::Continue(());
        };
        let mut absolute = full.strip_suffix(b"/").unwrap_or(full).to_vec();
        if wanted == Wanted::Directory {
            absolute.push(b'/');
        }
        let relative = absolute[root_len.min(absolute.len())..].to_vec();
        let is_dir = facts.kind == Kind::Directory;
        each(Hit {
            found: FoundFile {
                relative,
                absolute,
                is_dir,
                remainder,
            },
            facts,
        })
    }
}

impl Hook for FileHook {
    fn matches(&self, input: &Input<'_>) -> Result<bool, matcher::Refusal> {
        let Some(found) = self.choose(input.values, clock::now())? else {
            return Ok(false);
        };
        input.scratch.found_file(found);
        Ok(true)
    }

    fn name(&self) -> &'static str {
        "file"
    }
}

impl Candidate {
    fn build(text: &str) -> Result<Candidate, Refusal> {
        if let Some(code) = text.strip_prefix('=')
            && let Ok(code) = code.parse::<u16>()
        {
            let status = Status::new(code).filter(|status| status.is_error());
            return status
                .map(Candidate::Refuse)
                .ok_or_else(|| Refusal::new(format!("`={code}` is not an error status")));
        }
        let template = Template::parse(text)
            .map_err(|error| Refusal::new(format!("file `{text}`: {error}")))?;
        let kind = if text.ends_with('/') {
            Wanted::Directory
        } else {
            Wanted::File
        };
        let wild = template.plain_bytes().any(|byte| b"*?[".contains(&byte));
        Ok(Candidate::Path(Pattern {
            template,
            kind,
            wild,
        }))
    }
}

impl Wanted {
    fn is(self, kind: Kind) -> bool {
        (self == Wanted::Directory) == (kind == Kind::Directory)
    }
}

impl Policy {
    fn takes_first(self) -> bool {
        matches!(self, Policy::FirstExisting | Policy::FirstExistingElseLast)
    }

    /// Whether to prefer `new` over `best`.
    fn prefers(self, new: &Facts, best: &Facts) -> bool {
        match self {
            Policy::Smallest => new.size < best.size,
            Policy::Largest => new.size > best.size,
            Policy::Latest => new.modified > best.modified,
            Policy::FirstExisting | Policy::FirstExistingElseLast => false,
        }
    }
}

/// Whether a path ends with a slash, so that it does not name a file. The root is named by its slash alone.
fn names_folder(path: &[u8]) -> bool {
    path.len() > 1 && path.ends_with(b"/")
}

/// The existing paths below `root` that match the normalized `pattern`, segment by segment, sorted. Examines at most
/// `budget` names.
fn expand_names(root: &[u8], pattern: &[u8], budget: &mut usize) -> Vec<Vec<u8>> {
    let mut found = vec![root.to_vec()];
    for segment in pattern
        .split(|&b| b == b'/')
        .filter(|segment| !segment.is_empty())
    {
        let Ok(text) = std::str::from_utf8(segment) else {
            return Vec::new();
        };
        let Ok(glob) = Glob::parse(text) else {
            return Vec::new();
        };
        let mut next = Vec::new();
        for folder in &found {
            names_in(folder, &glob, budget, &mut next);
        }
        found = next;
    }
    found
}

fn names_in(folder: &[u8], glob: &Glob, budget: &mut usize, found: &mut Vec<Vec<u8>>) {
    let folder_path = if folder.is_empty() { b"/" } else { folder };
    let folder_path = std::path::Path::new(std::ffi::OsStr::from_bytes(folder_path));
    let Ok(entries) = std::fs::read_dir(folder_path) else {
        return;
    };
    let first = found.len();
    for entry in entries.flatten() {
        if *budget == 0 {
            break;
        }
        *budget -= 1;
        let name = entry.file_name();
        if glob.matches(name.as_bytes()) {
            found.push([folder, b"/", name.as_bytes()].concat());
        }
    }
    found[first..].sort();
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_route::placeholder::{Found, Key};

    struct Path(&'static str);

    impl Values for Path {
        fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
            match key {
                Key::Path => out.extend_from_slice(self.0.as_bytes()),
                _ => return Found::Unknown,
            }
            Found::Known
        }
    }

    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let dir =
                std::env::temp_dir().join(format!("sluice-try-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(dir.join("sub")).unwrap();
            for (name, content) in [
                ("big.txt", "0123456789"),
                ("a.php", "php"),
                ("index.html", "home"),
                ("sub/index.html", "sub"),
                ("star*.x", "s"),
            ] {
                std::fs::write(dir.join(name), content).unwrap();
            }
            Folder(dir)
        }

        fn matcher(&self, files: &[&str], policy: &str, split: &[&str]) -> FileHook {
            let list = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
            let config = FileMatcher {
                root: self.0.display().to_string(),
                try_files: list(files),
                try_policy: policy.into(),
                split_path: list(split),
                ..Default::default()
            };
            FileHook::build(&config).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn found(matcher: &FileHook, path: &'static str) -> Option<(String, bool, String)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let found = matcher.choose(&Path(path), clock::now()).unwrap()?;
        assert!(found.absolute.ends_with(&found.relative));
        Some((text(found.relative), found.is_dir, text(found.remainder)))
    }

    fn file(relative: &str) -> Option<(String, bool, String)> {
        Some((relative.into(), false, String::new()))
    }

    const PATH: &str = "{http.request.uri.path}";

    #[test]
    fn the_first_existing_candidate_of_the_right_kind_is_taken() {
        let folder = Folder::new("first");
        let files = [PATH, "{http.request.uri.path}/", "/index.html"];
        let matcher = folder.matcher(&files, "", &[]);
        assert_eq!(found(&matcher, "/big.txt"), file("/big.txt"));
        assert_eq!(
            found(&matcher, "/sub"),
            Some(("/sub/".into(), true, String::new()))
        );
        assert_eq!(found(&matcher, "/none"), file("/index.html"));
        assert_eq!(found(&matcher, "/../../big.txt"), file("/big.txt"));
        assert_eq!(found(&matcher, "/a\0b"), file("/index.html"));
        let alone = folder.matcher(&[], "first_exist", &[]);
        assert_eq!(found(&alone, "/big.txt/"), None);
        assert_eq!(found(&alone, "/big.txt/./"), None);
        assert_eq!(found(&alone, "/sub"), None);
        assert_eq!(found(&alone, "/big.txt/x"), None);
    }

    #[test]
    fn a_status_ends_the_list() {
        let folder = Folder::new("status");
        let matcher = folder.matcher(&[PATH, "=404"], "", &[]);
        let refused = matcher.choose(&Path("/none"), clock::now()).unwrap_err();
        assert_eq!(refused.status, Status::NOT_FOUND);
        assert_eq!(found(&matcher, "/big.txt"), file("/big.txt"));
        let config = FileMatcher {
            try_files: vec!["=200".into()],
            ..Default::default()
        };
        assert!(FileHook::build(&config).is_err());
    }

    #[test]
    fn scripts_are_split_from_what_follows_them() {
        let folder = Folder::new("split");
        let matcher = folder.matcher(&[PATH], "", &[".php"]);
        assert_eq!(
            found(&matcher, "/a.php/x/y"),
            Some(("/a.php".into(), false, "/x/y".into()))
        );
        assert_eq!(found(&matcher, "/a.php"), file("/a.php"));
        assert_eq!(found(&matcher, "/a.phpx/y"), None);
        assert_eq!(found(&matcher, "/none.php/a.php"), None);
        // The Kelvin sign folds to `k`, which is shorter and would shift the offset.
        assert_eq!(found(&matcher, "/\u{212a}.php/a.php"), None);
    }

    #[test]
    fn sizes_and_times_decide_where_asked_to() {
        let folder = Folder::new("sizes");
        let old = std::fs::File::options()
            .append(true)
            .open(folder.0.join("a.php"))
            .unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        let files = ["/a.php", "/big.txt", "/none", "=404"];
        assert_eq!(
            found(&folder.matcher(&files, "smallest_size", &[]), "/"),
            file("/a.php")
        );
        assert_eq!(
            found(&folder.matcher(&files, "largest_size", &[]), "/"),
            file("/big.txt")
        );
        let latest = folder.matcher(&files, "most_recently_modified", &[]);
        assert_eq!(found(&latest, "/"), file("/big.txt"));
        assert!(
            FileHook::build(&FileMatcher {
                try_policy: "newest".into(),
                ..Default::default()
            })
            .is_err()
        );
    }

    #[test]
    fn wildcards_count_only_where_the_configuration_has_them() {
        let folder = Folder::new("wild");
        let matcher = folder.matcher(&[PATH, "/s*b/*.html"], "", &[]);
        assert_eq!(found(&matcher, "/none"), file("/sub/index.html"));
        assert_eq!(found(&matcher, "/b*.txt"), file("/sub/index.html"));
        assert_eq!(found(&matcher, "/star*.x"), file("/star*.x"));
        let mixed = folder.matcher(&["{http.request.uri.path}*"], "", &[]);
        assert_eq!(found(&mixed, "/big"), file("/big.txt"));
        assert_eq!(found(&mixed, "/*"), None);
    }

    #[test]
    fn the_last_of_a_fallback_list_is_taken_even_if_it_does_not_exist() {
        let folder = Folder::new("fallback");
        for last in ["/sub", "/nothing.php"] {
            let matcher = folder.matcher(&[PATH, last], "first_exist_fallback", &[]);
            let expected = (last.into(), false, String::new());
            assert_eq!(found(&matcher, "/none"), Some(expected));
        }
        let split = folder.matcher(&["/app.php/rest"], "first_exist_fallback", &[".php"]);
        let expected = ("/app.php".into(), false, "/rest".into());
        assert_eq!(found(&split, "/none"), Some(expected));
        for (wild, expected) in [("/nothing*", "/nothing*"), ("/s*b", "/sub")] {
            let wild = folder.matcher(&[wild], "first_exist_fallback", &[]);
            let found = found(&wild, "/none").map(|(relative, ..)| relative);
            assert_eq!(found.as_deref(), Some(expected));
        }
        let slash = folder.matcher(&[PATH], "first_exist_fallback", &[]);
        assert_eq!(found(&slash, "/gone/"), file("/gone"));
    }
}
