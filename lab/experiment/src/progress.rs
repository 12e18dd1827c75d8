//! Progress of a run. How it is displayed is up to the program.

use std::time::Duration;

use sluice_load::generator::Stage;
use sluice_load::sample::Roots;

/// Displays the progress of a run.
pub trait Progress {
    /// A step of this length begins; `behind` is the time remaining after it.
    fn begin(&mut self, name: &str, length: Duration, behind: Duration);

    /// The processes of this step, in addition to the lab itself.
    fn watch(&mut self, roots: &Roots);

    /// A stage of the load.
    fn look(&mut self, stage: &Stage);

    /// A line of the result.
    fn line(&mut self, text: &str);
}

/// Displays nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _name: &str, _length: Duration, _behind: Duration) {}

    fn watch(&mut self, _roots: &Roots) {}

    fn look(&mut self, _stage: &Stage) {}

    fn line(&mut self, _text: &str) {}
}
