//! `rewrite`, `uri`, `method` and `handle_path`: change the request's method and target. `sluice-route` implements the
//! changes.

use sluice_model::handler::{QueryOps as QueryConfig, Rewrite as Config};
use sluice_route::Rewrite;
use sluice_route::rewrite::{QueryOps, RewriteError};

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::At;

struct Rewriter {
    ops: Rewrite,
}

impl Handler for Rewriter {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let change = match self.ops.apply(&At(exchange).input()) {
            Ok(change) => change,
            Err(refusal) => {
                return Step::Fail(Fault::new(refusal.status, refusal.reason));
            }
        };
        if let Some(method) = change.write(&mut exchange.req)
            && exchange.context.original_method.is_none()
        {
            exchange.context.original_method = Some(Box::new(method));
        }
        Step::Next
    }
}

/// Builds `rewrite`, `uri`, `method` and `handle_path`.
pub fn build(config: &Config, _cx: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let ops = rewrite(config).map_err(|error| Refusal::new(error.to_string()))?;
    Ok(Box::new(Rewriter { ops }))
}

/// Compiles the changes.
pub fn rewrite(config: &Config) -> Result<Rewrite, RewriteError> {
    let mut ops = Rewrite::new();
    if !config.method.is_empty() {
        ops = ops.method(&config.method)?;
    }
    if !config.uri.is_empty() {
        ops = ops.uri(&config.uri)?;
    }
    if !config.strip_path_prefix.is_empty() {
        ops = ops.strip_prefix(&config.strip_path_prefix)?;
    }
    if !config.strip_path_suffix.is_empty() {
        ops = ops.strip_suffix(&config.strip_path_suffix)?;
    }
    for item in &config.uri_substring {
        let limit = usize::try_from(item.limit).unwrap_or(0);
        ops = ops.substring(&item.find, &item.replace, limit)?;
    }
    for item in &config.path_regexp {
        ops = ops.path_regexp(&item.find, &item.replace)?;
    }
    match &config.query {
        Some(query) => Ok(ops.query(query_ops(query)?)),
        None => Ok(ops),
    }
}

fn query_ops(config: &QueryConfig) -> Result<QueryOps, RewriteError> {
    let mut ops = QueryOps::new();
    for pair in &config.rename {
        ops = ops.rename(&pair.key, &pair.val)?;
    }
    for pair in &config.set {
        ops = ops.set(&pair.key, &pair.val)?;
    }
    for pair in &config.add {
        ops = ops.add(&pair.key, &pair.val)?;
    }
    for item in &config.replace {
        ops = match item.search_regexp.as_str() {
            "" => ops.replace(&item.key, &item.search, &item.replace)?,
            pattern => ops.replace_regexp(&item.key, pattern, &item.replace)?,
        };
    }
    for name in &config.delete {
        ops = ops.delete(name)?;
    }
    Ok(ops)
}
