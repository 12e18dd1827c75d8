//! The health checks of `reverse_proxy`: active ones (`health_*`) and passive ones.

use sluice_model::Address;
use sluice_model::proxy::{ActiveChecks, HealthChecks, PassiveChecks, ReverseProxy};

use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn active_option(
        &mut self,
        line: &Directive,
        proxy: &mut ReverseProxy,
    ) -> Option<()> {
        let checks = proxy
            .health_checks
            .get_or_insert_with(HealthChecks::default);
        let active = checks.active.get_or_insert_with(ActiveChecks::default);
        match line.name.text.as_str() {
            "health_uri" => active.uri = self.single_text(line)?,
            "health_path" => {
                active.path = self.single_text(line)?;
                let title = "option `health_path` has a new name";
                let diagnostic = line.name.warning("deprecated-option", title, "old name");
                self.report.push(diagnostic.help("write `health_uri`"));
            }
            "health_upstream" => {
                active.upstream = self.host_and_port(line)?;
                self.refuse_both(line, active.port != 0)?;
            }
            "health_port" => {
                let word = self.single(line)?;
                active.port = self.port(word)?;
                self.refuse_both(line, !active.upstream.is_empty())?;
            }
            "health_interval" => active.interval = self.single_duration(line)?,
            "health_timeout" => active.timeout = self.single_duration(line)?,
            "health_passes" => active.passes = self.single_number(line, "a number of responses")?,
            "health_fails" => active.fails = self.single_number(line, "a number of responses")?,
            "health_method" => active.method = self.single_text(line)?,
            "health_request_body" => active.body = self.single_text(line)?,
            "health_body" => active.expect_body = self.single_text(line)?,
            "health_status" => {
                let word = self.single(line)?;
                active.expect_status = self.status_or_class(word)?;
            }
            "health_follow_redirects" => {
                self.flag(line)?;
                active.follow_redirects = true;
            }
            "health_headers" => {
                self.between(line, &line.args, 0, 0)?;
                self.each(line.lines(), |this, field| {
                    this.no_block(field)?;
                    let name = field.name.text.clone();
                    let values = texts(&field.args);
                    let values = if values.is_empty() {
                        vec![String::new()]
                    } else {
                        values
                    };
                    active.headers.entry(name).or_default().extend(values);
                    Some(())
                })?;
            }
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    /// The one word of a line, which names a port.
    fn host_and_port(&mut self, line: &Directive) -> Option<String> {
        let word = self.single(line)?;
        let address = Address::parse(&word.text).ok();
        let ports = address.and_then(|address| address.ports);
        if ports.is_some_and(|ports| ports.count() == 1) {
            return Some(word.text.clone());
        }
        let title = format!("invalid address `{}` for `{}`", word.text, line.name.text);
        let diagnostic = word.error("invalid-upstream", title, "no host with one port");
        self.refuse(diagnostic.help("write `host:port`"))
    }

    fn refuse_both(&mut self, line: &Directive, both: bool) -> Option<()> {
        if !both {
            return Some(());
        }
        let title = "`health_port` and `health_upstream` exclude each other";
        let diagnostic = line
            .name
            .error("duplicate-option", title, "the other is given as well");
        self.refuse(diagnostic.help("write the port behind the address of `health_upstream`"))
    }

    pub(super) fn passive_option(
        &mut self,
        line: &Directive,
        proxy: &mut ReverseProxy,
    ) -> Option<()> {
        let known = [
            "fail_duration",
            "max_fails",
            "unhealthy_status",
            "unhealthy_latency",
            "max_ejected",
        ];
        let name = line.name.text.as_str();
        if !known.contains(&name) && name != "unhealthy_request_count" {
            return self.unknown_option(line);
        }
        let checks = proxy
            .health_checks
            .get_or_insert_with(HealthChecks::default);
        let passive = checks.passive.get_or_insert_with(PassiveChecks::default);
        match name {
            "fail_duration" => passive.fail_duration = self.single_duration(line)?,
            "max_fails" => passive.max_fails = self.single_number(line, "a number of failures")?,
            "unhealthy_latency" => passive.unhealthy_latency = self.single_duration(line)?,
            "max_ejected" => passive.max_ejected = self.percent_to_100(line)?,
            "unhealthy_status" => {
                self.texts(line)?;
                for word in &line.args {
                    passive.unhealthy_status.push(self.status_or_class(word)?);
                }
            }
            _ => {
                passive.unhealthy_request_count =
                    self.single_number(line, "a number of requests")?;
            }
        }
        Some(())
    }
}
