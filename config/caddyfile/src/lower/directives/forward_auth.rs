//! `forward_auth`: another server decides whether a request is allowed.

use sluice_model::handler::{HeaderOps, Headers, ResponseHandler, Rewrite};
use sluice_model::matcher::ResponseMatcher;
use sluice_model::proxy::ReverseProxy;
use sluice_model::{Handler, Matcher, MatcherSet, Route};

use super::headers::canonical;
use super::reverse_proxy::REVERSE_PROXY;
use crate::lower::Lowering;
use crate::lower::definition::Read::With;
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::{Outcome, Outcomes};
use crate::lower::routes::route;
use crate::tree::{Directive, Token};

/// `forward_auth`.
pub(super) static FORWARD_AUTH: Definition = directive(
    "forward_auth",
    "forward_auth [<matcher>] [<upstreams...>] { … }",
    |cx, line| cx.forward_auth(line),
)
.with(&OPTIONS);

/// The options that `reverse_proxy` does not have; it reads all others.
static OPTIONS: Options<Own> = Options::<Own>::new(
    "forward_auth",
    &[
        option(
            "uri",
            "uri <to>",
            With(|cx, line, own| {
                if own.uri.is_some() {
                    return cx.duplicate(line);
                }
                own.uri = Some(cx.single_text(line)?);
                Some(())
            }),
        ),
        option(
            "copy_headers",
            "copy_headers <fields...> [{ <fields...> }]",
            With(|cx, line, own| {
                let lines = line.lines().iter();
                for line in lines.clone() {
                    cx.flag(line)?;
                }
                for word in line.args.iter().chain(lines.map(|line| &line.name)) {
                    own.copied.push(cx.copied_header(word)?);
                }
                Some(())
            }),
        ),
    ],
)
.and(&REVERSE_PROXY);

/// The settings that a proxy does not have.
#[derive(Default)]
struct Own {
    uri: Option<String>,
    /// Headers of a successful response that the request gets: there, and here.
    copied: Vec<(String, String)>,
}

impl Lowering<'_> {
    fn forward_auth(&mut self, line: &Directive) -> Outcomes {
        let (matcher, args) = self.matched(line)?;
        let mut rest = Vec::new();
        let mut own = Own::default();
        self.each(line.lines(), |this, option| {
            if OPTIONS.has(&option.name.text) {
                return this.read_option(&OPTIONS, option, &mut own);
            }
            rest.push(option.clone());
            Some(())
        })?;
        let Own { uri, mut copied } = own;
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
        proxy.handle_response.insert(0, on_success(&copied));
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
fn on_success(copied: &[(String, String)]) -> ResponseHandler {
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
