//! Sources of CA certificates, for client certificates and for upstreams.

use serde_json::Value;
use sluice_model::{RawModule, Storage};

use super::Lowering;
use super::definition::Read::Elsewhere;
use super::definition::Verdict::Partly;
use super::definition::{Options, option};
use super::matchers::inner_line;
use crate::tree::Directive;

/// The options of all sources. Each source has few and reads its own.
pub(super) static TRUST_POOL: Options<()> = Options::new(
    "trust_pool",
    &[
        option("trust_der", "trust_der <base64_der>", Elsewhere),
        option("pem_file", "pem_file <pem_file>...", Elsewhere),
        option("authority", "authority <ca_name>...", Elsewhere),
        option("storage", "storage <storage_module>", Elsewhere),
        option("keys", "keys <storage_keys>...", Elsewhere),
        option("endpoints", "endpoints <endpoints...>", Elsewhere),
        option("tls", "tls <tls_config>", Elsewhere),
        option("source", "source <ca_module>", Elsewhere),
        option("ca", "ca <ca_module>", Elsewhere),
        option("insecure_skip_verify", "insecure_skip_verify", Elsewhere),
        option(
            "handshake_timeout",
            "handshake_timeout <duration>",
            Elsewhere,
        ),
        option("server_name", "server_name <name>", Elsewhere),
        option::<()>(
            "renegotiation",
            "renegotiation <never|once|freely>",
            Elsewhere,
        )
        .but(Partly("`never`")),
    ],
);

const POOLS: [&str; 8] = [
    "file",
    "inline",
    "system",
    "pki_root",
    "pki_intermediate",
    "storage",
    "http",
    "combined",
];

impl Lowering<'_> {
    /// Reads a source of CA certificates from a line that begins with its name.
    pub(super) fn trust_pool(&mut self, line: &Directive) -> Option<RawModule> {
        let place = std::mem::replace(&mut self.place, &TRUST_POOL);
        let pool = match line.name.text.as_str() {
            "file" => self.listed_pool(line, "pem_file", "pem_files"),
            "pki_root" | "pki_intermediate" => self.listed_pool(line, "authority", "authority"),
            "storage" => self.storage_pool(line),
            "http" => self.http_pool(line),
            "combined" => self.combined_pool(line),
            "inline" => {
                let arguments = self.between(line, &line.args, 0, 0);
                arguments.and_then(|()| self.listed_pool(line, "trust_der", "trusted_ca_certs"))
            }
            "system" => self.flag(line).map(|()| RawModule::new()),
            _ => self.unknown_module(&line.name, "source of CA certificates", &POOLS),
        };
        self.place = place;
        let mut pool = pool?;
        pool.insert("provider".into(), line.name.text.as_str().into());
        Some(pool)
    }

    /// A pool that is a list, on the line or in lines of a block.
    fn listed_pool(&mut self, line: &Directive, option: &str, key: &str) -> Option<RawModule> {
        let mut values: Vec<String> = super::args::texts(&line.args);
        self.each(line.lines(), |this, inner| {
            this.known_option(inner)?;
            if inner.name.text != option {
                return this.unknown_option(inner);
            }
            values.extend(this.texts(inner)?);
            Some(())
        })?;
        if values.is_empty() {
            return self.missing(line, &format!("at least one `{option}`"));
        }
        let mut pool = RawModule::new();
        pool.insert(key.into(), values.into());
        Some(pool)
    }

    /// Certificates in a storage: the one of the whole server, or one of its own.
    fn storage_pool(&mut self, line: &Directive) -> Option<RawModule> {
        let mut keys: Vec<String> = super::args::texts(&line.args);
        let mut storage: Option<Storage> = None;
        self.each(line.lines(), |this, option| {
            this.known_option(option)?;
            match option.name.text.as_str() {
                "keys" => keys.extend(this.texts(option)?),
                "storage" if storage.is_some() => return this.duplicate(option),
                "storage" => storage = Some(this.storage(option)?),
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        if keys.is_empty() {
            return self.missing(line, "at least one `keys`");
        }
        let mut pool = RawModule::new();
        pool.insert("pem_keys".into(), keys.into());
        if let Some(storage) = storage {
            let storage = serde_json::to_value(storage).expect("all keys of the model are text");
            pool.insert("storage".into(), storage);
        }
        Some(pool)
    }

    fn combined_pool(&mut self, line: &Directive) -> Option<RawModule> {
        self.between(line, &line.args, 0, 0)?;
        let mut sources: Vec<Value> = Vec::new();
        self.each(line.lines(), |this, option| {
            this.known_option(option)?;
            match (option.name.text.as_str(), inner_line(option)) {
                ("source", Some(source)) => sources.push(this.trust_pool(&source)?.into()),
                ("source", None) => return this.missing(option, "a source of CA certificates"),
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        let mut pool = RawModule::new();
        pool.insert("sources".into(), sources.into());
        Some(pool)
    }

    fn http_pool(&mut self, line: &Directive) -> Option<RawModule> {
        let mut endpoints = super::args::texts(&line.args);
        let mut pool = RawModule::new();
        self.each(line.lines(), |this, option| {
            this.known_option(option)?;
            match option.name.text.as_str() {
                "endpoints" => endpoints.extend(this.texts(option)?),
                "tls" => {
                    let tls = this.pool_tls(option)?;
                    pool.insert("tls".into(), tls.into());
                }
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        pool.insert("endpoints".into(), endpoints.into());
        Some(pool)
    }

    fn pool_tls(&mut self, line: &Directive) -> Option<RawModule> {
        self.between(line, &line.args, 0, 0)?;
        let mut tls = RawModule::new();
        self.each(line.lines(), |this, option| {
            this.known_option(option)?;
            let (key, value): (&str, Value) = match option.name.text.as_str() {
                "ca" => match inner_line(option) {
                    Some(source) => ("ca", this.trust_pool(&source)?.into()),
                    None => return this.missing(option, "a source of CA certificates"),
                },
                "insecure_skip_verify" => {
                    this.flag(option)?;
                    ("insecure_skip_verify", true.into())
                }
                "handshake_timeout" => {
                    ("handshake_timeout", this.single_duration(option)?.0.into())
                }
                "server_name" => ("server_name", this.single_text(option)?.into()),
                "renegotiation" => {
                    let word = this.single(option)?;
                    let levels = ["never", "once", "freely"];
                    ("renegotiation", this.one_of(word, &levels)?.into())
                }
                _ => return this.unknown_option(option),
            };
            tls.insert(key.into(), value);
            Some(())
        })?;
        Some(tls)
    }
}
