//! CPU affinity, priority and scheduling class of threads.

use std::io;
use std::mem::MaybeUninit;

/// A set of CPUs, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processors(Vec<usize>);

/// Capacity of a CPU set of the kernel's usual size (CPU_SETSIZE).
pub const PROCESSORS_MAX: usize = 1024;

impl Processors {
    /// A set of these CPUs; numbers beyond the capacity are ignored.
    pub fn new(numbers: impl IntoIterator<Item = usize>) -> Processors {
        let numbers = numbers
            .into_iter()
            .filter(|number| *number < PROCESSORS_MAX);
        Processors(numbers.collect())
    }

    /// The CPUs that this thread may run on.
    pub fn allowed() -> io::Result<Processors> {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: the set is ours, has the given size, and zero is a valid value of it.
        let set = unsafe {
            check(libc::sched_getaffinity(
                0,
                size_of::<libc::cpu_set_t>(),
                set.as_mut_ptr(),
            ))?;
            set.assume_init()
        };
        // SAFETY: the numbers are below the capacity of the set.
        let is_in = |number: &usize| unsafe { libc::CPU_ISSET(*number, &set) };
        Ok(Processors((0..PROCESSORS_MAX).filter(is_in).collect()))
    }

    /// A set for each CPU.
    pub fn each(&self) -> Vec<Processors> {
        self.0
            .iter()
            .map(|number| Processors(vec![*number]))
            .collect()
    }

    /// The intersection of both sets.
    pub fn within(&self, others: &Processors) -> Processors {
        let numbers = self.0.iter().filter(|number| others.0.contains(number));
        Processors(numbers.copied().collect())
    }

    /// Binds the calling thread to these CPUs.
    pub fn bind(&self) -> io::Result<()> {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: zero is a valid value of the set, and the numbers are below its capacity.
        let set = unsafe {
            for number in &self.0 {
                libc::CPU_SET(*number, &mut *set.as_mut_ptr());
            }
            set.assume_init()
        };
        // SAFETY: the set lives through the call and has the given size.
        check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) })
    }
}

/// Sets the nice value of the calling thread, from -20 (highest priority) to 19.
pub fn prefer(priority: i32) -> io::Result<()> {
    // SAFETY: the call takes integers only; 0 means the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, priority) })
}

/// Makes the calling thread one of the class SCHED_BATCH (sched(7)): when it becomes ready it does not preempt a running
/// thread, but waits until that one sleeps or its time slice ends. Its share of the CPU stays the same.
pub fn batch() -> io::Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters live through the call; 0 means the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &none) })
}

/// The kernel's thread ID of the calling thread.
pub fn thread_number() -> u32 {
    // SAFETY: the call takes no arguments and cannot fail.
    let number = unsafe { libc::gettid() };
    u32::try_from(number).unwrap_or_default()
}

fn check(code: libc::c_int) -> io::Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_bound_to_one_processor() {
        let bound = std::thread::spawn(|| {
            let one = Processors::allowed().unwrap().each().remove(0);
            one.bind().unwrap();
            assert_eq!(Processors::allowed().unwrap(), one);
            prefer(5).unwrap();
            batch().unwrap();
            // SAFETY: the call takes an integer only; 0 means the calling thread.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_BATCH);
            thread_number()
        });
        let before = Processors::allowed().unwrap();
        assert_ne!(bound.join().unwrap(), thread_number());
        assert_eq!(Processors::allowed().unwrap(), before, "others stay");
        // SAFETY: as above.
        assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER);
        assert!(
            Processors::new([PROCESSORS_MAX]).bind().is_err(),
            "no processor"
        );
    }
}
