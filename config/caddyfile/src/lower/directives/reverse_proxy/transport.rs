//! `transport` of `reverse_proxy`, and the options of `transport http`.

use sluice_model::RawModule;
use sluice_model::proxy::{HttpTransport, KeepAlive, Transport, UpstreamTls};

use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::matchers::inner_line;
use crate::tree::{Directive, Token};

impl Lowering<'_> {
    /// `transport <name> { … }`.
    pub(super) fn transport(&mut self, line: &Directive) -> Option<Transport> {
        let Some((name, args)) = line.args.split_first() else {
            return self.missing(line, "a transport: `http`, `fastcgi`, `scgi` or `uwsgi`");
        };
        self.exact::<0>(line, args)?;
        let place = std::mem::replace(&mut self.place, "transport http");
        let transport = match name.text.as_str() {
            "http" => self.http_transport(line),
            "fastcgi" => {
                self.place = "transport fastcgi";
                self.fastcgi_transport(line)
            }
            "scgi" => {
                self.place = "transport scgi";
                let transport = self.cgi_transport(line);
                transport.map(|transport| Transport::Scgi(Box::new(transport)))
            }
            "uwsgi" => {
                self.place = "transport uwsgi";
                let transport = self.cgi_transport(line);
                transport.map(|transport| Transport::Uwsgi(Box::new(transport)))
            }
            _ => self.unknown_module(name, "transport", &["http", "fastcgi", "scgi", "uwsgi"]),
        };
        self.place = place;
        transport
    }

    fn http_transport(&mut self, line: &Directive) -> Option<Transport> {
        let mut http = HttpTransport::default();
        self.each(line.lines(), |this, option| {
            let name = option.name.text.as_str();
            if name == "tls" || name.starts_with("tls_") {
                this.upstream_tls_option(option, &mut http)?;
            } else if name == "keepalive" || name.starts_with("keepalive_") {
                this.keepalive_option(option, &mut http)?;
            } else {
                this.http_option(option, &mut http)?;
            }
            Some(())
        })?;
        Some(Transport::Http(Box::new(http)))
    }

    fn http_option(&mut self, line: &Directive, http: &mut HttpTransport) -> Option<()> {
        match line.name.text.as_str() {
            "read_buffer" => http.read_buffer_size = self.single_size(line)?,
            "write_buffer" => http.write_buffer_size = self.single_size(line)?,
            "max_response_header" => http.max_response_header_size = self.single_size(line)?,
            "proxy_protocol" => {
                let word = self.single(line)?;
                http.proxy_protocol = self.one_of(word, &["v1", "v2"])?;
            }
            "forward_proxy_url" => {
                let url = self.single_text(line)?;
                let title = "option `forward_proxy_url` has a new form";
                let diagnostic = line.name.warning("deprecated-option", title, "old form");
                self.report
                    .push(diagnostic.help(format!("write `network_proxy url {url}`")));
                http.network_proxy = Some(proxy_url(&url));
            }
            "dial_timeout" => http.dial_timeout = self.single_duration(line)?,
            "dial_fallback_delay" => {
                let word = self.single(line)?;
                http.dial_fallback_delay = self.duration(word)?;
            }
            "response_header_timeout" => {
                http.response_header_timeout = self.single_duration(line)?;
            }
            "expect_continue_timeout" => {
                http.expect_continue_timeout = self.single_duration(line)?;
            }
            "read_timeout" => http.read_timeout = self.single_duration(line)?,
            "write_timeout" => http.write_timeout = self.single_duration(line)?,
            "resolvers" => http.resolver = Some(self.resolver(line)?),
            "versions" => {
                self.texts(line)?;
                http.versions.clear();
                for word in &line.args {
                    http.versions
                        .push(self.one_of(word, &["1.1", "2", "h2c", "3"])?);
                }
            }
            "compression" => {
                let word = self.single(line)?;
                if self.one_of(word, &["off", "on"])? == "off" {
                    http.compression = Some(false);
                }
            }
            "max_conns_per_host" => {
                http.max_conns_per_host = self.single_number(line, "a number of connections")?;
            }
            "network_proxy" => http.network_proxy = Some(self.network_proxy(line)?),
            "local_address" => http.local_address = self.single_text(line)?,
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    fn network_proxy(&mut self, line: &Directive) -> Option<RawModule> {
        self.no_block(line)?;
        self.between(line, &line.args, 1, 2)?;
        match (line.args[0].text.as_str(), line.args.get(1)) {
            ("none", None) => Some([("from".to_string(), "none".into())].into_iter().collect()),
            ("url", Some(url)) => Some(proxy_url(&url.text)),
            ("none", Some(surplus)) => self.surplus(line, surplus),
            ("url", None) => self.missing(line, "an address behind `url`"),
            _ => self.unknown_module(&line.args[0], "network proxy", &["url", "none"]),
        }
    }

    fn keepalive_option(&mut self, line: &Directive, http: &mut HttpTransport) -> Option<()> {
        let keep_alive = http.keep_alive.get_or_insert_with(KeepAlive::default);
        match line.name.text.as_str() {
            "keepalive" => {
                let word = self.single(line)?;
                if word.text == "off" {
                    keep_alive.enabled = Some(false);
                } else {
                    keep_alive.idle_timeout = self.duration(word)?;
                }
            }
            "keepalive_interval" => keep_alive.probe_interval = self.single_duration(line)?,
            "keepalive_idle_conns" => {
                keep_alive.max_idle_conns = self.single_number(line, "a number of connections")?;
            }
            "keepalive_idle_conns_per_host" => {
                keep_alive.max_idle_conns_per_host =
                    self.single_number(line, "a number of connections")?;
            }
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    fn upstream_tls_option(&mut self, line: &Directive, http: &mut HttpTransport) -> Option<()> {
        let tls = http.tls.get_or_insert_with(UpstreamTls::default);
        match line.name.text.as_str() {
            "tls" => self.flag(line)?,
            "tls_client_auth" => self.client_certificate(line, tls)?,
            "tls_insecure_skip_verify" => {
                self.flag(line)?;
                tls.insecure_skip_verify = true;
            }
            "tls_curves" => tls.curves = self.texts(line)?,
            "tls_timeout" => tls.handshake_timeout = self.single_duration(line)?,
            "tls_trusted_ca_certs" => {
                let files = self.texts(line)?;
                let title = "option `tls_trusted_ca_certs` has a new form";
                let diagnostic = line.name.warning("deprecated-option", title, "old form");
                self.report
                    .push(diagnostic.help("write `tls_trust_pool file <files>`"));
                self.refuse_second_pool(line, tls.ca.is_some())?;
                tls.root_ca_pem_files = files;
            }
            "tls_trust_pool" => {
                self.refuse_second_pool(line, !tls.root_ca_pem_files.is_empty())?;
                let Some(pool) = inner_line(line) else {
                    return self.missing(line, "a source of CA certificates");
                };
                tls.ca = Some(self.trust_pool(&pool)?);
            }
            "tls_server_name" => tls.server_name = self.single_text(line)?,
            "tls_renegotiation" => {
                let word = self.single(line)?;
                tls.renegotiation = self.one_of(word, &["never", "once", "freely"])?;
            }
            "tls_except_ports" => tls.except_ports = self.texts(line)?,
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    fn refuse_second_pool(&mut self, line: &Directive, second: bool) -> Option<()> {
        if second {
            self.duplicate(line)
        } else {
            Some(())
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
