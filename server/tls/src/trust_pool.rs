//! Sources of trusted certificates: `trust_pool`, `tls_trust_pool`, `verifier leaf`. `sluice-certs` and `sluice-net`
//! verify with them.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use sluice_certs::{Publisher, Storage};
use sluice_dns::fetch::Verification;
use sluice_model::{Duration, RawModule, Storage as Module};
use sluice_net::tls::{certificates_from_pem, revoked_from_pem, system_certificates};

use crate::limits::{TRUST_ENDPOINTS_MAX, TRUST_POOLS_NESTED_MAX};
use crate::storages;
use sluice_pipeline::keys::{Keys, Signer};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// The certificates of a pool (DER); `None` if the configuration is only validated and they would have to be created or
/// fetched.
type Pool = Option<Vec<Vec<u8>>>;

/// The certificates of a pool. Without `keys` the configuration is only validated and nothing is fetched.
pub fn certificates(pool: &RawModule, keys: Option<&Keys<'_>>) -> Result<Pool, Refusal> {
    nested(pool, keys, 0)
}

fn nested(pool: &RawModule, keys: Option<&Keys<'_>>, depth: usize) -> Result<Pool, Refusal> {
    let provider = pool.get("provider").and_then(Value::as_str);
    match provider.unwrap_or_default() {
        "inline" => decoded(&texts(pool, "trusted_ca_certs")).map(Some),
        "file" => all(texts(pool, "pem_files").iter(), from_file).map(Some),
        "system" => system_certificates()
            .map(Some)
            .map_err(|error| Refusal::new(error.to_string())),
        "storage" => stored(pool, keys),
        "pki_root" => of_authorities(pool, keys, Signer::Root),
        "pki_intermediate" => of_authorities(pool, keys, Signer::Intermediate),
        "http" if depth < TRUST_POOLS_NESTED_MAX => published(pool, keys, depth),
        "combined" if depth < TRUST_POOLS_NESTED_MAX => {
            let sources = pool.get("sources").and_then(Value::as_array);
            let parts = sources.into_iter().flatten().map(|source| match source {
                Value::Object(source) => {
                    nested(&source.clone().into_iter().collect(), keys, depth + 1)
                }
                _ => Err(Refusal::new("a source of a trust pool is an object")),
            });
            joined(parts)
        }
        "http" | "combined" => Err(Refusal::new("trust pools within one another, too deep")),
        other => Err(
            Refusal::new(format!("unknown trust pool `{other}`")).with_help(
                "there are `file`, `inline`, `system`, `storage`, `http`, `pki_root`, `pki_intermediate` \
                 and `combined`",
            ),
        ),
    }
}

/// Combines pools; `None` if the certificates of one of them are not known.
fn joined(parts: impl Iterator<Item = Result<Pool, Refusal>>) -> Result<Pool, Refusal> {
    let parts = parts.collect::<Result<Option<Vec<_>>, _>>()?;
    Ok(parts.map(|parts| parts.concat()))
}

fn stored(pool: &RawModule, keys: Option<&Keys<'_>>) -> Result<Pool, Refusal> {
    let own = own_storage(pool, keys.map_or(Path::new(""), |keys| keys.data_dir))?;
    // Validation connects to no engine.
    let own = own.filter(|own| keys.is_some() || !own.is_shared());
    let Some(storage) = own.as_ref().or(keys.map(|keys| keys.storage)) else {
        return Ok(None);
    };
    let names = texts(pool, "pem_keys");
    all(names.iter(), |name| {
        let place = storage.place_of(name);
        let refuse =
            |why: String| Refusal::new(format!("certificates in `{}`: {why}", place.display()));
        let text = storage
            .read(name)
            .map_err(|error| refuse(error.to_string()))?;
        let text = text.ok_or_else(|| refuse("no such key in the storage".to_owned()))?;
        from_text(&place, &text)
    })
    .map(Some)
}

fn of_authorities(
    pool: &RawModule,
    keys: Option<&Keys<'_>>,
    which: Signer,
) -> Result<Pool, Refusal> {
    let Some(keys) = keys else {
        return Ok(None);
    };
    let names = texts(pool, "authority");
    joined(names.iter().map(|name| {
        let found = (keys.authority)(name, which)?;
        let found = found.map(|found| from_text(&found.place, &found.text));
        found.transpose()
    }))
}

/// TLS settings for fetching a pool over HTTP.
#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PublisherTls {
    ca: Option<RawModule>,
    insecure_skip_verify: bool,
    handshake_timeout: Duration,
    server_name: String,
    renegotiation: String,
}

/// Fetches the certificates from all endpoints, one after the other.
fn published(pool: &RawModule, keys: Option<&Keys<'_>>, depth: usize) -> Result<Pool, Refusal> {
    let endpoints = texts(pool, "endpoints");
    if endpoints.len() > TRUST_ENDPOINTS_MAX {
        let what = format!("`endpoints` of a trust pool: {TRUST_ENDPOINTS_MAX} at most");
        return Err(Refusal::new(what));
    }
    let tls = pool
        .get("tls")
        .cloned()
        .unwrap_or_else(|| Value::Object(Default::default()));
    let tls: PublisherTls = serde_json::from_value(tls)
        .map_err(|error| Refusal::new(format!("`tls` of a trust pool: {error}")))?;
    if !matches!(tls.renegotiation.as_str(), "" | "never") {
        return Err(Refusal::not_yet(
            "`renegotiation` of a trust pool",
            "remove it",
        ));
    }
    let roots = match &tls.ca {
        None => None,
        Some(ca) => match nested(ca, keys, depth + 1)? {
            Some(roots) => Some(roots),
            None => return Ok(None),
        },
    };
    if keys.is_none() {
        return Ok(None);
    }
    let publisher = Publisher {
        roots,
        verification: match tls.insecure_skip_verify {
            true => Verification::None,
            false => Verification::Full,
        },
        server_name: Some(tls.server_name).filter(|name| !name.is_empty()),
        connect_timeout: given(tls.handshake_timeout),
    };
    all(endpoints.iter(), |endpoint| {
        publisher.fetch(endpoint).map_err(|why| {
            Refusal::new(format!("certificates at `{endpoint}`: {why}"))
                .with_help("the server starts when it has them; or name a file: `trust_pool file`")
        })
    })
    .map(Some)
}

/// The pool's own storage, if it has one.
fn own_storage(pool: &RawModule, data_dir: &Path) -> Result<Option<Storage>, Refusal> {
    let Some(module) = pool.get("storage") else {
        return Ok(None);
    };
    let module: Module = serde_json::from_value(module.clone())
        .map_err(|error| Refusal::new(format!("storage of a trust pool: {error}")))?;
    storages::own(&module, data_dir)
}

/// The leaf certificates of a client certificate verifier.
pub fn leafs(verifier: &RawModule) -> Result<Vec<Vec<u8>>, Refusal> {
    let name = verifier.get("verifier").and_then(Value::as_str);
    if name != Some("leaf") {
        let name = name.unwrap_or_default();
        return Err(Refusal::new(format!("unknown verifier `{name}`")).with_help("there is `leaf`"));
    }
    let loaders = verifier.get("leaf_certs_loaders").and_then(Value::as_array);
    all(loaders.into_iter().flatten(), |loader| {
        let loader: RawModule = match loader {
            Value::Object(loader) => loader.clone().into_iter().collect(),
            _ => return Err(Refusal::new("a loader of certificates is an object")),
        };
        match loader
            .get("loader")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "file" => all(texts(&loader, "files").iter(), from_file),
            "folder" => all(texts(&loader, "folders").iter(), from_folder),
            "pem" => all(texts(&loader, "certificates").iter(), |text| {
                certificates_from_pem(text.as_bytes())
                    .map_err(|error| Refusal::new(format!("certificate as text: {error}")))
            }),
            other => Err(Refusal::not_yet(
                &format!("loader `{other}` of certificates"),
                "use `file`, `folder` or `pem`",
            )),
        }
    })
}

/// Decodes certificates in base64.
pub fn decoded(texts: &[String]) -> Result<Vec<Vec<u8>>, Refusal> {
    let decode = |text: &String| {
        BASE64
            .decode(text.trim())
            .map_err(|_| Refusal::new("a certificate is not base64 text"))
    };
    texts.iter().map(decode).collect()
}

/// Reads the certificates in a file.
pub fn from_file(file: impl AsRef<Path>) -> Result<Vec<Vec<u8>>, Refusal> {
    let file = file.as_ref();
    let refuse = |why: String| Refusal::new(format!("certificates in `{}`: {why}", file.display()));
    let text = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
    from_text(file, &text)
}

/// Reads the certificates in a PEM text that lies at `place`.
fn from_text(place: &Path, text: &[u8]) -> Result<Vec<Vec<u8>>, Refusal> {
    let refuse = |why| Refusal::new(format!("certificates in `{}`: {why}", place.display()));
    certificates_from_pem(text).map_err(refuse)
}

/// Reads the certificate revocation lists in a PEM file (as DER).
pub fn revoked_from_file(file: &Path) -> Result<Vec<Vec<u8>>, Refusal> {
    let refuse = |why: String| {
        Refusal::new(format!(
            "revoked certificates in `{}`: {why}",
            file.display()
        ))
    };
    let text = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
    revoked_from_pem(&text).map_err(|error| refuse(error.to_string()))
}

/// Reads the certificates in all `.pem` files of a folder and its subfolders.
fn from_folder(folder: &String) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut found = Vec::new();
    let mut folders = vec![(Path::new(folder).to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let refuse =
            |error: std::io::Error| Refusal::new(format!("folder `{}`: {error}", folder.display()));
        for entry in std::fs::read_dir(&folder).map_err(refuse)? {
            let path = entry.map_err(refuse)?.path();
            if path.is_dir() && depth < TRUST_POOLS_NESTED_MAX {
                folders.push((path, depth + 1));
            } else if path.extension().is_some_and(|extension| extension == "pem") {
                found.extend(from_file(&path)?);
            }
        }
    }
    Ok(found)
}

fn texts(module: &RawModule, key: &str) -> Vec<String> {
    let list = module.get(key).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// Collects the certificates from all `sources`.
fn all<T>(
    sources: impl Iterator<Item = T>,
    read: impl Fn(T) -> Result<Vec<Vec<u8>>, Refusal>,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let parts = sources.map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(parts.concat())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use serde_json::json;
    use sluice_certs::CertStore;
    use sluice_pipeline::keys::AuthorityPem;

    const PEM: &str = include_str!("../tests/authority.pem");

    fn count(pool: Value) -> Result<usize, String> {
        // Each call uses a folder of its own: tests run in parallel, and a file that is being rewritten is empty for a
        // moment.
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluice-pools-{}-{call}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let authority = folder.join("pki/authorities/local");
        std::fs::create_dir_all(&authority).unwrap();
        for name in ["root.crt", "intermediate.crt", "leaf.pem"] {
            std::fs::write(authority.join(name), PEM).unwrap();
        }
        let text = pool.to_string().replace("FOLDER", folder.to_str().unwrap());
        let pool: RawModule = serde_json::from_str(&text).unwrap();
        let found = match pool.contains_key("verifier") {
            true => leafs(&pool),
            false => {
                let storage = Storage::new(&folder);
                let authority = |name: &str, which: Signer| {
                    let file = match which {
                        Signer::Root => "root.crt",
                        Signer::Intermediate => "intermediate.crt",
                    };
                    let place = folder.join(format!("pki/authorities/{name}/{file}"));
                    let read = std::fs::read(&place);
                    let text = read.map_err(|error| Refusal::new(error.to_string()))?;
                    Ok(Some(AuthorityPem { place, text }))
                };
                let keys = Keys {
                    storage: &storage,
                    data_dir: &folder,
                    store: &CertStore::new([]),
                    authority: &authority,
                };
                // Validation without keys fetches nothing, but finds mistakes.
                let looked_at = certificates(&pool, None);
                let found = certificates(&pool, Some(&keys));
                assert!(looked_at.is_ok() || found.is_err(), "{pool:?}");
                found.map(|found| found.expect("all of it is there"))
            }
        };
        std::fs::remove_dir_all(&folder).unwrap();
        found
            .map(|found| found.len())
            .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn each_source_gives_its_certificates() {
        let file =
            json!({ "provider": "file", "pem_files": ["FOLDER/pki/authorities/local/root.crt"] });
        let root = json!({ "provider": "pki_root", "authority": ["local"] });
        let stored =
            json!({ "provider": "storage", "pem_keys": ["pki/authorities/local/leaf.pem"] });
        let der = BASE64.encode(&certificates_from_pem(PEM.as_bytes()).unwrap()[0]);
        let inline = json!({ "provider": "inline", "trusted_ca_certs": [der] });
        let elsewhere = json!({
            "provider": "storage",
            "pem_keys": ["authorities/local/leaf.pem"],
            "storage": { "module": "file_system", "root": "FOLDER/pki" }
        });
        let below = json!({ "provider": "pki_intermediate", "authority": ["local"] });
        for pool in [&file, &root, &stored, &inline, &below, &elsewhere] {
            assert_eq!(count(pool.clone()), Ok(1), "{pool}");
        }
        let combined = json!({ "provider": "combined", "sources": [file, root, inline] });
        assert_eq!(count(combined), Ok(3));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for pool in [
            json!({ "provider": "file", "pem_files": ["FOLDER/none.pem"] }),
            json!({ "provider": "pki_root", "authority": ["other"] }),
            json!({ "provider": "inline", "trusted_ca_certs": ["%"] }),
            json!({ "provider": "http", "endpoints": ["http://localhost:1"] }),
            json!({ "provider": "http", "tls": { "renegotiation": "once" } }),
            json!({ "provider": "http", "tls": { "unknown": 1 } }),
            json!({ "provider": "http", "endpoints": vec!["http://localhost:1"; 17] }),
            json!({ "provider": "storage", "pem_keys": ["a"], "storage": { "module": "magic" } }),
            json!({ "provider": "magic" }),
            json!({ "verifier": "branch" }),
            json!({ "verifier": "leaf", "leaf_certs_loaders": [{ "loader": "magic" }] }),
        ] {
            assert!(count(pool.clone()).is_err(), "{pool}");
        }
    }

    #[test]
    fn leafs_come_from_files_folders_and_text() {
        let loaders = json!([
            { "loader": "file", "files": ["FOLDER/pki/authorities/local/leaf.pem"] },
            { "loader": "folder", "folders": ["FOLDER/pki"] },
            { "loader": "pem", "certificates": [PEM] },
        ]);
        let verifier = json!({ "verifier": "leaf", "leaf_certs_loaders": loaders });
        assert_eq!(count(verifier), Ok(3));
    }
}
