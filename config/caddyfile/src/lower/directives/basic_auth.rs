//! `basic_auth`: names and passwords.

use sluice_model::Handler;
use sluice_model::handler::{
    Account, Authentication, AuthenticationProviders, HashCache, HttpBasic, PasswordHash,
};

use crate::lower::Lowering;
use crate::lower::definition::{Definition, directive};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `basic_auth`.
pub(super) static BASIC_AUTH: Definition = directive(
    "basic_auth",
    "basic_auth [<matcher>] [<hash_algorithm> [<realm>]] { <username> <hash> … }",
    |cx, line| cx.basic_auth(line),
);

/// `basic_auth` under its old name.
pub(super) static BASICAUTH: Definition = BASIC_AUTH.formerly("basicauth");

impl Lowering<'_> {
    fn basic_auth(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 0, 2)?;
            let hash = match args.first().map(|word| (word, word.text.as_str())) {
                None | Some((_, "bcrypt")) => PasswordHash::Bcrypt(Default::default()),
                Some((_, "argon2id")) => PasswordHash::Argon2id(Default::default()),
                Some((word, _)) => return this.invalid_value(word, &["bcrypt", "argon2id"]),
            };
            let mut basic = HttpBasic {
                hash: Some(hash),
                hash_cache: Some(HashCache::default()),
                realm: args
                    .get(1)
                    .map(|word| word.text.clone())
                    .unwrap_or_default(),
                accounts: Vec::new(),
            };
            this.each(line.lines(), |this, account| {
                basic.accounts.push(this.account(account)?);
                Some(())
            })?;
            let http_basic = Some(basic);
            let providers = AuthenticationProviders { http_basic };
            Some(Handler::Authentication(Authentication { providers }))
        })
    }

    fn account(&mut self, line: &Directive) -> Option<Account> {
        self.no_block(line)?;
        match line.args.as_slice() {
            [password] if !line.name.text.is_empty() && !password.text.is_empty() => {
                Some(Account {
                    username: line.name.text.clone(),
                    password: password.text.clone(),
                })
            }
            [_, surplus, ..] => self.surplus(line, surplus),
            _ => {
                let title = format!("account `{}` has no password hash", line.name.text);
                let diagnostic = line.name.error("missing-argument", title, "needs a hash");
                self.refuse(diagnostic.help("create one with `sluice hash-password`"))
            }
        }
    }
}
