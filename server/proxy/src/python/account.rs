//! The handler's part of an explanation.

use sluice_diag::shown;

use super::{Python, Source, interface_name};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Account, Assumed, Step};

impl Python {
    /// Names the application, its interface and its processes.
    pub(super) fn account_of(&self, exchange: &Exchange) -> Account {
        let mut says = Vec::new();
        match &self.source {
            Source::One(chosen) => {
                let settings = chosen.application.settings();
                says.push(format!(
                    "would be served by the Python application {} ({})",
                    shown(&settings.module),
                    interface_name(chosen.interface()),
                ));
                says.push(format!(
                    "in one of {} worker processes of the group {:08x}",
                    settings.workers,
                    settings.fingerprint() as u32,
                ));
            }
            Source::Unstarted(interface, module) => says.push(format!(
                "would be served by the Python application {} ({})",
                shown(module),
                interface_name(*interface),
            )),
            Source::Dynamic(dynamic) => match dynamic.name_for(exchange) {
                Ok(name) => says.push(format!(
                    "would be served by the Python application {}, which starts with its first request",
                    shown(&name),
                )),
                Err(fault) => {
                    return Account {
                        says,
                        assumed: Some(Assumed::Step(Step::Fail(fault))),
                    };
                }
            },
        }
        Account {
            says,
            assumed: Some(Assumed::Elsewhere),
        }
    }
}
