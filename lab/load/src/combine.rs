//! Adds up the loads of several machines that ran at the same time. Counts add up, histograms merge without loss, and the
//! time series are added interval by interval, since the windows begin together.

use crate::result::{
    Distribution, FailureClass, Failures, Generator, HEAT_STEPS, Histogram, Latencies, Load, Mode,
    Point, Series,
};

/// The sum of loads of one task; the first decides what they have in common. A default load without any.
pub fn combine(loads: Vec<Load>) -> Load {
    let mut all = loads.into_iter();
    let first = all.next().unwrap_or_default();
    all.fold(first, add)
}

fn add(mut sum: Load, other: Load) -> Load {
    let asked = &mut sum.asked;
    asked.connections += other.asked.connections;
    asked.threads += other.asked.threads;
    asked.warmup_s = asked.warmup_s.max(other.asked.warmup_s);
    if let (Mode::Open { rate, .. }, Mode::Open { rate: more, .. }) =
        (&mut asked.mode, other.asked.mode)
    {
        *rate += more;
    }
    sum.window_s = sum.window_s.max(other.window_s);
    sum.ok += other.ok;
    sum.ended_ok += other.ended_ok;
    sum.warmup_ok = sum
        .warmup_ok
        .zip(other.warmup_ok)
        .map(|(one, two)| one + two);
    sum.due = sum.due.zip(other.due).map(|(one, two)| one + two);
    sum.failures = failures(sum.failures, other.failures);
    sum.latency = latencies(&sum.latency, &other.latency);
    sum.transfer.received_bytes += other.transfer.received_bytes;
    let total = |one: Option<u64>, two: Option<u64>| one.zip(two).map(|(one, two)| one + two);
    sum.transfer.body_bytes = total(sum.transfer.body_bytes, other.transfer.body_bytes);
    sum.transfer.sent_bytes = total(sum.transfer.sent_bytes, other.transfer.sent_bytes);
    let connections = &mut sum.connections;
    connections.opened += other.connections.opened;
    connections.clients = total(connections.clients, other.connections.clients);
    connections.failed += other.connections.failed;
    connections.closed_by_server += other.connections.closed_by_server;
    if let Some(theirs) = other.connections.resumed {
        *connections.resumed.get_or_insert(0) += theirs;
    }
    connections.responses += other.connections.responses;
    sum.censored.in_flight += other.censored.in_flight;
    sum.censored.without_response += other.censored.without_response;
    sum.censored.oldest_ns = sum.censored.oldest_ns.max(other.censored.oldest_ns);
    sum.generator = sum
        .generator
        .zip(other.generator)
        .map(|(one, two)| Generator {
            cpu_s: one.cpu_s + two.cpu_s,
            busiest: one.busiest.max(two.busiest),
            send_lag: merged(&one.send_lag, &two.send_lag),
            loop_lag: merged(&one.loop_lag, &two.loop_lag),
        });
    sum.series = sum
        .series
        .zip(other.series)
        .map(|(one, two)| series(one, two));
    for (mine, theirs) in sum.parts.iter_mut().zip(&other.parts) {
        mine.ok += theirs.ok;
        mine.failed += theirs.failed;
        mine.latency = merged(&mine.latency, &theirs.latency);
    }
    for (mine, theirs) in sum.phases.iter_mut().zip(&other.phases) {
        mine.from += theirs.from;
        mine.to += theirs.to;
        mine.ok += theirs.ok;
        mine.failed += theirs.failed;
        mine.latency = merged(&mine.latency, &theirs.latency);
    }
    for (mine, theirs) in sum.sessions.iter_mut().zip(&other.sessions) {
        mine.completed += theirs.completed;
        mine.failed += theirs.failed;
        mine.unfinished += theirs.unfinished;
        mine.duration = merged(&mine.duration, &theirs.duration);
    }
    sum.machines.extend(other.machines);
    sum.interrupted |= other.interrupted;
    sum
}

/// The native generator always has histograms; the distribution of an empty one stands for none.
fn merged(one: &Distribution, two: &Distribution) -> Distribution {
    let mut all = Histogram::new();
    let both = [one, two].into_iter();
    both.filter_map(|each| each.hdr.as_ref())
        .for_each(|hdr| all.merge(hdr));
    Distribution::of(all)
}

fn latencies(one: &Latencies, two: &Latencies) -> Latencies {
    let some = |one: &Option<Distribution>, two: &Option<Distribution>| match (one, two) {
        (Some(one), Some(two)) => Some(merged(one, two)),
        (one, two) => one.clone().or_else(|| two.clone()),
    };
    Latencies {
        total: merged(&one.total, &two.total),
        service: some(&one.service, &two.service),
        wait: some(&one.wait, &two.wait),
        first_byte: some(&one.first_byte, &two.first_byte),
        connect: some(&one.connect, &two.connect),
        tls: some(&one.tls, &two.tls),
        opening: some(&one.opening, &two.opening),
    }
}

fn failures(mut sum: Vec<Failures>, other: Vec<Failures>) -> Vec<Failures> {
    for theirs in other {
        let Some(mine) = sum.iter_mut().find(|mine| mine.class == theirs.class) else {
            sum.push(theirs);
            continue;
        };
        mine.count += theirs.count;
        mine.latency = merged(&mine.latency, &theirs.latency);
        for (status, count) in theirs.statuses {
            match mine.statuses.iter_mut().find(|(known, _)| *known == status) {
                Some((_, known)) => *known += count,
                None => mine.statuses.push((status, count)),
            }
        }
        mine.statuses.sort_unstable();
        mine.example = mine.example.take().or(theirs.example);
    }
    sum.sort_by_key(|failures| FailureClass::index(failures.class));
    sum
}

fn series(one: Series, two: Series) -> Series {
    let (mut long, short) = match one.points.len() >= two.points.len() {
        true => (one.points, two.points),
        false => (two.points, one.points),
    };
    for (sum, point) in long.iter_mut().zip(short) {
        let mut heat = [0_u64; HEAT_STEPS];
        for (step, count) in sum.heat.iter().chain(&point.heat) {
            if let Some(all) = heat.get_mut(usize::from(*step)) {
                *all += count;
            }
        }
        let steps = heat.iter().enumerate();
        let steps = steps.filter(|(_, count)| **count > 0);
        *sum = Point {
            ok: sum.ok + point.ok,
            failed: sum.failed + point.failed,
            bytes: sum.bytes + point.bytes,
            max_ns: sum.max_ns.max(point.max_ns),
            heat: steps.map(|(step, count)| (step as u8, *count)).collect(),
        };
    }
    Series {
        interval_ms: one.interval_ms,
        points: long,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{LoadPart, LoadPhase};

    fn distribution(values: &[u64]) -> Distribution {
        let mut histogram = Histogram::new();
        values.iter().for_each(|ns| histogram.record(*ns));
        Distribution::of(histogram)
    }

    fn load(values: &[u64], class: FailureClass) -> Load {
        let mut load = Load {
            window_s: 1.0,
            ok: values.len() as u64,
            ended_ok: values.len() as u64,
            due: Some(values.len() as u64 + 1),
            ..Load::default()
        };
        load.asked.connections = 3;
        load.asked.mode = Mode::Open {
            rate: 50.0,
            poisson: false,
        };
        load.latency.total = distribution(values);
        load.failures = vec![Failures {
            class,
            count: 1,
            statuses: vec![(502, 1)],
            latency: distribution(&[5]),
            example: Some("first".into()),
        }];
        load.parts = vec![LoadPart {
            ok: 1,
            latency: distribution(&values[..1]),
            ..LoadPart::default()
        }];
        load.phases = vec![LoadPhase {
            from: 2.0,
            ok: 4,
            ..LoadPhase::default()
        }];
        load.generator = Some(Generator::default());
        load.series = Some(Series {
            interval_ms: 100,
            points: vec![
                Point {
                    ok: 2,
                    heat: vec![(3, 2)],
                    ..Point::default()
                };
                values.len()
            ],
        });
        load
    }

    #[test]
    fn machines_add_up_and_histograms_are_those_of_one_machine() {
        let (one, two) = ([10, 2_000, 300_000], [40, 5_000_000]);
        let sum = combine(vec![
            load(&one, FailureClass::Status),
            load(&two, FailureClass::Reset),
            load(&two, FailureClass::Status),
        ]);
        assert_eq!((sum.ok, sum.failed(), sum.due), (7, 3, Some(10)));
        assert_eq!(sum.asked.connections, 9);
        assert!(matches!(sum.asked.mode, Mode::Open { rate, .. } if rate == 150.0));
        let all = [&one[..], &two, &two].concat();
        assert_eq!(sum.latency.total, distribution(&all));
        let counts: Vec<_> = sum.failures.iter().map(|f| (f.class, f.count)).collect();
        assert_eq!(
            counts,
            [(FailureClass::Reset, 1), (FailureClass::Status, 2)]
        );
        assert_eq!(sum.failures[1].statuses, [(502, 2)]);
        assert_eq!((sum.parts[0].ok, sum.parts[0].latency.count), (3, 3));
        assert_eq!((sum.phases[0].from, sum.phases[0].ok), (6.0, 12));
        let points = &sum.series.as_ref().unwrap().points;
        let seen: Vec<(u64, u64)> = points.iter().map(|p| (p.ok, p.heat[0].1)).collect();
        assert_eq!(seen, [(6, 6), (6, 6), (2, 2)]);
        assert_eq!(sum.window_s, 1.0);
    }
}
