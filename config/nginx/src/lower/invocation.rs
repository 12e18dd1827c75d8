//! What nginx's command line adds to a configuration.

/// What nginx's command line adds to a file. Nothing of it holds where a file is run in another way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// Directives of the main context, read before the file (`-g`).
    pub globals: String,
    /// The folder that paths are relative to, those of includes and certificates excepted, which begin beside the file
    /// (`-p`). `None` is the folder of the file.
    pub prefix: Option<String>,
    /// The error log if no directive sets one (`-e`); nothing is added when empty.
    pub error_log: String,
    /// Where requests are logged if no directive says so; nowhere where it is empty.
    pub access_log: String,
    /// The block that the file belongs into, if it is not a whole nginx.conf: a minimal one is put around it.
    pub within: Option<Fragment>,
    /// The PID file if no directive sets one; none when empty.
    pub pid_file: String,
}

/// A block that the lines of a file belong into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// `http`: servers, upstreams, maps.
    Http,
    /// `server`: locations and settings of one server.
    Server,
}

impl Fragment {
    /// What messages call the block.
    pub fn name(self) -> &'static str {
        match self {
            Fragment::Http => "`http`",
            Fragment::Server => "`server`",
        }
    }
}
