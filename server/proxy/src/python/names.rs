//! Names of what the access log says about a request to an application.

use std::sync::{Arc, LazyLock};

/// The name of the application.
pub(super) static APPLICATION: LazyLock<Arc<str>> = LazyLock::new(|| "python_app".into());

/// The index of the worker process in its group.
pub(super) static WORKER: LazyLock<Arc<str>> = LazyLock::new(|| "worker".into());
