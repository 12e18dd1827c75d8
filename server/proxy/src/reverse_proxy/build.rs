//! Builds `reverse_proxy` from the model. Settings that are known but not implemented are refused by name. `transport`
//! builds the protocol options.

use std::sync::Arc;

use sluice_model::handler::{HeaderOps, ResponseHeaderOps};
use sluice_model::proxy::{ReverseProxy as Config, SelectionPolicy, Upstream as UpstreamConfig};
use sluice_net::tunnel::Term;
use sluice_upstream::Timeouts;

use super::active::{ActiveChecks, Checks};
use super::addresses::at_load;
use super::breaking::Breaking;
use super::coalescing::Coalescing;
use super::dynamic::{Around, Dynamic};
use super::group::Choosing;
use super::group_checks::{GroupChecks, Servers};
use super::hedging::Hedging;
use super::incremental::Incremental;
use super::intercept::Interception;
use super::language::{EmptyFields, Language, ShownFields};
use super::making::{Maker, cookie_key};
use super::retry::Sharing;
use super::select::{self, Selection};
use super::transport::Transport;
use super::upstream::Counted;
use super::upstream::Upstream;
use super::verbose::Verbose;
use super::{Content, Facts, HeaderDown, ReverseProxy, Streams};
use crate::limits::OUTLIERS_EJECTED_PERCENT;
use crate::limits::STREAM_BUFFER_BYTES;
use crate::reverse_proxy::group::Shared;
use sluice_handlers::headers::{Ops, response_matcher};
use sluice_pipeline::build::Builder;
use sluice_pipeline::handler::Handler;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;
use sluice_policy::PassivePolicy;

/// Builds `reverse_proxy`.
pub fn build<'m>(
    config: &'m Config,
    language: &dyn Language,
    builder: &mut Builder<'m>,
) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Box::new(proxy(config, language, builder)?))
}

/// Builds a proxy for use by another handler.
pub fn proxy<'m>(
    config: &'m Config,
    language: &dyn Language,
    builder: &mut Builder<'m>,
) -> Result<ReverseProxy, Refusal> {
    let facts = match builder.uses.proxy_facts {
        true => Facts::Shown,
        false => Facts::Unused,
    };
    let group = group(config, builder)?;
    let maker = Arc::new(maker(config, language, facts, group.as_ref(), builder)?);
    let (around, sockets) = (around(builder), language.sockets());
    let dynamic = Dynamic::build(config, &maker, group.as_ref(), sockets, &around)?;
    let upstreams = match &dynamic {
        // They are listed together with those whose addresses have placeholders.
        Some(Dynamic::Named(_)) => Box::default(),
        Some(Dynamic::Sources(_) | Dynamic::Group(_)) | None => {
            fixed(&config.upstreams, &maker, group.as_ref())?
        }
    };
    // For a group with names, the resolved addresses are shown instead.
    if !matches!(dynamic, Some(Dynamic::Group(_))) {
        upstreams.iter().for_each(|upstream| maker.show(upstream));
    }
    if let Some(log) = builder.log {
        let dials: Vec<&str> = config.upstreams.iter().map(|one| &*one.dial).collect();
        maker.transport.warn(log, &dials.join(" "));
    }
    let (header_up, header_down) = headers(config, language, builder)?;
    let servers = match &group {
        Some(group) => group.group().tries(),
        None => u32::try_from(upstreams.len()).unwrap_or(u32::MAX),
    };
    let active = active(
        &upstreams,
        dynamic.as_ref(),
        &maker,
        group.as_ref(),
        builder,
    );
    let selection = Selection::build(config, &upstreams, &maker)?.with_group(group);
    let interceptions = interceptions(config, builder)?;
    let options = maker.transport.options(None);
    let sharing = match options.protocol.may_share() {
        true => Sharing::May,
        false => Sharing::No,
    };
    Ok(ReverseProxy {
        active,
        dynamic: dynamic.map(Box::new),
        interceptions,
        fastcgi: maker.transport.fastcgi().cloned(),
        memcached: maker.transport.memcached().cloned(),
        content: content(config, language),
        incremental: Incremental::build(config)?,
        upstreams,
        selection,
        header_up,
        header_down,
        dialect: language.dialect(config, servers, sharing, builder)?,
        facts,
        keeps_fields: builder.uses.upstream_fields
            && language.shown_fields() == ShownFields::AsReceived,
        verbose: verbose(config, builder),
        streams: streams(config, options.timeouts)?,
        coalescing: coalescing(config)?,
        hedging: Hedging::build(config)?.map(Box::new),
        buffering: language.buffering(config, builder)?,
    })
}

/// The active health checks of the directive. Those of a group, which other directives may use as well, begin with the
/// configuration.
fn active(
    upstreams: &[Arc<Upstream>],
    dynamic: Option<&Dynamic>,
    maker: &Maker,
    group: Option<&Choosing>,
    builder: &Builder<'_>,
) -> Option<ActiveChecks> {
    let checks = maker.checks()?;
    let Some(group) = group else {
        return Some(ActiveChecks::new(checks, upstreams));
    };
    let servers = match dynamic {
        Some(Dynamic::Group(members)) => Servers::Named(members.clone()),
        Some(Dynamic::Named(_) | Dynamic::Sources(_)) | None => Servers::Fixed(upstreams.into()),
    };
    let shared: Shared = builder.shared.get();
    let checks = GroupChecks::new(checks, group.group().name(), servers);
    shared.add_checks(Arc::new(checks));
    None
}

fn interceptions<'m>(
    config: &'m Config,
    builder: &mut Builder<'m>,
) -> Result<Vec<Interception>, Refusal> {
    let rules = config.handle_response.iter().enumerate();
    rules
        .map(|(index, rule)| {
            let step = format!(".handle_response[{index}]");
            builder.within(&step, |builder| Interception::build(rule, builder))
        })
        .collect()
}

/// What sources of upstreams need of the server.
fn around<'m>(builder: &Builder<'m>) -> Around<'m> {
    Around {
        log: builder.log,
        recorder: builder.recorder,
        data_dir: builder.keys.map(|keys| keys.data_dir),
    }
}

/// Steps are logged at level `debug`; if no log accepts that level, `None` avoids the formatting.
fn verbose(config: &Config, builder: &Builder<'_>) -> Option<Verbose> {
    let log = builder.log.filter(|_| config.verbose_logs)?;
    Some(Verbose::new(log.clone()))
}

fn coalescing(config: &Config) -> Result<Option<Coalescing>, Refusal> {
    if config.coalesce && !config.handle_response.is_empty() {
        return Err(
            Refusal::new("`coalesce` together with `handle_response`").with_help(
                "responses that other routes handle are not coalesced; remove one of the two",
            ),
        );
    }
    Ok(config.coalesce.then(Coalescing::default))
}

fn streams(config: &Config, upstream: Timeouts) -> Result<Streams, Refusal> {
    let buffer_bytes = match config.stream_buffer_size {
        0 => None,
        bytes => {
            let known = usize::try_from(bytes).ok();
            Some(known.filter(|bytes| STREAM_BUFFER_BYTES.contains(bytes)))
        }
    };
    if buffer_bytes == Some(None) {
        let bytes = config.stream_buffer_size;
        return Err(
            Refusal::new(format!("`stream_buffer_size` of {bytes} bytes")).with_help(format!(
                "give a size from {} to {} bytes",
                STREAM_BUFFER_BYTES.start(),
                STREAM_BUFFER_BYTES.end()
            )),
        );
    }
    Ok(Streams {
        lifetime: given(config.stream_timeout),
        buffer_bytes: buffer_bytes.flatten(),
        upstream,
        term: given(config.stream_close_delay).map(Term::new),
    })
}

/// The upstream group of the directive, if it uses one.
fn group(config: &Config, builder: &Builder<'_>) -> Result<Option<Choosing>, Refusal> {
    let balancing = config.load_balancing.as_ref();
    let Some(SelectionPolicy::Group(group)) = balancing.and_then(|c| c.selection_policy.as_ref())
    else {
        return Ok(None);
    };
    Choosing::build(group, &config.upstreams, builder).map(Some)
}

fn maker(
    config: &Config,
    language: &dyn Language,
    facts: Facts,
    group: Option<&Choosing>,
    builder: &Builder<'_>,
) -> Result<Maker, Refusal> {
    let shared: Shared = builder.shared.get();
    shared.note_proxy();
    let transport = Transport::build(
        config.transport.as_ref(),
        builder.log,
        builder.keys,
        language.leniency(),
        &shared,
    )?;
    let checks = config.health_checks.as_ref();
    let passive = select::passive(checks.and_then(|checks| checks.passive.as_ref()))?;
    let breaking = config.circuit_breaker.as_ref().map(Breaking::build);
    let breaking = breaking.transpose()?;
    let is_set = checks.is_some_and(|checks| {
        let passive = checks.passive.as_ref();
        passive.is_some_and(|passive| passive.max_ejected > 0)
    });
    let passive = match &breaking {
        Some(breaking) if breaking.compares() && !is_set => PassivePolicy {
            ejected_max_percent: OUTLIERS_EJECTED_PERCENT,
            ..passive
        },
        Some(_) | None => passive,
    };
    let active = checks.and_then(|checks| checks.active.as_ref());
    let events = builder.recorder.map(|recorder| recorder.events().clone());
    let active = active.map(|active| Checks::build(active, &transport, events));
    let policy = config.load_balancing.as_ref();
    Ok(Maker {
        checks: active.transpose()?.flatten().map(Arc::new),
        cookie_key: cookie_key(policy.and_then(|policy| policy.selection_policy.as_ref())),
        counted: match group {
            Some(group) if group.group().is_counted() => Counted::Yes,
            Some(_) | None => select::counted(config, &passive, facts)?,
        },
        directions: builder.shared.get::<Shared>().directions(),
        hub: builder.recorder.map(|recorder| recorder.hub().clone()),
        passive,
        breaking,
        transport,
    })
}

fn fixed(
    config: &[UpstreamConfig],
    maker: &Maker,
    group: Option<&Choosing>,
) -> Result<Box<[Arc<Upstream>]>, Refusal> {
    let at_load = |(index, upstream): (usize, &UpstreamConfig)| {
        let config = UpstreamConfig {
            dial: at_load(&upstream.dial)?,
            ..upstream.clone()
        };
        let fixed = match group.and_then(|group| group.member(index)) {
            Some(member) => maker.member(&config, member),
            None => maker.fixed(&config),
        };
        fixed.map(Arc::new)
    };
    config.iter().enumerate().map(at_load).collect()
}

fn headers(
    config: &Config,
    language: &dyn Language,
    builder: &Builder<'_>,
) -> Result<(Option<Ops>, Option<HeaderDown>), Refusal> {
    let Some(changes) = &config.headers else {
        return Ok((None, None));
    };
    let up = changes
        .request
        .as_ref()
        .map(|ops| Ops::build(ops, builder))
        .transpose()?;
    let up = match language.empty_fields() {
        EmptyFields::Sent => up,
        EmptyFields::Skipped => up.map(Ops::skipping_empty),
    };
    let down = changes
        .response
        .as_ref()
        .map(|down| header_down(down, builder))
        .transpose()?;
    Ok((up, down))
}

fn header_down(config: &ResponseHeaderOps, builder: &Builder<'_>) -> Result<HeaderDown, Refusal> {
    let ops = HeaderOps {
        add: config.add.clone(),
        set: config.set.clone(),
        delete: config.delete.clone(),
        replace: config.replace.clone(),
    };
    let require = config.require.as_ref().map(response_matcher).transpose()?;
    Ok(HeaderDown {
        ops: Ops::build(&ops, builder)?,
        require,
    })
}

fn content(config: &Config, language: &dyn Language) -> Content {
    if language.drops_body() {
        return Content::Keep;
    }
    match config
        .rewrite
        .as_ref()
        .map(|rewrite| rewrite.method.as_str())
    {
        Some("GET" | "HEAD") => Content::Keep,
        Some(_) | None => Content::Send,
    }
}
