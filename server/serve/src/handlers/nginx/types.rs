//! Media types by the extension of a path.

use std::collections::HashMap;

use sluice_message::{FieldId, Fields, FixedField, path};
use sluice_model::nginx::MediaTypes;

/// The types of a place, ready to be sent.
#[derive(Debug)]
pub struct Types {
    by_extension: HashMap<Box<[u8]>, FixedField>,
    default: Option<FixedField>,
}

impl Types {
    /// Writes the fields out.
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

    /// The type of what a path names.
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

/// The media types of answers that something is done to.
#[derive(Debug)]
pub struct Kinds {
    /// In lower case.
    names: Box<[Box<[u8]>]>,
    all: bool,
}

impl Kinds {
    /// Reads the names; `*` stands for all.
    pub fn build(names: &[String]) -> Kinds {
        let lower = |name: &String| name.to_ascii_lowercase().into_bytes().into();
        Kinds {
            names: names.iter().map(lower).collect(),
            all: names.iter().any(|name| name == "*"),
        }
    }

    /// Whether an answer with these fields is of one of them.
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

/// Bytes of an extension that are looked up: none in use is longer.
const EXTENSION_MAX: usize = 32;
