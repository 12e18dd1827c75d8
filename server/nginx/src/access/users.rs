//! `auth_basic`: checks names and passwords against a file, which is read again when it changes. Slow hashes are
//! verified by `authentication::password`, and successful checks are cached.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use sluice_cache::{Access, Facts, MaxAge, Missing, Reach};
use sluice_message::{FieldId, Status};
use sluice_model::nginx::PasswordFile as Config;
use sluice_route::Template;

use super::Opinion;
use crate::limits::{USER_FILE_BYTES_MAX, USER_FILES_MAX};
use crate::spelling::WWW_AUTHENTICATE;
use sluice_handlers::authentication::password::{self, Busy, Hash};
use sluice_handlers::authentication::remembered::Remembered;
use sluice_handlers::authentication::{Credentials, challenge};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::{Cause, Fault};
use sluice_pipeline::files;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::{expand_path, expanded};

/// An `auth_basic` realm and its password file.
pub struct PasswordFile {
    realm: Template,
    users: Template,
}

/// Password files cached by one worker.
#[derive(Default)]
struct Files(RefCell<HashMap<Box<[u8]>, Rc<Users>>>);

/// The parsed content of a password file.
struct Users {
    facts: Facts,
    /// Hashes by name; `None` for a hash that could not be parsed.
    accounts: HashMap<Box<str>, Option<Arc<Hash>>>,
    /// Hash to verify passwords of unknown names against, so that they take as long as those of known names.
    decoy: Option<Arc<Hash>>,
}

/// A pending password verification.
struct Check {
    hash: Arc<Hash>,
    credentials: Credentials,
    is_known: bool,
}

impl PasswordFile {
    /// Parses the directive.
    pub fn build(config: &Config, builder: &Builder<'_>) -> Result<PasswordFile, Refusal> {
        Ok(PasswordFile {
            realm: builder.template(&config.realm)?,
            users: builder.template(&config.users)?,
        })
    }

    /// Decides without awaiting; `None` if a slow hash has to be verified first.
    pub fn at_once(&self, exchange: &mut Exchange) -> Option<Opinion> {
        let check = match self.look_up(exchange) {
            Ok(check) => check,
            Err(opinion) => return Some(opinion),
        };
        if check.hash.is_quick() {
            let is_right = check.hash.verify(&check.credentials.password);
            let is_right = is_right && check.is_known;
            return Some(self.judge(exchange, is_right, check.is_known, check.credentials.name));
        }
        let remembered = exchange.worker.local::<Remembered>();
        let is_remembered =
            check.is_known && remembered.has(&remembered.key(&check.hash, &check.credentials));
        is_remembered.then(|| self.judge(exchange, true, true, check.credentials.name))
    }

    /// Verifies a password on another thread.
    pub async fn check(&self, exchange: &mut Exchange) -> Opinion {
        let check = match self.look_up(exchange) {
            Ok(check) => check,
            Err(opinion) => return opinion,
        };
        let key = exchange
            .worker
            .local::<Remembered>()
            .key(&check.hash, &check.credentials);
        let is_right = match password::check(check.hash, check.credentials.password) {
            Ok(checking) => checking.await && check.is_known,
            Err(Busy) => {
                exchange.res.fields.set(FieldId::RetryAfter, b"1");
                let message = "too many passwords are being checked";
                return Opinion::Failed(Fault::new(Status::SERVICE_UNAVAILABLE, message));
            }
        };
        if is_right {
            exchange.worker.local::<Remembered>().insert(key);
        }
        self.judge(exchange, is_right, check.is_known, check.credentials.name)
    }

    /// The text for `explain`; missing credentials are reported rather than requested.
    pub fn account(&self, exchange: &mut Exchange) -> Option<String> {
        match self.look_up(exchange) {
            Err(Opinion::None) => None,
            Err(_) => Some("would ask for a name and a password".to_owned()),
            Ok(check) => {
                let name = sluice_diag::shown(&check.credentials.name);
                Some(format!(
                    "would check the password of `{name}`, which is assumed to be right"
                ))
            }
        }
    }

    fn look_up(&self, exchange: &mut Exchange) -> Result<Check, Opinion> {
        let realm = expanded(&self.realm, exchange);
        if realm == b"off" {
            return Err(Opinion::None);
        }
        let Some(credentials) = Credentials::of(exchange) else {
            let why = "no user/password was provided for basic authentication";
            return Err(self.refuse(exchange, why.into(), Cause::Client));
        };
        let users = self.read(exchange).map_err(Opinion::Failed)?;
        let known = users.accounts.get(credentials.name.as_str());
        match (known, &users.decoy) {
            (Some(Some(hash)), _) => Ok(Check {
                hash: hash.clone(),
                credentials,
                is_known: true,
            }),
            (Some(None), _) => {
                let name = sluice_diag::shown(&credentials.name);
                let why = format!("the hash of `{name}` in the user file has an unknown format");
                Err(self.refuse(exchange, why, Cause::ByStatus))
            }
            (None, Some(decoy)) => Ok(Check {
                hash: decoy.clone(),
                credentials,
                is_known: false,
            }),
            (None, None) => {
                let why = self.unknown(exchange, &sluice_diag::shown(&credentials.name));
                Err(self.refuse(exchange, why, Cause::Error))
            }
        }
    }

    fn read(&self, exchange: &Exchange) -> Result<Rc<Users>, Fault> {
        let mut path = Vec::new();
        if expand_path(&self.users, exchange, &mut path).is_err() {
            return Err(Fault::new(Status::FORBIDDEN, files::UNFIT));
        }
        let now = exchange.worker.clock.coarse();
        let shown = || String::from_utf8_lossy(&path).into_owned();
        // As in nginx, a missing file denies every request.
        // Also as in nginx, a change counts for the next request.
        let access = Access {
            reach: Reach::Anywhere,
            age: MaxAge::ZERO,
        };
        let facts = files::facts(&path, access, now).map_err(|missing| {
            let why = match missing {
                Missing::NotFound | Missing::Impossible => "there is none",
                Missing::Denied => "it may not be read",
                _ => "it cannot be read",
            };
            Fault::new(Status::FORBIDDEN, format!("user file `{}`: {why}", shown()))
        })?;
        let files = exchange.worker.local::<Files>();
        if let Some(known) = files.0.borrow().get(&*path)
            && known.facts == facts
        {
            return Ok(known.clone());
        }
        let Some(text) = files::read_whole(&path, access, USER_FILE_BYTES_MAX, now) else {
            let why = format!("user file `{}` cannot be read, or is too large", shown());
            return Err(Fault::new(Status::INTERNAL_SERVER_ERROR, why));
        };
        let users = Rc::new(Users::parse(facts, &String::from_utf8_lossy(&text)));
        let mut files = files.0.borrow_mut();
        if files.len() >= USER_FILES_MAX {
            files.clear();
        }
        files.insert(path.into(), users.clone());
        Ok(users)
    }

    fn judge(
        &self,
        exchange: &mut Exchange,
        is_right: bool,
        is_known: bool,
        name: String,
    ) -> Opinion {
        if !is_right {
            let shown = sluice_diag::shown(&name);
            let why = match is_known {
                true => format!("user \"{shown}\": password mismatch"),
                false => self.unknown(exchange, &shown),
            };
            return self.refuse(exchange, why, Cause::Error);
        }
        exchange.context.log.user = Some(name);
        Opinion::Allowed
    }

    /// nginx's message for a name that is not in the file.
    fn unknown(&self, exchange: &Exchange, name: &str) -> String {
        let path = expanded(&self.users, exchange);
        let path = String::from_utf8_lossy(&path);
        format!("user \"{name}\" was not found in \"{path}\"")
    }

    fn refuse(&self, exchange: &mut Exchange, why: String, cause: Cause) -> Opinion {
        let realm = expanded(&self.realm, exchange);
        let challenge = challenge(&String::from_utf8_lossy(&realm));
        exchange
            .res
            .fields
            .set_raw(FieldId::WwwAuthenticate, WWW_AUTHENTICATE, &challenge);
        Opinion::Refused(Fault::new(Status::UNAUTHORIZED, why).caused_by(cause))
    }
}

impl Users {
    /// Parses lines of the form `name:hash[:anything]`; the first line of a name wins.
    fn parse(facts: Facts, text: &str) -> Users {
        let mut accounts: HashMap<Box<str>, Option<Arc<Hash>>> = HashMap::new();
        let mut decoy = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, rest)) = line.split_once(':') else {
                continue;
            };
            let hash = rest.split(':').next().unwrap_or_default().trim_end();
            let hash = Hash::of_user_file(hash).map(Arc::new);
            if decoy.is_none() {
                decoy.clone_from(&hash);
            }
            accounts.entry(name.into()).or_insert(hash);
        }
        Users {
            facts,
            accounts,
            decoy,
        }
    }
}
