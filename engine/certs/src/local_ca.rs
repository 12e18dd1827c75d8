//! The local CA, for names that no public CA issues certificates for: a root to be installed in trust stores, an
//! intermediate signed by it, and short-lived leaf certificates. `trust` installs the root.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use pki_types::CertificateDer;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::failure::{CertsError, Notice};
use crate::issuer::{Issued, Issuer, Request};
use crate::limits::{BACKDATE, INTERMEDIATE_LIFETIME, LEAF_LIFETIME, RENEWAL_SHARE, ROOT_LIFETIME};
use crate::pair::{Facts, Origin, Pair};
use crate::pem_file::read_file;
use crate::renewal::{Lifetime, seed_of};
use crate::storage::{Storage, StoredPair};
use crate::subject::Subject;

/// Options of a local CA.
#[derive(Clone, Debug)]
pub struct LocalCaOptions {
    /// The directory of its files, and its name in configurations.
    pub id: String,
    /// Its human-readable name.
    pub name: String,
    /// The common name of the root; `{pki.ca.name}` and `{time.now.year}` are replaced.
    pub root_common_name: String,
    /// The common name of intermediates, with the same placeholders.
    pub intermediate_common_name: String,
    /// Lifetime of an intermediate.
    pub intermediate_lifetime: Duration,
    /// Lifetime of a leaf, which never exceeds that of its issuer.
    pub leaf_lifetime: Duration,
    /// The fraction of the lifetime that remains when renewal starts.
    pub renewal_share: f64,
    /// Sign leaf certificates with the root instead of an intermediate.
    pub sign_with_root: bool,
    /// A root to use instead of creating one.
    pub root: Option<CaFiles>,
    /// An intermediate to use instead of creating one.
    pub intermediate: Option<CaFiles>,
    /// Where its certificates and keys are kept, if not in the storage of the server.
    pub storage: Option<Storage>,
}

/// A certificate to be signed.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    /// Its subjects.
    pub subjects: &'a [Subject],
    /// Its serial number, positive and at most 20 bytes; derived from its key if `None`.
    pub serial: Option<&'a [u8]>,
    /// Start of its validity; slightly before now if `None`.
    pub from: Option<SystemTime>,
    /// Length of its validity, from its start or from now.
    pub length: Duration,
    /// Whether to sign with the root instead of the intermediate.
    pub by_root: bool,
}

/// A newly signed certificate.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The chain without the root, as PEM.
    pub chain: String,
    /// Its validity period.
    pub lifetime: Lifetime,
}

/// The files of an existing CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Default for LocalCaOptions {
    fn default() -> Self {
        LocalCaOptions {
            id: "local".to_owned(),
            name: "Sluice Local Authority".to_owned(),
            root_common_name: "{pki.ca.name} - {time.now.year} ECC Root".to_owned(),
            intermediate_common_name: "{pki.ca.name} - ECC Intermediate".to_owned(),
            intermediate_lifetime: INTERMEDIATE_LIFETIME,
            leaf_lifetime: LEAF_LIFETIME,
            renewal_share: RENEWAL_SHARE,
            sign_with_root: false,
            root: None,
            intermediate: None,
            storage: None,
        }
    }
}

/// How often another process may be faster before it is an error: each time it has made what we need.
const RACES_MAX: usize = 3;

/// A local CA.
pub struct LocalCa {
    options: LocalCaOptions,
    storage: Storage,
    root: Signer,
    root_made: Option<Notice>,
    /// Replaced as a whole on renewal; `None` if the root signs leaf certificates.
    intermediate: RwLock<Option<Arc<Signer>>>,
}

/// A CA certificate with its key.
struct Signer {
    pem: String,
    cert: CertificateDer<'static>,
    issuer: rcgen::Issuer<'static, KeyPair>,
    lifetime: Lifetime,
}

impl LocalCa {
    /// Loads the CA from storage, creating missing parts. Damaged files are an error: a new root would silently be
    /// untrusted by all clients.
    pub fn open(
        storage: Storage,
        options: LocalCaOptions,
        now: SystemTime,
    ) -> Result<LocalCa, CertsError> {
        let storage = options.storage.clone().unwrap_or(storage);
        let (root, made) = open_root(&storage, &options, now)?;
        let root_made = made.then(|| Notice::RootMade {
            authority: options.id.clone(),
            path: storage.place_of(&format!("{}.crt", root_name(&options))),
        });
        let ca = LocalCa {
            options,
            storage,
            root,
            root_made,
            intermediate: RwLock::new(None),
        };
        let intermediate = match ca.load_intermediate(now)? {
            None if !ca.options.sign_with_root => {
                let made = ca.make_intermediate(Damaged::Refused, now);
                Some(made.or_else(|error| ca.valid_intermediate(error, now))?)
            }
            loaded => loaded,
        };
        ca.use_intermediate(intermediate);
        Ok(ca)
    }

    /// The root as PEM, for trust stores.
    pub fn root_pem(&self) -> &str {
        &self.root.pem
    }

    /// The root as DER.
    pub fn root_der(&self) -> &[u8] {
        &self.root.cert
    }

    /// The current intermediate as PEM; `None` if the root signs leaf certificates.
    pub fn intermediate_pem(&self) -> Option<String> {
        self.signing().map(|signer| signer.pem.clone())
    }

    /// The name people see.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// The common name in the root; empty if it has none.
    pub fn root_common_name(&self) -> String {
        common_name(&self.root.cert)
    }

    /// The common name in the current intermediate; empty if the root signs leaf certificates.
    pub fn intermediate_common_name(&self) -> String {
        let signer = self.signing();
        signer.map_or_else(String::new, |signer| common_name(&signer.cert))
    }

    /// The validity period of the root.
    pub fn root_lifetime(&self) -> Lifetime {
        self.root.lifetime
    }

    /// The notice about a new root, if opening the CA created one.
    pub fn root_made(&self) -> Option<&Notice> {
        self.root_made.as_ref()
    }

    fn signing(&self) -> Option<Arc<Signer>> {
        self.intermediate
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn use_intermediate(&self, signer: Option<Signer>) {
        let mut intermediate = self
            .intermediate
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *intermediate = signer.map(Arc::new);
    }

    /// Signs a certificate for `key`. It expires no later than its issuer.
    ///
    /// # Errors
    /// A name cannot be used in a certificate, or cryptography failed.
    pub fn sign(
        &self,
        key: &impl PublicKeyData,
        leaf: &Leaf<'_>,
        now: SystemTime,
    ) -> Result<Signed, CertsError> {
        let intermediate = self.signing().filter(|_| !leaf.by_root);
        let signer = intermediate.as_deref().unwrap_or(&self.root);
        let lifetime = match leaf.from {
            None => lifetime(now, leaf.length, Some(signer)),
            Some(from) => Lifetime {
                from: from.max(now - BACKDATE),
                until: (from + leaf.length).min(signer.lifetime.until),
            },
        };
        if lifetime.until <= lifetime.from {
            let what = "its issuer expires before it becomes valid".to_owned();
            return Err(CertsError::Signing(what));
        }
        let mut params = dated(lifetime);
        params.distinguished_name = DistinguishedName::new();
        params.serial_number = leaf.serial.map(SerialNumber::from_slice);
        let names = leaf.subjects.iter().map(alternative_name);
        params.subject_alt_names = names.collect::<Result<_, _>>()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let made = params.signed_by(key, &signer.issuer).map_err(signing)?;
        let mut chain = made.pem();
        if let Some(intermediate) = &intermediate {
            chain.push_str(&intermediate.pem);
        }
        Ok(Signed { chain, lifetime })
    }

    /// The stored intermediate while `error` prevents its renewal, if the storage is away and it has not ended.
    fn valid_intermediate(&self, error: CertsError, now: SystemTime) -> Result<Signer, CertsError> {
        let found = match &error {
            CertsError::Store(_) => self.stored_intermediate()?,
            _ => None,
        };
        found
            .filter(|found| !found.lifetime.has_ended(now))
            .ok_or(error)
    }

    /// The stored or configured intermediate, unless it is missing or due for renewal.
    fn load_intermediate(&self, now: SystemTime) -> Result<Option<Signer>, CertsError> {
        if self.options.sign_with_root {
            return Ok(None);
        }
        if let Some(files) = &self.options.intermediate {
            return Signer::from_files(files).map(Some);
        }
        let found = self.stored_intermediate()?;
        Ok(found.filter(|found| now < self.renewal_of(found)))
    }

    /// The stored intermediate; `None` if there is none of our root.
    fn stored_intermediate(&self) -> Result<Option<Signer>, CertsError> {
        let name = intermediate_name(&self.options);
        let Some(stored) = self.storage.read_pair(&name, is_whole)? else {
            return Ok(None);
        };
        let path = self.storage.place_of(&name).with_extension("crt");
        let found = Signer::from_pair(&stored, &CaFiles::beside(&path))?;
        // An intermediate of another root is useless to clients that trust ours.
        Ok(Some(found).filter(|found| is_signed_by(&found.cert, &self.root.cert)))
    }

    /// A new intermediate, or the one that another process has made meanwhile. With `Damaged::Replaced` a stored one
    /// that cannot be read is replaced.
    fn make_intermediate(&self, damaged: Damaged, now: SystemTime) -> Result<Signer, CertsError> {
        let stored = intermediate_name(&self.options);
        let [crt, key] = [format!("{stored}.crt"), format!("{stored}.key")];
        let name = fill_in(&self.options.intermediate_common_name, &self.options, now);
        for _ in 0..RACES_MAX {
            let before = self.storage.find(&crt)?.map(|found| found.version);
            match (self.load_intermediate(now), damaged) {
                (Ok(Some(found)), _) => return Ok(found),
                (Err(error), Damaged::Refused) => return Err(error),
                (Ok(None), _) | (Err(_), Damaged::Replaced) => {}
            }
            let lifetime = lifetime(now, self.options.intermediate_lifetime, Some(&self.root));
            let (signer, pair) = Signer::make(&name, 0, lifetime, Some(&self.root))?;
            let values = Storage::pair_values(&crt, &key, &pair);
            if self
                .storage
                .write_unless_changed(&values, &crt, before.as_ref())?
            {
                return Ok(signer);
            }
        }
        Err(CertsError::Locked(self.storage.place_of(&crt)))
    }

    fn renewal_of(&self, intermediate: &Signer) -> SystemTime {
        intermediate
            .lifetime
            .renewal_at(self.options.renewal_share, seed_of(&self.options.id))
    }
}

impl Issuer for LocalCa {
    fn id(&self) -> &str {
        &self.options.id
    }

    fn issue(&self, request: &Request<'_>, now: SystemTime) -> Result<Issued, CertsError> {
        let leaf = Leaf {
            subjects: std::slice::from_ref(request.subject),
            serial: None,
            from: None,
            length: self.options.leaf_lifetime,
            by_root: false,
        };
        let signed = self.sign(request.key, &leaf, now)?;
        Ok(Issued {
            chain: signed.chain.into_bytes(),
            about: serde_json::Value::Null,
        })
    }

    fn accepts(&self, chain: &[CertificateDer<'_>]) -> bool {
        match &self.options.intermediate {
            // An external root may be stored anywhere, but the intermediate is always the same.
            Some(_) => self
                .signing()
                .is_some_and(|signer| chain.contains(&signer.cert)),
            None => chain
                .last()
                .is_some_and(|last| is_signed_by(last, &self.root.cert)),
        }
    }

    fn renewal_share(&self) -> f64 {
        self.options.renewal_share
    }

    fn upkeep_at(&self) -> Option<SystemTime> {
        if self.options.intermediate.is_some() {
            return None;
        }
        self.signing().map(|signer| self.renewal_of(&signer))
    }

    fn keep_up(&self, now: SystemTime) -> Result<(), CertsError> {
        if self.upkeep_at().is_none_or(|at| now < at) {
            return Ok(());
        }
        // Another process with the same storage may have renewed it already. A damaged intermediate is replaced: unlike a
        // root, it is not installed anywhere.
        let renewed = self.make_intermediate(Damaged::Replaced, now)?;
        self.use_intermediate(Some(renewed));
        Ok(())
    }
}

/// The single subject alternative name of a certificate for `subject`.
pub(crate) fn alternative_name(subject: &Subject) -> Result<SanType, CertsError> {
    Ok(match (subject.ip(), subject.name()) {
        (Some(ip), _) => SanType::IpAddress(ip),
        (None, name) => SanType::DnsName(name.unwrap_or_default().try_into().map_err(signing)?),
    })
}

fn open_root(
    storage: &Storage,
    options: &LocalCaOptions,
    now: SystemTime,
) -> Result<(Signer, bool), CertsError> {
    if let Some(files) = &options.root {
        return Ok((Signer::from_files(files)?, false));
    }
    let name = root_name(options);
    let [crt, key] = [format!("{name}.crt"), format!("{name}.key")];
    let common_name = fill_in(&options.root_common_name, options, now);
    // Processes started at the same time must not create two roots: the first one that writes has made it.
    for _ in 0..RACES_MAX {
        let mut before = None;
        if let Some((stored, version)) = storage.find_pair(&name, is_whole)? {
            let path = storage.place_of(&name).with_extension("crt");
            let root = Signer::from_pair(&stored, &CaFiles::beside(&path))?;
            // An expired root is useless to clients, so creating a new one loses nothing.
            if !root.lifetime.has_ended(now) {
                return Ok((root, false));
            }
            before = Some(version);
        }
        let lifetime = lifetime(now, ROOT_LIFETIME, None);
        let (root, pair) = Signer::make(&common_name, 1, lifetime, None)?;
        let values = Storage::pair_values(&crt, &key, &pair);
        if storage.write_unless_changed(&values, &crt, before.as_ref())? {
            return Ok((root, true));
        }
    }
    Err(CertsError::Locked(storage.place_of(&crt)))
}

/// What happens to a stored certificate that cannot be read.
#[derive(Clone, Copy)]
enum Damaged {
    Refused,
    Replaced,
}

impl Signer {
    fn from_files(files: &CaFiles) -> Result<Signer, CertsError> {
        let read = |path: &PathBuf| {
            read_file(path)?
                .ok_or_else(|| CertsError::io("read", path, std::io::ErrorKind::NotFound.into()))
        };
        let stored = StoredPair {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
        };
        Signer::from_pair(&stored, files)
    }

    fn from_pair(stored: &StoredPair, files: &CaFiles) -> Result<Signer, CertsError> {
        let origin = Origin {
            certificate: &files.certificate,
            key: &files.key,
        };
        // Checks both texts and that they belong together.
        let pair = Pair::from_pem(stored, origin)?;
        let cert = pair.certified.cert[0].clone();
        if !Facts::of(&cert, &files.certificate)?.is_authority {
            return Err(CertsError::NotAnAuthority(files.certificate.clone()));
        }
        let unusable = |what: String| CertsError::UnusableKey {
            path: files.key.clone(),
            what,
        };
        let key_text = std::str::from_utf8(&stored.key).map_err(|e| unusable(e.to_string()))?;
        let key = KeyPair::from_pem(key_text).map_err(|e| unusable(e.to_string()))?;
        let issuer = rcgen::Issuer::from_ca_cert_der(&cert, key).map_err(signing)?;
        let pem = String::from_utf8_lossy(&stored.certificate).into_owned();
        Ok(Signer {
            pem,
            cert,
            issuer,
            lifetime: pair.lifetime,
        })
    }

    fn make(
        common_name: &str,
        authorities_below: u8,
        lifetime: Lifetime,
        by: Option<&Signer>,
    ) -> Result<(Signer, StoredPair), CertsError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(signing)?;
        let mut params = dated(lifetime);
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(authorities_below));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let cert = match by {
            Some(by) => {
                params.use_authority_key_identifier_extension = true;
                params.signed_by(&key, &by.issuer)
            }
            None => params.self_signed(&key),
        };
        let cert = cert.map_err(signing)?;
        let pem = cert.pem();
        let pair = StoredPair {
            certificate: pem.clone().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        };
        let issuer = rcgen::Issuer::new(params, key);
        Ok((
            Signer {
                pem,
                cert: cert.der().clone(),
                issuer,
                lifetime,
            },
            pair,
        ))
    }
}

impl CaFiles {
    fn beside(certificate: &std::path::Path) -> CaFiles {
        CaFiles {
            certificate: certificate.to_owned(),
            key: certificate.with_extension("key"),
        }
    }
}

fn common_name(certificate: &CertificateDer<'_>) -> String {
    let parsed = X509Certificate::from_der(certificate).ok();
    let name = parsed.and_then(|(_, parsed)| {
        let name = parsed.subject().iter_common_name().next()?;
        name.as_str().ok().map(str::to_owned)
    });
    name.unwrap_or_default()
}

fn root_name(options: &LocalCaOptions) -> String {
    format!("pki/authorities/{}/root", options.id)
}

fn intermediate_name(options: &LocalCaOptions) -> String {
    format!("pki/authorities/{}/intermediate", options.id)
}

fn fill_in(text: &str, options: &LocalCaOptions, now: SystemTime) -> String {
    let year = time::OffsetDateTime::from(now).year();
    text.replace("{pki.ca.name}", &options.name)
        .replace("{time.now.year}", &year.to_string())
}

/// From slightly before `now` for `length`, but no longer than the lifetime of `signer`.
fn lifetime(now: SystemTime, length: Duration, signer: Option<&Signer>) -> Lifetime {
    let until = signer.map_or(now + length, |signer| {
        (now + length).min(signer.lifetime.until)
    });
    Lifetime {
        from: now - BACKDATE,
        until,
    }
}

fn dated(lifetime: Lifetime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = lifetime.from.into();
    params.not_after = lifetime.until.into();
    params
}

/// Whether certificate and key belong together, as far as can be determined.
fn is_whole(stored: &StoredPair) -> bool {
    let nowhere = PathBuf::new();
    Pair::from_pem(
        stored,
        Origin {
            certificate: &nowhere,
            key: &nowhere,
        },
    )
    .is_ok()
}

/// Whether `cert` names `by` as its issuer. The signature is not verified: both are from our own storage, and clients
/// verify it anyway.
fn is_signed_by(cert: &CertificateDer<'_>, by: &CertificateDer<'_>) -> bool {
    let (Ok((_, cert)), Ok((_, by))) = (
        X509Certificate::from_der(cert),
        X509Certificate::from_der(by),
    ) else {
        return false;
    };
    let wanted =
        cert.extensions()
            .iter()
            .find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    id.key_identifier.as_ref().map(|id| id.0)
                }
                _ => None,
            });
    let own = by
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
            _ => None,
        });
    cert.issuer().as_raw() == by.subject().as_raw() && (own.is_none() || wanted == own)
}

fn signing(error: rcgen::Error) -> CertsError {
    CertsError::Signing(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use sluice_store::memory::MemoryStore;
    use sluice_store::{FileStore, LocalCopy};

    use super::*;
    use crate::pair::chain_from_pem;
    use crate::tests::{TempFolder, TestCa};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn open(folder: &TempFolder, now: SystemTime) -> Result<LocalCa, CertsError> {
        LocalCa::open(Storage::new(folder.path()), LocalCaOptions::default(), now)
    }

    fn leaf(ca: &LocalCa, now: SystemTime) -> Lifetime {
        let chain = made(ca, now);
        Facts::of(&chain[0], &PathBuf::new()).unwrap().lifetime
    }

    /// The chain of a certificate for `a.test`.
    fn made(ca: &LocalCa, now: SystemTime) -> Vec<CertificateDer<'static>> {
        let key = crate::KeyType::default().generate().unwrap();
        let request = Request {
            subject: &Subject::parse("a.test").unwrap(),
            key: &key,
            replaces: None,
            failures: 0,
            must_staple: false,
        };
        let chain = ca.issue(&request, now).unwrap().chain;
        chain_from_pem(&chain, &PathBuf::new()).unwrap()
    }

    /// Rounded down as in a certificate.
    fn whole_seconds(at: SystemTime) -> SystemTime {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
    }

    #[test]
    fn files_are_where_caddy_keeps_them_and_are_used_again() {
        let folder = TempFolder::new();
        let now = SystemTime::now();
        let first = open(&folder, now).unwrap();
        assert!(matches!(first.root_made(), Some(Notice::RootMade { .. })));
        for name in [
            "root.crt",
            "root.key",
            "intermediate.crt",
            "intermediate.key",
        ] {
            let path = folder.path().join("pki/authorities/local").join(name);
            let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{name}");
        }
        let second = open(&folder, now + DAY).unwrap();
        assert!(second.root_made().is_none());
        assert_eq!(first.root_pem(), second.root_pem());
        assert_eq!(first.intermediate_pem(), second.intermediate_pem());
    }

    #[test]
    fn certificates_say_what_caddys_say() {
        let test = TestCa::new();
        let now = SystemTime::now();
        let describe = |der: &[u8]| {
            let (_, cert) = X509Certificate::from_der(der).unwrap();
            let ca = cert
                .basic_constraints()
                .unwrap()
                .map(|c| (c.value.ca, c.value.path_len_constraint));
            let usage = cert
                .key_usage()
                .unwrap()
                .map(|usage| usage.value.to_string());
            (cert.subject().to_string(), ca, usage.unwrap_or_default())
        };
        let (name, ca, usage) = describe(test.ca.root_der());
        let year = time::OffsetDateTime::from(now).year();
        assert_eq!(name, format!("CN=Sluice Local Authority - {year} ECC Root"));
        assert_eq!(ca, Some((true, Some(1))));
        assert_eq!(usage, "Key Cert Sign, CRL Sign");
        let chain = chain_from_pem(&test.issue("a.test").certificate, &PathBuf::new()).unwrap();
        let (name, ca, _) = describe(&chain[1]);
        assert_eq!(name, "CN=Sluice Local Authority - ECC Intermediate");
        assert_eq!(ca, Some((true, Some(0))));
        let (name, ca, usage) = describe(&chain[0]);
        assert_eq!(
            (name.as_str(), ca, usage.as_str()),
            ("", None, "Digital Signature")
        );
        let lifetime = leaf(&test.ca, now);
        assert_eq!(lifetime.until, whole_seconds(now + LEAF_LIFETIME));
        assert_eq!(test.ca.root_lifetime().length().as_secs() / 86_400, 3600);
    }

    #[test]
    fn the_intermediate_is_renewed_in_time_and_leafs_never_outlive_it() {
        let folder = TempFolder::new();
        let start = SystemTime::now();
        let ca = open(&folder, start).unwrap();
        let first = ca.intermediate_pem();
        let due = ca.upkeep_at().unwrap();
        assert!(
            due > start + DAY * 4 && due < start + DAY * 5,
            "a third of seven days is left"
        );
        ca.keep_up(start + DAY * 4).unwrap();
        assert_eq!(ca.intermediate_pem(), first);
        assert_eq!(
            leaf(&ca, start + DAY * 7 - Duration::from_secs(60)).until,
            whole_seconds(start + DAY * 7)
        );
        ca.keep_up(due).unwrap();
        assert_ne!(ca.intermediate_pem(), first);
        assert_eq!(
            open(&folder, due).unwrap().intermediate_pem(),
            ca.intermediate_pem()
        );
        assert_eq!(leaf(&ca, due).until, whole_seconds(due + LEAF_LIFETIME));
    }

    #[test]
    fn an_ended_root_is_replaced() {
        let folder = TempFolder::new();
        let start = SystemTime::now();
        let first = open(&folder, start).unwrap();
        let later = start + DAY * 3700;
        let second = open(&folder, later).unwrap();
        assert!(second.root_made().is_some());
        assert_ne!(first.root_pem(), second.root_pem());
        // The intermediate is signed by the new root.
        let chain = made(&second, later);
        assert!(second.accepts(&chain) && !first.accepts(&chain));
    }

    #[test]
    fn damaged_files_are_named_and_what_is_in_memory_goes_on() {
        let now = SystemTime::now();
        let test = TestCa::new();
        let base = test.folder.path().join("pki/authorities/local");
        for (name, content) in [
            ("root.crt", "junk"),
            (
                "root.crt",
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            ),
            ("root.key", ""),
            (
                "root.key",
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            ),
            ("intermediate.key", "junk"),
        ] {
            let path = base.join(name);
            let good = fs::read(&path).unwrap();
            fs::write(&path, content).unwrap();
            let error = open(&test.folder, now).err().expect("refused").to_string();
            assert!(error.contains(name), "{error}");
            leaf(&test.ca, now);
            fs::write(&path, good).unwrap();
        }
        let other = TestCa::new();
        fs::copy(
            other.folder.path().join("pki/authorities/local/root.key"),
            base.join("root.key"),
        )
        .unwrap();
        let error = open(&test.folder, now).err().expect("refused");
        assert!(matches!(error, CertsError::KeyMismatch { .. }), "{error}");
        // A damaged intermediate does not prevent a running CA from creating a new one.
        fs::write(base.join("intermediate.crt"), "junk").unwrap();
        test.ca.keep_up(test.ca.upkeep_at().unwrap()).unwrap();
        assert!(leaf(&test.ca, now).until > now);
    }

    #[test]
    fn processes_that_start_together_agree_on_a_root() {
        let folder = TempFolder::new();
        let open_one = || {
            open(&folder, SystemTime::now())
                .unwrap()
                .root_pem()
                .to_owned()
        };
        let roots: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open_one)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(roots.iter().all(|root| *root == roots[0]));
    }

    #[test]
    fn foreign_cas_can_be_used() {
        let (test, own) = (TestCa::new(), TempFolder::new());
        let files = |name: &str| {
            let base = test.folder.path().join("pki/authorities/local");
            CaFiles::beside(&base.join(format!("{name}.crt")))
        };
        let options = LocalCaOptions {
            id: "other".to_owned(),
            root: Some(files("root")),
            intermediate: Some(files("intermediate")),
            ..Default::default()
        };
        let now = SystemTime::now();
        let storage = Storage::new(own.path());
        let ca = LocalCa::open(storage.clone(), options.clone(), now).unwrap();
        assert_eq!(ca.root_pem(), test.ca.root_pem());
        assert_eq!(
            (ca.intermediate_pem(), ca.upkeep_at()),
            (test.ca.intermediate_pem(), None)
        );
        assert!(ca.accepts(&made(&ca, now)));

        let options = LocalCaOptions {
            intermediate: None,
            sign_with_root: true,
            ..options
        };
        let ca = LocalCa::open(storage.clone(), options.clone(), now).unwrap();
        let chain = made(&ca, now);
        assert!(chain.len() == 1 && ca.accepts(&chain) && ca.intermediate_pem().is_none());

        let leaf = test.issue("a.test");
        let [certificate, key] = ["leaf.crt", "leaf.key"].map(|name| own.path().join(name));
        fs::write(&certificate, leaf.certificate).unwrap();
        fs::write(&key, leaf.key).unwrap();
        let options = LocalCaOptions {
            root: Some(CaFiles { certificate, key }),
            ..options
        };
        let refused = LocalCa::open(storage, options, now).err().expect("refused");
        assert!(
            matches!(refused, CertsError::NotAnAuthority(_)),
            "{refused}"
        );
    }

    #[test]
    fn nodes_that_start_together_have_one_root_and_go_on_without_the_engine() {
        let (engine, copy) = (MemoryStore::new(), TempFolder::new());
        let storage = || {
            let copy = FileStore::new(copy.path());
            Storage::shared(Arc::new(LocalCopy::new(Arc::new(engine.clone()), copy)))
        };
        let now = SystemTime::now();
        let open = |at| LocalCa::open(storage(), LocalCaOptions::default(), at);
        let all: Vec<LocalCa> = std::thread::scope(|scope| {
            let each: Vec<_> = (0..4).map(|_| scope.spawn(|| open(now).unwrap())).collect();
            each.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(all.iter().all(|ca| ca.root_pem() == all[0].root_pem()));
        let one = all[0].intermediate_pem();
        assert!(all.iter().all(|ca| ca.intermediate_pem() == one));
        engine.fail_with(Some(sluice_store::Fault::Away));
        // Its intermediate is due for renewal, which has to wait.
        let later = now + INTERMEDIATE_LIFETIME.mul_f64(0.8);
        assert_eq!(open(later).unwrap().intermediate_pem(), one);
        assert!(open(now + INTERMEDIATE_LIFETIME * 2).is_err());
        engine.fail_with(None);
        assert_ne!(open(later).unwrap().intermediate_pem(), one);
    }
}
