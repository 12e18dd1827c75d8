//! The world outside the text: files to import and environment variables.
//!
//! What an import or a variable means is left to `import` and `substitute`.

use std::collections::BTreeMap;
use std::io;

/// Reads what a Caddyfile refers to. Everything the front end knows of the machine passes here.
pub trait Loader {
    /// The bytes of a file.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// The files that match a pattern (`*`, `?`, `[a-z]`, and `\` before a literal), sorted by
    /// path. A pattern without such characters matches the file of that name, if there is one.
    fn glob(&self, pattern: &str) -> io::Result<Vec<String>>;

    /// The value of an environment variable; `None` if it is not set.
    fn variable(&self, name: &str) -> Option<String>;
}

/// Files and variables in memory, for tests, fuzzing and configurations that come over the network.
#[derive(Clone, Debug, Default)]
pub struct MemoryLoader {
    /// Contents by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Values by name.
    pub variables: BTreeMap<String, String>,
}
