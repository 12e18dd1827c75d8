//! Builds the virtual servers of an nginx.conf.

use std::collections::HashMap;
use std::sync::Arc;

use sluice_message::Method;
use sluice_model::nginx::{
    ClientLimits as ClientLimitsConfig, Location as LocationConfig, Nginx as Config,
    Place as PlaceConfig, VirtualServer,
};

use sluice_pipeline::build::Builder;
use sluice_pipeline::handler::Handler;
use sluice_pipeline::refusal::Refusal;

use crate::charset::recode::Charsets;
use crate::client_timeouts::Patience;
use crate::clients::Clients;
use crate::groups::{Case, Pattern};
use crate::locations::{How, Locations};
use crate::pages::Pages;
use crate::realip::RealIp;
use crate::redirect::Naming;
use crate::rewrite::Answer;
use crate::servers::Names as ServerNames;
use crate::shared::Shared;
use crate::ssi::variables::Names;
use crate::tables::Tables;
use crate::types::Types;

use crate::tree::{Choose, Location, OtherMethods, Place, Respond, Server, Tree, TreeRef, number};
use crate::{pages, rewrite};

/// Builds the virtual servers.
pub fn build<'m>(
    config: &'m Config,
    cx: &mut Builder<'m>,
) -> Result<Vec<Box<dyn Handler>>, Refusal> {
    let mut build = Build {
        types: config
            .types
            .iter()
            .map(Types::build)
            .map(Arc::new)
            .collect(),
        locations: Vec::new(),
        places: Vec::new(),
        answers: Vec::new(),
        patience: std::iter::once(&ClientLimitsConfig::default())
            .chain(&config.client_limits)
            .map(Patience::build)
            .collect::<Result<_, Refusal>>()?,
    };
    let tree_ref = TreeRef::default();
    cx.own.set(Shared {
        types: build.types.clone().into(),
        charsets: Arc::new(Charsets::build(config)?),
        names: Arc::new(Names::build(&config.variables, &config.families)?),
        tree: tree_ref.clone(),
    });
    let mut servers = Vec::new();
    for (index, server) in config.servers.iter().enumerate() {
        let built = cx.within(&format!(".servers[{index}]"), |cx| build.server(server, cx))?;
        servers.push(built);
    }
    if servers.is_empty() {
        return Err(Refusal::new("`nginx` without a server"));
    }
    let tree = Arc::new(Tree {
        names: ServerNames::build(&config.servers, cx)?,
        servers,
        locations: build.locations,
        places: build.places,
        answers: build.answers,
        patience: build.patience,
        secure: config.secure,
        tables: Tables::shared(&config.tables, cx.recorder)?,
        log: cx.log.cloned(),
    });
    // Set only here: each server of the model has one such handler.
    let _ = tree_ref.0.set(Arc::downgrade(&tree));
    cx.set_virtual_servers(tree.clone());
    cx.answer_errors_with(pages::handlers(&tree));
    Ok(vec![
        Box::new(Choose { tree: tree.clone() }),
        Box::new(Respond { tree }),
    ])
}

/// Items numbered during the build.
struct Build {
    types: Vec<Arc<Types>>,
    locations: Vec<Location>,
    places: Vec<Place>,
    answers: Vec<Answer>,
    patience: Vec<Patience>,
}

impl Build {
    fn server<'m>(
        &mut self,
        config: &'m VirtualServer,
        cx: &mut Builder<'m>,
    ) -> Result<Server, Refusal> {
        let place = cx.within(".place", |cx| self.place(&config.place, cx))?;
        let branches = self.branches(&config.branches, cx)?;
        let rewrite = rewrite::build(&config.rewrite, &branches, &mut self.answers, cx)?;
        let mut named = HashMap::new();
        let locations = self.locations(&config.locations, &mut named, cx)?;
        Ok(Server {
            name: config.names.first().map_or("", String::as_str).into(),
            merges_slashes: config.merge_slashes.unwrap_or(true),
            takes_underscores: config.underscores_in_headers,
            takes_odd_names: config.keeps_invalid_headers,
            heads: config.heads.clone(),
            real_ip: config
                .real_ip
                .as_ref()
                .map(|real_ip| RealIp::build(real_ip).map(Box::new))
                .transpose()?,
            clients: config
                .clients
                .as_ref()
                .map(|clients| Clients::build(clients).map(Box::new))
                .transpose()?,
            rewrite,
            place,
            locations,
            named,
            origin: config.origin.clone(),
        })
    }

    fn locations<'m>(
        &mut self,
        configs: &'m [LocationConfig],
        named: &mut HashMap<Box<str>, u32>,
        cx: &mut Builder<'m>,
    ) -> Result<Locations, Refusal> {
        let mut found = Locations::default();
        for (index, config) in configs.iter().enumerate() {
            let step = format!(".locations[{index}]");
            let location = cx.within(&step, |cx| self.location(config, named, cx))?;
            let number = number(self.locations.len());
            self.locations.push(location);
            let path = config.path.as_bytes();
            match config.modifier.as_str() {
                "=" => found.add_exact(path, number),
                "" => found.add_prefix(path, number, false, config.adds_slash),
                "^~" => found.add_prefix(path, number, true, config.adds_slash),
                "~" => found.add_pattern(
                    Pattern::new("location", &config.path, Case::Kept, cx.recorder)?,
                    number,
                ),
                "~*" => found.add_pattern(
                    Pattern::new("location", &config.path, Case::Folded, cx.recorder)?,
                    number,
                ),
                "@" => {
                    named.insert(config.path.as_str().into(), number);
                }
                other => {
                    return Err(Refusal::new(format!(
                        "`{other}` is not a way to compare a path"
                    )));
                }
            }
        }
        found.finish();
        Ok(found)
    }

    fn location<'m>(
        &mut self,
        config: &'m LocationConfig,
        named: &mut HashMap<Box<str>, u32>,
        cx: &mut Builder<'m>,
    ) -> Result<Location, Refusal> {
        let place = cx.within(".place", |cx| self.place(&config.place, cx))?;
        let branches = self.branches(&config.branches, cx)?;
        let rewrite = rewrite::build(&config.rewrite, &branches, &mut self.answers, cx)?;
        let inside = self.locations(&config.locations, named, cx)?;
        let others = match &config.other_methods {
            None => None,
            Some(others) => Some(Box::new(OtherMethods {
                than: others.than.iter().map(|name| method(name)).collect(),
                place: cx.within(".other_methods.place", |cx| self.place(&others.place, cx))?,
            })),
        };
        Ok(Location {
            internal: config.internal,
            rewrite,
            place,
            others,
            inside,
            origin: config.origin.clone(),
            how: How::of(&config.modifier),
        })
    }

    fn branches<'m>(
        &mut self,
        configs: &'m [PlaceConfig],
        cx: &mut Builder<'m>,
    ) -> Result<Vec<u32>, Refusal> {
        let mut branches = Vec::with_capacity(configs.len());
        for (index, config) in configs.iter().enumerate() {
            let step = format!(".branches[{index}]");
            branches.push(cx.within(&step, |cx| self.place(config, cx))?);
        }
        Ok(branches)
    }

    fn place<'m>(&mut self, config: &'m PlaceConfig, cx: &mut Builder<'m>) -> Result<u32, Refusal> {
        let list = cx.add_list(&config.routes);
        let errors = match config.errors.is_empty() {
            true => None,
            false => Some(cx.within(".errors", |cx| cx.add_list(&config.errors))),
        };
        let types = self.types.get(config.types as usize).cloned();
        let types =
            types.ok_or_else(|| Refusal::new("a place names media types that are not there"))?;
        let place = Place {
            list,
            errors,
            pages: Pages::build(config, cx)?,
            types,
            naming: Naming::build(&config.redirects),
            error_log: config.error_log.as_str().into(),
            tells_missing: config.log_not_found.unwrap_or(true),
            tells_rewrites: config.rewrite_log,
            patience: Some(config.client_limits)
                .filter(|number| (*number as usize) < self.patience.len())
                .ok_or_else(|| Refusal::new("a place names limits that are not there"))?,
        };
        self.places.push(place);
        Ok(number(self.places.len() - 1))
    }
}

/// The method called `name`, which the configuration check has validated.
fn method(name: &str) -> Method {
    Method::from_token(name.as_bytes()).unwrap_or_default()
}
