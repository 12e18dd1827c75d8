//! One POST request to a service, such as a collector of metrics. It does not load the host, so any host is allowed.

use crate::generator::expect::Expect;
use crate::generator::probe::{Probe, probe};
use crate::generator::request::Draft;
use crate::generator::target::{HttpVersion, Reach, Target};
use crate::generator::trust::{self, TlsOptions};

/// Sends a body and returns the response, whatever its status. The error says what failed.
pub fn post(
    url: &str,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    tls: &TlsOptions,
) -> Result<Probe, String> {
    let target = Target::parse(url, HttpVersion::Http1, None, Reach::Anywhere)
        .map_err(|error| error.text)?;
    let tls = trust::prepare(tls, &target)?;
    let draft = Draft {
        method: "POST".into(),
        path: target.path.clone(),
        fields,
        body: body.into(),
        close: true,
    };
    let request = draft.prepare(&target, Expect::default())?;
    probe(&target, tls.as_ref(), &request)
        .map_err(|fault| format!("{url}: {} ({})", fault.class.words(), fault.text))
}
