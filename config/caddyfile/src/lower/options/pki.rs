//! The global option `pki`.

use sluice_model::pki::{CertificateAuthority, KeyPair};

use super::super::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn pki_option(&mut self, line: &Directive) -> Option<()> {
        self.between(line, &line.args, 0, 0)?;
        for option in line.lines() {
            self.place = "pki";
            match option.name.text.as_str() {
                "ca" => self.authority(option)?,
                _ => return self.unknown_option(option),
            }
        }
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
        for option in line.lines() {
            self.place = "ca";
            match option.name.text.as_str() {
                "name" => authority.name = self.single_text(option)?,
                "root_cn" => authority.root_common_name = self.single_text(option)?,
                "intermediate_cn" => {
                    authority.intermediate_common_name = self.single_text(option)?;
                }
                "intermediate_lifetime" => {
                    authority.intermediate_lifetime = self.single_duration(option)?;
                }
                "maintenance_interval" => {
                    authority.maintenance_interval = self.single_duration(option)?;
                }
                "renewal_window_ratio" => {
                    authority.renewal_window_ratio = self.window_ratio(option)?;
                }
                "root" => authority.root = Some(self.key_pair(option)?),
                "intermediate" => authority.intermediate = Some(self.key_pair(option)?),
                _ => return self.unknown_option(option),
            }
        }
        self.options.authorities.insert(id, authority);
        Some(())
    }

    fn key_pair(&mut self, line: &Directive) -> Option<KeyPair> {
        self.between(line, &line.args, 0, 0)?;
        let mut pair = KeyPair::default();
        self.place = "key pair";
        for option in line.lines() {
            match option.name.text.as_str() {
                "cert" => pair.certificate = self.single_text(option)?,
                "key" => pair.private_key = self.single_text(option)?,
                "format" => pair.format = self.single_text(option)?,
                _ => return self.unknown_option(option),
            }
        }
        Some(pair)
    }
}
