//! `dynamic` of `reverse_proxy`: upstreams from DNS, Redis or etcd.

use sluice_model::proxy::{
    AUpstreams, EtcdUpstreams, IpVersions, MultiUpstreams, RedisUpstreams, Resolver, SrvUpstreams,
    UpstreamSource,
};

use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::definition::Read::With;
use crate::lower::definition::Verdict::NoEffect;
use crate::lower::definition::{Options, option};
use crate::lower::matchers::inner_line;
use crate::tree::Directive;

/// The options of the sources `a`, `srv`, `redis` and `etcd`; each refuses those that only others have.
pub(super) static DYNAMIC: Options<UpstreamSource> = Options::new(
    "dynamic",
    &[
        option(
            "service",
            "service <service>",
            With(|cx, line, source| {
                let srv = srv(cx, line, source)?;
                srv.service = cx.single_text(line)?;
                Some(())
            }),
        ),
        option(
            "proto",
            "proto <proto>",
            With(|cx, line, source| {
                let srv = srv(cx, line, source)?;
                srv.proto = cx.single_text(line)?;
                Some(())
            }),
        ),
        option(
            "name",
            "name <name>",
            With(|cx, line, source| {
                let name = match source {
                    UpstreamSource::A(a) => &mut a.name,
                    UpstreamSource::Srv(srv) => &mut srv.name,
                    _ => return cx.unknown_option(line),
                };
                *name = cx.single_text(line)?;
                Some(())
            }),
        ),
        option(
            "port",
            "port <port>",
            With(|cx, line, source| {
                let a = a(cx, line, source)?;
                a.port = cx.single_text(line)?;
                Some(())
            }),
        ),
        option(
            "refresh",
            "refresh <interval>",
            With(|cx, line, source| {
                let refresh = match source {
                    UpstreamSource::A(a) => &mut a.refresh,
                    UpstreamSource::Srv(srv) => &mut srv.refresh,
                    UpstreamSource::Redis(redis) => &mut redis.refresh,
                    _ => return cx.unknown_option(line),
                };
                *refresh = cx.single_duration(line)?;
                Some(())
            }),
        ),
        option(
            "grace_period",
            "grace_period <duration>",
            With(|cx, line, source| {
                let grace = match source {
                    UpstreamSource::Srv(srv) => &mut srv.grace_period,
                    UpstreamSource::Redis(redis) => &mut redis.grace_period,
                    UpstreamSource::Etcd(etcd) => &mut etcd.grace_period,
                    _ => return cx.unknown_option(line),
                };
                *grace = cx.single_duration(line)?;
                Some(())
            }),
        ),
        option(
            "resolvers",
            "resolvers <ip...>",
            With(|cx, line, source| {
                let resolver = match source {
                    UpstreamSource::A(a) => &mut a.resolver,
                    UpstreamSource::Srv(srv) => &mut srv.resolver,
                    _ => return cx.unknown_option(line),
                };
                *resolver = Some(cx.resolver(line)?);
                Some(())
            }),
        ),
        option(
            "dial_timeout",
            "dial_timeout <duration>",
            With(|cx, line, source| {
                let timeout = match source {
                    UpstreamSource::A(a) => &mut a.dial_timeout,
                    UpstreamSource::Srv(srv) => &mut srv.dial_timeout,
                    _ => return cx.unknown_option(line),
                };
                *timeout = cx.single_duration(line)?;
                Some(())
            }),
        ),
        option::<UpstreamSource>(
            "dial_fallback_delay",
            "dial_fallback_delay <duration>",
            With(|cx, line, source| {
                let delay = match source {
                    UpstreamSource::A(a) => &mut a.dial_fallback_delay,
                    UpstreamSource::Srv(srv) => &mut srv.dial_fallback_delay,
                    _ => return cx.unknown_option(line),
                };
                *delay = cx.single_duration(line)?;
                Some(())
            }),
        )
        .but(NoEffect(
            "DNS servers are given as IP addresses, so there is no second address to fall back to",
        )),
        option(
            "dial_network",
            "dial_network <network>",
            With(|cx, line, source| {
                let srv = srv(cx, line, source)?;
                srv.dial_network = cx.single_text(line)?;
                Some(())
            }),
        ),
        option(
            "versions",
            "versions ipv4|ipv6",
            With(|cx, line, source| {
                let a = a(cx, line, source)?;
                cx.texts(line)?;
                let versions = a.versions.get_or_insert_with(IpVersions::default);
                for word in &line.args {
                    match cx.one_of(word, &["ipv4", "ipv6"])?.as_str() {
                        "ipv4" => versions.ipv4 = Some(true),
                        _ => versions.ipv6 = Some(true),
                    }
                }
                Some(())
            }),
        ),
        option(
            "store",
            "store <url>",
            With(|cx, line, source| {
                redis(cx, line, source)?.store = cx.single_text(line)?;
                Some(())
            }),
        )
        .own(),
        option(
            "key",
            "key <key>",
            With(|cx, line, source| {
                redis(cx, line, source)?.key = cx.single_text(line)?;
                Some(())
            }),
        )
        .own(),
        option(
            "ca",
            "ca <file>",
            With(|cx, line, source| {
                redis(cx, line, source)?.ca = cx.single_text(line)?;
                Some(())
            }),
        )
        .own(),
        option(
            "endpoints",
            "endpoints <host:port|url>...",
            With(|cx, line, source| {
                etcd(cx, line, source)?.endpoints = cx.texts(line)?;
                Some(())
            }),
        )
        .own(),
        option(
            "prefix",
            "prefix <prefix>",
            With(|cx, line, source| {
                etcd(cx, line, source)?.prefix = cx.single_text(line)?;
                Some(())
            }),
        )
        .own(),
        option(
            "username",
            "username <user>",
            With(|cx, line, source| {
                etcd(cx, line, source)?.username = cx.single_text(line)?;
                Some(())
            }),
        )
        .own(),
        option(
            "password",
            "password <password>",
            With(|cx, line, source| {
                etcd(cx, line, source)?.password = cx.single_text(line)?;
                Some(())
            }),
        )
        .own(),
        option(
            "tls_ca",
            "tls_ca <file>",
            With(|cx, line, source| {
                etcd(cx, line, source)?.tls_ca = cx.single_text(line)?;
                Some(())
            }),
        )
        .own(),
        option(
            "tls_cert",
            "tls_cert <file>",
            With(|cx, line, source| {
                etcd(cx, line, source)?.tls_cert = cx.single_text(line)?;
                Some(())
            }),
        )
        .own(),
        option(
            "tls_key",
            "tls_key <file>",
            With(|cx, line, source| {
                etcd(cx, line, source)?.tls_key = cx.single_text(line)?;
                Some(())
            }),
        )
        .own(),
    ],
);

/// The source `redis`; an option that only it has is unknown to others.
fn redis<'s>(
    cx: &mut Lowering<'_>,
    line: &Directive,
    source: &'s mut UpstreamSource,
) -> Option<&'s mut RedisUpstreams> {
    match source {
        UpstreamSource::Redis(redis) => Some(redis),
        _ => cx.unknown_option(line),
    }
}

/// The source `etcd`; an option that only it has is unknown to others.
fn etcd<'s>(
    cx: &mut Lowering<'_>,
    line: &Directive,
    source: &'s mut UpstreamSource,
) -> Option<&'s mut EtcdUpstreams> {
    match source {
        UpstreamSource::Etcd(etcd) => Some(etcd),
        _ => cx.unknown_option(line),
    }
}

/// The source `a`; an option that only it has is unknown to others.
fn a<'s>(
    cx: &mut Lowering<'_>,
    line: &Directive,
    source: &'s mut UpstreamSource,
) -> Option<&'s mut AUpstreams> {
    match source {
        UpstreamSource::A(a) => Some(a),
        _ => cx.unknown_option(line),
    }
}

/// The source `srv`; an option that only it has is unknown to others.
fn srv<'s>(
    cx: &mut Lowering<'_>,
    line: &Directive,
    source: &'s mut UpstreamSource,
) -> Option<&'s mut SrvUpstreams> {
    match source {
        UpstreamSource::Srv(srv) => Some(srv),
        _ => cx.unknown_option(line),
    }
}

impl Lowering<'_> {
    /// `dynamic <source> …`.
    pub(super) fn dynamic_upstreams(&mut self, line: &Directive) -> Option<UpstreamSource> {
        match inner_line(line) {
            Some(source) => self.upstream_source(&source),
            None => self.missing(line, "a source: `a`, `srv`, `redis`, `etcd` or `multi`"),
        }
    }

    fn upstream_source(&mut self, line: &Directive) -> Option<UpstreamSource> {
        let place = std::mem::replace(&mut self.place, &DYNAMIC);
        let source = match line.name.text.as_str() {
            "a" => self.a_source(line),
            "srv" => self.srv_source(line),
            "redis" => self.redis_source(line),
            "etcd" => self.etcd_source(line),
            "multi" => {
                let lines = line.lines().iter();
                let sources: Option<Vec<_>> =
                    lines.map(|line| self.upstream_source(line)).collect();
                sources.map(|sources| UpstreamSource::Multi(MultiUpstreams { sources }))
            }
            _ => self.unknown_module(
                &line.name,
                "source of upstreams",
                &["a", "srv", "redis", "etcd", "multi"],
            ),
        };
        self.place = place;
        source
    }

    fn a_source(&mut self, line: &Directive) -> Option<UpstreamSource> {
        self.between(line, &line.args, 0, 2)?;
        let text = |at: usize| {
            line.args
                .get(at)
                .map(|word| word.text.clone())
                .unwrap_or_default()
        };
        let a = AUpstreams {
            name: text(0),
            port: text(1),
            ..AUpstreams::default()
        };
        let mut source = UpstreamSource::A(Box::new(a));
        self.read_options(&DYNAMIC, line.lines(), &mut source)?;
        Some(source)
    }

    fn srv_source(&mut self, line: &Directive) -> Option<UpstreamSource> {
        self.between(line, &line.args, 0, 1)?;
        let mut srv = SrvUpstreams::default();
        if let Some(word) = line.args.first() {
            srv.name.clone_from(&word.text);
        }
        let mut source = UpstreamSource::Srv(Box::new(srv));
        self.read_options(&DYNAMIC, line.lines(), &mut source)?;
        Some(source)
    }

    fn redis_source(&mut self, line: &Directive) -> Option<UpstreamSource> {
        self.exact::<0>(line, &line.args)?;
        let mut source = UpstreamSource::Redis(Box::default());
        self.read_options(&DYNAMIC, line.lines(), &mut source)?;
        if let UpstreamSource::Redis(redis) = &source
            && (redis.store.is_empty() || redis.key.is_empty())
        {
            return self.missing(line, "`store` and `key`");
        }
        Some(source)
    }

    fn etcd_source(&mut self, line: &Directive) -> Option<UpstreamSource> {
        self.exact::<0>(line, &line.args)?;
        let mut source = UpstreamSource::Etcd(Box::default());
        self.read_options(&DYNAMIC, line.lines(), &mut source)?;
        if let UpstreamSource::Etcd(etcd) = &source
            && (etcd.endpoints.is_empty() || etcd.prefix.is_empty())
        {
            return self.missing(line, "`endpoints` and `prefix`");
        }
        Some(source)
    }

    /// DNS servers.
    pub(super) fn resolver(&mut self, line: &Directive) -> Option<Resolver> {
        self.texts(line)?;
        Some(Resolver {
            addresses: texts(&line.args),
            ..Resolver::default()
        })
    }
}
