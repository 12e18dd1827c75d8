//! The global option `pki`.

use sluice_model::pki::{CertificateAuthority, KeyPair};

use super::super::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn pki_option(&mut self, line: &Directive) -> Option<()> {
        self.between(line, &line.args, 0, 0)?;
        // Of several such options the last one counts.
        self.options.authorities.clear();
        self.each(line.lines(), |this, option| {
            this.place = "pki";
            match option.name.text.as_str() {
                "ca" => this.authority(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(())
    }

    fn authority(&mut self, line: &Directive) -> Option<()> {
        self.between(line, &line.args, 0, 1)?;
        let id = line
            .args
            .first()
            .map_or("local", |word| word.text.as_str())
            .to_string();
        let mut authority = CertificateAuthority::default();
        self.each(line.lines(), |this, option| {
            this.place = "ca";
            match option.name.text.as_str() {
                "name" => authority.name = this.single_text(option)?,
                "root_cn" => authority.root_common_name = this.single_text(option)?,
                "intermediate_cn" => {
                    authority.intermediate_common_name = this.single_text(option)?;
                }
                "intermediate_lifetime" => {
                    authority.intermediate_lifetime = this.single_duration(option)?;
                }
                "maintenance_interval" => {
                    authority.maintenance_interval = this.single_duration(option)?;
                }
                "renewal_window_ratio" => {
                    authority.renewal_window_ratio = this.window_ratio(option)?;
                }
                "root" => authority.root = Some(this.key_pair(option)?),
                "intermediate" => authority.intermediate = Some(this.key_pair(option)?),
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        self.options.authorities.insert(id, authority);
        Some(())
    }

    fn key_pair(&mut self, line: &Directive) -> Option<KeyPair> {
        self.between(line, &line.args, 0, 0)?;
        let mut pair = KeyPair::default();
        self.place = "key pair";
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "cert" => pair.certificate = this.single_text(option)?,
                "key" => pair.private_key = this.single_text(option)?,
                "format" => pair.format = this.single_text(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(pair)
    }
}
