//! Parses the settings of log files. `super::super::file` writes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::layout::Layout;
use sluice_model::logging::FileWriter;

use super::super::archive::{Archive, Compression};
use super::super::file::{DirMode, Rotation, Schedule};
use super::super::hold::Hold;
use super::super::limits::{LOG_FILE_BYTES_DEFAULT, LOG_FILES_KEPT_DEFAULT, LOG_KEPT_DEFAULT};
use super::super::zone::Zone;
use super::{OutputOptions, Place, PlanError};
use crate::process_values;

pub(super) fn output(file: &FileWriter, at: &Place) -> Result<OutputOptions, PlanError> {
    if file.filename.is_empty() {
        return Err(at.wrong("writer.filename", "a file name is missing".into()));
    }
    let path = process_values::expand(&file.filename)
        .map_err(|problem| at.wrong("writer.filename", problem))?;
    let mode = permissions(&file.mode, 0o600, "writer.mode", at)?;
    let dir_mode = match file.dir_mode.as_str() {
        "inherit" => DirMode::Inherit,
        // Users who may read the file may list its folder.
        "from_file" => DirMode::Bits(mode | ((mode & 0o444) >> 2)),
        digits => DirMode::Bits(permissions(digits, 0o700, "writer.dir_mode", at)?),
    };
    Ok(OutputOptions::File {
        path: PathBuf::from(path),
        mode,
        dir_mode,
        rotation: Arc::new(rotation(file, at)?),
        hold: hold(file, at)?,
    })
}

fn hold(file: &FileWriter, at: &Place) -> Result<Hold, PlanError> {
    let gzip = match file.gzip_level {
        0 => None,
        level @ 1..=9 => Some(level as u32),
        level => {
            let problem = format!("{level} is not between 1 and 9");
            return Err(at.wrong("writer.gzip_level", problem));
        }
    };
    let time = file.hold_time.to_std().filter(|time| !time.is_zero());
    let bytes = usize::try_from(file.hold_bytes).unwrap_or_default();
    if gzip.is_some() && file.roll != Some(false) {
        let problem = "a file of compressed pieces is not put aside; add `roll: false`";
        return Err(at.wrong("writer.gzip_level", problem.to_owned()));
    }
    Ok(Hold::new(bytes, time, gzip))
}

fn rotation(file: &FileWriter, at: &Place) -> Result<Rotation, PlanError> {
    if file.roll == Some(false) {
        return Ok(Rotation::never());
    }
    let zone = if file.roll_local_time {
        Zone::Local
    } else {
        Zone::Utc
    };
    let compression = match file.roll_compression.as_str() {
        "" if file.roll_gzip == Some(false) => Compression::None,
        "" | "gzip" => Compression::Gzip,
        "zstd" => Compression::Zstd,
        "none" => Compression::None,
        other => {
            let problem = format!("`{other}` is none of gzip, zstd, none");
            return Err(at.wrong("writer.roll_compression", problem));
        }
    };
    let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
    let days = positive(file.roll_keep_days).map(|days| Duration::from_secs(days * 24 * 3600));
    let kept = positive(file.roll_keep).map_or(LOG_FILES_KEPT_DEFAULT, |n| n as usize);
    Ok(Rotation {
        bytes_max: Some(positive(file.roll_size_mb).map_or(LOG_FILE_BYTES_DEFAULT, |mb| mb << 20)),
        interval: file
            .roll_interval
            .to_std()
            .filter(|interval| !interval.is_zero()),
        schedule: schedule(file, zone, at)?,
        archive: Archive {
            files_max: Some(kept),
            age_max: Some(days.unwrap_or(LOG_KEPT_DEFAULT)),
            compression,
            layout: layout(file, at)?,
            zone,
        },
    })
}

/// The time format in the names of rotated files, if it is not the default.
fn layout(file: &FileWriter, at: &Place) -> Result<Option<Arc<Layout>>, PlanError> {
    let text = file.backup_time_format.as_str();
    if text.is_empty() {
        return Ok(None);
    }
    let layout = Layout::new(text);
    let problem = if text.contains('/') {
        "a file name holds no `/`"
    } else if !layout.has_date() {
        "year, month and day have to be in it, as in 2006-01-02T15-04-05"
    } else {
        return Ok(Some(Arc::new(layout)));
    };
    Err(at.wrong(
        "writer.backup_time_format",
        format!("`{text}` cannot name old files: {problem}"),
    ))
}

/// The minutes of the day at which to rotate.
fn schedule(file: &FileWriter, zone: Zone, at: &Place) -> Result<Option<Schedule>, PlanError> {
    let mut minutes = Vec::new();
    for minute in &file.roll_minutes {
        let minute = u16::try_from(*minute).ok().filter(|minute| *minute < 60);
        let Some(minute) = minute else {
            let problem = "minutes go from 0 to 59".to_owned();
            return Err(at.wrong("writer.roll_minutes", problem));
        };
        minutes.extend((0..24).map(|hour| hour * 60 + minute));
    }
    for time in &file.roll_at {
        let number = |text: &str, max: u16| text.parse::<u16>().ok().filter(|n| *n < max);
        let parts = time.split_once(':');
        match parts.map(|(hour, minute)| (number(hour, 24), number(minute, 60))) {
            Some((Some(hour), Some(minute))) => minutes.push(hour * 60 + minute),
            Some(_) | None => {
                let problem = format!("`{time}` is not a time of day such as 23:30");
                return Err(at.wrong("writer.roll_at", problem));
            }
        }
    }
    minutes.sort_unstable();
    minutes.dedup();
    Ok((!minutes.is_empty()).then(|| Schedule {
        minutes: minutes.into(),
        zone,
    }))
}

fn permissions(digits: &str, default: u32, field: &str, at: &Place) -> Result<u32, PlanError> {
    if digits.is_empty() {
        return Ok(default);
    }
    let mode = u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| {
        at.wrong(
            field,
            format!("`{digits}` is not octal permissions such as 0640"),
        )
    })
}
