use super::super::archive::{Archive, Compression};
use super::super::encode::Encoder;
use super::super::file::Schedule;
use super::super::zone::Zone;
use super::*;

fn all(json: &str) -> Result<Vec<LogOptions>, Vec<PlanError>> {
    let config = sluice_model::Config::from_json(json).expect("it is a configuration");
    LogOptions::all(config.logging.as_ref())
}

/// The output of a log with this writer.
fn output_of(writer: &str) -> Result<OutputOptions, PlanError> {
    let logs = all(&format!(
        r#"{{"logging":{{"logs":{{"default":{{"writer":{writer}}}}}}}}}"#
    ));
    logs.map(|mut logs| logs.remove(0).output)
        .map_err(|mut errors| errors.remove(0))
}

fn file_of(writer: &str) -> (u32, DirMode, Rotation) {
    let output = output_of(writer).expect("all of it is supported");
    let OutputOptions::File {
        mode,
        dir_mode,
        rotation,
        ..
    } = output
    else {
        panic!("a file");
    };
    (mode, dir_mode, (*rotation).clone())
}

fn line_of(encoder: &str) -> String {
    let json = format!(r#"{{"logging":{{"logs":{{"default":{{"encoder":{encoder}}}}}}}}}"#);
    let logs = all(&json).expect("all of it is supported");
    let head = super::super::encode::Head {
        severity: Level::Info.into(),
        logger: "a",
        caller: std::panic::Location::caller(),
        message: "b",
    };
    let mut out = Vec::new();
    let time = std::time::UNIX_EPOCH;
    let encoder = logs[0].shape.encoder(Encoder::json);
    encoder.line(&mut out, time, &head, |fields| {
        fields.text("x", b"1");
        fields.text("y", b"2");
    });
    String::from_utf8(out).expect("a line is text")
}

#[test]
fn without_a_configuration_there_is_the_default_log() {
    let logs = all("{}").expect("nothing is wrong");
    assert_eq!(logs.len(), 1);
    assert_eq!(
        (logs[0].name.as_str(), logs[0].level),
        ("default", Level::Info)
    );
    assert_eq!(logs[0].output, OutputOptions::Stderr);
}

#[test]
fn a_file_has_caddys_defaults_and_options() {
    assert_eq!(
        file_of(r#"{"output":"file","filename":"/a.log"}"#),
        (0o600, DirMode::Bits(0o700), Rotation::default())
    );
    let (mode, dir_mode, rotation) = file_of(
        r#"{"output":"file","filename":"/b.log","mode":"0644","dir_mode":"inherit","roll_gzip":false,
            "roll_keep":3,"roll_keep_days":2,"roll_size_mb":5}"#,
    );
    assert_eq!((mode, dir_mode), (0o644, DirMode::Inherit));
    let archive = Archive {
        files_max: Some(3),
        age_max: Some(Duration::from_secs(172_800)),
        compression: Compression::None,
        layout: None,
        zone: Zone::Utc,
    };
    let expected = Rotation {
        bytes_max: Some(5 << 20),
        interval: None,
        schedule: None,
        archive,
    };
    assert_eq!(rotation, expected);
    let never = file_of(r#"{"output":"file","filename":"/c.log","roll":false}"#);
    assert_eq!(never.2, Rotation::never());
}

#[test]
fn a_file_rolls_by_the_clock_and_names_old_ones() {
    let (_, _, rotation) = file_of(
        r#"{"output":"file","filename":"/a.log","roll_minutes":[30],"roll_at":["23:30","0:05"],
            "roll_local_time":true,"roll_compression":"zstd","backup_time_format":"2006-01-02"}"#,
    );
    let Schedule { minutes, zone } = rotation.schedule.expect("there are times");
    assert_eq!(zone, Zone::Local);
    assert_eq!(minutes.len(), 25, "each half hour once, and 0:05");
    assert_eq!(minutes[..3], [5, 30, 90]);
    assert_eq!(rotation.archive.compression, Compression::Zstd);
    let layout = rotation.archive.layout.expect("it was given");
    assert_eq!(*layout, sluice_message::layout::Layout::new("2006-01-02"));
}

#[test]
fn addresses_of_log_servers_name_a_network_and_one_port() {
    for (address, network, expected) in [
        ("localhost:514", Network::Tcp(Family::Any), "localhost:514"),
        ("tcp/:514", Network::Tcp(Family::Any), "localhost:514"),
        ("udp6/[::1]:514", Network::Udp(Family::V6), "[::1]:514"),
        ("unix//run/log.sock", Network::Unix, "/run/log.sock"),
        ("unixgram//dev/log", Network::UnixDatagram, "/dev/log"),
    ] {
        let writer = format!(r#"{{"output":"net","address":{address:?}}}"#);
        let OutputOptions::Net(net) = output_of(&writer).expect("an address") else {
            panic!("a socket");
        };
        assert_eq!((net.network, net.address.as_str()), (network, expected));
        assert_eq!(net.dial_timeout, Duration::from_secs(10));
    }
}

#[test]
fn encoders_are_wrapped_in_each_other() {
    for (encoder, expected) in [
        (
            r#"{"format":"filter","fields":{"x":{"filter":"delete"}}}"#,
            "{\"level\":\"info\",\"ts\":0.000000,\"logger\":\"a\",\"msg\":\"b\",\"y\":\"2\"}\n",
        ),
        (
            r#"{"format":"append","fields":{"z":5},"wrap":{"format":"filter","fields":{"z":{"filter":"delete"}},
                "wrap":{"format":"console","time_format":"rfc3339"}}}"#,
            "1970-01-01T00:00:00Z\t\u{1b}[34mINFO\u{1b}[0m\ta\tb\t{\"x\": \"1\", \"y\": \"2\"}\n",
        ),
        (
            r#"{"format":"filter","fields":{"z":{"filter":"delete"}},
                "wrap":{"format":"append","fields":{"z":5},"wrap":{"format":"journald"}}}"#,
            "<6>{\"level\":\"info\",\"ts\":0.000000,\"logger\":\"a\",\"msg\":\"b\",\"x\":\"1\",\"y\":\"2\",\"z\":5}\n",
        ),
    ] {
        assert_eq!(line_of(encoder), expected, "{encoder}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_by_name_and_all_at_once() {
    let cases = [
        (
            r#"{"writer":{"output":"net","address":"localhost"}}"#,
            "`localhost` does not name one port",
        ),
        (
            r#"{"writer":{"output":"syslog"}}"#,
            "`syslog` is none of stderr",
        ),
        (
            r#"{"encoder":{"format":"filter","fields":{"a":{"filter":"blur"}}}}"#,
            "encoder.fields.a: `blur`",
        ),
        (
            r#"{"level":"LOUD"}"#,
            "logging.logs.03.level: unknown level `LOUD`",
        ),
        (
            r#"{"encoder":{"format":"json","duration_format":"weeks"}}"#,
            "`weeks` is none of s, ms",
        ),
        (
            r#"{"writer":{"output":"file","filename":"/x","mode":"99"}}"#,
            "`99` is not octal",
        ),
        (
            r#"{"writer":{"output":"file","filename":"/x","roll_at":["25:00"]}}"#,
            "`25:00` is not a time of day",
        ),
        (
            r#"{"writer":{"output":"file","filename":"/x","backup_time_format":"Mon"}}"#,
            "`Mon` cannot name",
        ),
        (
            r#"{"writer":{"output":"file","filename":"/{http.request.host}"}}"#,
            "a placeholder without a value",
        ),
        (r#"{"core":{"module":"tee"}}"#, "`tee` is not a core"),
        (r#"{"with_stacktrace":"LOUD"}"#, "unknown level `LOUD`"),
        (r#"{"with_caller_skip":1}"#, "`with_caller_skip`"),
        (
            r#"{"include":["admin"],"exclude":["admin"]}"#,
            "`admin` is both included and excluded",
        ),
        (
            r#"{"include":["admin"],"exclude":["http.log"]}"#,
            "`admin` neither covers",
        ),
    ];
    let logs: Vec<String> = cases
        .iter()
        .enumerate()
        .map(|(at, (log, _))| format!("\"{at:02}\":{log}"))
        .collect();
    let errors = all(&format!(
        r#"{{"logging":{{"logs":{{{}}}}}}}"#,
        logs.join(",")
    ))
    .expect_err("nothing of it is possible");
    let text: Vec<String> = errors.iter().map(PlanError::to_string).collect();
    assert_eq!(text.len(), cases.len(), "{text:#?}");
    for (text, (_, expected)) in text.iter().zip(cases) {
        assert!(text.contains(expected), "{text}\n{expected}");
    }
}
