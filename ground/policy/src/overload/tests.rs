//! Admission step by step, and in front of a simulated upstream in virtual time.

use alloc::collections::{BTreeMap, BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use sluice_message::Moment;

use super::*;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn at(count: u64) -> Moment {
    Moment::START + millis(count)
}

fn fixed(max: u32, queue_max: usize) -> Settings {
    Settings {
        limit: LimitPolicy::Fixed(max),
        queue_max,
        wait_max: millis(1_000),
        wait_in_overload: millis(100),
        reserve: Reserve::None,
    }
}

/// An admission whose requests are numbers, and what became of those that waited.
struct Door {
    admission: Admission<u32>,
    woken: Vec<(u32, Outcome)>,
}

impl Door {
    fn new(settings: Settings) -> Door {
        Door {
            admission: Admission::new(settings, at(0)),
            woken: Vec::new(),
        }
    }

    fn arrive(&mut self, number: u32, class: Class, client: u64, now: u64) -> Arrival<u32> {
        let arriving = Arriving {
            class,
            client,
            timeout: None,
        };
        let woken = &mut self.woken;
        let mut note = |waiter, outcome| woken.push((waiter, outcome));
        self.admission.arrive(arriving, number, at(now), &mut note)
    }

    fn come(&mut self, number: u32, now: u64) -> Arrival<u32> {
        self.arrive(number, Class::Normal, u64::from(number), now)
    }

    fn leave(&mut self, client: u64, now: u64) -> Vec<(u32, Outcome)> {
        let woken = &mut self.woken;
        let mut note = |waiter, outcome| woken.push((waiter, outcome));
        self.admission
            .leave(client, Sample::None, at(now), &mut note);
        core::mem::take(&mut self.woken)
    }
}

const IN: Outcome = Outcome::Admitted;
const LATE: Outcome = Outcome::Shed(Shed::Late);
const FULL: Outcome = Outcome::Shed(Shed::Full);

#[test]
fn without_a_queue_requests_beyond_the_limit_are_shed_at_once() {
    let mut door = Door::new(fixed(2, 0));
    assert_eq!(door.come(1, 0), Arrival::Admitted);
    assert_eq!(door.come(2, 0), Arrival::Admitted);
    assert_eq!(door.come(3, 0), Arrival::Shed(3));
    assert!(door.leave(1, 5).is_empty());
    assert_eq!(door.come(4, 5), Arrival::Admitted);
    let totals = door.admission.totals();
    assert_eq!((totals.admitted, totals.full), ([0, 3, 0], [0, 1, 0]));
}

#[test]
fn a_queue_is_served_in_order_and_has_an_end() {
    let mut door = Door::new(fixed(1, 2));
    assert_eq!(door.come(1, 0), Arrival::Admitted);
    assert!(matches!(door.come(2, 0), Arrival::Waits(_)));
    assert!(matches!(door.come(3, 1), Arrival::Waits(_)));
    assert_eq!(door.come(4, 2), Arrival::Shed(4));
    assert_eq!(door.leave(1, 10), [(2, IN)]);
    assert_eq!(door.leave(2, 20), [(3, IN)]);
    assert!(door.leave(3, 30).is_empty());
    assert_eq!(door.admission.in_flight(), 0);
}

#[test]
fn in_overload_the_newest_is_next_and_old_ones_are_shed() {
    let mut door = Door::new(fixed(1, 100));
    door.come(1, 0);
    for number in 2..=5 {
        assert!(matches!(door.come(number, 0), Arrival::Waits(_)));
    }
    // The queue has not been empty for more than a second; 2 to 5 have waited for as long.
    assert!(matches!(door.come(6, 950), Arrival::Waits(_)));
    assert!(matches!(door.come(7, 960), Arrival::Waits(_)));
    assert!(!door.admission.is_overloaded(at(1_000)));
    let woken = door.leave(1, 1_001);
    assert_eq!(woken, [(2, LATE), (3, LATE), (4, LATE), (5, LATE), (7, IN)]);
    // A single one stays for longer than a tenth of a second: the upstream would be idle without it.
    assert_eq!(door.leave(7, 1_400), [(6, IN)]);
    // Once the queue has been empty, it is served in order again.
    door.come(8, 1_401);
    door.come(9, 1_402);
    assert_eq!(door.leave(6, 1_500), [(8, IN)]);
}

#[test]
fn important_requests_go_first_and_have_a_reserve() {
    let mut settings = fixed(10, 10);
    settings.reserve = Reserve::ByClass;
    let mut door = Door::new(settings);
    for number in 0..8 {
        let class = if number < 7 {
            Class::Low
        } else {
            Class::Normal
        };
        assert_eq!(door.arrive(number, class, 1, 0), Arrival::Admitted);
    }
    assert!(matches!(
        door.arrive(20, Class::Low, 2, 1),
        Arrival::Waits(_)
    ));
    assert_eq!(door.arrive(21, Class::Normal, 2, 1), Arrival::Admitted);
    assert!(matches!(
        door.arrive(22, Class::Normal, 3, 1),
        Arrival::Waits(_)
    ));
    assert_eq!(door.arrive(23, Class::High, 3, 1), Arrival::Admitted);
    assert!(matches!(
        door.arrive(24, Class::High, 3, 1),
        Arrival::Waits(_)
    ));
    assert_eq!(door.leave(1, 2), [(24, IN)]);
    assert!(door.leave(1, 3).is_empty(), "the last slot stays free");
    assert_eq!(door.leave(1, 4), [(22, IN)]);
    assert!(door.leave(1, 5).is_empty(), "a quarter is closed to it");
    assert_eq!(door.leave(1, 6), [(20, IN)]);
}

#[test]
fn a_full_queue_sheds_the_least_important_first() {
    let mut door = Door::new(fixed(1, 2));
    door.come(1, 0);
    for number in [2, 3] {
        assert!(matches!(
            door.arrive(number, Class::Low, u64::from(number), 0),
            Arrival::Waits(_)
        ));
    }
    assert_eq!(door.arrive(4, Class::Low, 4, 1), Arrival::Shed(4));
    assert!(matches!(door.come(5, 1), Arrival::Waits(_)));
    assert_eq!(core::mem::take(&mut door.woken), [(3, FULL)]);
    assert_eq!(door.leave(1, 2), [(5, IN)]);
    assert_eq!(door.leave(5, 3), [(2, IN)]);
}

#[test]
fn clients_with_few_requests_in_flight_go_before_those_with_many() {
    let mut door = Door::new(fixed(4, 100));
    for number in 0..4 {
        assert_eq!(door.arrive(number, Class::Normal, 7, 0), Arrival::Admitted);
    }
    for number in 10..20 {
        assert!(matches!(
            door.arrive(number, Class::Normal, 7, 1),
            Arrival::Waits(_)
        ));
    }
    for number in [30, 31] {
        assert!(matches!(
            door.arrive(number, Class::Normal, 8, 2),
            Arrival::Waits(_)
        ));
    }
    assert!(matches!(
        door.arrive(40, Class::Normal, 9, 3),
        Arrival::Waits(_)
    ));
    let mut served = Vec::new();
    for now in 4..8 {
        served.extend(door.leave(7, now));
    }
    // Then client 7 has as few in flight as client 8, and its requests have waited longer.
    let expected = [(30, IN), (40, IN), (10, IN), (11, IN)];
    assert_eq!(served, expected);
}

#[test]
fn no_client_fills_the_queue_for_others() {
    let mut door = Door::new(fixed(1, 10));
    door.come(1, 0);
    let mut waiting = 0;
    assert!(matches!(
        door.arrive(99, Class::Normal, 3, 0),
        Arrival::Waits(_)
    ));
    assert!(matches!(
        door.arrive(98, Class::Normal, 4, 0),
        Arrival::Waits(_)
    ));
    assert!(matches!(
        door.arrive(97, Class::Normal, 5, 0),
        Arrival::Waits(_)
    ));
    for number in 100..200 {
        let arrival = door.arrive(number, Class::Normal, 2, 1);
        waiting += u32::from(matches!(arrival, Arrival::Waits(_)));
    }
    assert_eq!(waiting, 5, "twice its share of ten, between four");
    assert!(matches!(
        door.arrive(300, Class::Normal, 6, 2),
        Arrival::Waits(_)
    ));
}

#[test]
fn a_client_that_waits_for_less_is_not_served_in_vain() {
    let mut door = Door::new(fixed(1, 10));
    door.come(1, 0);
    let arriving = Arriving {
        class: Class::Normal,
        client: 2,
        timeout: Some(millis(50)),
    };
    let arrival = door.admission.arrive(arriving, 2, at(0), &mut |_, _| {});
    assert!(matches!(arrival, Arrival::Waits(_)));
    assert!(matches!(door.come(3, 0), Arrival::Waits(_)));
    assert_eq!(door.leave(1, 51), [(2, LATE), (3, IN)]);
}

#[test]
fn those_who_withdraw_are_gone() {
    let mut door = Door::new(fixed(1, 10));
    door.come(1, 0);
    let Arrival::Waits(second) = door.come(2, 0) else {
        panic!("it waits")
    };
    let Arrival::Waits(third) = door.come(3, 0) else {
        panic!("it waits")
    };
    assert!(door.admission.withdraw(second, Withdrawal::Gone));
    assert!(!door.admission.withdraw(second, Withdrawal::Gone));
    assert_eq!(door.leave(1, 1), [(3, IN)]);
    assert!(!door.admission.withdraw(third, Withdrawal::Late));
    assert_eq!(door.admission.totals().late, [0; 3]);
    assert_eq!(door.admission.waiting(), 0);
}

/// An event of the simulation: its time in microseconds, and what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    Responds(u32),
}

/// An upstream that works on `slots` requests at a time, each for `service` microseconds; others wait inside it.
struct Upstream {
    slots: usize,
    service: u64,
    busy: usize,
    inside: VecDeque<u32>,
}

/// What a run gave.
#[derive(Debug, Default)]
struct Run {
    good: u64,
    shed: u64,
    latencies: Vec<u64>,
    limit: u32,
}

impl Run {
    fn percentile(&mut self, share: f64) -> Duration {
        self.latencies.sort_unstable();
        let at = (self.latencies.len() as f64 * share) as usize;
        Duration::from_micros(self.latencies[at.min(self.latencies.len() - 1)])
    }
}

struct Simulation {
    admission: Admission<u32>,
    upstream: Upstream,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    seed: u64,
    now: u64,
    next: u32,
    /// When each request arrived, and when it was admitted.
    begun: BTreeMap<u32, (u64, u64)>,
}

impl Simulation {
    fn new(settings: Settings, slots: usize, service: u64) -> Simulation {
        Simulation {
            admission: Admission::new(settings, Moment::START),
            upstream: Upstream {
                slots,
                service,
                busy: 0,
                inside: VecDeque::new(),
            },
            events: BinaryHeap::new(),
            seed: 0x9e37_79b9_7f4a_7c15,
            now: 0,
            next: 0,
            begun: BTreeMap::new(),
        }
    }

    /// Between 0 and 1.
    fn chance(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1u64 << 53) as f64
    }

    fn moment(&self) -> Moment {
        Moment::START + Duration::from_micros(self.now)
    }

    /// Runs for some seconds with so many requests a second, from a thousand clients at random times.
    fn run(&mut self, seconds: u64, rate: u64) -> Run {
        let mut run = Run::default();
        let end = self.now + seconds * 1_000_000;
        self.events.push(Reverse((self.now, Event::Arrives)));
        while let Some(Reverse((time, event))) = self.events.pop() {
            if time >= end && event == Event::Arrives {
                break;
            }
            self.now = time;
            match event {
                Event::Arrives => {
                    self.arrive(&mut run);
                    let pause = (2.0 * self.chance() * 1e6 / rate as f64) as u64;
                    self.events.push(Reverse((time + pause, Event::Arrives)));
                }
                Event::Responds(number) => self.respond(number, &mut run),
            }
        }
        run.limit = self.admission.limit();
        run
    }

    fn arrive(&mut self, run: &mut Run) {
        let number = self.next;
        self.next += 1;
        self.begun.insert(number, (self.now, self.now));
        let arriving = Arriving {
            class: Class::Normal,
            client: u64::from(number % 1_000),
            timeout: None,
        };
        let mut woken = Vec::new();
        let mut note = |waiter, outcome| woken.push((waiter, outcome));
        let now = self.moment();
        match self.admission.arrive(arriving, number, now, &mut note) {
            Arrival::Admitted => self.forward(number),
            Arrival::Waits(_) => {}
            Arrival::Shed(_) => run.shed += 1,
        }
        self.wake(woken, run);
    }

    fn wake(&mut self, woken: Vec<(u32, Outcome)>, run: &mut Run) {
        for (number, outcome) in woken {
            match outcome {
                Outcome::Admitted => self.forward(number),
                Outcome::Shed(_) => run.shed += 1,
            }
        }
    }

    fn forward(&mut self, number: u32) {
        if let Some((_, admitted)) = self.begun.get_mut(&number) {
            *admitted = self.now;
        }
        self.upstream.inside.push_back(number);
        self.work();
    }

    fn work(&mut self) {
        while self.upstream.busy < self.upstream.slots
            && let Some(number) = self.upstream.inside.pop_front()
        {
            self.upstream.busy += 1;
            let takes = self.upstream.service as f64 * (0.8 + 0.4 * self.chance());
            let ends = self.now + takes as u64;
            self.events.push(Reverse((ends, Event::Responds(number))));
        }
    }

    fn respond(&mut self, number: u32, run: &mut Run) {
        self.upstream.busy -= 1;
        self.work();
        let (arrived, admitted) = self.begun.remove(&number).expect("it was forwarded");
        run.good += 1;
        run.latencies.push(self.now - arrived);
        let sample = Sample::Latency(Duration::from_micros(self.now - admitted));
        let mut woken = Vec::new();
        let mut note = |waiter, outcome| woken.push((waiter, outcome));
        let (client, now) = (u64::from(number % 1_000), self.moment());
        self.admission.leave(client, sample, now, &mut note);
        self.wake(woken, run);
    }
}

fn adaptive(target: u64) -> Settings {
    Settings {
        limit: LimitPolicy::Adaptive(AdaptivePolicy {
            target: millis(target),
            min: 2,
            max: 10_000,
        }),
        queue_max: 1_000,
        wait_max: millis(target),
        wait_in_overload: millis(target / 2),
        reserve: Reserve::None,
    }
}

/// The Show of issue 20: goodput of at least 90 % of the capacity, bounded latency of admitted requests, recovery.
#[test]
fn an_adaptive_limit_keeps_goodput_and_latency_at_any_overload() {
    for (slots, service, target) in [
        (8, 20_000, 50),
        (3, 5_000, 50),
        (4, 200_000, 100),
        (20, 50_000, 100),
    ] {
        let capacity = slots as u64 * 1_000_000 / service;
        for factor in [2, 3, 5] {
            let mut simulation = Simulation::new(adaptive(target), slots, service);
            // Light load first: the latency without load becomes known.
            let mut light = simulation.run(3, capacity / 4);
            assert_eq!(light.shed, 0, "{slots} slots");
            let unloaded = light.percentile(0.99);
            // The limit grows to what the upstream can do, then it is measured.
            simulation.run(5, capacity * factor);
            let seconds = 40;
            let mut heavy = simulation.run(seconds, capacity * factor);
            let goodput = heavy.good as f64 / (seconds * capacity) as f64;
            let (limit, loaded) = (heavy.limit, heavy.percentile(0.99));
            let case = alloc::format!(
                "{slots} slots of {service} us, {factor}x: goodput {goodput:.3}, limit {limit}, p99 {loaded:?}"
            );
            assert!(goodput >= 0.9, "{case}");
            let bound = unloaded * 2 + millis(target);
            assert!(loaded <= bound, "{case}, unloaded {unloaded:?}");
            // Two seconds later the latency is that without load.
            simulation.run(2, capacity / 4);
            let mut after = simulation.run(3, capacity / 4);
            assert_eq!(after.shed, 0, "{case}");
            assert!(after.percentile(0.99) <= unloaded * 2, "{case}");
        }
    }
}

/// An overload begins while the limit still grows: it must not grow far beyond what the upstream can do.
#[test]
fn the_first_seconds_of_an_overload_keep_the_bounds() {
    for (slots, service) in [(25, 50_000), (50, 20_000), (40, 100_000)] {
        let capacity = slots as u64 * 1_000_000 / service;
        for factor in [2, 3, 5] {
            let mut simulation = Simulation::new(adaptive(100), slots, service);
            let unloaded = simulation.run(4, capacity / 2).percentile(0.99);
            let mut heavy = simulation.run(3, capacity * factor);
            let goodput = heavy.good as f64 / (3 * capacity) as f64;
            let (limit, loaded) = (heavy.limit, heavy.percentile(0.99));
            let case = alloc::format!(
                "{slots} slots of {service} us, {factor}x: goodput {goodput:.3}, limit {limit}, p99 {loaded:?}"
            );
            assert!(goodput >= 0.9, "{case}");
            assert!(
                loaded <= unloaded * 2 + millis(100),
                "{case}, unloaded {unloaded:?}"
            );
        }
    }
}

/// A pause of the upstream, or a proxy without CPU time, makes all latencies rise for a moment: the limit falls, and must not
/// stay low for long afterwards.
#[test]
fn the_limit_is_back_soon_after_a_moment_of_slowness() {
    for (slots, service, target) in [(25, 50_000, 100), (8, 20_000, 50), (50, 20_000, 100)] {
        let capacity = slots as u64 * 1_000_000 / service;
        let mut simulation = Simulation::new(adaptive(target), slots, service);
        simulation.run(3, capacity / 2);
        simulation.run(5, capacity * 5);
        simulation.upstream.service = service * 10;
        simulation.run(2, capacity * 5);
        simulation.upstream.service = service;
        simulation.run(2, capacity * 5);
        let run = simulation.run(3, capacity * 5);
        let goodput = run.good as f64 / (3 * capacity) as f64;
        let limit = run.limit;
        assert!(
            goodput >= 0.9,
            "{slots} slots of {service} us: goodput {goodput:.3}, limit {limit}"
        );
    }
}

#[test]
fn an_upstream_that_becomes_slower_is_not_starved() {
    let mut simulation = Simulation::new(adaptive(50), 40, 100_000);
    simulation.run(10, 800);
    // A deployment: each request takes three times as long, with as many slots.
    simulation.upstream.service = 300_000;
    simulation.run(20, 800);
    let run = simulation.run(40, 800);
    let capacity = 40.0 / 0.3;
    let goodput = run.good as f64 / 40.0 / capacity;
    assert!(goodput > 0.9, "goodput {goodput}, limit {}", run.limit);
}

#[test]
fn overload_that_the_upstream_reports_lowers_the_limit() {
    let policy = AdaptivePolicy {
        target: millis(100),
        min: 2,
        max: 1_000,
    };
    let mut limit = AdaptiveLimit::new(policy, at(0));
    let mut now = 0;
    for _ in 0..400 {
        now += 5;
        limit.note(Sample::Latency(millis(10)), 2_000, at(now));
    }
    let before = limit.limit();
    assert_eq!(
        before, 1_000,
        "it grows to its maximum while latency is low"
    );
    for step in 0..400 {
        now += 5;
        let sample = match step % 5 {
            0 => Sample::Overloaded,
            _ => Sample::Latency(millis(10)),
        };
        limit.note(sample, 2_000, at(now));
    }
    assert!(limit.limit() < before / 3, "{}", limit.limit());
}

#[test]
fn a_limit_that_is_not_used_does_not_grow() {
    let policy = AdaptivePolicy {
        target: millis(100),
        min: 2,
        max: 1_000,
    };
    let mut limit = AdaptiveLimit::new(policy, at(0));
    for now in 0..2_000 {
        limit.note(Sample::Latency(millis(1)), 3, at(now));
    }
    assert_eq!(limit.limit(), 50);
    assert_eq!(limit.unloaded_latency(), Some(millis(1)));
}

#[test]
fn a_queue_of_many_clients_stays_consistent() {
    let mut door = Door::new(fixed(5, 50));
    let mut seed = 7_u64;
    let mut inside: Vec<u64> = vec![];
    let mut tickets = Vec::new();
    for step in 0..20_000_u32 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (pick, client) = ((seed >> 33) % 10, (seed >> 40) % 7);
        let class = CLASSES[(seed >> 50) as usize % 3];
        let now = u64::from(step);
        match pick {
            0..=5 => match door.arrive(client as u32, class, client, now) {
                Arrival::Admitted => inside.push(client),
                Arrival::Waits(ticket) => tickets.push(ticket),
                Arrival::Shed(_) => {}
            },
            6..=8 if !inside.is_empty() => {
                let client = inside.swap_remove(seed as usize % inside.len());
                let woken = door.leave(client, now);
                let admitted = woken.iter().filter(|(_, outcome)| *outcome == IN);
                inside.extend(admitted.map(|(number, _)| u64::from(*number)));
            }
            _ => {
                if let Some(ticket) = tickets.pop() {
                    door.admission.withdraw(ticket, Withdrawal::Gone);
                }
            }
        }
        assert_eq!(door.admission.in_flight() as usize, inside.len());
        assert!(door.admission.in_flight() <= 5 && door.admission.waiting() <= 50);
    }
    while let Some(client) = inside.pop() {
        let woken = door.leave(client, 30_000);
        let admitted = woken.iter().filter(|(_, outcome)| *outcome == IN);
        inside.extend(admitted.map(|(number, _)| u64::from(*number)));
    }
    assert_eq!(door.admission.waiting(), 0);
}
