//! What a run tells while it lasts. How it is shown is the program's own business.

use std::time::Duration;

use sluice_load::generator::Stage;
use sluice_load::sample::Roots;

/// Whoever shows a run.
pub trait Progress {
    /// A step begins that takes so long; so much remains behind it.
    fn begin(&mut self, name: &str, length: Duration, behind: Duration);

    /// The processes of this step, beside the lab itself.
    fn watch(&mut self, roots: &Roots);

    /// A stage of the load.
    fn look(&mut self, stage: &Stage);

    /// A line of the result.
    fn line(&mut self, text: &str);
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _name: &str, _length: Duration, _behind: Duration) {}

    fn watch(&mut self, _roots: &Roots) {}

    fn look(&mut self, _stage: &Stage) {}

    fn line(&mut self, _text: &str) {}
}
