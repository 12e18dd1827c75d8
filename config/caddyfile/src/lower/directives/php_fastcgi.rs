//! `php_fastcgi`: expands to the usual routes of a FastCGI application.

use sluice_model::handler::{Rewrite, StaticResponse};
use sluice_model::matcher::FileMatcher;
use sluice_model::proxy::{ReverseProxy, Transport};
use sluice_model::{Handler, Matcher, MatcherSet, Route};

use super::reverse_proxy::REVERSE_PROXY;
use super::reverse_proxy::fastcgi::Cgi;
use super::rewrite::rewrite_handler;
use crate::lower::Lowering;
use crate::lower::definition::Read::{Text, Texts, With};
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::{Outcome, Outcomes};
use crate::lower::routes::{route, subroute};
use crate::tree::Directive;

/// The settings of `php_fastcgi` that are its own.
struct Php {
    index: String,
    try_files: Vec<String>,
    cgi: Cgi,
}

/// `php_fastcgi`.
pub(super) static PHP_FASTCGI: Definition = directive(
    "php_fastcgi",
    "php_fastcgi [<matcher>] <php-fpm_gateways...> [{ … }]",
    |cx, line| cx.php_fastcgi(line),
)
.with(&OPTIONS);

/// The options that `reverse_proxy` does not have; it reads all others.
static OPTIONS: Options<Php> = Options::<Php>::new(
    "php_fastcgi",
    &[
        option("root", "root <path>", With(fastcgi_option)),
        option("split", "split <substrings...>", With(fastcgi_option)),
        option("index", "index <filename>|off", Text(|php| &mut php.index)),
        option(
            "try_files",
            "try_files <files...>",
            Texts(|php| &mut php.try_files),
        ),
        option("env", "env <key> <value>", With(fastcgi_option)),
        option(
            "resolve_root_symlink",
            "resolve_root_symlink",
            With(fastcgi_option),
        ),
        option("capture_stderr", "capture_stderr", With(fastcgi_option)),
        option(
            "dial_timeout",
            "dial_timeout <duration>",
            With(fastcgi_option),
        ),
        option(
            "read_timeout",
            "read_timeout <duration>",
            With(fastcgi_option),
        ),
        option(
            "write_timeout",
            "write_timeout <duration>",
            With(fastcgi_option),
        ),
    ],
)
.and(&REVERSE_PROXY);

fn fastcgi_option(cx: &mut Lowering<'_>, line: &Directive, php: &mut Php) -> Option<()> {
    cx.fastcgi_option(line, &mut php.cgi)
}

impl Lowering<'_> {
    fn php_fastcgi(&mut self, line: &Directive) -> Outcomes {
        let (matcher, args) = self.matched(line)?;
        let mut php = Php {
            index: "index.php".to_string(),
            try_files: Vec::new(),
            cgi: Cgi::default(),
        };
        let mut rest = Vec::new();
        self.each(line.lines(), |this, option| {
            if OPTIONS.has(&option.name.text) {
                return this.read_option(&OPTIONS, option, &mut php);
            }
            rest.push(option.clone());
            Some(())
        })?;
        if let Some(option) = rest.iter().find(|option| option.name.text == "transport") {
            return self.duplicate(option);
        }
        if php.cgi.fastcgi.split_path.is_empty() {
            php.cgi.fastcgi.split_path = vec![".php".to_string()];
        }
        let speaks = ReverseProxy {
            transport: Some(Transport::FastCgi(Box::new(php.cgi.fastcgi.clone()))),
            ..ReverseProxy::default()
        };
        let proxy = self.proxy_block(line, args, &rest, speaks)?;
        let scripts: Vec<String> = php
            .cgi
            .fastcgi
            .split_path
            .iter()
            .map(|ending| format!("*{ending}"))
            .collect();
        let mut routes = if php.index == "off" {
            Vec::new()
        } else {
            index_routes(&php)
        };
        routes.push(route(
            vec![MatcherSet::of(Matcher::Path(scripts))],
            Handler::ReverseProxy(Box::new(proxy)),
        ));
        // Without a matcher the routes need no wrapping, but they must stay together.
        if matcher.is_empty() {
            return Some(vec![Outcome::Routes(routes)]);
        }
        Some(vec![Outcome::Route(route(matcher, subroute(routes)))])
    }
}

/// The redirect to a folder's right name, and the rewrite to its index file.
fn index_routes(php: &Php) -> Vec<Route> {
    let folder_index = format!("{{http.request.uri.path}}/{}", php.index);
    let mut try_files = php.try_files.clone();
    if try_files.is_empty() {
        let path = "{http.request.uri.path}".to_string();
        try_files = vec![path, folder_index.clone(), php.index.clone()];
    }
    let mut routes = Vec::new();
    if try_files.contains(&folder_index) {
        let index = FileMatcher {
            try_files: vec![folder_index],
            ..FileMatcher::default()
        };
        let mut set = MatcherSet::of(Matcher::File(index));
        let folder = Matcher::Path(vec!["*/".to_string()]);
        set.insert(Matcher::Not(vec![MatcherSet::of(folder)]));
        // Relative to the folder, so that no path that begins with `//` becomes another host.
        let to =
            "./{http.request.orig_uri.path.file_escaped}/{http.request.orig_uri.prefixed_query}";
        let mut redirect = StaticResponse {
            status_code: 308.into(),
            ..StaticResponse::default()
        };
        redirect.headers.insert("Location".into(), vec![to.into()]);
        routes.push(route(vec![set], Handler::StaticResponse(redirect)));
    }
    // The last of the usual ones is taken whatever it is, so is a script that the configuration names.
    let is_script = |last: &String| last.ends_with(".php");
    let falls_back = php.try_files.last().is_none_or(is_script);
    let try_policy = if falls_back {
        "first_exist_fallback"
    } else {
        ""
    };
    let file = FileMatcher {
        try_files,
        try_policy: try_policy.to_string(),
        split_path: php.cgi.fastcgi.split_path.clone(),
        ..FileMatcher::default()
    };
    let uri = "{http.matchers.file.relative}".to_string();
    routes.push(route(
        vec![MatcherSet::of(Matcher::File(file))],
        rewrite_handler(Rewrite {
            uri,
            ..Rewrite::default()
        }),
    ));
    routes
}
