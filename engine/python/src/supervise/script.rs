//! The text of the worker, which each process is given in a file in memory.

use std::fs::File;
use std::io;

use sluice_net::sys::memory_file;

/// What Python executes: it reads the text of the worker from a descriptor.
pub(super) const BOOTSTRAP: &str = include_str!("../../worker/bootstrap.py");

macro_rules! parts {
    ($($name:literal),* $(,)?) => {
        /// The modules of the worker, one after the other; each begins with a line that names it.
        const TEXT: &str = concat!($(include_str!(concat!("../../worker/sluice_worker/", $name))),*);
        #[cfg(test)]
        const NAMES: &[&str] = &[$($name),*];
    };
}

parts!(
    "__init__.py",
    "accelerator.py",
    "asgi.py",
    "blocking.py",
    "control.py",
    "esgi.py",
    "failures.py",
    "frames.py",
    "greenlets.py",
    "headers.py",
    "lane.py",
    "lifespan.py",
    "limits.py",
    "loading.py",
    "loops.py",
    "preload.py",
    "process.py",
    "responses.py",
    "rsgi.py",
    "stream.py",
    "tasks.py",
    "websocket.py",
    "wsgi.py",
    "wsgi_greenlets.py",
);

/// A file with the text of the worker, which nobody can change: processes of other applications read it as well.
///
/// # Errors
///
/// Those of the system calls.
pub(super) fn create() -> io::Result<File> {
    memory_file::sealed(c"sluice_worker", TEXT.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_modules_of_the_worker_are_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/worker/sluice_worker");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".py"))
            .collect();
        names.sort();
        assert_eq!(names, NAMES);
        for name in NAMES {
            let module = name.trim_end_matches(".py");
            assert!(TEXT.contains(&format!("#: {module}\n")), "{name}");
        }
    }
}
