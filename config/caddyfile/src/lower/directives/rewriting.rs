//! Directives that change the request before others process it: `rewrite`, `uri`, `method`, `try_files`, `root`,
//! `vars`, `fs`.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_model::handler::{
    PathReplacement, QueryOps, QueryPair, QueryReplacement, Rewrite, UriReplacement,
};
use sluice_model::matcher::FileMatcher;
use sluice_model::{Handler, Matcher, MatcherSet, Route};

use super::{Outcomes, scalar};
use crate::lower::Lowering;
use crate::lower::outcome::Outcome;
use crate::lower::routes::route;
use crate::tree::{Directive, Token};

impl Lowering<'_> {
    pub(super) fn rewrite(&mut self, line: &Directive) -> Outcomes {
        self.no_block(line)?;
        let (matcher, args) = self.lone_or_matched(line)?;
        let [uri] = self.exact::<1>(line, args)?;
        let rewrite = Rewrite {
            uri: uri.text.clone(),
            ..Rewrite::default()
        };
        Some(vec![Outcome::Route(route(
            matcher,
            rewrite_handler(rewrite),
        ))])
    }

    pub(super) fn root(&mut self, line: &Directive) -> Outcomes {
        self.no_block(line)?;
        let (matcher, args) = self.lone_or_matched(line)?;
        let [path] = self.exact::<1>(line, args)?;
        Some(vec![Outcome::Route(route(
            matcher,
            variable("root", path.text.as_str().into()),
        ))])
    }

    /// The matcher and the words after it; a single word is not a matcher, whatever it looks like.
    fn lone_or_matched<'t>(
        &mut self,
        line: &'t Directive,
    ) -> Option<(Vec<MatcherSet>, &'t [Token])> {
        match line.args.len() {
            1 => Some((Vec::new(), &line.args)),
            _ => self.matched(line),
        }
    }

    pub(super) fn fs(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            let [name] = this.exact::<1>(line, args)?;
            Some(variable("fs", name.text.as_str().into()))
        })
    }

    pub(super) fn method(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            let [method] = this.exact::<1>(line, args)?;
            let rewrite = Rewrite {
                method: method.text.clone(),
                ..Rewrite::default()
            };
            Some(rewrite_handler(rewrite))
        })
    }

    pub(super) fn vars(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let mut vars = BTreeMap::new();
            if !args.is_empty() {
                let [name, value] = this.exact::<2>(line, args)?;
                vars.insert(name.text.clone(), scalar(&value.text));
            }
            this.each(line.lines(), |this, option| {
                let value = this.single(option)?;
                if vars
                    .insert(option.name.text.clone(), scalar(&value.text))
                    .is_some()
                {
                    return this.duplicate(option);
                }
                Some(())
            })?;
            Some(Handler::Vars(vars))
        })
    }

    pub(super) fn uri(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let Some((operation, args)) = args.split_first() else {
                return this.missing(line, "an operation");
            };
            let mut rewrite = Rewrite::default();
            if operation.text != "query" {
                this.no_block(line)?;
            }
            match operation.text.as_str() {
                "strip_prefix" => {
                    let [target] = this.exact::<1>(line, args)?;
                    rewrite.strip_path_prefix.clone_from(&target.text);
                }
                "strip_suffix" => {
                    let [target] = this.exact::<1>(line, args)?;
                    rewrite.strip_path_suffix.clone_from(&target.text);
                }
                "replace" => rewrite
                    .uri_substring
                    .push(this.uri_replacement(line, args)?),
                "path_regexp" => {
                    let [find, replace] = this.exact::<2>(line, args)?;
                    let (find, replace) = (find.text.clone(), replace.text.clone());
                    rewrite.path_regexp.push(PathReplacement { find, replace });
                }
                "query" => rewrite.query = Some(this.query_ops(line, args)?),
                _ => {
                    let accepted = [
                        "strip_prefix",
                        "strip_suffix",
                        "replace",
                        "path_regexp",
                        "query",
                    ];
                    return this.invalid_value(operation, &accepted);
                }
            }
            Some(rewrite_handler(rewrite))
        })
    }

    fn uri_replacement(&mut self, line: &Directive, args: &[Token]) -> Option<UriReplacement> {
        self.between(line, args, 2, 3)?;
        let limit = match args.get(2) {
            Some(word) => self.number(word, "how many to replace")?,
            None => 0,
        };
        let (find, replace) = (args[0].text.clone(), args[1].text.clone());
        Some(UriReplacement {
            find,
            replace,
            limit,
        })
    }

    fn query_ops(&mut self, line: &Directive, args: &[Token]) -> Option<QueryOps> {
        let mut ops = QueryOps::default();
        if let Some((key, rest)) = args.split_first() {
            self.query_op(line, key, rest, &mut ops)?;
        } else if line.lines().is_empty() {
            return self.missing(line, "a query key");
        }
        self.each(line.lines(), |this, option| {
            this.no_block(option)?;
            this.query_op(option, &option.name, &option.args, &mut ops)?;
            Some(())
        })?;
        Some(ops)
    }

    fn query_op(
        &mut self,
        line: &Directive,
        key: &Token,
        args: &[Token],
        ops: &mut QueryOps,
    ) -> Option<()> {
        let text = key.text.as_str();
        let pair = |key: &str, val: &str| QueryPair {
            key: key.into(),
            val: val.into(),
        };
        if let Some(name) = text.strip_prefix('-') {
            self.exact::<0>(line, args)?;
            ops.delete.push(name.to_string());
        } else if let Some(name) = text.strip_prefix('+') {
            let [value] = self.exact::<1>(line, args)?;
            ops.add.push(pair(name, &value.text));
        } else if let Some((from, to)) = text.split_once('>') {
            self.exact::<0>(line, args)?;
            ops.rename.push(pair(from, to));
        } else {
            self.between(line, args, 1, 2)?;
            match args {
                [value] => ops.set.push(pair(text, &value.text)),
                [pattern, replacement] => ops.replace.push(QueryReplacement {
                    key: text.to_string(),
                    search_regexp: pattern.text.clone(),
                    replace: replacement.text.clone(),
                    ..QueryReplacement::default()
                }),
                _ => {}
            }
        }
        Some(())
    }

    pub(super) fn try_files(&mut self, line: &Directive) -> Outcomes {
        self.between(line, &line.args, 1, usize::MAX)?;
        let mut policy = String::new();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "policy" => policy = this.try_policy(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        // A candidate with a query needs a rewrite of its own.
        let mut routes = Vec::new();
        let mut candidates: Vec<String> = Vec::new();
        for word in &line.args {
            match word.text.find('?') {
                Some(at) => {
                    if !candidates.is_empty() {
                        routes.push(try_route(std::mem::take(&mut candidates), "", &policy));
                    }
                    let (path, query) = word.text.split_at(at);
                    routes.push(try_route(vec![path.to_string()], query, &policy));
                }
                None => candidates.push(word.text.clone()),
            }
        }
        if !candidates.is_empty() {
            routes.push(try_route(candidates, "", &policy));
        }
        if routes.len() > 1 {
            let group = self.draw_group();
            for route in &mut routes {
                route.group.clone_from(&group);
            }
        }
        Some(routes.into_iter().map(Outcome::Route).collect())
    }
}

/// A route that rewrites to the first of some files.
fn try_route(try_files: Vec<String>, query: &str, policy: &str) -> Route {
    let try_policy = policy.to_string();
    let file = FileMatcher {
        try_files,
        try_policy,
        ..FileMatcher::default()
    };
    let uri = format!("{{http.matchers.file.relative}}{query}");
    let rewrite = Rewrite {
        uri,
        ..Rewrite::default()
    };
    route(
        vec![MatcherSet::of(Matcher::File(file))],
        rewrite_handler(rewrite),
    )
}

/// A handler that rewrites.
pub(super) fn rewrite_handler(rewrite: Rewrite) -> Handler {
    Handler::Rewrite(Box::new(rewrite))
}

/// A handler that sets one variable.
pub(super) fn variable(name: &str, value: Value) -> Handler {
    Handler::Vars(BTreeMap::from([(name.to_string(), value)]))
}
