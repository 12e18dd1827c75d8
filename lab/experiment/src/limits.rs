//! Limits of experiments, each with its reason.

use std::time::Duration;

/// Captured output of an external load generator: a report has about 2 KB, with a list of errors 100 KB.
pub const TOOL_OUTPUT_BYTES_MAX: u64 = 4 << 20;

/// How long an external load generator may take beyond warm-up, window and timeout: k6 needs 5 s to start and to
/// summarize.
pub const TOOL_OVERTIME: Duration = Duration::from_secs(30);

/// Mistakes of a scenario that are reported at once; the rest is seen after these are mended.
pub const MISTAKES_MAX: usize = 20;

/// Size of a scenario, HAR or OpenAPI file. A HAR with the bodies of responses has tens of megabytes.
pub const INPUT_BYTES_MAX: u64 = 256 << 20;

/// Lists and mappings within each other in a YAML document: as many as the reader of JSON allows.
pub const YAML_DEPTH_MAX: usize = 127;

/// Values of a YAML document, with the copies that aliases make of them. The largest public descriptions have about half a
/// million, and take 200 MB here.
pub const YAML_VALUES_MAX: usize = 2_000_000;

/// Steps in which a body is made from its schema: schemas may contain themselves in several places, and then grow with a power
/// of their depth.
pub const SCHEMA_STEPS_MAX: usize = 10_000;

/// Length of each step of the search for the limit of which a rate is a share, unless the file sets it: the search has about
/// ten steps, and takes place for every cell with such a rate.
pub const LIMIT_STEP: Duration = Duration::from_secs(1);

/// Largest share of a limit that may be a rate, in per cent: ten times as much as a server can serve is overload enough, and a
/// larger number is a mistake.
pub const RATE_SHARE_MAX: f64 = 1_000.0;

/// Interval of looks at the machine before a block: long enough for the kernel's clock of 10 ms to show a few per cent.
pub const REST_INTERVAL: Duration = Duration::from_millis(250);

/// Quiet intervals in a row after which the machine counts as idle.
pub const IDLE_LOOKS: usize = 2;

/// How long a block waits at most for ports: TIME_WAIT lasts a minute.
pub const TIME_WAIT_MAX: Duration = Duration::from_secs(65);

/// Lines of a generated file: routes of a configuration.
pub const LINES_MAX: usize = 100_000;

/// Requests for which the system calls of a server are traced: a few are enough for what each request does.
pub const TRACED_REQUESTS: usize = 10;

/// How long `strace` may take to attach to the processes of a server, or to leave them.
pub const TRACER_MAX: Duration = Duration::from_secs(10);

/// Interval of looks at the threads of a server that is traced.
pub const REST_LOOK: Duration = Duration::from_millis(2);

/// Lines of a trace that are read: a request has a few dozen calls.
pub const TRACE_LINES_MAX: usize = 200_000;

/// Clients of a scenario in an open loop, unless the file says how many.
pub const OPEN_CLIENTS: usize = 1_000;

/// Clients of a herd: each is an open file of the load generator, of which systems allow 20,000 and more.
pub const HERD_MAX: usize = 100_000;

/// Longest scenario.
pub const SCENARIO_MAX: Duration = Duration::from_secs(24 * 3600);

/// Message between a coordinator and an agent that has proved the token: requests with the bodies that are compared, and
/// the histograms and series of a load.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Message before that: a version, random numbers, a proof.
pub const GREETING_BYTES_MAX: usize = 4096;

/// Time for the proof of the token.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections to an agent that have not proved the token yet; further ones are closed.
pub const GREETINGS_MAX: usize = 16;

/// Agents of one load.
pub const AGENTS_MAX: usize = 64;

/// How long a run tries to connect to its agents again after one was lost: an agent that was cut off notices that within
/// seconds, and one that is restarted by a supervisor is back by then.
pub const RECONNECT_MAX: Duration = Duration::from_secs(5);

/// Pause between two attempts.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// Blocks in a row that agents may fail before a run ends: what fails as often will not work the next time.
pub const LOST_BLOCKS_MAX: usize = 3;

/// Round trips for comparing clocks: the shortest counts.
pub const CLOCK_PINGS: usize = 16;

/// Interval at which an agent reports that it is alive.
pub const ALIVE_INTERVAL: Duration = Duration::from_millis(200);

/// An agent that is silent for this long is lost. A saturated machine may delay a report by seconds.
pub const SILENCE_MAX: Duration = Duration::from_secs(20);

/// An agent without an order to begin ends its load after this long: the coordinator waits for the slowest of its agents.
pub const BEGIN_MAX: Duration = Duration::from_secs(180);

/// Time between the order to begin and the beginning, in addition to the generator's own, so that it arrives before it. Three threads
/// pass it on, each of which a machine with thirty runnable threads on two CPUs may delay by more than 200 ms; 250 ms in all were
/// not enough there.
pub const BEGIN_NOTICE: Duration = Duration::from_secs(1);

/// Shortest time before the beginning in which all threads of a generator notice it: they look at least every 200 ms.
pub const NOTICED_MIN: Duration = Duration::from_millis(200);

/// Orders that wait for the host of an agent, and its reports that wait to be read: a coordinator waits for the report of
/// each before the next.
pub const HOST_ORDERS_MAX: usize = 4;

/// How long the machine of the servers tries to connect to an upstream of another machine before it starts the servers: a network
/// that needs longer would not do for a measurement.
pub const UPSTREAM_REACH_MAX: Duration = Duration::from_secs(5);

/// How long a new coordinator of an agent waits for the end of another one, whose connection may have ended just now.
pub const COORDINATOR_NOTICE_MAX: Duration = Duration::from_millis(500);

/// How long it waits for the servers of that one to stop: less than `GREETING_TIMEOUT`, after which it gives up itself.
pub const SERVERS_END_MAX: Duration = Duration::from_secs(8);
