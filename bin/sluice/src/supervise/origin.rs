//! The origin of a server's configuration.

use std::path::PathBuf;
use std::sync::Arc;

use sluice_admin::document::Document;
use sluice_diag::Written;
use sluice_model::Config;
use sluice_pipeline::refusal::Refusal;

use crate::load::{ADJACENT, Loaded, Source};
use crate::messages::{Failed, MessageFormat};
use crate::nginx::invocation::Invocation;
use crate::welcome;

use super::fleet::Member;

/// The origin of a server's configuration, which determines how it is reloaded.
#[derive(Debug)]
pub enum Origin {
    /// A file or standard input.
    Source(Source),
    /// Built from the command line.
    CommandLine(Config),
    /// An nginx command line.
    Nginx(Invocation),
    /// The place of a fleet.
    Fleet(Arc<Member>),
    /// The saved configuration (`--resume`).
    Saved(Config, Document),
    /// None: the welcome page, until a Caddyfile appears.
    Nothing,
}

impl Origin {
    /// Loads the configuration.
    pub(super) fn load(&self, format: MessageFormat) -> Result<Loaded, Failed> {
        match self {
            Origin::Source(source) => source.load(format),
            Origin::Nginx(invocation) => invocation.load(format),
            Origin::Fleet(member) => member.load(format),
            Origin::CommandLine(config) => {
                Ok(Loaded::made(config.clone(), Document::Derived, Vec::new()))
            }
            Origin::Saved(config, document) => {
                Ok(Loaded::made(config.clone(), document.clone(), Vec::new()))
            }
            Origin::Nothing => match Source::of(None, None) {
                Some(source) => source.load(format),
                None => welcome::load(),
            },
        }
    }

    /// Loads the configuration again, for a reload.
    pub(super) fn reload(&self) -> Result<Loaded, Failed> {
        match self {
            Origin::Source(Source::Stdin { .. }) => {
                Err(Failed::new("standard input can be read only once"))
            }
            Origin::CommandLine(_) => {
                Err(Failed::new("the configuration comes from the command line"))
            }
            Origin::Saved(..) => Err(Failed::new(
                "the configuration is the one saved for --resume",
            )),
            Origin::Source(Source::File { .. } | Source::Url { .. })
            | Origin::Fleet(_)
            | Origin::Nginx(_)
            | Origin::Nothing => self.load(MessageFormat::Short),
        }
    }

    /// The reasons why the server does not start, with what this origin can say about them.
    pub(super) fn refused(
        &self,
        mut refusals: Vec<Refusal>,
        written: Option<&Written>,
        format: MessageFormat,
    ) -> Failed {
        // Users of these commands have not seen the configuration that these places are in.
        if let Origin::CommandLine(_) = self {
            refusals
                .iter_mut()
                .for_each(|refusal| refusal.place.clear());
        }
        let failed = Failed::refusals(refusals, written, format);
        match self {
            Origin::Nothing if !PathBuf::from(ADJACENT).exists() => welcome::explain(failed),
            Origin::Nothing
            | Origin::Source(_)
            | Origin::Fleet(_)
            | Origin::Nginx(_)
            | Origin::CommandLine(_)
            | Origin::Saved(..) => failed,
        }
    }

    /// What to start with instead of a configuration that the server could not start with.
    pub(super) fn fall_back(&self, failed: &Failed, format: MessageFormat) -> Option<Loaded> {
        match self {
            Origin::Fleet(member) => member.fall_back(failed, format),
            Origin::Source(_)
            | Origin::CommandLine(_)
            | Origin::Nginx(_)
            | Origin::Saved(..)
            | Origin::Nothing => None,
        }
    }

    /// Whether to save the configuration for `--resume`.
    pub(super) fn is_kept(&self, config: &Config) -> bool {
        let settings = config
            .admin
            .as_ref()
            .and_then(|admin| admin.config.as_ref());
        let wanted = settings
            .and_then(|settings| settings.persist)
            .unwrap_or(true);
        let made = match self {
            // A fleet has a copy of its own.
            Origin::CommandLine(_) | Origin::Nginx(_) | Origin::Fleet(_) => true,
            // The welcome page is not worth saving.
            Origin::Nothing => welcome::is_welcome(config),
            Origin::Source(_) | Origin::Saved(..) => false,
        };
        wanted && !made
    }
}
