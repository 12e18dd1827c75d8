//! Lowers virtual servers and their locations. The modules lower the directives inside.

use std::collections::HashMap;

use sluice_diag::Diagnostic;
use sluice_model::handler::NoSettings;
use sluice_model::http::RouteOrigin;
use sluice_model::nginx::{FileLookup, Location, OtherMethods, Place, TryFiles, VirtualServer};
use sluice_model::{Handler, Route};

use super::level::Level;
use super::lowering::Lowering;
use super::reached::Reached;
use super::text::{Derived, Extent, Facts};
use crate::definition::Content;
use crate::modules::{
    access, addition, charset, content, fastcgi, files, gzip, headers, health_checks, http_core,
    limits, log, mirror, proxy, ranges, realip, request_id, rewrite, slice, ssi, sub, user_id,
};
use crate::registry;
use crate::tree::{Directive, Word};

/// What holds around a block.
#[derive(Clone, Debug)]
struct Around {
    server_name: String,
    root: Root,
}

/// Where the files of a place are.
#[derive(Clone, Debug)]
struct Root {
    /// The folder, with placeholders.
    text: String,
    kind: RootKind,
}

/// What follows the text of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RootKind {
    /// The whole path: `root`.
    Root,
    /// The path without that of the location: `alias` in a location with a path.
    Alias(String),
    /// Nothing: `alias` in a location with a pattern. Once `try_files` has chosen a file, its path follows.
    Whole,
}

impl Root {
    fn file(&self, has_try_files: bool) -> String {
        match &self.kind {
            RootKind::Root => format!("{}{{http.request.uri.path}}", self.text),
            RootKind::Alias(path) => format!("{}{{nginx.uri_from.{}}}", self.text, path.len()),
            RootKind::Whole if has_try_files => format!("{}{{nginx.chosen_path}}", self.text),
            RootKind::Whole => self.text.clone(),
        }
    }
}

/// How a location compares paths.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind<'t> {
    /// From the left, or as a whole.
    Path {
        modifier: &'static str,
        path: &'t str,
    },
    /// By a pattern.
    Pattern {
        modifier: &'static str,
        pattern: &'t str,
    },
    /// Not at all: it has a name.
    Named(&'t str),
}

/// What stands around a place and in it.
struct Here<'a> {
    level: Level<'a>,
    /// The block itself.
    block: Option<&'a Directive>,
    facts: Facts,
    root: Root,
    /// The path of the location, where it has one.
    prefix: Option<&'a str>,
    reached: Reached,
    /// The directive that sets the content handler.
    content: Option<&'a Directive>,
    try_files: Option<&'a Directive>,
}

/// The modifier of a `location`, empty if it has none, and what it compares with.
pub fn modifier_and_word(directive: &Directive) -> Option<(&str, &str)> {
    Some(match directive.args.as_slice() {
        [modifier, word] => (modifier.text.as_str(), word.text.as_str()),
        // A modifier may stand right in front of its path.
        [word] => ["^~", "~*", "=", "~"]
            .iter()
            .find_map(|known| Some((*known, word.text.strip_prefix(known)?)))
            .unwrap_or(("", word.text.as_str())),
        _ => return None,
    })
}

/// Whether a directive sends requests to an upstream.
fn is_pass(content: &Directive) -> bool {
    content.name().ends_with("_pass")
}

impl Lowering<'_> {
    pub(super) fn virtual_server(&mut self, level: &Level<'_>, name: &str) -> VirtualServer {
        let usual = Root {
            text: self.prefixed("html"),
            kind: RootKind::Root,
        };
        let root = self.root(level, level, None, &usual, name);
        let around = Around {
            server_name: name.to_owned(),
            root: root.clone(),
        };
        let facts = self.facts(level, &around, None);
        let here = Here {
            level: level.clone(),
            block: level.block(),
            facts,
            root,
            prefix: None,
            reached: Reached::ByPath,
            content: self.content(level),
            try_files: level.own("try_files").next(),
        };
        let place = self.place(&here);
        let rewrite = rewrite::lower(self, level.directives(), &here.facts, &mut |_, _| None);
        let locations = self.locations(level, &around, None);
        VirtualServer {
            names: Vec::new(),
            status_zone: content::zone_of_server(level),
            merge_slashes: (!level.is_on("merge_slashes", true)).then_some(false),
            real_ip: realip::settings(self, level),
            underscores_in_headers: level.is_on("underscores_in_headers", false),
            request_id: request_id::lower(level),
            keeps_invalid_headers: !level.is_on("ignore_invalid_headers", true),
            heads: http_core::heads(level),
            // Set by the caller, who knows the rest of the server.
            clients: None,
            rewrite,
            place,
            branches: Vec::new(),
            locations,
            origin: level
                .block()
                .map(|block| self.origin(block))
                .unwrap_or_default(),
        }
    }

    fn facts(&mut self, level: &Level<'_>, around: &Around, content: Option<&Directive>) -> Facts {
        let mut facts = Facts {
            script: Some(fastcgi::script(self, level)),
            server_name: around.server_name.clone(),
            root: Some(around.root.text.clone()),
            file: {
                let has_try_files = level.own("try_files").next().is_some();
                Some(around.root.file(has_try_files))
            },
            proxy: content
                .filter(|content| matches!(content.name(), "proxy_pass" | "grpc_pass"))
                .and_then(proxy::facts),
            links: FileLookup::default(),
            derived: Derived::default(),
            extent: Extent::OnePlace,
        };
        if level.own("if").next().is_some() {
            facts.links = http_core::file_lookup(self, level, &facts);
        }
        facts.derived = content::derived(self, level, &facts);
        facts
    }

    /// The root that holds in a block: its own, or that of the blocks around it.
    fn root(
        &mut self,
        level: &Level<'_>,
        outer: &Level<'_>,
        kind: Option<&Kind<'_>>,
        usual: &Root,
        server_name: &str,
    ) -> Root {
        let own = level.own("root").chain(level.own("alias")).last();
        // At the level of a server the roots of `http` count as well.
        let Some(directive) = own.or_else(|| kind.is_none().then(|| outer.find("root")).flatten())
        else {
            return usual.clone();
        };
        let Some(word) = directive.args.first() else {
            return usual.clone();
        };
        let is_alias = directive.name() == "alias";
        let facts = Facts {
            server_name: server_name.to_owned(),
            script: Some(fastcgi::script(self, level)),
            ..Facts::default()
        };
        let path = Word {
            text: self.prefixed(&word.text),
            ..word.clone()
        };
        let text = self.text(&path, &facts);
        match (is_alias, kind) {
            (true, Some(Kind::Path { path, .. })) => Root {
                text,
                kind: RootKind::Alias((*path).to_owned()),
            },
            (true, Some(Kind::Pattern { .. })) => Root {
                text,
                kind: RootKind::Whole,
            },
            (true, Some(Kind::Named(_))) => {
                self.report.push(
                    Diagnostic::error("misplaced-directive", "`alias` in a location with a name")
                        .at(directive.span(), "such a location stands for no path")
                        .imported(directive.name.import)
                        .help("write `root`"),
                );
                usual.clone()
            }
            _ => Root {
                text: text.strip_suffix('/').unwrap_or(&text).to_owned(),
                kind: RootKind::Root,
            },
        }
    }

    fn locations(
        &mut self,
        level: &Level<'_>,
        around: &Around,
        outer: Option<&Kind<'_>>,
    ) -> Vec<Location> {
        let mut found = Vec::new();
        let mut known: HashMap<(&str, &str), &Directive> = HashMap::new();
        for directive in level.own("location") {
            let Some(kind) = self.kind(directive, outer) else {
                continue;
            };
            let same = match &kind {
                // Both are beginnings of paths.
                Kind::Path {
                    modifier: "" | "^~",
                    path,
                } => Some(("", *path)),
                Kind::Path { modifier, path } => Some((*modifier, *path)),
                Kind::Named(name) => Some(("@", *name)),
                Kind::Pattern { .. } => None,
            };
            found.push(self.location(level, directive, &kind, around));
            let Some(same) = same else { continue };
            if let Some(first) = known.get(&same) {
                let title = format!("a second `location` for `{}`", same.1);
                self.report.push(
                    Diagnostic::error("duplicate-location", title)
                        .at(directive.span(), "it would never be chosen")
                        .imported(directive.name.import)
                        .also(first.span(), "the first one")
                        .help("put what both say into one"),
                );
            } else {
                known.insert(same, directive);
            }
        }
        found
    }

    fn kind<'t>(&mut self, directive: &'t Directive, outer: Option<&Kind<'_>>) -> Option<Kind<'t>> {
        let word = directive.args.last()?;
        let (modifier, text) = modifier_and_word(directive)?;
        let kind = match modifier {
            "" if text.starts_with('@') => Kind::Named(text),
            "" => Kind::Path {
                modifier: "",
                path: text,
            },
            "=" => Kind::Path {
                modifier: "=",
                path: text,
            },
            "^~" => Kind::Path {
                modifier: "^~",
                path: text,
            },
            "~" => Kind::Pattern {
                modifier: "~",
                pattern: text,
            },
            "~*" => Kind::Pattern {
                modifier: "~*",
                pattern: text,
            },
            _ => {
                let first = &directive.args[0];
                return self.invalid(first, "location", "`=`, `^~`, `~`, `~*`, `@name` or a path");
            }
        };
        if let Kind::Pattern { pattern, .. } = &kind {
            self.pattern(pattern, word);
        }
        let misplaced = match (&kind, outer) {
            (Kind::Named(_), Some(_)) => Some("a location with a name stands in a `server`"),
            (_, Some(Kind::Named(_))) => Some("a location with a name holds no others"),
            (_, Some(Kind::Path { modifier: "=", .. })) => {
                Some("a location for one path holds no others")
            }
            (Kind::Path { path, .. }, Some(Kind::Path { path: around, .. }))
                if !path.starts_with(around) =>
            {
                Some("its path does not begin with that of the location around it")
            }
            // nginx compares with the text of the pattern, which no path begins with but by chance.
            (Kind::Path { path, .. }, Some(Kind::Pattern { pattern, .. }))
                if !path.starts_with(pattern) =>
            {
                Some("a location for a pattern holds patterns, but no paths")
            }
            _ => None,
        };
        match misplaced {
            None => Some(kind),
            Some(why) => {
                self.report.push(
                    Diagnostic::error(
                        "misplaced-location",
                        format!("`location {text}` cannot stand here"),
                    )
                    .at(directive.span(), why)
                    .imported(directive.name.import),
                );
                None
            }
        }
    }

    fn location(
        &mut self,
        level: &Level<'_>,
        directive: &Directive,
        kind: &Kind<'_>,
        around: &Around,
    ) -> Location {
        let inner = level.within(directive.body());
        let root = self.root(&inner, level, Some(kind), &around.root, &around.server_name);
        let around = Around {
            root: root.clone(),
            ..around.clone()
        };
        let content = self.content(&inner);
        health_checks::stands_right(self, &inner, content);
        let (modifier, path) = match kind {
            Kind::Path { modifier, path } => (*modifier, *path),
            Kind::Pattern { modifier, pattern } => (*modifier, *pattern),
            Kind::Named(name) => ("@", *name),
        };
        let here = Here {
            level: inner.clone(),
            block: Some(directive),
            facts: self.facts(&inner, &around, content),
            root,
            prefix: matches!(kind, Kind::Path { .. }).then_some(path),
            reached: match kind {
                Kind::Named(_) => Reached::ByName,
                Kind::Path { .. } | Kind::Pattern { .. } => Reached::ByPath,
            },
            content,
            try_files: inner.own("try_files").next(),
        };
        let place = self.place(&here);
        let mut branches = Vec::new();
        let rewrite = rewrite::lower(
            self,
            inner.directives(),
            &here.facts,
            &mut |cx, condition| {
                branches.push(cx.branch(&here, condition, &around));
                u32::try_from(branches.len() - 1).ok()
            },
        );
        let other_methods = inner
            .own("limit_except")
            .next()
            .map(|directive| OtherMethods {
                than: http_core::methods(self, directive),
                place: self.branch(&here, directive, &around),
            });
        Location {
            modifier: modifier.to_owned(),
            path: path.to_owned(),
            other_methods,
            // Only locations have it, and those in them inherit it.
            internal: inner.find("internal").is_some(),
            adds_slash: matches!(kind, Kind::Path { .. })
                && content.is_some_and(|content| content.name().ends_with("_pass"))
                && path.ends_with('/'),
            rewrite,
            place,
            branches,
            locations: self.locations(&inner, &around, Some(kind)),
            origin: self.origin(directive),
        }
    }

    /// The place that an `if` or `limit_except` block of a location stands for: all but its own directives are those of the location, but
    /// without `try_files`, as nginx has it.
    fn branch(&mut self, outer: &Here<'_>, condition: &Directive, around: &Around) -> Place {
        let inner = outer.level.within(condition.body());
        let own = inner.own("root").next().map(|_| {
            let kind = Kind::Path {
                modifier: "",
                path: "",
            };
            self.root(
                &inner,
                &outer.level,
                Some(&kind),
                &outer.root,
                &around.server_name,
            )
        });
        let root = own.unwrap_or_else(|| outer.root.clone());
        // In nginx, a `limit_except` block inherits directives that proxy requests, and no other content handler.
        let kept = outer
            .content
            .filter(|line| condition.name() == "if" || line.name().ends_with("_pass"));
        let content = self.content(&inner).or(kept);
        let around = Around {
            root: root.clone(),
            ..around.clone()
        };
        let here = Here {
            level: inner.clone(),
            block: Some(condition),
            reached: outer.reached,
            facts: self.facts(&inner, &around, content),
            root,
            prefix: outer.prefix.filter(|_| {
                std::ptr::eq(
                    content.map_or(condition, |c| c),
                    outer.content.unwrap_or(condition),
                )
            }),
            content,
            try_files: None,
        };
        self.place(&here)
    }

    /// The directive that sets the content handler.
    fn content<'t>(&mut self, level: &Level<'t>) -> Option<&'t Directive> {
        let mut found = level
            .directives()
            .iter()
            .filter(|directive| registry::content(directive.name()).is_some());
        let first = found.next()?;
        if let Some(second) = found.next() {
            self.report.push(
                Diagnostic::error(
                    "duplicate-directive",
                    "two directives set the handler of this location",
                )
                .at(second.span(), "only one of them can")
                .imported(second.name.import)
                .also(first.span(), "the first one"),
            );
        }
        Some(first)
    }

    fn place(&mut self, here: &Here<'_>) -> Place {
        let (level, facts) = (&here.level, &here.facts);
        let types = http_core::types(self, level);
        let redirects = http_core::redirects(level, &facts.server_name);
        let mut filters: Vec<Handler> = log::lower(self, level, facts).into_iter().collect();
        // Filters added last process a response first, as in nginx: headers are added before text is replaced, and so
        // on.
        filters.extend(headers::trailers(self, level, facts));
        let ranges_at = filters.len();
        filters.extend(gzip::lower(self, level));
        let is_passed = here.content.is_some_and(is_pass);
        filters.extend(ssi::lower(self, level, facts));
        filters.extend(charset::lower(self, level, facts, is_passed));
        filters.extend(sub::lower(self, level, facts));
        filters.extend(addition::lower(self, level));
        filters.extend(gzip::lower_gunzip(self, level));
        filters.extend(user_id::lower(self, level, facts));
        filters.extend(headers::lower(self, level, facts));
        filters.extend(headers::expires(self, level, facts));
        if !level.is_on("chunked_transfer_encoding", true) {
            filters.push(Handler::NginxUnchunked(NoSettings {}));
        }
        filters.extend(http_core::post_action(self, level));
        let signature = http_core::signature(level);
        if let Some(text) = &signature {
            filters.push(server_field(text));
        }
        let ranges = ranges::lower(level, &filters[ranges_at..], is_passed);
        let rate = content::rate(self, level, facts);
        let ranges_at = ranges_at + usize::from(rate.is_some());
        // The rate holds for what leaves.
        filters.splice(0..0, rate);
        let mut handle = filters.clone();
        handle.splice(ranges_at..ranges_at, ranges);
        handle.extend(realip::of_location(self, level));
        handle.extend(http_core::body_limit(level, here.reached));
        handle.extend(limits::lower(self, level, facts));
        handle.extend(access::lower(self, level, facts));
        handle.extend(self.try_files(here));
        let mirrored = mirror::lower(self, level);
        // As in nginx, handlers that do not need the body do not store it.
        if is_passed || mirrored.is_some() {
            handle.extend(http_core::body_file(self, level));
        }
        handle.extend(mirrored);
        handle.extend(slice::lower(level));
        match here.content {
            Some(directive) => {
                let content = Content {
                    level,
                    directive,
                    facts,
                    prefix: here.prefix,
                };
                let lower = registry::content(directive.name());
                handle.extend(lower.and_then(|lower| lower(self, content)));
            }
            None => handle.push(files::lower(self, level, facts, types, &redirects)),
        }
        Place {
            routes: self.routes(here, handle),
            errors: self.routes(here, filters),
            error_pages: http_core::error_pages(self, level, facts),
            recursive_error_pages: level.is_on("recursive_error_pages", false),
            types,
            signature,
            redirects,
            error_log: self.errors_of(level),
            log_not_found: (!level.is_on("log_not_found", true)).then_some(false),
            rewrite_log: level.is_on("rewrite_log", false),
            client_limits: http_core::client_limits(self, level),
            status_zone: content::zone_of_location(level),
            facts: self.facts_row(facts),
        }
    }

    fn try_files(&mut self, here: &Here<'_>) -> Option<Handler> {
        let mut tried = TryFiles {
            root: here.root.text.clone(),
            links: http_core::file_lookup(self, &here.level, &here.facts),
            ..TryFiles::default()
        };
        match &here.root.kind {
            RootKind::Root => {}
            RootKind::Alias(path) => tried.alias_of.clone_from(path),
            RootKind::Whole => tried.follows_alias = true,
        }
        http_core::try_files(self, here.try_files?, &here.facts, tried)
    }

    fn routes(&mut self, here: &Here<'_>, handle: Vec<Handler>) -> Vec<Route> {
        if handle.is_empty() {
            return Vec::new();
        }
        let mut origins = Vec::with_capacity(handle.len());
        for handler in &handle {
            let names = makers(handler);
            let maker = match names.is_empty() {
                true => here.content,
                false => here.level.nearest(names).first().copied(),
            };
            let written = maker.or(here.block);
            origins.extend(written.map(|directive| self.origin_id(directive)));
        }
        // Either all are known or none is, but for a server without a block.
        if origins.len() != handle.len() {
            origins.clear();
        }
        vec![Route {
            handle,
            origin: RouteOrigin(origins),
            ..Route::default()
        }]
    }
}

/// The directives that create a handler. The first of them in the nearest block is recorded as the handler's origin;
/// none for content handlers.
fn makers(handler: &Handler) -> &'static [&'static str] {
    match handler {
        Handler::Headers(_) => &["add_header", "add_trailer", "server_tokens"],
        Handler::NginxAccess(_) => &["allow", "deny", "auth_basic", "auth_request"],
        Handler::NginxConnections(_) => &["limit_conn"],
        Handler::NginxBodyFile(_) => &["client_body_in_file_only"],
        Handler::NginxPostAction(_) => &["post_action"],
        Handler::NginxExpires(_) => &["expires"],
        Handler::NginxGunzip(_) => &["gunzip"],
        Handler::NginxGzip(_) => &["gzip"],
        Handler::NginxLog(_) => &["access_log"],
        Handler::NginxMirror(_) => &["mirror"],
        Handler::NginxRate(_) => &["limit_rate", "limit_rate_after"],
        Handler::NginxRealIp(_) => &["set_real_ip_from"],
        Handler::NginxRanges(_) => &["max_ranges"],
        Handler::NginxSlice(_) => &["slice"],
        Handler::NginxSsi(_) => &["ssi"],
        Handler::NginxSub(_) => &["sub_filter"],
        Handler::NginxTryFiles(_) => &["try_files"],
        Handler::NginxUnchunked(_) => &["chunked_transfer_encoding"],
        Handler::RateLimit(_) => &["limit_req"],
        Handler::RequestBody(_) => &["client_max_body_size"],
        _ => &[],
    }
}

/// The field `Server` with another text; none where it is empty.
fn server_field(text: &str) -> Handler {
    use sluice_model::handler::{FieldValues, Headers, ResponseHeaderOps};
    let mut ops = ResponseHeaderOps {
        deferred: true,
        ..ResponseHeaderOps::default()
    };
    match text.is_empty() {
        true => ops.delete.push("Server".to_owned()),
        false => {
            let value = super::text::literal(text);
            ops.set = FieldValues::from([("Server".to_owned(), vec![value])]);
        }
    }
    Handler::Headers(Box::new(Headers {
        request: None,
        response: Some(ops),
    }))
}
