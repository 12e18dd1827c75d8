//! `disable_symlinks`: which symbolic links are followed on the way to a file.

use sluice_cache::Reach;
use sluice_model::nginx::FollowedLinks as Config;
use sluice_route::Template;

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expand_path;

/// The settings of the directive.
pub struct Links {
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
        Ok(Links {
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

    /// Which links may be followed on the way to `path`.
    pub fn reach(&self, exchange: &Exchange, path: &[u8]) -> Reach {
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
