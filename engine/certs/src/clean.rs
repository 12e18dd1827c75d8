//! Deletes certificates that expired long ago, with their keys. Certificates in use are renewed earlier, so this
//! affects only names that were removed from the configuration.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::failure::CertsError;
use crate::limits::CLEAN_GRACE;
use crate::pair::{Facts, chain_from_pem};
use crate::storage::Storage;

/// Records when the storage was last cleaned, for all processes that share it and for Caddy.
const LAST: &str = "last_clean.json";

/// The folder of all certificates, by issuer and name.
const CERTIFICATES: &str = "certificates";

impl Storage {
    /// Deletes certificates that expired more than [`CLEAN_GRACE`] ago, unless this storage was cleaned within
    /// `interval`. Returns the names of the deleted certificate files.
    ///
    /// # Errors
    /// A directory cannot be read or written.
    pub fn clean(&self, now: SystemTime, interval: Duration) -> Result<Vec<PathBuf>, CertsError> {
        let Ok(lock) = self.shared_lock("storage_clean", Duration::ZERO) else {
            return Ok(Vec::new());
        };
        let since = self
            .last_clean()?
            .and_then(|at| now.duration_since(at).ok());
        if since.is_some_and(|since| since < interval) {
            return Ok(Vec::new());
        }
        let mut removed = Vec::new();
        for issuer in self.names(CERTIFICATES)? {
            let issuer = format!("{CERTIFICATES}/{issuer}");
            for name in self.names(&issuer)? {
                removed.extend(self.clean_one(&format!("{issuer}/{name}"), &name, now)?);
            }
        }
        // Formatting fails only for years after 9999.
        let at = OffsetDateTime::from(now)
            .format(&Rfc3339)
            .unwrap_or_default();
        let about = json!({"tls": {"timestamp": at, "instance_id": "sluice"}});
        self.write_held(&lock, LAST, about.to_string().as_bytes())?;
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

impl Storage {
    /// Deletes the certificate `<name>.crt` in `place` if it expired long ago. Damaged ones stay for inspection. Returns
    /// where it was.
    fn clean_one(
        &self,
        place: &str,
        name: &str,
        now: SystemTime,
    ) -> Result<Option<PathBuf>, CertsError> {
        let value = |ending: &str| format!("{place}/{name}.{ending}");
        let certificate = value("crt");
        let Some(found) = self.find(&certificate)? else {
            return Ok(None);
        };
        let path = self.place_of(&certificate);
        let chain = chain_from_pem(&found.bytes, &path).ok();
        let facts = chain.and_then(|chain| Facts::of(chain.first()?, &path).ok());
        let Some(facts) = facts else {
            return Ok(None);
        };
        if facts.lifetime.until + CLEAN_GRACE >= now {
            return Ok(None);
        }
        self.remove_all(&[&value("json"), &value("key"), &certificate])?;
        Ok(Some(path))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
        let is_there = |name: &str| folder.path().join(name).exists();
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
        assert!(folder.path().join(LAST).exists());
    }
}
