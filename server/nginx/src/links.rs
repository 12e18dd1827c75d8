//! How files are looked up: which symbolic links are followed (`disable_symlinks`), and how old results may be
//! (`open_file_cache`).

use std::time::Duration;

use sluice_cache::{Access, MaxAge, Reach};
use sluice_model::nginx::FileLookup as Config;
use sluice_route::Template;

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expand_path;

/// The settings of the directives.
pub struct Links {
    age: MaxAge,
    which: Which,
    from: Option<Template>,
}

#[derive(Clone, Copy)]
enum Which {
    All,
    None,
    OfOneOwner,
}

impl Links {
    /// Parses the directive.
    pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Links, Refusal> {
        let age = Duration::from_nanos(config.cached_for.0.unsigned_abs());
        Ok(Links {
            age: MaxAge {
                found: age,
                missing: match config.caches_errors {
                    true => age,
                    false => Duration::ZERO,
                },
            },
            which: match config.disabled.as_str() {
                "" => Which::All,
                "on" => Which::None,
                "if_not_owner" => Which::OfOneOwner,
                other => return Err(Refusal::new(format!("`disable_symlinks {other}`"))),
            },
            from: match config.from.as_str() {
                "" => None,
                from => Some(builder.template(from)?),
            },
        })
    }

    /// How old results may be.
    pub fn age(&self) -> MaxAge {
        self.age
    }

    /// How to look up `path`.
    pub fn access(&self, exchange: &Exchange, path: &[u8]) -> Access {
        Access {
            reach: self.reach(exchange, path),
            age: self.age,
        }
    }

    /// Which links may be followed on the way to `path`.
    fn reach(&self, exchange: &Exchange, path: &[u8]) -> Reach {
        let which = match self.which {
            Which::All => return Reach::Anywhere,
            Which::None => Reach::NoLinks,
            Which::OfOneOwner => Reach::OwnLinks,
        };
        // If the expansion of `from` is not a valid path, every component is checked.
        let mut from = Vec::new();
        if let Some(text) = &self.from
            && expand_path(text, exchange, &mut from).is_err()
        {
            from.clear();
        }
        let from = from.strip_suffix(b"/").unwrap_or(&from);
        match path.strip_prefix(from) {
            // `from` covers the whole path: nothing is left to check.
            Some(b"") if !from.is_empty() => Reach::Anywhere,
            Some([b'/', ..]) => which(from.len()),
            _ => which(0),
        }
    }
}
