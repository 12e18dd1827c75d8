//! All limits of this package, each with the reason for its value.

/// Diagnostics rendered in one run. More than a screenful is not read, and the first ones often
/// explain the rest.
pub const DIAGNOSTICS_SHOWN_MAX: usize = 20;

/// Diagnostics kept for rendering; later ones are only counted. Fifty times what is shown, so that
/// sorting has enough to find the first in file order, and a generated file that is wrong on every
/// line does not fill memory.
pub(crate) const DIAGNOSTICS_KEPT_MAX: usize = 1_000;

/// Characters of a source line that are shown. Wider lines are cut around the span; this still
/// fits two terminals side by side on a wide screen.
pub(crate) const LINE_COLUMNS_MAX: usize = 120;

/// Characters of a quoted word in a title. Long enough for any directive, path or host name.
pub(crate) const SHOWN_CHARS_MAX: usize = 80;

/// Steps of an import chain that are listed. Deeper chains show the innermost ones.
pub(crate) const IMPORT_STEPS_SHOWN_MAX: usize = 8;
