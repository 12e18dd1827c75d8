//! The settings of `storage redis`, which are those of caddy-storage-redis.

use std::time::Duration;

use sluice_model::RedisStorage;
use sluice_pipeline::refusal::Refusal;
use sluice_store::redis::{Compression, RedisOptions, RedisServers};
use sluice_store::{TlsOptions, TlsVerification};

use super::{expanded, file};

/// The port of a server, and that of a sentinel.
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// The length of an encryption key. The plugin cuts longer ones.
const KEY_BYTES: usize = 32;

pub(super) fn options(redis: &RedisStorage) -> Result<RedisOptions, Refusal> {
    let usual = RedisOptions::default();
    let text = |name: &str, value: &str| -> Result<Option<String>, Refusal> {
        Ok(Some(expanded(name, value)?).filter(|text| !text.is_empty()))
    };
    let timeout = match redis.timeout.as_str() {
        "" => usual.timeout,
        text => {
            let seconds = text.parse::<u32>().ok().filter(|seconds| *seconds > 0);
            let seconds = seconds
                .ok_or_else(|| Refusal::new("storage redis: `timeout` is a number of seconds"))?;
            Duration::from_secs(u64::from(seconds))
        }
    };
    let keys = encryption_keys(redis)?;
    Ok(RedisOptions {
        servers: servers(redis)?,
        username: text("username", &redis.username)?,
        password: text("password", &redis.password)?,
        db: redis.db,
        prefix: text("key_prefix", &redis.key_prefix)?.unwrap_or(usual.prefix),
        timeout,
        tls: tls(redis)?,
        client_name: expanded("client_name", &redis.client_name)?,
        compression: match redis.compression.as_str() {
            "" | "false" => Compression::None,
            "flate" | "true" => Compression::Flate,
            "zlib" => Compression::Zlib,
            other => {
                let what = format!("storage redis: unknown compression `{other}`");
                return Err(Refusal::new(what).with_help("there are `flate`, `zlib` and `false`"));
            }
        },
        encryption_key: keys.first().copied(),
        former_keys: keys.get(1..).unwrap_or_default().to_vec(),
        ..usual
    })
}

fn servers(redis: &RedisStorage) -> Result<RedisServers, Refusal> {
    let is_failover = redis.client_type == "failover";
    let usual = if is_failover { SENTINEL_PORT } else { PORT };
    let addresses = match redis.address.is_empty() {
        false => redis
            .address
            .iter()
            .map(|text| address(&expanded("address", text)?, usual))
            .collect::<Result<Vec<_>, Refusal>>()?,
        true => of_hosts(redis, usual)?,
    };
    match redis.client_type.as_str() {
        "failover" => Ok(RedisServers::Sentinels {
            sentinels: addresses,
            master: expanded("master_name", &redis.master_name)?,
            password: Some(expanded("sentinel_password", &redis.sentinel_password)?)
                .filter(|password| !password.is_empty()),
        }),
        "cluster" => Err(cluster()),
        "" | "simple" => match <[(String, u16); 1]>::try_from(addresses) {
            Ok([(host, port)]) => Ok(RedisServers::Single(host, port)),
            // The plugin takes several addresses for a cluster.
            Err(_) => Err(cluster()),
        },
        other => Err(
            Refusal::new(format!("storage redis: unknown client type `{other}`"))
                .with_help("there are `simple` and `failover`"),
        ),
    }
}

fn cluster() -> Refusal {
    Refusal::not_yet(
        "storage in a Redis Cluster",
        "name one server, or sentinels with `storage redis failover`",
    )
}

/// The addresses of hosts and ports. One port holds for all hosts.
fn of_hosts(redis: &RedisStorage, usual: u16) -> Result<Vec<(String, u16)>, Refusal> {
    let hosts = match redis.host.as_slice() {
        [] => &["127.0.0.1".to_owned()][..],
        hosts => hosts,
    };
    let port = |index: usize| match redis.port.as_slice() {
        [] => Ok(usual),
        [port] => port_of(&expanded("port", port)?),
        ports => match ports.get(index) {
            Some(port) => port_of(&expanded("port", port)?),
            None => Err(Refusal::new("storage redis: fewer ports than hosts")),
        },
    };
    let hosts = hosts.iter().enumerate();
    hosts
        .map(|(index, host)| Ok((expanded("host", host)?, port(index)?)))
        .collect()
}

fn port_of(text: &str) -> Result<u16, Refusal> {
    let refuse = |_| Refusal::new(format!("storage redis: `{text}` is not a port"));
    text.parse().map_err(refuse)
}

/// `host`, `host:port`, or an IPv6 address in brackets.
fn address(text: &str, usual: u16) -> Result<(String, u16), Refusal> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Ok(usual), port_of)?;
    Ok((host.to_owned(), port))
}

fn tls(redis: &RedisStorage) -> Result<Option<TlsOptions>, Refusal> {
    if !redis.tls_enabled {
        return Ok(None);
    }
    let pem = expanded("tls_server_certs_pem", &redis.tls_server_certs_pem)?;
    let ca = match pem.is_empty() {
        true => file("tls_server_certs_path", &redis.tls_server_certs_path)?,
        false => Some(pem.into_bytes()),
    };
    Ok(Some(TlsOptions {
        ca,
        identity: None,
        verification: match redis.tls_insecure {
            true => TlsVerification::None,
            false => TlsVerification::Full,
        },
    }))
}

/// The key of `encryption_key`, or of each line of `encryption_key_file`: the first encrypts, all decrypt.
fn encryption_keys(redis: &RedisStorage) -> Result<Vec<[u8; KEY_BYTES]>, Refusal> {
    let given = expanded("encryption_key", &redis.encryption_key)?.into_bytes();
    let key = |text: &[u8]| text.first_chunk::<KEY_BYTES>().copied();
    let refuse = || Refusal::new("storage redis: the encryption key has fewer than 32 characters");
    let text = match file("encryption_key_file", &redis.encryption_key_file)? {
        Some(_) if !given.is_empty() => {
            return Err(Refusal::new(
                "storage redis: `encryption_key` and `encryption_key_file` exclude one another",
            ));
        }
        Some(text) => text.trim_ascii_end().to_vec(),
        None if given.is_empty() => return Ok(Vec::new()),
        None => return Ok(vec![key(&given).ok_or_else(refuse)?]),
    };
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let lines = lines.filter(|line| !line.is_empty());
    match lines.map(key).collect::<Option<Vec<_>>>() {
        Some(keys) if !keys.is_empty() => Ok(keys),
        // A single key of any bytes may have line breaks in it.
        Some(_) | None => Ok(vec![key(&text).ok_or_else(refuse)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RedisOptions, String> {
        let redis: RedisStorage = serde_json::from_str(text).unwrap();
        options(&redis).map_err(|refusal| refusal.to_string())
    }

    fn single(text: &str) -> (String, u16) {
        match read(text).unwrap().servers {
            RedisServers::Single(host, port) => (host, port),
            RedisServers::Sentinels { .. } => panic!("sentinels"),
        }
    }

    #[test]
    fn servers_are_found_as_the_plugin_finds_them() {
        for (text, host, port) in [
            ("{}", "127.0.0.1", 6379),
            (r#"{"host":["a"],"port":["1"]}"#, "a", 1),
            (r#"{"host":["a"],"address":["b:2"]}"#, "b", 2),
            (r#"{"address":["[::1]:7"]}"#, "::1", 7),
            (r#"{"address":["b"]}"#, "b", 6379),
        ] {
            assert_eq!(single(text), (host.to_owned(), port), "{text}");
        }
        let text = r#"{"client_type":"failover","master_name":"m","host":["a","b"],"port":["3"]}"#;
        let RedisServers::Sentinels {
            sentinels, master, ..
        } = read(text).unwrap().servers
        else {
            panic!("no sentinels");
        };
        assert_eq!(sentinels, [("a".to_owned(), 3), ("b".to_owned(), 3)]);
        assert_eq!(master, "m");
        assert!(read(r#"{"address":["a:1","b:1"]}"#).is_err());
        assert!(read(r#"{"client_type":"cluster"}"#).is_err());
        assert!(read(r#"{"address":["a:x"]}"#).is_err());
    }

    #[test]
    fn keys_are_cut_as_in_the_plugin_and_short_ones_are_in_no_message() {
        let key = "0123456789abcdef0123456789abcdefMORE";
        let options = read(&format!(r#"{{"encryption_key":"{key}"}}"#)).unwrap();
        assert_eq!(options.encryption_key.unwrap(), key.as_bytes()[..32]);
        let refusal = read(r#"{"encryption_key":"hush"}"#).err().unwrap();
        assert!(!refusal.contains("hush"), "{refusal}");
        let name = format!("sluice-redis-keys-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, format!("{key}\n\n{}\n", "n".repeat(32))).unwrap();
        let text = format!(r#"{{"encryption_key_file":"{}"}}"#, path.display());
        let options = read(&text).unwrap();
        assert_eq!(options.encryption_key.unwrap(), key.as_bytes()[..32]);
        assert_eq!(options.former_keys, [[b'n'; 32]]);
        std::fs::write(&path, "0123456789abcdef\n123456789abcdef\n").unwrap();
        let options = read(&text).unwrap();
        assert_eq!(
            options.encryption_key.unwrap(),
            *b"0123456789abcdef\n123456789abcdef"
        );
        std::fs::remove_file(&path).unwrap();
        let options = read(r#"{"compression":true,"timeout":"3"}"#).unwrap();
        assert_eq!(options.compression, Compression::Flate);
        assert_eq!(options.timeout, Duration::from_secs(3));
    }
}
