//! `transport` of `reverse_proxy`, and the options of `transport http`.

use sluice_model::RawModule;
use sluice_model::proxy::{HttpTransport, KeepAlive, Transport, UpstreamTls};

use super::fastcgi::{FASTCGI, SCGI, UWSGI};
use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::definition::Read::{Choice, Flag, Number, Size, Text, Texts, Time, With};
use crate::lower::definition::Verdict::{NoEffect, Partly};
use crate::lower::definition::{Block, Options, option};
use crate::lower::matchers::inner_line;
use crate::lower::trust_pool::TRUST_POOL;
use crate::tree::{Directive, Token};

/// `transport http`.
pub(super) static HTTP: Options<HttpTransport> = Options::new(
    "transport http",
    &[
        option::<HttpTransport>(
            "read_buffer",
            "read_buffer <size>",
            Size(|http| &mut http.read_buffer_size),
        )
        .but(Partly(
            "4 KiB to 1 MiB of an HTTP/1 response body; the default is 128 KiB, and 64 KiB for slow clients",
        )),
        option::<HttpTransport>(
            "write_buffer",
            "write_buffer <size>",
            Size(|http| &mut http.write_buffer_size),
        )
        .but(NoEffect(
            "request bodies are forwarded as they arrive, without a write buffer",
        )),
        option(
            "max_response_header",
            "max_response_header <size>",
            Size(|http| &mut http.max_response_header_size),
        ),
        option(
            "proxy_protocol",
            "proxy_protocol v1|v2",
            Choice(&["v1", "v2"], |http| &mut http.proxy_protocol),
        ),
        option(
            "dial_timeout",
            "dial_timeout <duration>",
            Time(|http| &mut http.dial_timeout),
        ),
        option(
            "dial_fallback_delay",
            "dial_fallback_delay <duration>",
            Time(|http| &mut http.dial_fallback_delay),
        ),
        option(
            "response_header_timeout",
            "response_header_timeout <duration>",
            Time(|http| &mut http.response_header_timeout),
        ),
        option(
            "expect_continue_timeout",
            "expect_continue_timeout <duration>",
            Time(|http| &mut http.expect_continue_timeout),
        ),
        option(
            "read_timeout",
            "read_timeout <duration>",
            Time(|http| &mut http.read_timeout),
        ),
        option(
            "write_timeout",
            "write_timeout <duration>",
            Time(|http| &mut http.write_timeout),
        ),
        option(
            "resolvers",
            "resolvers <ip...>",
            With(|cx, line, http| {
                http.resolver = Some(cx.resolver(line)?);
                Some(())
            }),
        ),
        option(
            "tls",
            "tls",
            With(|cx, line, http| {
                tls(http);
                cx.flag(line)
            }),
        ),
        option(
            "tls_client_auth",
            "tls_client_auth <automate_name> | <cert_file> <key_file>",
            With(|cx, line, http| cx.client_certificate(line, tls(http))),
        ),
        option(
            "tls_insecure_skip_verify",
            "tls_insecure_skip_verify",
            Flag(|http| &mut tls(http).insecure_skip_verify),
        ),
        option(
            "tls_curves",
            "tls_curves <curves...>",
            Texts(|http| &mut tls(http).curves),
        ),
        option(
            "tls_timeout",
            "tls_timeout <duration>",
            Time(|http| &mut tls(http).handshake_timeout),
        ),
        option::<HttpTransport>(
            "tls_trust_pool",
            "tls_trust_pool <module>",
            With(|cx, line, http| cx.upstream_trust_pool(line, tls(http))),
        )
        .holding(Block::Options(&TRUST_POOL)),
        option(
            "tls_trusted_ca_certs",
            "tls_trusted_ca_certs <pem_files...>",
            With(|cx, line, http| cx.trusted_files(line, tls(http))),
        ),
        option(
            "tls_server_name",
            "tls_server_name <server_name>",
            Text(|http| &mut tls(http).server_name),
        ),
        option::<HttpTransport>(
            "tls_renegotiation",
            "tls_renegotiation <level>",
            Choice(&["never", "once", "freely"], |http| {
                &mut tls(http).renegotiation
            }),
        )
        .but(Partly("`never`")),
        option(
            "tls_except_ports",
            "tls_except_ports <ports...>",
            Texts(|http| &mut tls(http).except_ports),
        ),
        option(
            "keepalive",
            "keepalive [off|<duration>]",
            With(|cx, line, http| {
                let word = cx.single(line)?;
                match word.text.as_str() {
                    "off" => keep_alive(http).enabled = Some(false),
                    _ => keep_alive(http).idle_timeout = cx.duration(word)?,
                }
                Some(())
            }),
        ),
        option(
            "keepalive_interval",
            "keepalive_interval <interval>",
            Time(|http| &mut keep_alive(http).probe_interval),
        ),
        option(
            "keepalive_idle_conns",
            "keepalive_idle_conns <max_count>",
            Number("a number of connections", |http| {
                &mut keep_alive(http).max_idle_conns
            }),
        ),
        option(
            "keepalive_idle_conns_per_host",
            "keepalive_idle_conns_per_host <count>",
            Number("a number of connections", |http| {
                &mut keep_alive(http).max_idle_conns_per_host
            }),
        ),
        option::<HttpTransport>(
            "versions",
            "versions <versions...>",
            With(|cx, line, http| {
                cx.texts(line)?;
                http.versions.clear();
                for word in &line.args {
                    http.versions
                        .push(cx.one_of(word, &["1.1", "2", "h2c", "3"])?);
                }
                alone(cx, line, &http.versions)
            }),
        ),
        option(
            "compression",
            "compression off",
            With(|cx, line, http| {
                let word = cx.single(line)?;
                if cx.one_of(word, &["off", "on"])? == "off" {
                    http.compression = Some(false);
                }
                Some(())
            }),
        ),
        option(
            "max_conns_per_host",
            "max_conns_per_host <count>",
            Number("a number of connections", |http| {
                &mut http.max_conns_per_host
            }),
        ),
        option(
            "network_proxy",
            "network_proxy <module>",
            With(|cx, line, http| {
                http.network_proxy = Some(cx.network_proxy(line)?);
                Some(())
            }),
        ),
        option(
            "forward_proxy_url",
            "forward_proxy_url <url>",
            With(|cx, line, http| cx.forward_proxy_url(line, http)),
        ),
        option(
            "local_address",
            "local_address <address>",
            Text(|http| &mut http.local_address),
        ),
    ],
);

/// TLS to upstreams, which is in use from now on.
fn tls(http: &mut HttpTransport) -> &mut UpstreamTls {
    http.tls.get_or_insert_default()
}

fn keep_alive(http: &mut HttpTransport) -> &mut KeepAlive {
    http.keep_alive.get_or_insert_default()
}

impl Lowering<'_> {
    /// `transport <name> { … }`.
    pub(super) fn transport(&mut self, line: &Directive) -> Option<Transport> {
        let Some((name, args)) = line.args.split_first() else {
            return self.missing(line, "a transport: `http`, `fastcgi`, `scgi` or `uwsgi`");
        };
        self.exact::<0>(line, args)?;
        Some(match name.text.as_str() {
            "http" => Transport::Http(Box::new(self.module_options(&HTTP, line)?)),
            "fastcgi" => Transport::FastCgi(Box::new(self.module_options(&FASTCGI, line)?.fastcgi)),
            "scgi" => Transport::Scgi(Box::new(self.module_options(&SCGI, line)?.into())),
            "uwsgi" => Transport::Uwsgi(Box::new(self.module_options(&UWSGI, line)?.into())),
            _ => {
                return self.unknown_module(
                    name,
                    "transport",
                    &["http", "fastcgi", "scgi", "uwsgi"],
                );
            }
        })
    }

    /// The settings of a module from the block of its line.
    fn module_options<T: Default>(
        &mut self,
        table: &'static Options<T>,
        line: &Directive,
    ) -> Option<T> {
        let mut settings = T::default();
        self.read_options(table, line.lines(), &mut settings)?;
        Some(settings)
    }

    /// `tls_trusted_ca_certs`, an old form of `tls_trust_pool`.
    fn trusted_files(&mut self, line: &Directive, tls: &mut UpstreamTls) -> Option<()> {
        let files = self.texts(line)?;
        let title = "option `tls_trusted_ca_certs` has a new form";
        let diagnostic = line.name.warning("deprecated-option", title, "old form");
        self.report
            .push(diagnostic.help("write `tls_trust_pool file <files>`"));
        if tls.ca.is_some() {
            return self.duplicate(line);
        }
        tls.root_ca_pem_files = files;
        Some(())
    }

    fn upstream_trust_pool(&mut self, line: &Directive, tls: &mut UpstreamTls) -> Option<()> {
        if !tls.root_ca_pem_files.is_empty() {
            return self.duplicate(line);
        }
        let Some(pool) = inner_line(line) else {
            return self.missing(line, "a source of CA certificates");
        };
        tls.ca = Some(self.trust_pool(&pool)?);
        Some(())
    }

    /// `forward_proxy_url`, an old form of `network_proxy`.
    fn forward_proxy_url(&mut self, line: &Directive, http: &mut HttpTransport) -> Option<()> {
        let url = self.single_text(line)?;
        let title = "option `forward_proxy_url` has a new form";
        let diagnostic = line.name.warning("deprecated-option", title, "old form");
        self.report
            .push(diagnostic.help(format!("write `network_proxy url {url}`")));
        http.network_proxy = Some(proxy_url(&url));
        Some(())
    }

    fn network_proxy(&mut self, line: &Directive) -> Option<RawModule> {
        self.no_block(line)?;
        self.between(line, &line.args, 1, 2)?;
        match (line.args[0].text.as_str(), line.args.get(1)) {
            ("none", None) => Some([("from".to_string(), "none".into())].into_iter().collect()),
            ("url", Some(url)) => Some(proxy_url(&url.text)),
            ("none", Some(surplus)) => self.surplus(line, surplus),
            ("url", None) => self.missing(line, "an address after `url`"),
            _ => self.unknown_module(&line.args[0], "network proxy", &["url", "none"]),
        }
    }

    fn client_certificate(&mut self, line: &Directive, tls: &mut UpstreamTls) -> Option<()> {
        self.no_block(line)?;
        self.between(line, &line.args, 1, 2)?;
        match texts(&line.args).as_slice() {
            [name] => tls.client_certificate_automate.clone_from(name),
            [certificate, key] => {
                tls.client_certificate_file.clone_from(certificate);
                tls.client_certificate_key_file.clone_from(key);
            }
            _ => {}
        }
        if let [Token { text, .. }] = line.args.as_slice() {
            self.options.automated_client_names.push(text.clone());
        }
        Some(())
    }
}

/// The module for a proxy at a fixed address.
fn proxy_url(url: &str) -> RawModule {
    [
        ("from".to_string(), "url".into()),
        ("url".to_string(), url.into()),
    ]
    .into_iter()
    .collect()
}

/// Refuses other versions of HTTP beside `3`, which Caddy has alone.
fn alone(cx: &mut Lowering<'_>, line: &Directive, versions: &[String]) -> Option<()> {
    let (Some(three), [_, _, ..]) = (versions.iter().position(|name| name == "3"), versions) else {
        return Some(());
    };
    // The one that makes the line wrong: the first of another version, or a repetition.
    let other = line.args.iter().find(|word| word.text != "3");
    let word = other.or_else(|| line.args.get(three + 1))?;
    let title = format!("invalid value `{}` for `versions`", word.text);
    let diagnostic = word.error("invalid-value", title, "not together with `3`");
    cx.refuse(diagnostic.help("HTTP/3 to upstreams excludes other versions: write `versions 3`"))
}
