//! The pause before a block: until the machine is idle, if the experiment wants that, and until closed connections have given back
//! the ports that the block needs.

use std::thread;
use std::time::{Duration, Instant};

use crate::file::File;
use crate::limits::{IDLE_LOOKS, REST_INTERVAL, TIME_WAIT_MAX};
use crate::plan::CellPlan;
use sluice_load::fitness::{CpuTimes, PRESSURE_MAX};
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::machine;
use sluice_load::result::Rest;
use sluice_load::time_wait;

/// What a block needs before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// How long to wait at most until the machine is idle; not at all if zero.
    pub idle_within: Duration,
    /// Ports that connections in TIME_WAIT may hold, to one destination.
    pub ports_held_max: u64,
}

impl Needs {
    /// The needs of a cell. Each client needs a port, and so does a proxy for each client. A cell that opens connections all the
    /// time needs half of all ports.
    pub fn of(file: &File, cell: &CellPlan) -> Self {
        let (first, last) = machine::local_ports();
        let ports = u64::from(last.saturating_sub(first)) + 1;
        let test = &file.test[&cell.test];
        let each_max = test
            .requests_per_connection
            .or(file.load.requests_per_connection);
        let clients = cell.clients as u64;
        let wanted = match each_max {
            Some(_) => clients.max(ports / 2),
            None => clients,
        };
        Needs {
            idle_within: file.load.rest.idle,
            ports_held_max: ports.saturating_sub(wanted),
        }
    }
}

/// The machine, as a pause looks at it.
pub trait Watch {
    /// Lets time pass, and returns the share of all CPUs that was busy meanwhile, from 0 to 1.
    fn pass(&mut self, time: Duration) -> f64;
    /// Ports that connections in TIME_WAIT hold, to one destination.
    fn ports_held(&mut self) -> u64;
    /// Whether the user has ended the run.
    fn is_interrupted(&self) -> bool;
}

/// This machine.
pub struct ThisMachine(pub Interrupt);

impl Watch for ThisMachine {
    fn pass(&mut self, time: Duration) -> f64 {
        let before = CpuTimes::read();
        thread::sleep(time);
        let spent = CpuTimes::read().since(&before);
        spent.share(spent.busy) / 100.0
    }

    fn ports_held(&mut self) -> u64 {
        time_wait::held_ports()
    }

    fn is_interrupted(&self) -> bool {
        self.0.is_set()
    }
}

/// Waits until a block may begin, and at most as long as its needs and [`TIME_WAIT_MAX`] allow. `None` if there was nothing to wait
/// for.
pub fn rest(needs: &Needs, watch: &mut dyn Watch) -> Option<Rest> {
    let began = Instant::now();
    let wants_idle = !needs.idle_within.is_zero();
    let mut rest = Rest {
        ports_held: watch.ports_held(),
        ports_held_max: needs.ports_held_max,
        ..Rest::default()
    };
    if !wants_idle && !rest.is_short_of_ports() {
        return None;
    }
    let (mut quiet, mut passed) = (0, Duration::ZERO);
    loop {
        let is_idle = quiet >= IDLE_LOOKS;
        let waits_for_idle = wants_idle && !is_idle && passed < needs.idle_within;
        let waits_for_ports = rest.is_short_of_ports() && passed < TIME_WAIT_MAX;
        rest.idle = wants_idle.then_some(is_idle);
        if watch.is_interrupted() || !(waits_for_idle || waits_for_ports) {
            break;
        }
        let busy = watch.pass(REST_INTERVAL);
        passed += REST_INTERVAL;
        rest.busy = Some(busy);
        quiet = match busy * 100.0 <= PRESSURE_MAX {
            true => quiet + 1,
            false => 0,
        };
        if rest.is_short_of_ports() {
            rest.ports_held = watch.ports_held();
        }
    }
    rest.waited_s = began.elapsed().as_secs_f64();
    Some(rest)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::builtin::builtin;
    use crate::cell_filter::Only;
    use crate::{file, plan};

    /// A machine that does what the test says, without waiting.
    struct Played {
        busy: VecDeque<f64>,
        held: VecDeque<u64>,
        passed: Duration,
        interrupt_after: Duration,
    }

    impl Watch for Played {
        fn pass(&mut self, time: Duration) -> f64 {
            self.passed += time;
            let last = self.busy.len() == 1;
            let busy = if last {
                self.busy.front().copied()
            } else {
                self.busy.pop_front()
            };
            busy.unwrap()
        }

        fn ports_held(&mut self) -> u64 {
            let last = self.held.len() == 1;
            let held = if last {
                self.held.front().copied()
            } else {
                self.held.pop_front()
            };
            held.unwrap()
        }

        fn is_interrupted(&self) -> bool {
            self.passed >= self.interrupt_after
        }
    }

    fn played(busy: &[f64], held: &[u64]) -> Played {
        Played {
            busy: busy.iter().copied().collect(),
            held: held.iter().copied().collect(),
            passed: Duration::ZERO,
            interrupt_after: Duration::MAX,
        }
    }

    fn needs(idle_s: u64) -> Needs {
        Needs {
            idle_within: Duration::from_secs(idle_s),
            ports_held_max: 100,
        }
    }

    #[test]
    fn a_block_waits_until_the_machine_is_idle() {
        let mut machine = played(&[0.5, 0.02, 0.4, 0.01, 0.03], &[0]);
        let rest = rest(&needs(10), &mut machine).unwrap();
        assert_eq!((rest.idle, rest.busy), (Some(true), Some(0.03)));
        // One quiet interval is not enough.
        assert_eq!(machine.passed, REST_INTERVAL * 5);
        assert!(!rest.is_busy() && !rest.is_short_of_ports());
    }

    #[test]
    fn a_machine_that_never_becomes_idle_is_recorded() {
        let mut machine = played(&[0.7], &[0]);
        let rest = rest(&needs(3), &mut machine).unwrap();
        assert!(rest.is_busy());
        assert_eq!(rest.busy, Some(0.7));
        assert!(machine.passed >= Duration::from_secs(3));
        assert!(machine.passed < Duration::from_secs(3) + REST_INTERVAL);
    }

    #[test]
    fn a_block_waits_until_enough_ports_are_free() {
        // Also if nobody asked for an idle machine, and only then.
        let mut machine = played(&[0.9], &[500, 300, 101, 100]);
        let rest = super::rest(&needs(0), &mut machine).unwrap();
        assert_eq!((rest.ports_held, rest.idle), (100, None));
        assert_eq!(machine.passed, REST_INTERVAL * 3);
        assert_eq!(super::rest(&needs(0), &mut played(&[0.9], &[100])), None);
        // Bounded.
        let mut machine = played(&[0.9], &[500]);
        let rest = super::rest(&needs(0), &mut machine).unwrap();
        assert!(rest.is_short_of_ports());
        assert!(machine.passed >= TIME_WAIT_MAX && machine.passed < TIME_WAIT_MAX * 2);
        // Ctrl-C does not wait.
        let mut machine = played(&[0.9], &[500]);
        machine.interrupt_after = Duration::from_secs(1);
        assert!(super::rest(&needs(9), &mut machine).is_some());
        assert!(machine.passed <= Duration::from_secs(1) + REST_INTERVAL);
    }

    #[test]
    fn cells_that_open_connections_all_the_time_need_half_of_the_ports() {
        let held = |name: &str, only: &str| {
            let file = file::parse(name, builtin(name).unwrap()).unwrap();
            let cells = plan::cells(&file, &Only::parse(only).unwrap(), usize::MAX);
            (
                Needs::of(&file, &cells[0]).ports_held_max,
                cells[0].clients as u64,
            )
        };
        let (first, last) = machine::local_ports();
        let ports = u64::from(last - first) + 1;
        let (most, clients) = held("scenarios", "test=synthetic");
        assert_eq!(most, ports - clients);
        let (most, _) = held("scenarios", "test=conn-per-request");
        assert_eq!(most, ports - ports / 2);
    }
}
