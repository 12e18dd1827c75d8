//! Converts the sources of certificates during handshakes (`get_certificate`) from the model to those of
//! `sluice-certs`.

use std::path::PathBuf;

use serde_json::Value;
use sluice_certs::SourceOptions;
use sluice_certs::sources::TAILSCALE_SOCKET;
use sluice_model::RawModule;

use sluice_pipeline::refusal::Refusal;

/// Parses the modules of `get_certificate`, in order.
pub(super) fn options(modules: &[RawModule]) -> Result<Vec<SourceOptions>, Refusal> {
    modules.iter().map(option).collect()
}

fn option(module: &RawModule) -> Result<SourceOptions, Refusal> {
    let text = |key: &str| module.get(key).and_then(Value::as_str).unwrap_or_default();
    let (options, known) = match text("via") {
        "http" => {
            let options = SourceOptions::http(text("url")).map_err(|what| {
                Refusal::new(format!("certificates cannot be requested: {what}"))
                    .with_help("write a whole address such as `http://localhost:9000/cert`")
            })?;
            (options, &["via", "url"][..])
        }
        "tailscale" => {
            let socket = PathBuf::from(TAILSCALE_SOCKET);
            (SourceOptions::Tailscale(socket), &["via"][..])
        }
        other => {
            return Err(
                Refusal::new(format!("unknown source of certificates `{other}`"))
                    .with_help("there are `http` and `tailscale`"),
            );
        }
    };
    match module.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(Refusal::new(format!(
            "unknown word `{key}` for the source of certificates `{}`",
            text("via")
        ))),
        None => Ok(options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SourceOptions, String> {
        let module: RawModule = serde_json::from_str(text).expect("a module");
        option(&module).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn sources_are_read_and_others_refused_by_name() {
        let url = "http://localhost:9000/cert";
        assert_eq!(
            read(&format!(r#"{{"via":"http","url":"{url}"}}"#)),
            Ok(SourceOptions::Http(url.to_owned()))
        );
        assert_eq!(
            read(r#"{"via":"tailscale"}"#),
            Ok(SourceOptions::Tailscale(TAILSCALE_SOCKET.into()))
        );
        for (bad, named) in [
            (r#"{"via":"http"}"#, "no"),
            (r#"{"via":"http","url":"localhost"}"#, "`localhost`"),
            (r#"{"via":"http","url":"http://a/","key":1}"#, "`key`"),
            (r#"{"via":"tailscale","url":"http://a/"}"#, "`url`"),
            (r#"{"via":"vault"}"#, "`vault`"),
            (r#"{}"#, "``"),
        ] {
            let said = read(bad).expect_err(bad);
            assert!(said.contains(named), "{bad}: {said}");
        }
    }
}
