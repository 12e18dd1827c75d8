//! Certificates that the configuration loads: from files, folders, PEM text or storage. `sluice-certs` reads and
//! watches them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use sluice_certs::files::bundles;
use sluice_certs::pair::Origin;
use sluice_certs::storage::StoredPair;
use sluice_certs::{CertsError, Pair, PairFile, Passwords, Storage};
use sluice_model::Config;
use sluice_model::http::RouteOrigin;
use sluice_model::tls::{CertificateFiles, Certificates};

use super::log_notice;
use sluice_observe::log::{Level, Log};
use sluice_pipeline::refusal::Refusal;

/// The loaded certificates.
#[derive(Default)]
pub(super) struct Loaded {
    /// From files, which are watched.
    pub(super) files: Vec<(PairFile, Arc<Pair>)>,
    /// From other sources.
    others: Vec<Arc<Pair>>,
}

impl Loaded {
    /// All certificates, in order of preference.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &Arc<Pair>> {
        self.files.iter().map(|(_, pair)| pair).chain(&self.others)
    }
}

/// Loads the certificates of the configuration; failures are added to `refusals`.
pub(super) fn load(
    config: &Config,
    storage: &Storage,
    log: &Log,
    refusals: &mut Vec<Refusal>,
) -> Loaded {
    let mut loaded = Loaded::default();
    let Some(tls) = &config.apps.tls else {
        return loaded;
    };
    let Certificates {
        automate: _,
        load_files,
        load_folders,
        load_pem,
        load_storage,
        folder_origins,
    } = &tls.certificates;
    let mut refuse = |place: String, refusal: Refusal| {
        refusals.push(Refusal {
            place: format!("apps.tls.certificates.{place}"),
            ..refusal
        });
    };
    let mut read = HashMap::new();
    for (index, files) in load_files.iter().enumerate() {
        match from_files(files, &mut read) {
            Ok(found) => loaded.files.push(found),
            Err(error) => refuse(format!("load_files[{index}]"), of_files(files, &error)),
        }
    }
    load_all_of(load_folders, folder_origins, &mut loaded, &mut refuse);
    let mut refuse = |place: String, error: CertsError| {
        refuse(place, Refusal::new(error.to_string()));
    };
    for (index, text) in load_pem.iter().enumerate() {
        let place = format!("load_pem[{index}]");
        let stored = StoredPair {
            certificate: text.certificate.clone().into_bytes(),
            key: text.key.clone().into_bytes(),
        };
        match from_stored(&stored, Path::new(&place), Path::new(&place), &text.tags) {
            Ok(pair) => loaded.others.push(pair),
            Err(error) => refuse(place, error),
        }
    }
    let stored = stored_pairs(load_storage.as_ref()).and_then(|pairs| {
        let pairs = pairs.iter().map(|names| from_storage(storage, names));
        pairs.collect::<Result<Vec<_>, _>>()
    });
    match stored {
        Ok(pairs) => loaded.others.extend(pairs),
        Err(error) => refuse("load_storage".to_owned(), error),
    }
    log_oddities(&loaded, log);
    loaded
}

/// Loads the pairs of folders.
fn load_all_of(
    folders: &[String],
    origins: &RouteOrigin,
    loaded: &mut Loaded,
    refuse: &mut impl FnMut(String, Refusal),
) {
    for (index, folder) in folders.iter().enumerate() {
        let found = bundles(Path::new(folder)).and_then(|files| {
            let with_pair = |file: PairFile| Ok((file.clone(), file.load()?));
            files
                .into_iter()
                .map(with_pair)
                .collect::<Result<Vec<_>, _>>()
        });
        match found {
            Ok(found) => loaded.files.extend(found),
            Err(error) => refuse(
                format!("load_folders[{index}]"),
                Refusal {
                    written: origins.handler(index),
                    ..Refusal::new(error.to_string())
                },
            ),
        }
    }
}

fn log_oddities(loaded: &Loaded, log: &Log) {
    let now = SystemTime::now();
    for notice in loaded.pairs().flat_map(|pair| pair.notices(now)) {
        log_notice(log, Level::Warn, &notice);
    }
}

/// The refusal of a pair of files, with the position of the file that caused it.
fn of_files(files: &CertificateFiles, error: &CertsError) -> Refusal {
    let line = match error {
        _ if error.is_about(Path::new(&files.password_file)) => 2,
        // The last of the directive.
        _ if error.is_about(Path::new(&files.staple_file)) => usize::MAX,
        _ if error.is_about_key(Path::new(&files.key)) => 1,
        _ => 0,
    };
    let help = match error {
        CertsError::EncryptedKey(_) => {
            "in an nginx.conf name a file with the password: `ssl_password_file`; elsewhere write the key \
             without one: `openssl pkey -in <file> -out <file>`"
        }
        CertsError::WrongPassword { .. } => {
            "it has one password in each line, without spaces around"
        }
        _ => "",
    };
    Refusal {
        written: files.origin.handler(line),
        ..Refusal::new(error.to_string()).with_help(help)
    }
}

/// Passwords are read only once, because their file may be a pipe.
fn from_files(
    files: &CertificateFiles,
    read: &mut HashMap<String, Arc<Passwords>>,
) -> Result<(PairFile, Arc<Pair>), CertsError> {
    let passwords = match (files.password_file.as_str(), read.get(&files.password_file)) {
        ("", _) => Arc::default(),
        (_, Some(passwords)) => passwords.clone(),
        (path, None) => {
            let passwords = Arc::new(Passwords::read(Path::new(path))?);
            read.insert(path.to_owned(), passwords.clone());
            passwords
        }
    };
    let file = PairFile {
        certificate: (&files.certificate).into(),
        key: (&files.key).into(),
        tags: files.tags.clone(),
        passwords,
        staple: (&files.staple_file).into(),
        responder: files.ocsp_responder.clone(),
    };
    let pair = file.load()?;
    Ok((file, pair))
}

fn from_stored(
    stored: &StoredPair,
    certificate: &Path,
    key: &Path,
    tags: &[String],
) -> Result<Arc<Pair>, CertsError> {
    let pair = Pair::from_pem(stored, Origin { certificate, key })?;
    Ok(Arc::new(Pair {
        tags: tags.to_vec(),
        ..pair
    }))
}

/// The storage keys of the pairs in `load_storage`.
fn stored_pairs(config: Option<&Value>) -> Result<Vec<CertificateFiles>, CertsError> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct LoadStorage {
        pairs: Vec<CertificateFiles>,
    }
    let Some(config) = config else {
        return Ok(Vec::new());
    };
    let read: Result<LoadStorage, _> = serde_json::from_value(config.clone());
    match read {
        Ok(read) => Ok(read.pairs),
        Err(error) => Err(CertsError::Setting {
            name: "load_storage",
            what: error.to_string(),
        }),
    }
}

fn from_storage(storage: &Storage, names: &CertificateFiles) -> Result<Arc<Pair>, CertsError> {
    let read = |name: &str| {
        let missing = || CertsError::Setting {
            name: "load_storage",
            what: format!("there is no `{name}` in the storage"),
        };
        storage.read(name)?.ok_or_else(missing)
    };
    let stored = StoredPair {
        certificate: read(&names.certificate)?,
        key: read(&names.key)?,
    };
    let (certificate, key) = (
        storage.place_of(&names.certificate),
        storage.place_of(&names.key),
    );
    from_stored(&stored, &certificate, &key, &names.tags)
}
