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
    /// The PID file if no directive sets one; none when empty.
    pub pid_file: String,
}

impl Invocation {
    /// Whether nginx's command line runs the file.
    pub fn is_command_line(&self) -> bool {
        self.prefix.is_some()
    }
}
