//! `dynamic` of `reverse_proxy`: upstreams from DNS.

use sluice_model::proxy::{
    AUpstreams, IpVersions, MultiUpstreams, Resolver, SrvUpstreams, UpstreamSource,
};

use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::matchers::inner_line;
use crate::tree::Directive;

impl Lowering<'_> {
    /// `dynamic <source> …`.
    pub(super) fn dynamic_upstreams(&mut self, line: &Directive) -> Option<UpstreamSource> {
        match inner_line(line) {
            Some(source) => self.upstream_source(&source),
            None => self.missing(line, "a source: `a`, `srv` or `multi`"),
        }
    }

    fn upstream_source(&mut self, line: &Directive) -> Option<UpstreamSource> {
        let place = std::mem::replace(&mut self.place, "dynamic");
        let source = match line.name.text.as_str() {
            "a" => self.a_source(line),
            "srv" => self.srv_source(line),
            "multi" => {
                let lines = line.lines().iter();
                let sources: Option<Vec<_>> =
                    lines.map(|line| self.upstream_source(line)).collect();
                sources.map(|sources| UpstreamSource::Multi(MultiUpstreams { sources }))
            }
            _ => self.unknown_module(&line.name, "source of upstreams", &["a", "srv", "multi"]),
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
        let mut a = AUpstreams {
            name: text(0),
            port: text(1),
            ..AUpstreams::default()
        };
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "name" => a.name = this.single_text(option)?,
                "port" => a.port = this.single_text(option)?,
                "refresh" => a.refresh = this.single_duration(option)?,
                "resolvers" => a.resolver = Some(this.resolver(option)?),
                "dial_timeout" => a.dial_timeout = this.single_duration(option)?,
                "dial_fallback_delay" => a.dial_fallback_delay = this.single_duration(option)?,
                "versions" => {
                    this.texts(option)?;
                    let versions = a.versions.get_or_insert_with(IpVersions::default);
                    for word in &option.args {
                        match this.one_of(word, &["ipv4", "ipv6"])?.as_str() {
                            "ipv4" => versions.ipv4 = Some(true),
                            _ => versions.ipv6 = Some(true),
                        }
                    }
                }
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(UpstreamSource::A(Box::new(a)))
    }

    fn srv_source(&mut self, line: &Directive) -> Option<UpstreamSource> {
        self.between(line, &line.args, 0, 1)?;
        let mut srv = SrvUpstreams::default();
        if let Some(word) = line.args.first() {
            srv.name.clone_from(&word.text);
        }
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "service" => srv.service = this.single_text(option)?,
                "proto" => srv.proto = this.single_text(option)?,
                "name" => srv.name = this.single_text(option)?,
                "refresh" => srv.refresh = this.single_duration(option)?,
                "grace_period" => srv.grace_period = this.single_duration(option)?,
                "resolvers" => srv.resolver = Some(this.resolver(option)?),
                "dial_timeout" => srv.dial_timeout = this.single_duration(option)?,
                "dial_fallback_delay" => srv.dial_fallback_delay = this.single_duration(option)?,
                "dial_network" => srv.dial_network = this.single_text(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(UpstreamSource::Srv(Box::new(srv)))
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
