//! Reads files with certificates and keys that an administrator has named. Those in storage are in `storage`.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::failure::CertsError;
use crate::limits::PEM_BYTES_MAX;

/// The content of a file of limited size; `None` if it does not exist.
pub(crate) fn read_file(path: &Path) -> Result<Option<Vec<u8>>, CertsError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CertsError::io("read", path, source)),
    };
    let mut bytes = Vec::new();
    let read = file.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|source| CertsError::io("read", path, source))?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(CertsError::TooLarge(path.to_owned()));
    }
    Ok(Some(bytes))
}
