//! Plans where the bytes of a buffered body go: to memory, then to a file, and then nowhere, so that the sender has to
//! wait. The caller reads, writes and handles files: it asks [`Plan::next`] what to do and reports what it did.

/// Bounds of one buffered body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes that may wait in memory before a file is used.
    pub memory_max: u64,
    /// Bytes that stay in memory for the receiver once a file is used.
    pub memory_kept: u64,
    /// Bytes that are collected for one write to the file; at least 1.
    pub write_bytes: u64,
    /// Bytes that may wait in the file; 0 for no file.
    pub file_max: u64,
}

/// What to do next for a body that is read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read up to so many bytes into memory.
    Read(u64),
    /// Write everything that waits behind the file to its end.
    Write,
    /// Nothing, until a write has ended or the receiver has taken something.
    Wait,
}

/// Where the next bytes for the receiver are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// In memory, before the file.
    Memory,
    /// In the file, so many of them.
    File(u64),
    /// In a write that has not ended.
    Writing,
    /// In memory, behind the file.
    Late,
    /// Nowhere: everything read was taken.
    Nothing,
}

/// Where the bytes of one body wait. In the order in which the receiver gets them: `memory`, `on_disk`, `writing`,
/// `late`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    bounds: Bounds,
    memory: u64,
    disk: Disk,
    /// Bytes in memory behind the file, to be written next.
    late: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Disk {
    /// No file is in use, but one may be.
    Unused,
    /// A file is in use: so many bytes wait in it, so many are on their way into it, and so many were put into it since
    /// it was empty.
    Used {
        waiting: u64,
        writing: u64,
        length: u64,
    },
    /// Writing has failed, or there is no file; so many bytes wait in what was written before.
    Refused { waiting: u64 },
}

impl Plan {
    /// A body of which nothing was read.
    pub fn new(bounds: Bounds) -> Plan {
        let disk = match bounds.file_max {
            0 => Disk::Refused { waiting: 0 },
            _ => Disk::Unused,
        };
        // The first write has something to write.
        let memory_max = bounds.memory_max.max(1);
        Plan {
            bounds: Bounds {
                memory_max,
                memory_kept: bounds.memory_kept.min(memory_max - 1),
                write_bytes: bounds.write_bytes.max(1),
                file_max: bounds.file_max,
            },
            memory: 0,
            disk,
            late: 0,
        }
    }

    /// What to do next while the sender has more.
    pub fn next(&self) -> Next {
        let bounds = &self.bounds;
        match self.disk {
            Disk::Unused => match bounds.memory_max.saturating_sub(self.memory) {
                // Everything but what stays moves into the file.
                0 if self.to_spill() <= bounds.file_max => Next::Write,
                0 => Next::Wait,
                room => Next::Read(room),
            },
            Disk::Used {
                writing, length, ..
            } => {
                let room = bounds.file_max.saturating_sub(length + writing);
                let wanted = bounds.write_bytes.min(room);
                match wanted.saturating_sub(self.late) {
                    0 if writing == 0 && self.late > 0 && self.late <= room => Next::Write,
                    0 => Next::Wait,
                    more => Next::Read(more),
                }
            }
            Disk::Refused { .. } => match bounds.memory_max.saturating_sub(self.memory + self.late)
            {
                0 => Next::Wait,
                room => Next::Read(room),
            },
        }
    }

    /// What to do next once the sender has no more: what waits behind the file is written, too, as it may wait long.
    pub fn next_at_end(&self) -> Next {
        match self.disk {
            Disk::Used {
                writing: 0, length, ..
            } if self.late > 0 && length + self.late <= self.bounds.file_max => Next::Write,
            Disk::Unused | Disk::Used { .. } | Disk::Refused { .. } => Next::Wait,
        }
    }

    /// Whether what is read next waits behind the file.
    pub fn reads_behind(&self) -> bool {
        match self.disk {
            Disk::Unused => false,
            Disk::Used { .. } => true,
            Disk::Refused { waiting } => waiting > 0 || self.late > 0,
        }
    }

    /// Bytes that wait behind the file.
    pub fn behind(&self) -> u64 {
        self.late
    }

    /// How many bytes at the end of memory move behind a file that is not in use yet, when [`Next::Write`] is done; none
    /// where one is.
    pub fn to_spill(&self) -> u64 {
        match self.disk {
            Disk::Unused => self.memory.saturating_sub(self.bounds.memory_kept),
            Disk::Used { .. } | Disk::Refused { .. } => 0,
        }
    }

    /// Bytes were read into memory.
    pub fn read(&mut self, count: u64) {
        match self.reads_behind() {
            true => self.late += count,
            false => self.memory += count,
        }
    }

    /// A write of what waits behind the file has begun; the first one takes what [`Plan::to_spill`] says.
    pub fn begin_write(&mut self) {
        let spilled = self.to_spill();
        match &mut self.disk {
            Disk::Unused => {
                self.memory -= spilled;
                self.disk = Disk::Used {
                    waiting: 0,
                    writing: spilled,
                    length: 0,
                };
            }
            Disk::Used { writing, .. } => {
                *writing += self.late;
                self.late = 0;
            }
            Disk::Refused { .. } => {}
        }
    }

    /// The write has ended well.
    pub fn wrote(&mut self) {
        if let Disk::Used {
            waiting,
            writing,
            length,
        } = &mut self.disk
        {
            *waiting += *writing;
            *length += *writing;
            *writing = 0;
        }
        self.settle();
    }

    /// The write has failed, or no file could be had: its bytes wait in memory again, before those read since, and no
    /// further write is tried.
    pub fn refuse(&mut self) {
        match self.disk {
            Disk::Unused => self.disk = Disk::Refused { waiting: 0 },
            Disk::Used {
                waiting, writing, ..
            } => {
                self.late += writing;
                self.disk = Disk::Refused { waiting };
            }
            Disk::Refused { .. } => {}
        }
        self.settle();
    }

    /// Whether a write was refused, or there never was a file.
    pub fn is_refused(&self) -> bool {
        matches!(self.disk, Disk::Refused { .. })
    }

    /// Where the next bytes for the receiver are.
    pub fn front(&self) -> Front {
        if self.memory > 0 {
            return Front::Memory;
        }
        match self.disk {
            Disk::Used { waiting: 1.., .. } | Disk::Refused { waiting: 1.. } => {
                Front::File(self.on_disk())
            }
            Disk::Used { writing: 1.., .. } => Front::Writing,
            _ if self.late > 0 => Front::Late,
            Disk::Unused | Disk::Used { .. } | Disk::Refused { .. } => Front::Nothing,
        }
    }

    /// The receiver has taken bytes from where [`Plan::front`] says they are.
    pub fn taken(&mut self, count: u64) {
        match (self.front(), &mut self.disk) {
            (Front::Memory, _) => self.memory -= count,
            (Front::File(_), Disk::Used { waiting, .. } | Disk::Refused { waiting }) => {
                *waiting -= count;
            }
            (Front::Late, _) => self.late -= count,
            (Front::File(_) | Front::Writing | Front::Nothing, _) => {
                debug_assert_eq!(count, 0, "nothing was shown");
            }
        }
        self.settle();
    }

    /// Bytes that wait in the file.
    pub fn on_disk(&self) -> u64 {
        match self.disk {
            Disk::Unused => 0,
            Disk::Used { waiting, .. } | Disk::Refused { waiting } => waiting,
        }
    }

    /// Bytes that were read and not taken.
    pub fn held(&self) -> u64 {
        let writing = match self.disk {
            Disk::Used { writing, .. } => writing,
            Disk::Unused | Disk::Refused { .. } => 0,
        };
        self.memory + self.on_disk() + writing + self.late
    }

    /// Bytes that wait in memory, those on their way into the file included.
    pub fn in_memory(&self) -> u64 {
        self.held() - self.on_disk()
    }

    /// Once the file is empty it is used from its beginning, and only when memory is full again.
    fn settle(&mut self) {
        let is_drained = match self.disk {
            Disk::Unused => false,
            Disk::Used {
                waiting, writing, ..
            } => waiting == 0 && writing == 0,
            Disk::Refused { waiting } => waiting == 0,
        };
        if is_drained && self.memory == 0 {
            self.memory = core::mem::take(&mut self.late);
            if let Disk::Used { .. } = self.disk {
                self.disk = Disk::Unused;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        memory_max: 100,
        memory_kept: 30,
        write_bytes: 50,
        file_max: 1000,
    };

    /// Reads as long as the plan says so, and writes; gives how much was read.
    fn read_on(plan: &mut Plan, mut left: u64) -> u64 {
        let mut count = 0;
        loop {
            match plan.next() {
                Next::Read(room) if left > 0 => {
                    let some = room.min(left).min(17);
                    plan.read(some);
                    left -= some;
                    count += some;
                }
                Next::Write => {
                    plan.begin_write();
                    plan.wrote();
                }
                Next::Read(_) | Next::Wait => return count,
            }
        }
    }

    #[test]
    fn memory_then_the_file_then_the_sender_waits() {
        let mut plan = Plan::new(BOUNDS);
        assert_eq!(plan.next(), Next::Read(100));
        assert_eq!(read_on(&mut plan, 99), 99);
        assert_eq!((plan.in_memory(), plan.on_disk()), (99, 0));
        // What the receiver is sent soon stays in memory.
        assert_eq!(read_on(&mut plan, 1), 1);
        assert_eq!((plan.in_memory(), plan.on_disk()), (30, 70));
        assert_eq!(plan.front(), Front::Memory);
        assert_eq!(read_on(&mut plan, u64::MAX), 930);
        assert_eq!(plan.next(), Next::Wait);
        assert_eq!((plan.in_memory(), plan.on_disk()), (30, 1000));
    }

    #[test]
    fn while_a_write_is_on_its_way_one_more_is_collected() {
        let mut plan = Plan::new(BOUNDS);
        plan.read(100);
        plan.begin_write();
        assert_eq!(plan.next(), Next::Read(50));
        plan.read(50);
        assert_eq!(plan.next(), Next::Wait);
        assert_eq!(plan.in_memory(), 150);
        plan.taken(30);
        assert_eq!(plan.front(), Front::Writing);
        plan.wrote();
        assert_eq!(plan.front(), Front::File(70));
        assert_eq!(plan.next(), Next::Write);
    }

    #[test]
    fn an_emptied_file_is_used_from_its_beginning() {
        let mut plan = Plan::new(BOUNDS);
        read_on(&mut plan, u64::MAX);
        plan.taken(30);
        plan.taken(999);
        assert_eq!(plan.next(), Next::Wait);
        plan.taken(1);
        assert_eq!(plan.front(), Front::Nothing);
        assert_eq!(plan, Plan::new(BOUNDS));
    }

    #[test]
    fn unwritten_entries_wait_in_memory() {
        let mut plan = Plan::new(BOUNDS);
        read_on(&mut plan, 150);
        assert_eq!((plan.in_memory(), plan.on_disk()), (30, 120));
        plan.read(50);
        plan.begin_write();
        plan.read(20);
        plan.refuse();
        assert_eq!((plan.in_memory(), plan.on_disk()), (100, 120));
        assert_eq!(plan.next(), Next::Wait);
        plan.taken(30);
        assert_eq!(plan.next(), Next::Read(30));
        plan.taken(120);
        assert_eq!(plan.front(), Front::Memory);
        plan.taken(70);
        assert_eq!(
            (plan.front(), plan.next()),
            (Front::Nothing, Next::Read(100))
        );
        assert!(plan.is_refused());
    }

    #[test]
    fn without_a_file_memory_is_all_there_is() {
        let mut plan = Plan::new(Bounds {
            file_max: 0,
            ..BOUNDS
        });
        assert_eq!(read_on(&mut plan, u64::MAX), 100);
        plan.taken(1);
        assert_eq!(plan.next(), Next::Read(1));
    }

    /// Whatever happens in whatever order, bounds hold, nothing is lost, and somebody can always go on.
    #[test]
    fn bounds_hold_and_nobody_waits_for_ever() {
        for seed in 0..2000_u64 {
            let mut random = crate::random::Random::new(seed);
            let mut draw = move |below: u64| random.below(below.max(1));
            let bounds = Bounds {
                memory_max: 1 + draw(200),
                memory_kept: draw(100),
                write_bytes: 1 + draw(80),
                file_max: draw(2) * draw(500),
            };
            let mut plan = Plan::new(bounds);
            let (mut read, mut taken, mut is_writing) = (0_u64, 0_u64, false);
            for _ in 0..300 {
                match draw(6) {
                    0 | 1 => match plan.next() {
                        Next::Read(room) => {
                            let count = 1 + draw(room);
                            plan.read(count.min(room));
                            read += count.min(room);
                        }
                        Next::Write => {
                            assert!(!is_writing, "seed {seed}: one write at a time");
                            plan.begin_write();
                            is_writing = true;
                        }
                        Next::Wait => {}
                    },
                    2 if is_writing => {
                        match draw(10) {
                            0 => plan.refuse(),
                            _ => plan.wrote(),
                        }
                        is_writing = false;
                    }
                    3 if !is_writing && draw(20) == 0 => plan.refuse(),
                    _ => {
                        let there = match plan.front() {
                            Front::Memory => 1,
                            Front::File(there) => there,
                            Front::Late => 1,
                            Front::Writing | Front::Nothing => 0,
                        };
                        let count = draw(there + 1);
                        plan.taken(count);
                        taken += count;
                    }
                }
                assert_eq!(plan.held(), read - taken, "seed {seed}");
                let most = bounds.memory_max + 2 * bounds.write_bytes;
                assert!(plan.in_memory() <= most, "seed {seed}: {plan:?}");
                assert!(plan.on_disk() <= bounds.file_max, "seed {seed}: {plan:?}");
                let is_stuck = plan.next() == Next::Wait && plan.front() == Front::Nothing;
                assert!(!is_stuck, "seed {seed}: {plan:?}");
            }
        }
    }
}
