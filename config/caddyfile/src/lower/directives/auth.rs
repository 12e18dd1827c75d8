//! `basic_auth` and `forward_auth`.

use sluice_model::handler::{
    Account, Authentication, AuthenticationProviders, HashCache, HeaderOps, Headers, HttpBasic,
    PasswordHash, ResponseHandler, Rewrite,
};
use sluice_model::matcher::ResponseMatcher;
use sluice_model::proxy::ReverseProxy;
use sluice_model::{Handler, Matcher, MatcherSet, Route};

use super::Outcomes;
use super::headers::canonical;
use crate::lower::Lowering;
use crate::lower::outcome::Outcome;
use crate::lower::routes::route;
use crate::tree::{Directive, Token};

impl Lowering<'_> {
    pub(super) fn basic_auth(&mut self, line: &Directive) -> Outcomes {
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
                self.refuse(diagnostic.help("make one with `sluice hash-password`"))
            }
        }
    }

    pub(super) fn forward_auth(&mut self, line: &Directive) -> Outcomes {
        let (matcher, args) = self.matched(line)?;
        let mut rest = Vec::new();
        let mut uri = None;
        let mut copied: Vec<(String, String)> = Vec::new();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "uri" => uri = Some(this.single_text(option)?),
                "copy_headers" => {
                    let lines = option.lines().iter();
                    for line in lines.clone() {
                        this.flag(line)?;
                    }
                    for word in option.args.iter().chain(lines.map(|line| &line.name)) {
                        copied.push(this.copied_header(word)?);
                    }
                }
                _ => rest.push(option.clone()),
            }
            Some(())
        })?;
        copied.sort();
        copied.dedup();
        let Some(uri) = uri else {
            return self.missing(line, "the option `uri`");
        };
        let mut proxy = self.proxy_block(line, args, &rest, ReverseProxy::default())?;
        let request = proxy
            .headers
            .get_or_insert_with(Headers::default)
            .request
            .get_or_insert_with(HeaderOps::default);
        for (field, value) in [
            ("X-Forwarded-Method", "{http.request.method}"),
            ("X-Forwarded-Uri", "{http.request.uri}"),
        ] {
            request.set.insert(field.into(), vec![value.into()]);
        }
        proxy.rewrite = Some(Rewrite {
            method: "GET".into(),
            uri,
            ..proxy.rewrite.unwrap_or_default()
        });
        proxy.handle_response.insert(0, good_answer(&copied));
        let handler = Handler::ReverseProxy(Box::new(proxy));
        Some(vec![Outcome::Route(route(matcher, handler))])
    }

    /// `Field`, or `Field>Name` to give it another name.
    fn copied_header(&mut self, word: &Token) -> Option<(String, String)> {
        let (from, to) = word
            .text
            .split_once('>')
            .unwrap_or((&word.text, &word.text));
        if from.is_empty() || to.is_empty() || to.contains('>') {
            let title = format!("invalid header to copy `{}`", word.text);
            let diagnostic = word.error("invalid-value", title, "a name is missing");
            return self.refuse(diagnostic.help("write `Field`, or `Field>New-Name`"));
        }
        Some((from.to_string(), canonical(to)))
    }
}

/// A 2xx response lets the request continue, with some of the response's headers. Each header is removed first, so that
/// a client cannot supply it.
fn good_answer(copied: &[(String, String)]) -> ResponseHandler {
    let mut routes = vec![route(Vec::new(), Handler::Vars(Default::default()))];
    let headers = |ops| {
        Handler::Headers(Box::new(Headers {
            request: Some(ops),
            response: None,
        }))
    };
    for (from, to) in copied {
        let value = format!("{{http.reverse_proxy.header.{}}}", canonical(from));
        let delete = HeaderOps {
            delete: vec![to.clone()],
            ..HeaderOps::default()
        };
        routes.push(route(Vec::new(), headers(delete)));
        let mut set = HeaderOps::default();
        set.set.insert(to.clone(), vec![value.clone()]);
        let empty = Matcher::Vars([(value, vec![String::new()])].into());
        let present = MatcherSet::of(Matcher::Not(vec![MatcherSet::of(empty)]));
        routes.push(Route {
            r#match: vec![present],
            handle: vec![headers(set)],
            ..Default::default()
        });
    }
    let good = ResponseMatcher {
        status_code: vec![2],
        ..ResponseMatcher::default()
    };
    ResponseHandler {
        r#match: Some(good),
        routes,
        ..ResponseHandler::default()
    }
}
