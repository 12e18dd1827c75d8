//! A hash in Redis as a source of upstreams: each value is `HOST:PORT`; the names of the values do not matter.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use sluice_handlers::limit_store::address;
use sluice_model::proxy::RedisUpstreams;
use sluice_net::worker::Worker;
use sluice_observe::log::Log;
use sluice_pipeline::refusal::Refusal;
use sluice_upstream::Resolved;
use sluice_upstream::redis::{Reachability, RedisServer};
use sluice_wire::resp::Reply;

use super::record::host_and_port;
use crate::limits::{SOURCE_RECORDS_MAX, SOURCE_REDIS_LIFETIME, SOURCE_REDIS_TIMEOUT};

/// A hash in Redis.
pub struct Hash {
    server: Arc<RedisServer>,
    key: Box<str>,
    log: Option<Log>,
}

impl Hash {
    /// Reads the settings.
    ///
    /// # Errors
    /// The URL is invalid, or the key is missing.
    pub fn build(config: &RedisUpstreams, log: Option<&Log>) -> Result<Hash, Refusal> {
        if config.key.is_empty() {
            return Err(Refusal::new("`dynamic redis` without a key")
                .with_help("write `key` with the name of a hash whose values are `HOST:PORT`"));
        }
        let (url, connector) = address(&config.store, &config.ca)?;
        let (place, own) = (url.place(), log.cloned());
        let report = move |change: &Reachability| report(own.as_ref(), &place, change);
        Ok(Hash {
            server: Arc::new(RedisServer::new(&url, connector, report)),
            key: config.key.as_str().into(),
            log: log.cloned(),
        })
    }

    /// The hosts and ports of the hash.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the hash has none; another kind if the server cannot be asked.
    pub async fn list(&self, worker: &Rc<Worker>) -> io::Result<Resolved<(String, u16)>> {
        let command = [&b"HGETALL"[..], self.key.as_bytes()];
        let reply = self
            .server
            .ask(worker, &command, SOURCE_REDIS_TIMEOUT)
            .await;
        let Reply::Array(words) = reply.map_err(io::Error::other)? else {
            return Err(io::Error::other("an unexpected reply"));
        };
        let mut records = Vec::new();
        for pair in words.chunks_exact(2) {
            let [Reply::Bulk(name), Reply::Bulk(value)] = pair else {
                continue;
            };
            match host_and_port(value) {
                Some(_) if records.len() >= SOURCE_RECORDS_MAX => break,
                Some(record) => records.push(record),
                None => self.skip(name, value),
            }
        }
        if records.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Resolved {
            records,
            lifetime: SOURCE_REDIS_LIFETIME,
        })
    }

    fn skip(&self, name: &[u8], value: &[u8]) {
        if let Some(log) = &self.log {
            log.debug(LOGGER, "a value of the hash is not HOST:PORT")
                .text("key", &*self.key)
                .text("name", name)
                .text("value", value)
                .send();
        }
    }
}

const LOGGER: &str = "http.reverse_proxy.upstreams.redis";

fn report(log: Option<&Log>, place: &str, change: &Reachability) {
    let Some(log) = log else { return };
    match change {
        Reachability::Away(reason) => log
            .error(
                LOGGER,
                "cannot read upstreams from Redis; the last ones stay in use",
            )
            .text("store", place)
            .text("error", &**reason)
            .send(),
        Reachability::Back => log
            .info(LOGGER, "upstreams are read from Redis again")
            .text("store", place)
            .send(),
        Reachability::Odd(reason) => log
            .error(LOGGER, "Redis refused to list upstreams")
            .text("store", place)
            .text("error", &**reason)
            .send(),
    }
}
