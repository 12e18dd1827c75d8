//! Variables of pages: those set by commands, the groups of their patterns, and all variables of nginx.conf.

use std::collections::{BTreeMap, HashMap};

use sluice_message::layout::LocalTime;
use sluice_net::sys::local_time::{LocalOffset, local_offset};
use sluice_route::placeholder::nginx::variable_name;
use sluice_route::{Template, Unknown};

use super::page_state::Shared;
use super::words::{self, Known};
use crate::state::NginxContext;
use crate::state::Subject;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::At;

/// The variables of every scope, and the prefixes of variable families such as `arg_`.
#[derive(Debug, Default)]
pub struct Names {
    single: HashMap<Box<str>, Template>,
    /// Longest prefix first.
    families: Vec<(Box<str>, Box<str>)>,
}

impl Names {
    /// Parses the placeholders that variables stand for. Some have a value only if another text of the
    /// configuration refers to them.
    pub fn build(
        single: &BTreeMap<String, String>,
        families: &BTreeMap<String, String>,
    ) -> Result<Names, Refusal> {
        let parsed = single.iter().map(|(name, text)| {
            let template = match text.strip_prefix('=') {
                Some(text) => Template::parse(text),
                None if text.starts_with('{') || text.is_empty() => Template::parse(text),
                None => Ok(Template::of_placeholder(text)),
            };
            let wrong = |_| {
                Refusal::new(format!(
                    "`{text}` is not valid text for the variable `{name}`"
                ))
            };
            Ok((name.as_str().into(), template.map_err(wrong)?))
        });
        let mut families: Vec<(Box<str>, Box<str>)> = families
            .iter()
            .map(|(beginning, placeholder)| {
                (beginning.as_str().into(), placeholder.as_str().into())
            })
            .collect();
        families.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        Ok(Names {
            single: parsed.collect::<Result<_, Refusal>>()?,
            families,
        })
    }

    /// The placeholder of a variable in a family.
    fn of_family(&self, name: &str) -> Option<Template> {
        let mut families = self.families.iter();
        let (beginning, placeholder) = families.find(|(beginning, _)| {
            name.len() > beginning.len() && name.starts_with(&**beginning)
        })?;
        let rest = &name[beginning.len()..];
        let rest = match beginning.contains("http") {
            true => rest.replace('_', "-"),
            false => rest.to_owned(),
        };
        Some(Template::of_placeholder(&format!("{placeholder}{rest}")))
    }
}

/// The variables visible to a page.
pub struct Seen<'p> {
    /// What the pages of the response share.
    pub shared: &'p Shared,
    /// The request for the page.
    pub page: &'p Exchange,
    /// Those of the scope, then those of every scope.
    pub names: [&'p Names; 2],
    /// The format of times (`config timefmt`).
    pub time_format: &'p [u8],
}

impl Seen<'_> {
    fn push_time(&self, name: &str, out: &mut Vec<u8>) {
        let now = self.page.worker.clock.unix_seconds();
        let offset = match name {
            "date_local" => local_offset(now),
            _ => LocalOffset {
                seconds: 0,
                name: "GMT".to_owned(),
            },
        };
        let seconds = i64::try_from(now).unwrap_or(i64::MAX);
        let time = LocalTime::new(seconds, 0, offset.seconds, &offset.name);
        words::push_time(self.time_format, seconds, &time, out);
    }

    fn push_template(&self, template: &Template, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        template.expand(&At(self.page), Unknown::Empty, out);
        out.len() > before
    }
}

impl Known for Seen<'_> {
    fn push(&self, name: &str, out: &mut Vec<u8>) -> bool {
        {
            let kept = self.shared.kept();
            if let Some((_, value)) = kept.set.iter().find(|(known, _)| known == name) {
                out.extend_from_slice(value);
                return true;
            }
            if let Some(value) = name
                .parse()
                .ok()
                .and_then(|number| kept.groups.number(number))
            {
                out.extend_from_slice(value);
                return true;
            }
        }
        if matches!(name, "date_local" | "date_gmt") {
            self.push_time(name, out);
            return true;
        }
        if let Some(value) = self.page.context.vars.find(&variable_name(name)) {
            out.extend_from_slice(value);
            return true;
        }
        if let Some(tables) = self.page.context.tables()
            && tables.know(name)
        {
            let before = out.len();
            tables.value(Subject::Request(self.page), name, out);
            return out.len() > before;
        }
        let mut single = self.names.iter();
        if let Some(template) = single.find_map(|names| names.single.get(name)) {
            return self.push_template(template, out);
        }
        let mut names = self.names.iter();
        match names.find_map(|names| names.of_family(name)) {
            Some(template) => self.push_template(&template, out),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_route::Key;

    use super::*;

    #[test]
    fn a_name_of_a_page_stays_one_name() {
        let families = BTreeMap::from([("arg_".to_owned(), "nginx.arg.".to_owned())]);
        let names = Names::build(&BTreeMap::new(), &families).expect("they are names");
        let template = names.of_family("arg_a}{env.HOME").expect("a family");
        let keys: Vec<_> = template.keys().collect();
        assert_eq!(keys, [&Key::parse("nginx.arg.a}{env.HOME")]);
        assert!(names.of_family("arg_").is_none() && names.of_family("other").is_none());
    }
}
