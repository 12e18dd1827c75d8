//! Dates and durations.

use alloc::format;
use alloc::vec::Vec;

use sluice_message::span::{self, Days};

use super::cast;
use super::function;
use crate::error::Fault;
use crate::function::{Call, Function, wrong};
use crate::time::{self, Time, Zone};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("now", 0, 0, |call| Ok(Value::Time(call.host.now()))),
    function("date", 2, 2, |call| {
        let time = moment(call, 1);
        written(call, &time, &call.str(0)?)
    }),
    function("dateInZone", 3, 3, date_in_zone),
    function("date_in_zone", 3, 3, date_in_zone),
    function("htmlDate", 1, 1, |call| {
        let time = moment(call, 0);
        written(call, &time, "2006-01-02")
    }),
    function("htmlDateInZone", 2, 2, |call| {
        let time = in_zone(call, moment(call, 0), 1)?;
        written(call, &time, "2006-01-02")
    }),
    function("dateModify", 2, 2, |call| {
        Ok(modify(call)?.unwrap_or_else(|| call.value(1).clone()))
    }),
    function("date_modify", 2, 2, |call| {
        Ok(modify(call)?.unwrap_or_else(|| call.value(1).clone()))
    }),
    function("mustDateModify", 2, 2, |call| {
        modify(call)?.ok_or(Fault::failed("the span of time is malformed"))
    }),
    function("must_date_modify", 2, 2, |call| {
        modify(call)?.ok_or(Fault::failed("the span of time is malformed"))
    }),
    function("toDate", 2, 2, |call| {
        Ok(Value::Time(read(call)?.unwrap_or(Time::ZERO)))
    }),
    function("mustToDate", 2, 2, |call| {
        let read = read(call)?;
        read.map(Value::Time)
            .ok_or(Fault::failed("the date is malformed"))
    }),
    function("unixEpoch", 1, 1, |call| match call.value(0) {
        Value::Time(time) => call.made(format!("{}", time.seconds)),
        other => Err(wrong("a date", other)),
    }),
    function("ago", 1, 1, |call| {
        let nanos = call.host.now().since(&moment(call, 0));
        // To the nearest second, halves away from zero.
        let half = if nanos < 0 { -500_000_000 } else { 500_000_000 };
        let seconds = nanos.saturating_add(half) / 1_000_000_000;
        shown(call, seconds.saturating_mul(1_000_000_000))
    }),
    function("duration", 1, 1, |call| {
        let seconds = cast::int(call.value(0));
        shown(call, seconds.saturating_mul(1_000_000_000))
    }),
    function("durationRound", 1, 1, duration_round),
];

/// The moment at a place: a date, or seconds since 1970; anything else means now.
fn moment(call: &Call<'_>, at: usize) -> Time {
    match call.value(at) {
        Value::Time(time) => *time,
        Value::Int(seconds, _) => Time::from_unix(*seconds),
        _ => call.host.now(),
    }
}

fn written(call: &mut Call<'_>, time: &Time, layout: &str) -> Result<Value, Fault> {
    call.room.take(layout.len().saturating_mul(9))?;
    let mut out = Vec::new();
    time::format(time, layout, &mut out);
    Ok(Value::text(out))
}

/// The moment in the zone named at a place; in UTC if there is none of that name.
fn in_zone(call: &Call<'_>, time: Time, at: usize) -> Result<Time, Fault> {
    let name = call.str(at)?;
    let zone = call.host.zone(&name, time.seconds).unwrap_or(Zone::UTC);
    Ok(Time { zone, ..time })
}

fn date_in_zone(call: &mut Call<'_>) -> Result<Value, Fault> {
    let time = in_zone(call, moment(call, 1), 2)?;
    written(call, &time, &call.str(0)?)
}

fn modify(call: &mut Call<'_>) -> Result<Option<Value>, Fault> {
    let Value::Time(time) = call.value(1) else {
        return Err(wrong("a date", call.value(1)));
    };
    let nanos = span::parse(&call.str(0)?, Days::Unknown).ok();
    Ok(nanos.map(|nanos| Value::Time(time.plus(nanos))))
}

fn read(call: &mut Call<'_>) -> Result<Option<Time>, Fault> {
    Ok(time::parse(&call.str(0)?, &call.str(1)?, Zone::UTC))
}

fn shown(call: &mut Call<'_>, nanos: i64) -> Result<Value, Fault> {
    let mut out = Vec::new();
    span::push(&mut out, nanos);
    call.made(out)
}

/// A span in its largest unit.
fn duration_round(call: &mut Call<'_>) -> Result<Value, Fault> {
    let nanos = match call.value(0) {
        Value::Text(text) => span::parse(&text.lossy(), Days::Unknown).unwrap_or(0),
        Value::Int(nanos, _) | Value::Duration(nanos) => *nanos,
        Value::Time(time) => call.host.now().since(time),
        _ => 0,
    };
    let seconds = nanos.unsigned_abs() / 1_000_000_000;
    const UNITS: [(u64, &str); 6] = [
        (365 * 86_400, "y"),
        (30 * 86_400, "mo"),
        (86_400, "d"),
        (3_600, "h"),
        (60, "m"),
        (1, "s"),
    ];
    let unit = UNITS.iter().find(|(length, _)| seconds >= *length);
    let text = unit.map_or("0s".into(), |(length, name)| {
        format!("{}{name}", seconds / length)
    });
    call.made(text)
}

/// The fields and methods of a date.
pub(crate) fn time_member(time: &Time, name: &str, args: &[Value]) -> Result<Option<Value>, Fault> {
    let at = time.calendar();
    let number = |at: usize| match args.get(at) {
        Some(Value::Int(number, _)) => Ok(*number),
        other => Err(wrong("a whole number", other.unwrap_or(&Value::Nil))),
    };
    let other = || match args.first() {
        Some(Value::Time(time)) => Ok(time),
        other => Err(wrong("a date", other.unwrap_or(&Value::Nil))),
    };
    let order = |time: &Time| (time.seconds, time.nanos);
    let millis = i64::from(time.nanos / 1_000_000);
    Ok(Some(match (name, args.len()) {
        ("Year", 0) => Value::int(at.year),
        ("Month", 0) => Value::text(at.month_name()),
        ("Day", 0) => Value::int(at.day.into()),
        ("Hour", 0) => Value::int(at.hour.into()),
        ("Minute", 0) => Value::int(at.minute.into()),
        ("Second", 0) => Value::int(at.second.into()),
        ("Nanosecond", 0) => Value::int(time.nanos.into()),
        ("YearDay", 0) => Value::int(at.yearday().into()),
        ("Weekday", 0) => Value::text(at.weekday_name()),
        ("Unix", 0) => Value::int64(time.seconds),
        ("UnixMilli", 0) => Value::int64(time.seconds.saturating_mul(1000) + millis),
        ("UTC", 0) => Value::Time(Time {
            zone: Zone::UTC,
            ..*time
        }),
        ("Local", 0) => Value::Time(*time),
        ("IsZero", 0) => Value::Bool(order(time) == order(&Time::ZERO)),
        ("String", 0) => {
            let mut out = Vec::new();
            time.show(&mut out);
            Value::text(out)
        }
        ("Format", 1) => match &args[0] {
            Value::Text(layout) if layout.as_bytes().len() <= 1_000 => {
                let mut out = Vec::new();
                time::format(time, &layout.lossy(), &mut out);
                Value::text(out)
            }
            other => return Err(wrong("a layout of at most 1,000 bytes", other)),
        },
        ("Add", 1) => match args[0] {
            Value::Duration(nanos) | Value::Int(nanos, _) => Value::Time(time.plus(nanos)),
            ref other => return Err(wrong("a span of time", other)),
        },
        ("AddDate", 3) => Value::Time(time.plus_date(number(0)?, number(1)?, number(2)?)),
        ("Sub", 1) => Value::Duration(time.since(other()?)),
        ("Before", 1) => Value::Bool(order(time) < order(other()?)),
        ("After", 1) => Value::Bool(order(time) > order(other()?)),
        ("Equal", 1) => Value::Bool(order(time) == order(other()?)),
        _ => return Ok(None),
    }))
}

/// The methods of a span of time.
pub(crate) fn duration_member(nanos: i64, name: &str) -> Option<Value> {
    Some(match name {
        "Hours" => Value::Float(nanos as f64 / 3.6e12),
        "Minutes" => Value::Float(nanos as f64 / 6e10),
        "Seconds" => Value::Float(nanos as f64 / 1e9),
        "Milliseconds" => Value::int64(nanos / 1_000_000),
        "Nanoseconds" => Value::int64(nanos),
        "String" => {
            let mut out = Vec::new();
            span::push(&mut out, nanos);
            Value::text(out)
        }
        _ => return None,
    })
}
