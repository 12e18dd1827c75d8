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
use sluice_pipeline::request_id::{Form, RequestIds};

use crate::charset::recode::Charsets;
use crate::client_timeouts::ClientTimeouts;
use crate::clients::Clients;
use crate::groups::{Case, Pattern};
use crate::locations::{How, Locations};
use crate::pages::Pages;
use crate::realip::RealIp;
use crate::redirect::Naming;
use crate::rewrite::Response;
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
    builder: &mut Builder<'m>,
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
        facts: Vec::new(),
        responses: Vec::new(),
        timeouts: std::iter::once(&ClientLimitsConfig::default())
            .chain(&config.client_limits)
            .map(ClientTimeouts::build)
            .collect::<Result<_, Refusal>>()?,
    };
    let tree_ref = TreeRef::default();
    builder.own.set(Shared {
        types: build.types.clone().into(),
        charsets: Arc::new(Charsets::build(config)?),
        names: Arc::new(Names::build(&config.variables, &config.families)?),
        tree: tree_ref.clone(),
    });
    let mut servers = Vec::new();
    for (index, server) in config.servers.iter().enumerate() {
        let built = builder.within(&format!(".servers[{index}]"), |builder| {
            build.server(server, builder)
        })?;
        servers.push(built);
    }
    if servers.is_empty() {
        return Err(Refusal::new("`nginx` without a server"));
    }
    let sites = builder.set_sites(&site_names(config, builder));
    for (index, server) in config.servers.iter().enumerate() {
        if let Some(sites) = sites.as_ref().filter(|_| !server.status_zone.is_empty()) {
            sites.name_zone(index);
        }
    }
    let tree = Arc::new(Tree {
        names: ServerNames::build(&config.servers, builder)?,
        servers,
        locations: build.locations,
        places: build.places,
        responses: build.responses,
        timeouts: build.timeouts,
        secure: config.secure,
        tables: Tables::shared(&config.tables, build.facts, builder.recorder)?,
        log: builder.log.cloned(),
        sites,
    });
    // Set only here: each server of the model has one such handler.
    let _ = tree_ref.0.set(Arc::downgrade(&tree));
    builder.set_virtual_servers(tree.clone());
    builder.respond_to_errors_with(pages::handlers(&tree));
    Ok(vec![
        Box::new(Choose { tree: tree.clone() }),
        Box::new(Respond { tree }),
    ])
}

/// The names by which requests of the servers are counted: those of the servers, or the addresses of one without a name.
fn site_names(config: &Config, builder: &Builder<'_>) -> Vec<String> {
    let name = |server: &VirtualServer| {
        let names = server.names.iter().map(String::as_str);
        let names: Vec<&str> = names.filter(|name| !matches!(*name, "" | "_")).collect();
        match names.as_slice() {
            _ if !server.status_zone.is_empty() => server.status_zone.clone(),
            [] => builder.addresses(),
            names => names.join(", "),
        }
    };
    config.servers.iter().map(name).collect()
}

/// Items numbered during the build.
struct Build {
    types: Vec<Arc<Types>>,
    locations: Vec<Location>,
    places: Vec<Place>,
    /// The rows of the places in tables about them.
    facts: Vec<u32>,
    responses: Vec<Response>,
    timeouts: Vec<ClientTimeouts>,
}

impl Build {
    fn server<'m>(
        &mut self,
        config: &'m VirtualServer,
        builder: &mut Builder<'m>,
    ) -> Result<Server, Refusal> {
        let place = builder.within(".place", |builder| self.place(&config.place, builder))?;
        let branches = self.branches(&config.branches, builder)?;
        let rewrite = rewrite::build(&config.rewrite, &branches, &mut self.responses, builder)?;
        let mut named = HashMap::new();
        let locations = self.locations(&config.locations, &mut named, builder)?;
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
            request_ids: config
                .request_id
                .as_ref()
                .map(|config| RequestIds::build(config, Form::Hexadecimal).map(Box::new))
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
        builder: &mut Builder<'m>,
    ) -> Result<Locations, Refusal> {
        let mut found = Locations::default();
        for (index, config) in configs.iter().enumerate() {
            let step = format!(".locations[{index}]");
            let location =
                builder.within(&step, |builder| self.location(config, named, builder))?;
            let number = number(self.locations.len());
            self.locations.push(location);
            let path = config.path.as_bytes();
            if config.adds_slash {
                found.add_slash(path);
            }
            match config.modifier.as_str() {
                "=" => found.add_exact(path, number),
                "" => found.add_prefix(path, number, false),
                "^~" => found.add_prefix(path, number, true),
                "~" => found.add_pattern(
                    Pattern::new("location", &config.path, Case::Kept, builder.recorder)?,
                    number,
                ),
                "~*" => found.add_pattern(
                    Pattern::new("location", &config.path, Case::Folded, builder.recorder)?,
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
        builder: &mut Builder<'m>,
    ) -> Result<Location, Refusal> {
        let place = builder.within(".place", |builder| self.place(&config.place, builder))?;
        let branches = self.branches(&config.branches, builder)?;
        let rewrite = rewrite::build(&config.rewrite, &branches, &mut self.responses, builder)?;
        let inside = self.locations(&config.locations, named, builder)?;
        let others = match &config.other_methods {
            None => None,
            Some(others) => Some(Box::new(OtherMethods {
                than: others.than.iter().map(|name| method(name)).collect(),
                place: builder.within(".other_methods.place", |builder| {
                    self.place(&others.place, builder)
                })?,
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
        builder: &mut Builder<'m>,
    ) -> Result<Vec<u32>, Refusal> {
        let mut branches = Vec::with_capacity(configs.len());
        for (index, config) in configs.iter().enumerate() {
            let step = format!(".branches[{index}]");
            branches.push(builder.within(&step, |builder| self.place(config, builder))?);
        }
        Ok(branches)
    }

    fn place<'m>(
        &mut self,
        config: &'m PlaceConfig,
        builder: &mut Builder<'m>,
    ) -> Result<u32, Refusal> {
        let list = builder.add_list(&config.routes);
        let errors = match config.errors.is_empty() {
            true => None,
            false => Some(builder.within(".errors", |builder| builder.add_list(&config.errors))),
        };
        let types = self.types.get(config.types as usize).cloned();
        let types =
            types.ok_or_else(|| Refusal::new("a place names media types that are not there"))?;
        let place = Place {
            list,
            errors,
            pages: Pages::build(config, builder)?,
            types,
            naming: Naming::build(&config.redirects),
            error_log: config.error_log.as_str().into(),
            logs_missing: config.log_not_found.unwrap_or(true),
            logs_rewrites: config.rewrite_log,
            zone: builder
                .recorder
                .filter(|_| !config.status_zone.is_empty())
                .map(|recorder| {
                    let zones = recorder.hub().location_zones();
                    zones.site(&config.status_zone, recorder.workers())
                }),
            timeouts: Some(config.client_limits)
                .filter(|number| (*number as usize) < self.timeouts.len())
                .ok_or_else(|| Refusal::new("a place names limits that are not there"))?,
        };
        self.places.push(place);
        self.facts.push(config.facts);
        Ok(number(self.places.len() - 1))
    }
}

/// The method called `name`, which the configuration check has validated.
fn method(name: &str) -> Method {
    Method::from_token(name.as_bytes()).unwrap_or_default()
}
