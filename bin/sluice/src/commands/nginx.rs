//! `sluice nginx`: nginx's command line, parsed by the module `nginx`.

use crate::Exit;
use crate::messages::Failed;
use crate::nginx;

/// nginx's command line.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// nginx's options: -c -p -g -e -t -T -q -s -v -V -h (`sluice nginx -h` describes them).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

impl Args {
    /// Runs nginx's command line.
    pub fn run(self) -> Result<Exit, Failed> {
        Ok(nginx::run(self.words))
    }
}
