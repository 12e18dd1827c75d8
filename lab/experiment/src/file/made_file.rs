//! Files that a run creates in its folder.

use std::path::{Component, Path};

use serde::Deserialize;

use crate::limits::LINES_MAX;

/// A file to create.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeFile {
    /// Path relative to the folder of the run.
    pub path: String,
    /// Size of generated content in bytes.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// `builtin:NAME` or a path next to the experiment file, with the same replacements as configurations.
    #[serde(default)]
    pub from: Option<String>,
    /// A line that is repeated `count` times, in which `{n}` is its number, from 1.
    #[serde(default)]
    pub line: Option<String>,
    /// How often `line` stands in the file.
    #[serde(default)]
    pub count: usize,
}

impl MadeFile {
    /// Whether it stays in the folder of the run.
    pub(super) fn is_inside(&self) -> bool {
        let mut parts = Path::new(&self.path).components();
        parts.all(|part| matches!(part, Component::Normal(_)))
    }

    /// Whether it says in exactly one way what the file contains.
    pub(super) fn is_clear(&self) -> bool {
        let ways = [
            self.bytes.is_some(),
            self.from.is_some(),
            self.line.is_some(),
        ];
        let lines = self.line.is_some() == (self.count > 0) && self.count <= LINES_MAX;
        lines && ways.iter().filter(|given| **given).count() == 1
    }
}
