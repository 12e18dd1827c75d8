//! Ctrl-C: the first one ends the measurement with what was measured so far, the second one ends the program.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::outcome::Refused;

/// Exit code of an interrupted command: 128 plus the number of SIGINT, as in shells.
pub const INTERRUPTED: u8 = 130;

/// Handles SIGINT and SIGTERM from now on. The returned value is set by the first one.
pub fn on_signal() -> Result<Interrupt, Refused> {
    let interrupt = Interrupt::default();
    let failed = |error: std::io::Error| Refused::new(format!("cannot handle signals: {error}"));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: at the first signal the flag is not set yet when the conditional shutdown looks.
        flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), interrupt.flag())
            .map_err(failed)?;
        flag::register(signal, interrupt.flag()).map_err(failed)?;
    }
    Ok(interrupt)
}
