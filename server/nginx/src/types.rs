//! Media types by the extension of a path.

use std::collections::HashMap;

use sluice_message::{FieldId, Fields, FixedField, path};
use sluice_model::nginx::MediaTypes;

/// The media types of a scope as prepared headers.
#[derive(Debug)]
pub struct Types {
    by_extension: HashMap<Box<[u8]>, FixedField>,
    default: Option<FixedField>,
}

impl Types {
    /// Prepares the headers.
    pub fn build(config: &MediaTypes) -> Types {
        let field = |text: &str| FixedField::known(FieldId::ContentType, text.as_bytes());
        let by_extension = config.by_extension.iter();
        Types {
            by_extension: by_extension
                .map(|(extension, text)| (extension.as_bytes().into(), field(text)))
                .collect(),
            default: (!config.default.is_empty()).then(|| field(&config.default)),
        }
    }

    /// The type for a path or file name.
    pub fn of(&self, name: &[u8]) -> Option<&FixedField> {
        let extension = path::extension(name).filter(|extension| extension.len() <= EXTENSION_MAX);
        let Some(extension) = extension else {
            return self.default.as_ref();
        };
        let mut lower = [0; EXTENSION_MAX];
        let lower = &mut lower[..extension.len()];
        lower.copy_from_slice(extension);
        lower.make_ascii_lowercase();
        self.by_extension.get(&*lower).or(self.default.as_ref())
    }
}

/// The media types that a filter applies to.
#[derive(Debug)]
pub struct Kinds {
    /// In lowercase.
    names: Box<[Box<[u8]>]>,
    all: bool,
}

impl Kinds {
    /// Parses the names; `*` matches all.
    pub fn build(names: &[String]) -> Kinds {
        let lower = |name: &String| name.to_ascii_lowercase().into_bytes().into();
        Kinds {
            names: names.iter().map(lower).collect(),
            all: names.iter().any(|name| name == "*"),
        }
    }

    /// Whether a response with these headers has one of the types.
    pub fn include(&self, fields: &Fields) -> bool {
        if self.all {
            return true;
        }
        let media_type = fields.first(FieldId::ContentType).unwrap_or_default();
        let media_type = media_type.split(|byte| *byte == b';').next();
        let media_type = media_type.unwrap_or_default().trim_ascii();
        let mut names = self.names.iter();
        names.any(|name| name.eq_ignore_ascii_case(media_type))
    }
}

/// Maximum length of an extension that is looked up, in bytes: longer than any in use.
const EXTENSION_MAX: usize = 32;
