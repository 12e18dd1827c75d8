//! Compiles the matchers of routes.

use std::sync::Arc;

use sluice_model::MatcherSet as Config;
use sluice_model::matcher::{Expression, Matcher as Word};
use sluice_route::{Matcher, MatcherError, MatcherSet};

use crate::expression;
use crate::files::FileHook;
use crate::refusal::Refusal;
use crate::url_pattern::UrlPatternHook;

/// Compiles one matcher set.
pub(super) fn set(config: &Config) -> Result<MatcherSet, Refusal> {
    let mut matchers = Vec::with_capacity(config.0.len());
    for word in &config.0 {
        compile(word, &mut matchers)?;
    }
    Ok(MatcherSet::new(matchers))
}

fn lowered(config: &Expression) -> Result<Vec<Matcher>, Refusal> {
    expression::compile(config).map_err(|mistake| {
        let shown = &config.expr;
        Refusal::new(format!("expression `{shown}`: {}", mistake.message)).with_help(mistake.help)
    })
}

fn compile(config: &Word, into: &mut Vec<Matcher>) -> Result<(), Refusal> {
    let compiled = match config {
        Word::Expression(expression) => {
            into.extend(lowered(expression)?);
            return Ok(());
        }
        Word::ClientIp(ranges) => Matcher::client_ip(&ranges.ranges),
        Word::RemoteIp(ranges) => Matcher::remote_ip(&ranges.ranges),
        Word::Header(fields) => Matcher::header(
            fields
                .iter()
                .map(|(name, values)| (name.as_str(), values.as_deref())),
        ),
        Word::HeaderRegexp(fields) => {
            Matcher::header_regexp(fields.iter().map(|(field, regexp)| {
                (
                    field.as_str(),
                    regexp.name.as_str(),
                    regexp.pattern.as_str(),
                )
            }))
        }
        Word::Host(hosts) => Matcher::host(hosts),
        Word::Method(methods) => Matcher::method(methods),
        Word::Not(sets) => {
            let sets = sets.iter().map(set).collect::<Result<Vec<_>, _>>()?;
            Matcher::not(sets)
        }
        Word::Path(paths) => Matcher::path(paths),
        Word::PathRegexp(regexp) => Matcher::path_regexp(&regexp.name, &regexp.pattern),
        Word::Protocol(name) => Matcher::protocol(name),
        Word::Query(params) => Matcher::query(
            params
                .iter()
                .map(|(name, values)| (name.as_str(), values.as_slice())),
        ),
        Word::Tls(tls) => Ok(Matcher::Tls(tls.handshake_complete)),
        Word::Vars(vars) => Matcher::vars(
            vars.iter()
                .map(|(name, values)| (name.as_str(), values.as_slice())),
        ),
        Word::VarsRegexp(vars) => Matcher::vars_regexp(
            vars.iter()
                .map(|(var, regexp)| (var.as_str(), regexp.name.as_str(), regexp.pattern.as_str())),
        ),
        Word::File(file) => Ok(Matcher::Hook(Arc::new(FileHook::build(file)?))),
        Word::UrlPattern(pattern) => Ok(Matcher::Hook(Arc::new(UrlPatternHook::build(pattern)?))),
        Word::Other(name, _) => return Err(Refusal::new(format!("unknown matcher `{name}`"))),
    };
    into.push(compiled.map_err(|error: MatcherError| Refusal::new(error.to_string()))?);
    Ok(())
}
