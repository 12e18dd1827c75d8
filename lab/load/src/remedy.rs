//! Remedies for what `fitness` finds, as far as they can be applied without risk: settings that last until the next boot at most, of
//! which the old value is known and printed. Everything else stays advice.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::fitness::{self, SPARE_FILES};
use crate::generator::limits::UDP_BUFFER_BYTES;
use crate::machine;

/// First local port: those below are left to services, which mostly listen there.
const FIRST_PORT: u16 = 10_240;

/// Last local port.
const LAST_PORT: u16 = 65_535;

/// The longest queue of a listener that is set.
const BACKLOG_MAX: u64 = 65_535;

/// The governor that keeps the frequency of a CPU at its highest.
const PERFORMANCE: &str = "performance";

/// What a remedy sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The limits of open files, soft and hard, of a running process.
    OpenFiles {
        /// The process: the shell from which the lab was started, so that its next programs inherit them.
        pid: u32,
        /// Soft and hard limit before.
        before: (u64, u64),
        /// Soft and hard limit after.
        after: (u64, u64),
    },
    /// A file of the kernel, and the text that it gets.
    File {
        /// Its path.
        path: PathBuf,
        /// The text before.
        before: String,
        /// The text after.
        after: String,
    },
}

/// A change that helps, and can be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The finding that it is for.
    pub what: &'static str,
    /// What it sets.
    pub setting: Setting,
    /// Why it is not applied here, although it would help.
    pub refused: Option<String>,
}

/// The place in which remedies are applied.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where the settings of the kernel are: `/proc/sys`.
    pub sys: PathBuf,
    /// Where the CPUs are: `/sys/devices/system/cpu`.
    pub cpus: PathBuf,
    /// Whether this process is root's.
    pub is_root: bool,
    /// The reason to believe that this is a container, whose kernel belongs to its host.
    pub container: Option<String>,
    /// The process that started this one.
    pub parent: Option<u32>,
}

impl Place {
    /// This machine.
    pub fn here() -> Self {
        Place {
            sys: "/proc/sys".into(),
            cpus: "/sys/devices/system/cpu".into(),
            is_root: rustix::process::geteuid().is_root(),
            container: container(),
            parent: rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32),
        }
    }

    /// Why settings of the kernel are not changed here.
    fn kernel_refused(&self) -> Option<String> {
        match &self.container {
            Some(reason) => Some(format!(
                "this is a container ({reason}): change it on its host"
            )),
            None if !self.is_root => Some("needs root: run `sudo sluice-lab doctor --fix`".into()),
            None => None,
        }
    }

    fn sysctl(
        &self,
        what: &'static str,
        name: &str,
        after: impl Fn(&str) -> Option<String>,
    ) -> Option<Remedy> {
        let path = self.sys.join(name.replace('.', "/"));
        let before = one_line(&fs::read_to_string(&path).ok()?);
        let after = after(&before)?;
        Some(Remedy {
            what,
            setting: Setting::File {
                path,
                before,
                after,
            },
            refused: self.kernel_refused(),
        })
    }

    /// The remedies that would help a run with `connections` concurrent connections, those that cannot be applied here included.
    pub fn remedies(&self, connections: u64) -> Vec<Remedy> {
        let number = |text: &str| text.parse::<u64>().ok();
        let mut remedies: Vec<Remedy> = self.open_files(connections).into_iter().collect();
        remedies.extend(
            self.sysctl("local ports", "net.ipv4.ip_local_port_range", |before| {
                let (first, last) = before.split_once(' ')?;
                let (first, last) = (number(first)?, number(last)?);
                let free = last.checked_sub(first)? + 1;
                let wider = format!("{FIRST_PORT} {LAST_PORT}");
                (free < connections && before != wider).then_some(wider)
            }),
        );
        remedies.extend(self.sysctl("listen queue", "net.core.somaxconn", |before| {
            let wanted = connections.min(BACKLOG_MAX);
            (number(before)? < wanted).then(|| wanted.to_string())
        }));
        remedies.extend(
            self.sysctl(fitness::UDP_BUFFER, "net.core.rmem_max", |before| {
                let wanted = UDP_BUFFER_BYTES as u64;
                (number(before)? < wanted).then(|| wanted.to_string())
            }),
        );
        remedies.extend(self.governors());
        remedies
    }

    /// The governors of all CPUs that change their frequency and offer one that does not.
    fn governors(&self) -> Vec<Remedy> {
        let cpus = fs::read_dir(&self.cpus).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = cpus.map(|cpu| cpu.path().join("cpufreq")).collect();
        paths.sort();
        let remedy = |path: PathBuf| {
            let offered = fs::read_to_string(path.join("scaling_available_governors")).ok()?;
            let path = path.join("scaling_governor");
            let before = one_line(&fs::read_to_string(&path).ok()?);
            let fits = offered.split_whitespace().any(|one| one == PERFORMANCE);
            (fits && before != PERFORMANCE).then(|| Remedy {
                what: "frequency",
                setting: Setting::File {
                    path,
                    before,
                    after: PERFORMANCE.into(),
                },
                refused: self.kernel_refused(),
            })
        };
        paths.into_iter().filter_map(remedy).collect()
    }

    /// The limits of the process from which the lab was started. This process raises its own soft limit in every run.
    fn open_files(&self, connections: u64) -> Option<Remedy> {
        let pid = self.parent.filter(|pid| *pid > 1)?;
        let limits = limits_of(pid)?;
        let most = machine::read(&self.sys.join("fs/nr_open").to_string_lossy());
        let most = most.trim().parse().unwrap_or(limits.1);
        let after = raised(limits, connections, self.is_root.then_some(most))?;
        Some(Remedy {
            what: "open files",
            setting: Setting::OpenFiles {
                pid,
                before: limits,
                after,
            },
            refused: None,
        })
    }
}

/// The limits of open files that a process should have for a proxy with `connections` clients; `None` if those that it has are enough, or
/// nothing can be done. `hard_max` is the kernel's limit, if the hard limit may be raised.
fn raised((soft, hard): (u64, u64), connections: u64, hard_max: Option<u64>) -> Option<(u64, u64)> {
    let wanted = connections.saturating_mul(2).saturating_add(SPARE_FILES);
    let hard_after = match hard_max {
        Some(most) => hard.max(wanted.min(most)),
        None => hard,
    };
    let soft_after = soft.max(wanted.min(hard_after));
    ((soft_after, hard_after) != (soft, hard)).then_some((soft_after, hard_after))
}

/// Soft and hard limit of open files of a process.
fn limits_of(pid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    limits_in(&text)
}

/// The limits in a text such as `/proc/PID/limits`.
fn limits_in(text: &str) -> Option<(u64, u64)> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let number = |word: &str| match word {
        "unlimited" => Some(u64::MAX),
        word => word.parse().ok(),
    };
    let mut words = line.split_whitespace();
    Some((number(words.next()?)?, number(words.next()?)?))
}

/// The words of a text on one line: the kernel separates some with tabs.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Why this seems to be a container; `None` if nothing says so.
fn container() -> Option<String> {
    for path in ["/.dockerenv", "/run/.containerenv"] {
        if Path::new(path).exists() {
            return Some(format!("{path} exists"));
        }
    }
    if let Ok(kind) = fs::read_to_string("/run/systemd/container") {
        return Some(format!("/run/systemd/container says {}", kind.trim()));
    }
    in_control_groups(&machine::read("/proc/1/cgroup"))
}

/// Whether the groups of the first process are those of a container.
fn in_control_groups(text: &str) -> Option<String> {
    let names = ["docker", "kubepods", "lxc", "libpod", "containerd"];
    let found = names.into_iter().find(|name| text.contains(name))?;
    Some(format!("its first process belongs to a group of {found}"))
}

impl Remedy {
    /// What it changes, with the value before and after.
    pub fn words(&self) -> String {
        match &self.setting {
            Setting::OpenFiles { pid, before, after } => format!(
                "limit of open files of process {pid}, from which the lab was started: {} -> {} (hard limit {} -> {})",
                before.0, after.0, before.1, after.1
            ),
            Setting::File {
                path,
                before,
                after,
            } => format!("{}: {before} -> {after}", path.display()),
        }
    }

    /// The command that undoes it.
    pub fn undo(&self) -> String {
        match &self.setting {
            Setting::OpenFiles { pid, before, .. } => {
                format!("prlimit --pid {pid} --nofile={}:{}", before.0, before.1)
            }
            Setting::File { path, before, .. } => format!("echo '{before}' > {}", path.display()),
        }
    }

    /// Applies it, and reads it back: the kernel may take less than it is given.
    pub fn apply(&self) -> Result<(), String> {
        match &self.setting {
            Setting::OpenFiles { pid, after, .. } => {
                let number = |limit: u64| (limit != u64::MAX).then_some(limit);
                let limit = Rlimit {
                    current: number(after.0),
                    maximum: number(after.1),
                };
                let process = Pid::from_raw(*pid as i32).ok_or("the process is gone")?;
                prlimit(Some(process), Resource::Nofile, limit)
                    .map_err(|error| format!("process {pid}: {error}"))?;
                match limits_of(*pid) == Some(*after) {
                    true => Ok(()),
                    false => Err(format!("the limits of process {pid} did not change")),
                }
            }
            Setting::File { path, after, .. } => {
                let failed = |error: std::io::Error| format!("{}: {error}", path.display());
                fs::write(path, after).map_err(failed)?;
                let now = one_line(&fs::read_to_string(path).map_err(failed)?);
                match now == *after {
                    true => Ok(()),
                    false => Err(format!("{} is {now} and not {after}", path.display())),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A copy of the kernel's files.
    struct Kernel(PathBuf);

    impl Kernel {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("lab-remedy-{name}-{}", std::process::id()));
            let kernel = Kernel(path);
            kernel.put("sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
            kernel.put("sys/net/core/somaxconn", "128\n");
            kernel.put("sys/net/core/rmem_max", "212992\n");
            kernel.put("sys/fs/nr_open", "1048576\n");
            for cpu in ["cpu0", "cpu1"] {
                let place = format!("cpus/{cpu}/cpufreq");
                kernel.put(&format!("{place}/scaling_governor"), "powersave\n");
                let offered = format!("{place}/scaling_available_governors");
                kernel.put(&offered, "performance powersave\n");
            }
            // A CPU whose frequency is not visible.
            kernel.put("cpus/cpu2/online", "1\n");
            kernel
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn text(&self, path: &str) -> String {
            fs::read_to_string(self.0.join(path)).unwrap()
        }

        fn place(&self) -> Place {
            Place {
                sys: self.0.join("sys"),
                cpus: self.0.join("cpus"),
                is_root: true,
                container: None,
                parent: None,
            }
        }
    }

    impl Drop for Kernel {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn settings_of_the_kernel_are_changed_and_can_be_undone() {
        let kernel = Kernel::new("kernel");
        let remedies = kernel.place().remedies(30_000);
        let names: Vec<&str> = remedies.iter().map(|remedy| remedy.what).collect();
        let udp = fitness::UDP_BUFFER;
        let expected = ["local ports", "listen queue", udp, "frequency", "frequency"];
        assert_eq!(names, expected);
        for remedy in &remedies {
            assert_eq!(remedy.refused, None);
            remedy.apply().unwrap();
        }
        assert_eq!(
            kernel.text("sys/net/ipv4/ip_local_port_range"),
            "10240 65535"
        );
        assert_eq!(kernel.text("sys/net/core/somaxconn"), "30000");
        assert_eq!(kernel.text("sys/net/core/rmem_max"), "4194304");
        assert_eq!(
            kernel.text("cpus/cpu1/cpufreq/scaling_governor"),
            "performance"
        );
        // A second time there is nothing to do.
        assert_eq!(kernel.place().remedies(30_000), []);
        for remedy in &remedies {
            let undone = Command::new("sh").args(["-c", &remedy.undo()]).status();
            assert!(undone.unwrap().success(), "{}", remedy.undo());
        }
        assert_eq!(
            kernel.text("sys/net/ipv4/ip_local_port_range"),
            "32768 60999\n"
        );
        assert_eq!(
            kernel.text("cpus/cpu0/cpufreq/scaling_governor"),
            "powersave\n"
        );
    }

    #[test]
    fn containers_and_other_users_change_no_setting_of_the_kernel() {
        let kernel = Kernel::new("refused");
        let mut place = kernel.place();
        place.is_root = false;
        let refused = |place: &Place| -> Vec<String> {
            let remedies = place.remedies(30_000).into_iter();
            remedies.map(|remedy| remedy.refused.unwrap()).collect()
        };
        let user = refused(&place);
        assert!(user.len() == 5 && user.iter().all(|text| text.contains("needs root")));
        place.is_root = true;
        place.container = in_control_groups("0::/docker/4f5e\n");
        let container = refused(&place);
        assert!(
            container
                .iter()
                .all(|text| text.contains("group of docker"))
        );
        assert_eq!(in_control_groups("0::/init.scope\n"), None);
    }

    #[test]
    fn what_is_enough_stays_as_it_is() {
        let kernel = Kernel::new("enough");
        let mut names: Vec<&str> = Vec::new();
        let remedies = kernel.place().remedies(100);
        names.extend(remedies.iter().map(|remedy| remedy.what));
        assert_eq!(names, [fitness::UDP_BUFFER, "frequency", "frequency"]);
        assert_eq!(raised((20_000, 20_000), 9_900, None), None);
        assert_eq!(raised((1_024, 20_000), 9_900, None), Some((20_000, 20_000)));
        // Only root raises the hard limit, and nobody beyond that of the kernel.
        assert_eq!(raised((1_024, 4_096), 9_900, None), Some((4_096, 4_096)));
        let all = Some((20_000, 20_000));
        assert_eq!(raised((1_024, 4_096), 9_900, Some(1 << 20)), all);
        assert_eq!(raised((8, 16), 9_900, Some(1_000)), Some((1_000, 1_000)));
        assert_eq!(raised((u64::MAX, u64::MAX), 9_900, Some(1_000)), None);
    }

    #[test]
    fn a_running_process_gets_more_open_files() {
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -Sn 64 && echo ready && read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let kernel = Kernel::new("files");
        let mut place = kernel.place();
        (place.parent, place.is_root) = (Some(child.id()), false);
        let remedies = place.remedies(10);
        let remedy = &remedies[0];
        let Setting::OpenFiles { before, after, .. } = remedy.setting else {
            panic!("{remedies:?}");
        };
        assert_eq!(
            (before.0, after.0),
            (64, (2 * 10 + SPARE_FILES).min(before.1))
        );
        assert_eq!(after.1, before.1);
        remedy.apply().unwrap();
        assert_eq!(limits_of(child.id()), Some(after));
        let undo = format!("prlimit --pid {} --nofile=64:{}", child.id(), before.1);
        assert_eq!(remedy.undo(), undo);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(remedy.apply().is_err(), "it has ended");
    }
}
