//! What clients of the admin endpoint ask of the running server: another configuration, or a change of a part.

use sluice_admin::{ChangeOrder, Denied, LoadOrder, Replier};
use sluice_pipeline::refusal::Refusal;

use super::{Edits, Process, Read, upgrade};
use crate::messages::Failed;

impl Process {
    /// Loads what a client of the admin endpoint sent.
    pub(super) fn load(&mut self, order: LoadOrder) {
        if self.is_upgrading() {
            return order.reply.send(Err(upgrade::in_progress()));
        }
        let read = Read {
            document: order.document,
            written: order.written,
            edits: Edits::ByApi,
            ..self.read.clone()
        };
        self.readiness.reloading();
        let outcome = self.replace(order.config, read, order.forced, "admin");
        self.log_outcome("admin", &outcome);
        order.reply.send(outcome);
    }

    /// Reads the configuration again, as for SIGHUP. A node of a fleet is only asked to: the status shows the outcome.
    pub(super) fn reload_for(&mut self, reply: Replier) {
        if self.is_upgrading() {
            return reply.send(Err(upgrade::in_progress()));
        }
        if let Some(follower) = &self.follower {
            follower.retry();
            return reply.send(Ok(()));
        }
        self.readiness.reloading();
        let loaded = self.origin.reload();
        reply.send(self.replace_by(loaded, "dashboard"));
    }

    /// Changes a part of the configuration. Changes are made one after the other, so none is lost.
    pub(super) fn change(&mut self, order: ChangeOrder) {
        if self.is_upgrading() {
            return order.reply.send(Err(upgrade::in_progress()));
        }
        let changed = order
            .change
            .apply(&self.read.document, &self.server.config());
        let outcome = changed.and_then(|(config, document)| {
            let read = Read {
                document,
                written: None,
                edits: Edits::ByApi,
                ..self.read.clone()
            };
            self.readiness.reloading();
            let outcome = self.replace(config, read, order.forced, "admin");
            self.log_outcome("admin", &outcome);
            outcome
        });
        order.reply.send(outcome);
    }
}

/// A text that is not a configuration, for the client who asked for it.
pub(super) fn unreadable(failed: &Failed) -> Denied {
    Denied {
        diagnostics: failed.diagnostics().to_vec(),
        ..Denied::bad(failed.text())
    }
}

/// The refusals of a configuration, for the client who sent it.
pub(super) fn refused(refusals: &[Refusal]) -> Denied {
    let why: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    let objects = refusals.iter().map(|refusal| {
        serde_json::json!({
            "severity": "error",
            "slug": "refused",
            "title": refusal.message,
            "at": refusal.place,
            "help": refusal.help,
            "detail": refusal.detail,
        })
    });
    Denied {
        diagnostics: objects.collect(),
        ..Denied::bad(why.join("\n"))
    }
}
