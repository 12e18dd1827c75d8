//! What happens to certificates, as the events that Caddy emits. Caddy's `tls_get_certificate` is missing: it would run handlers on
//! each handshake.

use serde_json::Value;
use sluice_certs::{Notice, Subject};
use sluice_observe::events::Event;

/// The event of a notice, if it has one.
pub(super) fn event_of(notice: &Notice) -> Option<Event> {
    let text = |subject: &Subject| Value::from(subject.to_string());
    let (name, data) = match notice {
        Notice::Obtaining { subject, renewal } => (
            "cert_obtaining",
            vec![
                ("identifier", text(subject)),
                ("renewal", (*renewal).into()),
            ],
        ),
        Notice::Issued {
            subject,
            issuer,
            renewal,
            path,
        } => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            (
                "cert_obtained",
                vec![
                    ("identifier", text(subject)),
                    ("renewal", (*renewal).into()),
                    ("issuer", issuer.as_str().into()),
                    ("storage_path", folder.into()),
                    ("certificate_path", format!("{path}.crt").into()),
                    ("private_key_path", format!("{path}.key").into()),
                    ("metadata_path", format!("{path}.json").into()),
                ],
            )
        }
        Notice::NotIssued {
            subject,
            renewal,
            issuers,
            why,
            ..
        } => (
            "cert_failed",
            vec![
                ("identifier", text(subject)),
                ("renewal", (*renewal).into()),
                ("issuers", issuers.as_slice().into()),
                ("error", why.as_str().into()),
            ],
        ),
        Notice::Served { names } => (
            "cached_managed_cert",
            vec![("sans", names.iter().map(text).collect())],
        ),
        Notice::Revoked { origin } => (
            "cert_ocsp_revoked",
            vec![("certificate", origin.as_str().into())],
        ),
        Notice::Expired { .. }
        | Notice::NotYetValid { .. }
        | Notice::NoNames { .. }
        | Notice::NotStapled { .. }
        | Notice::Removed { .. }
        | Notice::FileRead { .. }
        | Notice::FileUnusable { .. }
        | Notice::Replaced { .. }
        | Notice::NotStored { .. }
        | Notice::TicketsNotShared { .. }
        | Notice::Passed { .. }
        | Notice::RootMade { .. } => return None,
    };
    Some(Event {
        name,
        module: "tls",
        data,
    })
}
