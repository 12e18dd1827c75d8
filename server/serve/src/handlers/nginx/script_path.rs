//! `nginx_script_path`: the script that a path names, and what is left of the path for it.

use std::sync::Arc;

use sluice_model::nginx::ScriptPath as Config;
use sluice_route::placeholder::nginx::variable_name;
use sluice_route::regexp::Regexp;

use crate::build::Refusal;
use crate::context::Exchange;
use crate::handler::{Handler, Step};

struct ScriptPath {
    index: Box<[u8]>,
    split: Option<Regexp>,
    /// The variables `fastcgi_script_name` and `fastcgi_path_info`.
    script: Arc<str>,
    info: Arc<str>,
}

/// Builds the handler.
pub fn build(config: &Config) -> Result<Box<dyn Handler>, Refusal> {
    let split = match config.split.as_str() {
        "" => None,
        pattern => Some(Regexp::new(pattern).map_err(|error| {
            Refusal::new(format!("fastcgi_split_path_info `{pattern}`: {error}"))
        })?),
    };
    if split
        .as_ref()
        .is_some_and(|regexp| regexp.group_names().count() < 3)
    {
        return Err(Refusal::new(
            "`fastcgi_split_path_info` needs a pattern with two groups",
        ));
    }
    Ok(Box::new(ScriptPath {
        index: config.index.as_bytes().into(),
        split,
        script: variable_name("fastcgi_script_name").into(),
        info: variable_name("fastcgi_path_info").into(),
    }))
}

impl Handler for ScriptPath {
    fn serve(&self, x: &mut Exchange) -> Step {
        let path = x.req.uri.path();
        let mut groups = Vec::new();
        let is_split = self
            .split
            .as_ref()
            .is_some_and(|split| split.groups(path, &mut groups));
        let group = |index: usize| {
            let found = groups.get(index).copied().flatten();
            found.map_or(&[][..], |(start, end)| &path[start as usize..end as usize])
        };
        let (script, info) = match is_split {
            true => (group(1), group(2)),
            false => (path, &[][..]),
        };
        let slot = x.context.vars.slot(&self.script);
        slot.extend_from_slice(script);
        if script.ends_with(b"/") {
            slot.extend_from_slice(&self.index);
        }
        x.context.vars.slot(&self.info).extend_from_slice(info);
        Step::Next
    }
}
