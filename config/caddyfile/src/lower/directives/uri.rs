//! `uri`: changes to parts of the URI.

use sluice_model::handler::{
    PathReplacement, QueryOps, QueryPair, QueryReplacement, Rewrite, UriReplacement,
};

use super::rewrite::rewrite_handler;
use crate::lower::Lowering;
use crate::lower::definition::{Definition, directive};
use crate::lower::outcome::Outcomes;
use crate::tree::{Directive, Token};

/// `uri`.
pub(super) static URI: Definition = directive(
    "uri",
    "uri [<matcher>] strip_prefix|strip_suffix|replace|path_regexp|query …",
    |cx, line| cx.uri(line),
);

impl Lowering<'_> {
    fn uri(&mut self, line: &Directive) -> Outcomes {
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
            Some(word) => self.number(word, "a number of replacements")?,
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
}
