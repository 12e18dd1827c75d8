//! `basic_auth`: HTTP Basic authentication (RFC 7617). Password hashes are slow by design, so the threads of `password`
//! verify them, and successful verifications are cached.

mod crypt;
pub mod password;
pub mod remembered;

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::{FieldId, Status};
use sluice_model::handler::{Authentication as Config, HttpBasic};

use crate::limits::CREDENTIALS_BYTES_MAX;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Assumed, Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;

use password::{Busy, Hash};
use remembered::Remembered;

/// Allows requests with a valid user name and password.
struct Authentication {
    accounts: HashMap<String, Arc<Hash>>,
    /// The hash to verify passwords of unknown users against, so that they take as long as those of known users.
    decoy: Arc<Hash>,
    challenge: Vec<u8>,
    remembers: bool,
}

/// Builds `basic_auth`.
pub fn build(config: &Config, _cx: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    match &config.providers.http_basic {
        Some(basic) => Ok(Box::new(Authentication::build(basic)?)),
        None => Err(Refusal::new("`authentication` has no provider")
            .with_help("`http_basic` is the one that is available")),
    }
}

impl Authentication {
    fn build(config: &HttpBasic) -> Result<Authentication, Refusal> {
        let mut accounts = HashMap::new();
        let mut decoy = None;
        for account in &config.accounts {
            let name = &account.username;
            if name.is_empty() || account.password.is_empty() {
                return Err(Refusal::new("an account needs a name and a password hash"));
            }
            let hash = Hash::parse(&account.password).ok_or_else(|| {
                Refusal::new(format!(
                    "the password of `{name}` is not a bcrypt or argon2id hash"
                ))
                .with_help("make one with `sluice hash-password`")
            })?;
            let hash = Arc::new(hash);
            decoy.get_or_insert_with(|| hash.clone());
            if accounts.insert(name.clone(), hash).is_some() {
                return Err(Refusal::new(format!("account `{name}` stands there twice")));
            }
        }
        let decoy = decoy.ok_or_else(|| Refusal::new("`basic_auth` has no account"))?;
        let realm = if config.realm.is_empty() {
            "restricted"
        } else {
            &config.realm
        };
        let remembers = config.hash_cache.is_some();
        Ok(Authentication {
            accounts,
            decoy,
            challenge: challenge(realm),
            remembers,
        })
    }

    fn refuse(&self, exchange: &mut Exchange) -> Step {
        exchange
            .res
            .fields
            .set(FieldId::WwwAuthenticate, &self.challenge);
        Step::Fail(Fault::new(Status::UNAUTHORIZED, "not authenticated"))
    }

    async fn check(&self, exchange: &mut Exchange) -> Step {
        let Some(credentials) = Credentials::of(exchange) else {
            return self.refuse(exchange);
        };
        let account = self.accounts.get(&credentials.name);
        let hash = account.unwrap_or(&self.decoy).clone();
        let key = exchange
            .worker
            .local::<Remembered>()
            .key(&hash, &credentials);
        let right = match password::check(hash, credentials.password) {
            Ok(checking) => checking.await,
            Err(Busy) => {
                exchange.res.fields.set(FieldId::RetryAfter, b"1");
                let message = "too many passwords are being checked";
                return Step::Fail(Fault::new(Status::SERVICE_UNAVAILABLE, message));
            }
        };
        if !right || account.is_none() {
            return self.refuse(exchange);
        }
        if self.remembers {
            exchange.worker.local::<Remembered>().insert(key);
        }
        exchange.context.log.user = Some(credentials.name);
        Step::Next
    }
}

impl Handler for Authentication {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let Some(credentials) = Credentials::of(exchange) else {
            return self.refuse(exchange);
        };
        if !self.remembers {
            return Step::Later;
        }
        let Some(hash) = self.accounts.get(&credentials.name) else {
            return Step::Later;
        };
        let remembered = exchange.worker.local::<Remembered>();
        if !remembered.has(&remembered.key(hash, &credentials)) {
            return Step::Later;
        }
        exchange.context.log.user = Some(credentials.name);
        Step::Next
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(self.check(exchange))
    }

    fn account(&self, exchange: &mut Exchange) -> Account {
        let Some(credentials) = Credentials::of(exchange) else {
            return Account::default();
        };
        let name = sluice_diag::shown(&credentials.name);
        if !self.accounts.contains_key(&credentials.name) {
            let step = self.refuse(exchange);
            return Account {
                says: vec![format!("has no account `{name}`")],
                assumed: Some(Assumed::Step(step)),
            };
        }
        // Do not verify: hashes are slow by design, and the user of `explain` need not know the password.
        exchange.context.log.user = Some(credentials.name);
        Account {
            says: vec![format!(
                "would check the password of `{name}`, which is assumed to be right"
            )],
            assumed: Some(Assumed::Step(Step::Next)),
        }
    }
}

/// A user name and a password.
pub struct Credentials {
    /// The user name.
    pub name: String,
    /// The password.
    pub password: Vec<u8>,
}

impl Credentials {
    /// The credentials in the request, if there are well-formed ones.
    pub fn of(exchange: &Exchange) -> Option<Credentials> {
        let field = exchange.req.fields.first(FieldId::Authorization)?;
        let (scheme, token) = field.split_at_checked(6)?;
        if !scheme.eq_ignore_ascii_case(b"Basic ") || token.len() > CREDENTIALS_BYTES_MAX {
            return None;
        }
        let plain = STANDARD.decode(token.trim_ascii()).ok()?;
        let colon = memchr::memchr(b':', &plain)?;
        let name = std::str::from_utf8(&plain[..colon]).ok()?.to_owned();
        Some(Credentials {
            name,
            password: plain[colon + 1..].to_vec(),
        })
    }
}

/// RFC 7617, section 2; the realm is a quoted-string (RFC 9110, section 5.6.4).
pub fn challenge(realm: &str) -> Vec<u8> {
    let mut out = b"Basic realm=\"".to_vec();
    for byte in realm.bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    sluice_pipeline::text::clean_value(&mut out);
    out
}

#[cfg(test)]
mod tests;
