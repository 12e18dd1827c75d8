//! The directories of this program, as in the XDG base directory specification.

use std::path::PathBuf;

/// The home directory; the current directory if the user has none.
pub fn home() -> PathBuf {
    variable("HOME").unwrap_or_else(|| PathBuf::from("."))
}

/// Certificates and keys.
pub fn data() -> PathBuf {
    below("XDG_DATA_HOME", ".local/share")
}

/// Saved configurations.
pub fn config() -> PathBuf {
    below("XDG_CONFIG_HOME", ".config")
}

/// The last configuration that was loaded successfully.
pub fn autosave() -> PathBuf {
    config().join("autosave.json")
}

fn below(name: &str, otherwise: &str) -> PathBuf {
    variable(name)
        .unwrap_or_else(|| home().join(otherwise))
        .join("sluice")
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
