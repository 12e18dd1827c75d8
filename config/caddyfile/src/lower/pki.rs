//! The `pki` app: the CAs that the global option `pki` names, and those that `acme_server` uses.

use sluice_model::pki::PkiApp;

use super::Lowering;

impl Lowering<'_> {
    /// The CAs of the configuration, if it names any.
    pub(super) fn pki_app(&self) -> Option<PkiApp> {
        let mut app = PkiApp::default();
        for name in &self.options.named_authorities {
            app.certificate_authorities.entry(name.clone()).or_default();
        }
        for (name, authority) in &self.options.authorities {
            app.certificate_authorities
                .insert(name.clone(), authority.clone());
        }
        if self.options.skip_install_trust {
            // Without automatic HTTPS nothing asks for the one that is always there.
            let is_off = self.options.auto_https.iter().any(|word| word == "off");
            if app.certificate_authorities.is_empty() && !is_off {
                app.certificate_authorities
                    .entry("local".to_string())
                    .or_default();
            }
            for authority in app.certificate_authorities.values_mut() {
                authority.install_trust = Some(false);
            }
        }
        (!app.certificate_authorities.is_empty()).then_some(app)
    }
}
