//! Certificate files that other programs renew: reads them and detects changes. The configuration selects the files.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use crate::encrypted_keys::Passwords;
use crate::failure::{CertsError, Notice};
use crate::limits::FOLDER_DEPTH_MAX;
use crate::pair::Pair;
use crate::store::CertStore;

/// Files with a certificate and its key; the same path twice if one file contains both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFile {
    /// The certificate chain file.
    pub certificate: PathBuf,
    /// The key file.
    pub key: PathBuf,
    /// Tags by which policies select it.
    pub tags: Vec<String>,
    /// The passwords for an encrypted key.
    pub passwords: Arc<Passwords>,
    /// The file with an OCSP response to staple; empty for none.
    pub staple: PathBuf,
    /// The URL of the OCSP responder, instead of the one in the certificate; empty for the latter.
    pub responder: String,
}

impl PairFile {
    /// Reads and checks the files.
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

    /// Metadata that changes when the files are written; `None` if it cannot be read.
    fn stamp(&self) -> Option<Stamp> {
        let one = |path: &Path| {
            let about = fs::metadata(path).ok()?;
            Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
        };
        Some([one(&self.certificate)?, one(&self.key)?])
    }
}

/// Inode, length and modification time of both files.
type Stamp = [(u64, u64, i64, i64); 2];

/// The bundles (`*.pem`, certificate and key in one file) in a directory and its subdirectories, in order.
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

/// The certificate files of a configuration, and the store that serves them.
pub struct WatchedFiles {
    store: Weak<CertStore>,
    files: Mutex<Vec<Watched>>,
}

struct Watched {
    file: PairFile,
    pair: Arc<Pair>,
    /// `None` if the next check has to read the files.
    stamp: Option<Stamp>,
}

impl WatchedFiles {
    /// Watches files that were just read and are served by `store`.
    pub fn new(files: Vec<(PairFile, Arc<Pair>)>, store: &Arc<CertStore>) -> WatchedFiles {
        // The first check reads the files again: they may have changed while they were read.
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

    /// Serves what has changed since the last check. Files that do not belong together, as while they are being
    /// replaced, are checked again; until then the old certificate is served.
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
            let chosen = store.choose(
                Some(name),
                None,
                &Fallback::default(),
                crate::selection::Unmatched::Any,
                |_| true,
            );
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
        // The first certificate of the configuration remains the default.
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
