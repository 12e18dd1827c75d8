//! Deletes certificates that expired long ago, with their keys. Certificates in use are renewed earlier, so this
//! affects only names that were removed from the configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::failure::CertsError;
use crate::limits::CLEAN_GRACE;
use crate::pair::{Facts, chain_from_pem};
use crate::storage::{Storage, read_file};

/// Records when the storage was last cleaned, for all processes that share it and for Caddy.
const LAST: &str = "last_clean.json";

impl Storage {
    /// Deletes certificates that expired more than [`CLEAN_GRACE`] ago, unless this storage was cleaned within
    /// `interval`. Returns the names of the deleted certificate files.
    ///
    /// # Errors
    /// A directory cannot be read or written.
    pub fn clean(&self, now: SystemTime, interval: Duration) -> Result<Vec<PathBuf>, CertsError> {
        let Ok(_lock) = self.shared_lock("storage_clean", Duration::ZERO) else {
            return Ok(Vec::new());
        };
        let since = self
            .last_clean()?
            .and_then(|at| now.duration_since(at).ok());
        if since.is_some_and(|since| since < interval) {
            return Ok(Vec::new());
        }
        let mut removed = Vec::new();
        for issuer in folders(&self.path("certificates"))? {
            for place in folders(&issuer)? {
                removed.extend(clean_one(&place, now)?);
            }
        }
        // Formatting fails only for years after 9999.
        let at = OffsetDateTime::from(now)
            .format(&Rfc3339)
            .unwrap_or_default();
        let about = json!({"tls": {"timestamp": at, "instance_id": "sluice"}});
        self.write(LAST, about.to_string().as_bytes())?;
        Ok(removed)
    }

    fn last_clean(&self) -> Result<Option<SystemTime>, CertsError> {
        let Some(text) = self.read(LAST)? else {
            return Ok(None);
        };
        let about: Value = serde_json::from_slice(&text).unwrap_or_default();
        let at = about["tls"]["timestamp"].as_str().unwrap_or_default();
        Ok(OffsetDateTime::parse(at, &Rfc3339)
            .ok()
            .map(SystemTime::from))
    }
}

/// The subdirectories of a directory; empty if it does not exist.
fn folders(within: &Path) -> Result<Vec<PathBuf>, CertsError> {
    let entries = match fs::read_dir(within) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(CertsError::io("read", within, source)),
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.is_dir()).collect())
}

/// Deletes the certificate in `place`, `<name>/<name>.crt`, if it expired long ago. Damaged files stay for inspection.
fn clean_one(place: &Path, now: SystemTime) -> Result<Option<PathBuf>, CertsError> {
    let Some(name) = place.file_name().and_then(|name| name.to_str()) else {
        return Ok(None);
    };
    let file = |ending: &str| place.join(format!("{name}.{ending}"));
    let certificate = file("crt");
    let Some(text) = read_file(&certificate)? else {
        return Ok(None);
    };
    let chain = chain_from_pem(&text, &certificate).ok();
    let facts = chain.and_then(|chain| Facts::of(chain.first()?, &certificate).ok());
    let Some(facts) = facts else {
        return Ok(None);
    };
    if facts.lifetime.until + CLEAN_GRACE >= now {
        return Ok(None);
    }
    // The certificate goes last: until then a repeated run finds the rest.
    for path in [file("json"), file("key"), certificate.clone()] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(CertsError::io("remove", &path, error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    // Fails if there are other files, which are not ours to delete.
    let _ = fs::remove_dir(place);
    Ok(Some(certificate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{TempFolder, TestCa};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn certificates_that_ended_long_ago_go_and_all_others_stay() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        let made = TestCa::new().issue("a.test");
        storage
            .write_pair("certificates/x/a.test/a.test", &made)
            .unwrap();
        storage
            .write("certificates/x/a.test/a.test.json", b"{}")
            .unwrap();
        storage
            .write("certificates/x/b.test/b.test.crt", b"damaged")
            .unwrap();
        let pair = chain_from_pem(&made.certificate, Path::new("")).unwrap();
        let until = Facts::of(&pair[0], Path::new("")).unwrap().lifetime.until;
        let is_there = |name: &str| storage.path(name).exists();
        assert_eq!(
            storage.clean(until + CLEAN_GRACE, DAY).unwrap(),
            [] as [PathBuf; 0]
        );
        assert!(is_there("certificates/x/a.test/a.test.key"));
        // Another process has just cleaned.
        let late = until + CLEAN_GRACE + DAY / 2;
        assert!(storage.clean(late, DAY).unwrap().is_empty());
        assert_eq!(storage.clean(late + DAY, DAY).unwrap().len(), 1);
        assert!(!is_there("certificates/x/a.test"));
        assert!(is_there("certificates/x/b.test/b.test.crt"));
    }

    #[test]
    fn an_empty_storage_is_clean() {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        assert!(storage.clean(SystemTime::now(), DAY).unwrap().is_empty());
        assert!(storage.path(LAST).exists());
    }
}
