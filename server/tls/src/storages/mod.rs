//! Where certificates and other lasting things are kept: a folder, or an engine that several nodes share.

mod postgres;
mod redis;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluice_certs::Storage;
use sluice_model::{EtcdStorage, Storage as Module};
use sluice_observe::process_values;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_store::etcd::{EtcdOptions, EtcdStore};
use sluice_store::file::COPIES;
use sluice_store::postgres::PostgresStore;
use sluice_store::redis::RedisStore;
use sluice_store::sealed::{SealKey, SealScope, SealedStore};
use sluice_store::{FileStore, LocalCopy, Store, StoreError};

/// The storage of the whole server: that of the configuration, or the folder `data_dir`.
///
/// # Errors
/// The storage is unknown, or its settings cannot be used. No connection is made.
pub fn open(module: Option<&Module>, data_dir: &Path) -> Result<Storage, Refusal> {
    let own = module.map(|module| own(module, data_dir)).transpose()?;
    Ok(own.flatten().unwrap_or_else(|| Storage::new(data_dir)))
}

/// The storage of one part of the configuration; `None` if that is the one of the whole server. What this node has read
/// of an engine lies below `data_dir`.
///
/// # Errors
/// Like [`open`].
pub fn own(module: &Module, data_dir: &Path) -> Result<Option<Storage>, Refusal> {
    let (store, seal_keys) = match module {
        Module::FileSystem(storage) if storage.root.is_empty() => return Ok(None),
        Module::FileSystem(storage) => {
            return Ok(Some(Storage::new(PathBuf::from(&storage.root))));
        }
        other => connected(other)?,
    };
    let copy = FileStore::new(copy_folder(data_dir, store.place()));
    // The copy has what the engine has, so it is encrypted if that is.
    let store = LocalCopy::new(Arc::from(store), copy).leaving_out(sluice_certs::is_passing);
    Ok(Some(Storage::shared(sealed(Box::new(store), seal_keys)?)))
}

/// The folder below `data_dir` for what this node has read of the engine at `place`.
pub fn copy_folder(data_dir: &Path, place: &str) -> PathBuf {
    data_dir.join(COPIES).join(copy_name(place))
}

/// The default folder of the user that the process runs as.
pub(crate) fn user_folder() -> PathBuf {
    Storage::default_folder(|name| std::env::var_os(name))
}

/// The store of a module without a copy on this node, for commands that change it.
///
/// # Errors
/// Like [`open`].
pub fn engine(module: &Module) -> Result<Arc<dyn Store>, Refusal> {
    match module {
        Module::FileSystem(storage) => Ok(Arc::new(FileStore::new(&storage.root))),
        other => {
            let (store, seal_keys) = connected(other)?;
            sealed(store, seal_keys)
        }
    }
}

/// A store on an engine, and the keys that its secrets are to be encrypted with.
fn connected(module: &Module) -> Result<(Box<dyn Store>, Vec<SealKey>), Refusal> {
    Ok(match module {
        Module::Etcd(etcd) => {
            let keys = seal_keys(&etcd.encryption_key, &etcd.encryption_key_file)?;
            let opened = EtcdStore::open(&etcd_options(etcd)?).map_err(refused)?;
            (Box::new(opened), keys)
        }
        Module::Redis(redis) => {
            let opened = RedisStore::open(&redis::options(redis)?).map_err(refused)?;
            // Its own encryption is that of the plugin.
            (Box::new(opened), Vec::new())
        }
        Module::Postgres(postgres) => {
            let keys = seal_keys(&postgres.encryption_key, &postgres.encryption_key_file)?;
            let options = postgres::options(postgres)?;
            let opened = PostgresStore::open(&options).map_err(refused)?;
            (Box::new(opened), keys)
        }
        other @ (Module::FileSystem(_) | Module::Other(_)) => {
            return Err(Refusal::not_yet(
                &format!("storage `{}`", other.module()),
                "there are `file_system`, `etcd`, `redis` and `postgres`",
            ));
        }
    })
}

/// The store with its secrets encrypted, if there are keys.
fn sealed(store: Box<dyn Store>, keys: Vec<SealKey>) -> Result<Arc<dyn Store>, Refusal> {
    if keys.is_empty() {
        return Ok(Arc::from(store));
    }
    let store = SealedStore::new(store, keys, SealScope::Secrets).map_err(refused)?;
    Ok(Arc::new(store))
}

/// The keys of `encryption_key`, or of each line of `encryption_key_file`.
fn seal_keys(given: &str, path: &str) -> Result<Vec<SealKey>, Refusal> {
    let given = expanded("encryption_key", given)?;
    let text = match (file("encryption_key_file", path)?, given.as_str()) {
        (None, "") => return Ok(Vec::new()),
        (None, _) => return Ok(vec![seal_key("encryption_key", given.as_bytes())?]),
        (Some(text), "") => text,
        (Some(_), _) => {
            let what =
                "`encryption_key` and `encryption_key_file` of a storage exclude one another";
            return Err(Refusal::new(what));
        }
    };
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let keys = lines.filter(|line| !line.is_empty());
    let keys = keys.map(|line| seal_key("encryption_key_file", line));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    match keys.is_empty() {
        true => Err(Refusal::new(
            "`encryption_key_file` of a storage has no key",
        )),
        false => Ok(keys),
    }
}

fn seal_key(name: &str, text: &[u8]) -> Result<SealKey, Refusal> {
    SealKey::parse(text).map_err(|_| {
        Refusal::new(format!("`{name}` of a storage is not a key"))
            .with_help("32 characters, or 64 hexadecimal digits: `openssl rand -hex 32`")
    })
}

fn refused(error: StoreError) -> Refusal {
    Refusal::new(error.to_string())
}

/// How to reach etcd, in the words of a storage.
///
/// # Errors
/// A setting cannot be used.
pub fn etcd_options(etcd: &EtcdStorage) -> Result<EtcdOptions, Refusal> {
    let EtcdStorage {
        endpoints,
        prefix,
        username,
        password,
        tls_ca,
        tls_cert,
        tls_key,
        timeout,
        encryption_key: _,
        encryption_key_file: _,
    } = etcd;
    let usual = EtcdOptions::default();
    let is_secure = !tls_ca.is_empty() || !tls_cert.is_empty();
    let endpoint = |text: &String| {
        let text = expanded("endpoints", text)?;
        Ok(match (text.contains("://"), is_secure) {
            (true, _) => text,
            (false, true) => format!("https://{text}"),
            (false, false) => format!("http://{text}"),
        })
    };
    let endpoints = endpoints
        .iter()
        .map(endpoint)
        .collect::<Result<Vec<_>, Refusal>>()?;
    let identity = match (file("tls_cert", tls_cert)?, file("tls_key", tls_key)?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(
                Refusal::new("storage etcd: `tls_cert` and `tls_key` belong together")
                    .with_help("name both files"),
            );
        }
    };
    let username = expanded("username", username)?;
    let login = (!username.is_empty()).then_some(username);
    let login = login
        .map(|user| Ok::<_, Refusal>((user, expanded("password", password)?)))
        .transpose()?;
    let prefix = expanded("prefix", prefix)?;
    Ok(EtcdOptions {
        endpoints: match endpoints.is_empty() {
            true => usual.endpoints,
            false => endpoints,
        },
        ca: file("tls_ca", tls_ca)?,
        identity,
        login,
        prefix: match prefix.is_empty() {
            true => usual.prefix,
            false => prefix,
        },
        timeout: given(*timeout).unwrap_or(usual.timeout),
        ..usual
    })
}

/// A setting that may have placeholders of the process: `{env.PASSWORD}` or `{file./run/secrets/x}`. The message names
/// the setting, never its value.
fn expanded(name: &str, text: &str) -> Result<String, Refusal> {
    let expanded = process_values::expand(text).map_err(|_| {
        Refusal::new(format!(
            "`{name}` of a storage has a placeholder without a value"
        ))
        .with_help("{env.*} and {file.*} have values here")
    })?;
    // A file ends with a line break.
    Ok(expanded.trim_end_matches(['\r', '\n']).to_owned())
}

/// The content of a file that a setting names; `None` if it names none.
fn file(name: &str, path: &str) -> Result<Option<Vec<u8>>, Refusal> {
    if path.is_empty() {
        return Ok(None);
    }
    let path = expanded(name, path)?;
    let read = std::fs::read(&path);
    read.map(Some).map_err(|error| {
        Refusal::new(format!(
            "`{name}` of a storage: cannot read `{path}`: {error}"
        ))
    })
}

/// The folder name of the copy of the store at `place`, which shows operators what it is.
fn copy_name(place: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let shown: String = place
        .chars()
        .take(100)
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    // Different places may be shown alike.
    format!("{shown}-{:016x}", sluice_certs::renewal::seed_of(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str) -> Module {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn secrets_may_come_from_files_and_are_in_no_message() {
        let name = format!("sluice-storage-secret-{}", std::process::id());
        let secret = std::env::temp_dir().join(name);
        std::fs::write(&secret, "pass word\n").unwrap();
        let text = format!(
            r#"{{"endpoints":["a.test:2379"],"username":"u","password":"{{file.{}}}"}}"#,
            secret.display()
        );
        let etcd: EtcdStorage = serde_json::from_str(&text).unwrap();
        let options = etcd_options(&etcd).unwrap();
        std::fs::remove_file(&secret).unwrap();
        assert_eq!(options.endpoints, ["http://a.test:2379"]);
        let login = Some(("u".to_owned(), "pass word".to_owned()));
        assert_eq!(options.login, login);
        assert_eq!(options.prefix, "/sluice");
        let bad = EtcdStorage {
            username: "u".to_owned(),
            password: "hush-{nothing.x}".to_owned(),
            ..EtcdStorage::default()
        };
        let refusal = etcd_options(&bad).unwrap_err().to_string();
        assert!(
            refusal.contains("password") && !refusal.contains("hush"),
            "{refusal}"
        );
    }

    #[test]
    fn an_engine_is_opened_without_a_connection() {
        let folder = Path::new("/nonexistent");
        let etcd = module(r#"{"module":"etcd","endpoints":["127.0.0.1:1"],"prefix":"/x"}"#);
        let storage = open(Some(&etcd), folder).unwrap();
        assert!(storage.is_shared());
        assert!(open(None, folder).is_ok_and(|storage| !storage.is_shared()));
        let empty = module(r#"{"module":"file_system"}"#);
        assert_eq!(open(Some(&empty), folder).unwrap(), Storage::new(folder));
        for bad in [
            r#"{"module":"consul"}"#,
            r#"{"module":"etcd","endpoints":["ftp://x"]}"#,
            r#"{"module":"etcd","endpoints":["x"],"tls_cert":"/nonexistent"}"#,
            r#"{"module":"etcd","endpoints":["x"],"encryption_key":"short"}"#,
        ] {
            assert!(open(Some(&module(bad)), folder).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_are_one_or_several_and_in_no_message() {
        let hex = "ab".repeat(32);
        assert_eq!(seal_keys(&hex, "").unwrap().len(), 1);
        let name = format!("sluice-storage-keys-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, format!("{hex}\n\n{}\n", "cd".repeat(32))).unwrap();
        let shown = path.display().to_string();
        assert_eq!(seal_keys("", &shown).unwrap().len(), 2);
        assert!(seal_keys(&hex, &shown).is_err());
        std::fs::write(&path, "\n").unwrap();
        assert!(seal_keys("", &shown).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(seal_keys("", "").unwrap().is_empty());
        let refusal = seal_keys("hush", "").err().unwrap().to_string();
        assert!(!refusal.contains("hush"), "{refusal}");
    }

    #[test]
    fn copies_of_different_stores_have_different_folders() {
        let one = copy_name("etcd://a:1/x");
        assert!(one.starts_with("etcd___a_1_x-"), "{one}");
        assert_ne!(one, copy_name("etcd://a:1_x"));
        assert!(copy_name(&"x".repeat(1000)).len() < 200);
    }
}
