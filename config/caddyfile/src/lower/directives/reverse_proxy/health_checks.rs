//! The health checks of `reverse_proxy`: active ones (`health_*`) and passive ones.

use sluice_model::Address;
use sluice_model::proxy::{ActiveChecks, PassiveChecks, ReverseProxy};

use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::tree::Directive;

/// The active checks of a proxy, which has some from now on.
pub(super) fn active(proxy: &mut ReverseProxy) -> &mut ActiveChecks {
    let checks = proxy.health_checks.get_or_insert_default();
    checks.active.get_or_insert_default()
}

/// The passive checks of a proxy, which has some from now on.
pub(super) fn passive(proxy: &mut ReverseProxy) -> &mut PassiveChecks {
    let checks = proxy.health_checks.get_or_insert_default();
    checks.passive.get_or_insert_default()
}

impl Lowering<'_> {
    /// `health_path`, the old name of `health_uri`.
    pub(super) fn health_path(
        &mut self,
        line: &Directive,
        active: &mut ActiveChecks,
    ) -> Option<()> {
        active.path = self.single_text(line)?;
        let title = "option `health_path` has a new name";
        let diagnostic = line.name.warning("deprecated-option", title, "old name");
        self.report.push(diagnostic.help("write `health_uri`"));
        Some(())
    }

    pub(super) fn health_upstream(
        &mut self,
        line: &Directive,
        active: &mut ActiveChecks,
    ) -> Option<()> {
        active.upstream = self.host_and_port(line)?;
        self.refuse_both(line, active.port != 0)
    }

    pub(super) fn health_port(
        &mut self,
        line: &Directive,
        active: &mut ActiveChecks,
    ) -> Option<()> {
        let word = self.single(line)?;
        active.port = self.port(word)?;
        self.refuse_both(line, !active.upstream.is_empty())
    }

    pub(super) fn health_headers(
        &mut self,
        line: &Directive,
        active: &mut ActiveChecks,
    ) -> Option<()> {
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
        })
    }

    /// `unhealthy_status <status...>`.
    pub(super) fn unhealthy_status(
        &mut self,
        line: &Directive,
        passive: &mut PassiveChecks,
    ) -> Option<()> {
        self.texts(line)?;
        for word in &line.args {
            passive.unhealthy_status.push(self.status_or_class(word)?);
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
        let diagnostic = word.error("invalid-upstream", title, "expected a host and one port");
        self.refuse(diagnostic.help("write `host:port`"))
    }

    fn refuse_both(&mut self, line: &Directive, both: bool) -> Option<()> {
        if !both {
            return Some(());
        }
        let title = "`health_port` and `health_upstream` exclude each other";
        let diagnostic = line
            .name
            .error("duplicate-option", title, "the other one is set as well");
        self.refuse(diagnostic.help("write the port after the address of `health_upstream`"))
    }
}
