//! `reverse_proxy`.

mod dynamic;
pub(super) mod fastcgi;
mod health_checks;
mod load_balancing;
mod transport;
mod upstreams;

use sluice_model::Handler;
use sluice_model::handler::{HeaderOps, Headers, ResponseHeaderOps, Rewrite};
use sluice_model::proxy::{LoadBalancing, ReverseProxy};

use super::Outcomes;
use super::intercept::is_response_line;
use crate::lower::Lowering;
use crate::lower::matchers::ranges;
use crate::tree::{Directive, Token};

impl Lowering<'_> {
    pub(in crate::lower) fn reverse_proxy(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let proxy = this.proxy_block(line, args, line.lines(), ReverseProxy::default())?;
            Some(Handler::ReverseProxy(Box::new(proxy)))
        })
    }

    /// Reads the upstreams and options of a proxy; `php_fastcgi` and `forward_auth` have them too.
    pub(in crate::lower) fn proxy_block(
        &mut self,
        line: &Directive,
        args: &[Token],
        options: &[Directive],
        mut proxy: ReverseProxy,
    ) -> Option<ReverseProxy> {
        let place = std::mem::replace(&mut self.place, "reverse_proxy");
        let mut upstreams: Vec<&Token> = args.iter().collect();
        let mut whole = true;
        for option in options.iter().filter(|option| !is_response_line(option)) {
            if option.name.text == "to" {
                whole &= self.texts(option).is_some();
                upstreams.extend(&option.args);
            } else {
                whole &= self.proxy_option(option, &mut proxy).is_some();
            }
        }
        let upstreams = self.upstreams(line, &upstreams, &mut proxy);
        match self.response_handlers(options) {
            Some(handlers) => proxy.handle_response = handlers,
            None => whole = false,
        }
        self.place = place;
        upstreams?;
        whole.then_some(proxy)
    }

    fn proxy_option(&mut self, line: &Directive, proxy: &mut ReverseProxy) -> Option<()> {
        let name = line.name.text.as_str();
        match name {
            "dynamic" if proxy.dynamic_upstreams.is_some() => return self.duplicate(line),
            "dynamic" => proxy.dynamic_upstreams = Some(self.dynamic_upstreams(line)?),
            "transport" => proxy.transport = Some(self.transport(line)?),
            "flush_interval" => {
                let word = self.single(line)?;
                proxy.flush_interval = match word.text.as_str() {
                    "-1" => sluice_model::Duration(-1),
                    _ => self.duration(word)?,
                };
            }
            "request_buffers" => proxy.request_buffers = self.buffer_size(line)?,
            "response_buffers" => proxy.response_buffers = self.buffer_size(line)?,
            "buffer_folder" => proxy.buffer_folder = self.single_text(line)?,
            "stream_timeout" => proxy.stream_timeout = self.single_duration(line)?,
            "stream_close_delay" => proxy.stream_close_delay = self.single_duration(line)?,
            "stream_buffer_size" => proxy.stream_buffer_size = self.single_size(line)?,
            "trusted_proxies" => {
                self.texts(line)?;
                proxy.trusted_proxies.extend(ranges(&line.args));
            }
            "header_up" | "header_down" => self.proxy_header(line, proxy)?,
            "method" => {
                let method = self.single_text(line)?;
                proxy.rewrite.get_or_insert_with(Rewrite::default).method = method;
            }
            "rewrite" => {
                let uri = self.single_text(line)?;
                proxy.rewrite.get_or_insert_with(Rewrite::default).uri = uri;
            }
            "coalesce" => {
                self.flag(line)?;
                proxy.coalesce = true;
            }
            "circuit_breaker" if proxy.circuit_breaker.is_some() => return self.duplicate(line),
            "circuit_breaker" => proxy.circuit_breaker = Some(self.circuit_breaker(line)?),
            "verbose_logs" if proxy.verbose_logs => return self.duplicate(line),
            "verbose_logs" => {
                self.flag(line)?;
                proxy.verbose_logs = true;
            }
            _ if name.starts_with("lb_") => {
                let balancing = proxy
                    .load_balancing
                    .get_or_insert_with(LoadBalancing::default);
                self.balancing_option(line, balancing)?;
            }
            _ if name.starts_with("health_") => self.active_option(line, proxy)?,
            _ => self.passive_option(line, proxy)?,
        }
        Some(())
    }

    fn buffer_size(&mut self, line: &Directive) -> Option<i64> {
        let word = self.single(line)?;
        if word.text == "unlimited" {
            Some(-1)
        } else {
            self.size(word)
        }
    }

    fn proxy_header(&mut self, line: &Directive, proxy: &mut ReverseProxy) -> Option<()> {
        self.no_block(line)?;
        self.between(line, &line.args, 1, 3)?;
        let headers = proxy.headers.get_or_insert_with(Headers::default);
        if line.name.text == "header_down" {
            let ops = headers
                .response
                .get_or_insert_with(ResponseHeaderOps::default);
            return self.upstream_change(line, ops);
        }
        let ops = headers.request.get_or_insert_with(HeaderOps::default);
        self.warn_needless_header(line);
        self.request_change(line, &line.args[0], &line.args[1..], ops)
    }

    /// Warns about fields that are sent with that very value anyway.
    fn warn_needless_header(&mut self, line: &Directive) {
        let [field, value] = line.args.as_slice() else {
            return;
        };
        let value = value.text.as_str();
        let needless = match field.text.to_ascii_lowercase().as_str() {
            "x-forwarded-for" => {
                matches!(
                    value,
                    "{http.request.remote}" | "{http.request.remote.host}"
                )
            }
            "x-forwarded-proto" => value == "{http.request.scheme}",
            "x-forwarded-host" => {
                matches!(value, "{http.request.host}" | "{http.request.hostport}")
            }
            "host" => value == "{http.request.hostport}",
            _ => false,
        };
        if needless {
            let title = format!("`header_up {}` changes nothing", field.text);
            let diagnostic = field.warning("needless-option", title, "sent like this anyway");
            self.report.push(diagnostic.help("remove the line"));
        }
    }
}
