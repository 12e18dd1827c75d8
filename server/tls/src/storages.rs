//! Where certificates and other lasting things are kept: a folder, or an engine that several nodes share.

use std::path::{Path, PathBuf};

use sluice_certs::Storage;
use sluice_model::Storage as Module;
use sluice_pipeline::refusal::Refusal;

/// The storage of the whole server: that of the configuration, or the folder `data_dir`.
///
/// # Errors
/// The storage is unknown, or its settings cannot be used.
pub fn open(module: Option<&Module>, data_dir: &Path) -> Result<Storage, Refusal> {
    let own = module.map(own).transpose()?.flatten();
    Ok(own.unwrap_or_else(|| Storage::new(data_dir)))
}

/// The storage of one part of the configuration; `None` if that is the one of the whole server.
///
/// # Errors
/// Like [`open`].
pub fn own(module: &Module) -> Result<Option<Storage>, Refusal> {
    match module {
        Module::FileSystem(storage) if storage.root.is_empty() => Ok(None),
        Module::FileSystem(storage) => Ok(Some(Storage::new(PathBuf::from(&storage.root)))),
        other @ Module::Other(_) => Err(Refusal::not_yet(
            &format!("storage `{}`", other.module()),
            "keep certificates in a folder: `storage file_system PATH`",
        )),
    }
}
