//! Settings of sluice's own that are checked or read when a configuration is built.

use std::sync::Arc;

use sluice_model::Config;
use sluice_model::http::MEMORY_LIMIT_MIN;
use sluice_pipeline::refusal::Refusal;

/// Refuses a memory limit below which nothing could be served.
pub(crate) fn low_memory_limit(config: &Config) -> Option<Refusal> {
    let bytes = config.apps.http.as_ref()?.memory_limit;
    (1..MEMORY_LIMIT_MIN).contains(&bytes).then(|| Refusal {
        place: "apps.http.memory_limit".to_owned(),
        ..Refusal::new(format!("a memory limit of {bytes} bytes"))
            .with_help(format!("give {MEMORY_LIMIT_MIN} or more, or remove it"))
    })
}

/// The secret in the file of `host_key_file`.
pub(crate) fn host_key(
    server: &sluice_model::Server,
    place: &str,
) -> Result<Option<Arc<[u8]>>, Vec<Refusal>> {
    let file = server.http3.as_ref().map(|http3| &http3.host_key_file);
    let Some(file) = file.filter(|file| !file.is_empty()) else {
        return Ok(None);
    };
    match std::fs::read(file) {
        Ok(secret) if !secret.is_empty() => Ok(Some(secret.into())),
        Ok(_) => Err(format!("`{file}` is empty")),
        Err(error) => Err(format!("cannot read `{file}`: {error}")),
    }
    .map_err(|message| {
        let help = "write some random bytes to it: `openssl rand -out FILE 64`";
        let refusal = Refusal::new(message).with_help(help);
        vec![Refusal {
            place: format!("{place}.http3.host_key_file"),
            ..refusal
        }]
    })
}
