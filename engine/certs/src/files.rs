//! Certificates in files that somebody else renews: reading them, and noticing when they have changed. Which files, is
//! left to the configuration.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use crate::failure::{CertsError, Notice};
use crate::limits::FOLDER_DEPTH_MAX;
use crate::pair::Pair;
use crate::sealed::Passwords;
use crate::store::CertStore;

/// A certificate and its key in files; the same twice where one holds both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFile {
    /// The file of the chain.
    pub certificate: PathBuf,
    /// The file of the key.
    pub key: PathBuf,
    /// Names by which policies choose it.
    pub tags: Vec<String>,
    /// What opens the key where it is protected.
    pub passwords: Arc<Passwords>,
    /// The file of what its authority says of it; none when empty.
    pub staple: PathBuf,
    /// Who is asked for that, in place of whom it names; empty for that one.
    pub responder: String,
}

impl PairFile {
    /// Reads and checks it.
    pub fn load(&self) -> Result<Arc<Pair>, CertsError> {
        let pair = Pair::from_files(&self.certificate, &self.key, &self.passwords)?;
        let pair = match self.staple.as_os_str().is_empty() {
            true => pair,
            false => pair.stapled(&self.staple)?,
        };
        Ok(Arc::new(Pair {
            tags: self.tags.clone(),
            responder: self.responder.clone(),
            ..pair
        }))
    }

    /// What changes when somebody writes the files; `None` where they cannot be seen.
    fn stamp(&self) -> Option<Stamp> {
        let one = |path: &Path| {
            let about = fs::metadata(path).ok()?;
            Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
        };
        Some([one(&self.certificate)?, one(&self.key)?])
    }
}

/// The number, the length and the time of two files.
type Stamp = [(u64, u64, i64, i64); 2];

/// The bundles (`*.pem`, certificate and key in one file) in a folder and those below it, in order.
pub fn bundles(folder: &Path) -> Result<Vec<PairFile>, CertsError> {
    let mut found = BTreeSet::new();
    walk(folder, FOLDER_DEPTH_MAX, &mut found)?;
    let bundle = |path: PathBuf| PairFile {
        certificate: path.clone(),
        key: path,
        tags: Vec::new(),
        passwords: Arc::default(),
        staple: PathBuf::new(),
        responder: String::new(),
    };
    Ok(found.into_iter().map(bundle).collect())
}

fn walk(folder: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) -> Result<(), CertsError> {
    let io = |source| CertsError::io("read", folder, source);
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.is_dir() && depth > 0 {
            walk(&path, depth - 1, found)?;
        } else if path.extension().is_some_and(|ending| ending == "pem") && path.is_file() {
            found.insert(path);
        }
    }
    Ok(())
}

/// The files of one configuration, and the store that shows them.
pub struct WatchedFiles {
    store: Weak<CertStore>,
    files: Mutex<Vec<Watched>>,
}

struct Watched {
    file: PairFile,
    pair: Arc<Pair>,
    /// `None` where the next look has to read it.
    stamp: Option<Stamp>,
}

impl WatchedFiles {
    /// Watches files that were read just now and are shown by `store`.
    pub fn new(files: Vec<(PairFile, Arc<Pair>)>, store: &Arc<CertStore>) -> WatchedFiles {
        // The first look reads them again: they may have changed while they were read.
        let watched = |(file, pair): (PairFile, Arc<Pair>)| Watched {
            file,
            pair,
            stamp: None,
        };
        WatchedFiles {
            store: Arc::downgrade(store),
            files: Mutex::new(files.into_iter().map(watched).collect()),
        }
    }

    /// Shows what has changed since the last look. Files that do not belong together, as while they are written, are
    /// looked at again; until then the old certificate is shown.
    pub fn refresh(&self) -> Vec<Notice> {
        let Some(store) = self.store.upgrade() else {
            return Vec::new();
        };
        let mut notices = Vec::new();
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        for watched in files.iter_mut() {
            let stamp = watched.file.stamp();
            if stamp.is_none() || stamp == watched.stamp {
                continue;
            }
            watched.stamp = stamp;
            let origin = watched.pair.origin.clone();
            match watched.file.load() {
                Ok(pair) if pair.certified.cert == watched.pair.certified.cert => {}
                Ok(pair) => {
                    store.replace(&watched.pair, &pair);
                    notices.extend(pair.notices(SystemTime::now()));
                    notices.push(Notice::FileRead { origin });
                    watched.pair = pair;
                }
                Err(error) => notices.push(Notice::FileUnusable {
                    origin,
                    why: error.to_string(),
                }),
            }
        }
        notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Fallback;
    use crate::tests::{TempFolder, TestCa};

    #[test]
    fn renewed_files_are_shown_and_half_written_ones_are_not() {
        let (folder, test) = (TempFolder::new(), TestCa::new());
        let file = PairFile {
            certificate: folder.path().join("a.crt"),
            key: folder.path().join("a.key"),
            tags: vec!["x".to_owned()],
            passwords: Arc::default(),
            staple: PathBuf::new(),
            responder: String::new(),
        };
        let write = |subject: &str| {
            let made = test.issue(subject);
            fs::write(&file.certificate, &made.certificate).unwrap();
            made.key
        };
        fs::write(&file.key, write("a.test")).unwrap();
        let (first, other) = (file.load().unwrap(), test.pair("other.test"));
        let store = CertStore::new([first.clone(), other.clone()]);
        let watched = WatchedFiles::new(vec![(file.clone(), first.clone())], &store);
        let shown = |name: &str| {
            let chosen = store.choose(Some(name), None, &Fallback::default(), |_| true);
            chosen.unwrap().cert[0].clone()
        };
        assert_eq!(watched.refresh(), []);
        let key = write("b.test");
        let notices = watched.refresh();
        assert!(
            matches!(notices[..], [Notice::FileUnusable { .. }]),
            "{notices:?}"
        );
        assert_eq!(shown("a.test"), first.certified.cert[0]);
        assert_eq!(watched.refresh(), [], "said once");
        fs::write(&file.key, key).unwrap();
        assert!(matches!(watched.refresh()[..], [Notice::FileRead { .. }]));
        assert_ne!(shown("b.test"), first.certified.cert[0]);
        assert_eq!(shown("other.test"), other.certified.cert[0]);
        assert_eq!(store.len(), 2);
        // The first of the configuration is still shown to whoever names nobody.
        assert_eq!(shown("nobody.test"), shown("b.test"));
        fs::remove_file(&file.key).unwrap();
        assert_eq!(watched.refresh(), [], "what is gone is shown on");
    }

    #[test]
    fn bundles_are_found_below_a_folder() {
        let folder = TempFolder::new();
        fs::create_dir_all(folder.path().join("sub/deeper")).unwrap();
        for name in ["b.pem", "a.pem", "sub/c.pem", "sub/deeper/d.pem", "e.crt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = bundles(folder.path()).unwrap();
        let names: Vec<_> = found
            .iter()
            .filter_map(|file| file.certificate.file_name()?.to_str())
            .collect();
        assert_eq!(names, ["a.pem", "b.pem", "c.pem", "d.pem"]);
        assert!(bundles(&folder.path().join("none")).is_err());
    }
}
