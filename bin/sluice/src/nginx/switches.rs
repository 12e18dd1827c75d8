//! Parses nginx's command line. The parent module executes it.

use sluice_net::sys::process::Signal;

/// The options of an nginx command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switches {
    /// What to do.
    pub task: Task,
    /// `-v`, `-V` or `-?`: what to print first.
    pub printed: Printed,
    /// `-q`: print errors only.
    pub quiet: bool,
    /// `-c`: the configuration file.
    pub conf: Option<String>,
    /// `-p`: the directory that relative paths refer to.
    pub prefix: Option<String>,
    /// `-g`: directives that precede the configuration.
    pub globals: String,
    /// `-e`: the error log, if the configuration names none.
    pub error_log: Option<String>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Run the server.
    Serve,
    /// Test the configuration.
    Test {
        /// Whether to print its files as well.
        dump: bool,
    },
    /// Send a signal to the running server.
    Signal(Signal),
    /// Only print information.
    Help,
}

/// Information to print about the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Printed {
    /// Nothing.
    Nothing,
    /// The version.
    Version,
    /// The version and build.
    Build,
    /// The switches.
    Help,
}

impl Switches {
    /// Parses the arguments. One-letter switches may be combined, and a value may be attached to its switch.
    pub fn parse(words: Vec<String>) -> Result<Switches, String> {
        let mut found = Switches {
            task: Task::Serve,
            printed: Printed::Nothing,
            quiet: false,
            conf: None,
            prefix: None,
            globals: String::new(),
            error_log: None,
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let Some(letters) = word.strip_prefix('-') else {
                return Err(format!("invalid option: \"{word}\""));
            };
            for (at, letter) in letters.char_indices() {
                let rest = &letters[at + letter.len_utf8()..];
                if !matches!(letter, 'p' | 'c' | 'g' | 'e' | 's') {
                    found.switch(letter)?;
                    continue;
                }
                let value = match rest {
                    "" => words.next().filter(|value| !value.is_empty()),
                    rest => Some(rest.to_owned()),
                };
                found.set(letter, value)?;
                break;
            }
        }
        Ok(found)
    }

    fn switch(&mut self, letter: char) -> Result<(), String> {
        match letter {
            '?' | 'h' => self.print(Printed::Help),
            'v' => self.print(Printed::Version),
            'V' => self.print(Printed::Build),
            't' if self.task != (Task::Test { dump: true }) => {
                self.task = Task::Test { dump: false };
            }
            't' => {}
            'T' => self.task = Task::Test { dump: true },
            'q' => self.quiet = true,
            letter => return Err(format!("invalid option: \"{letter}\"")),
        }
        if letter == 'h' || letter == '?' {
            self.task = Task::Help;
        }
        Ok(())
    }

    fn print(&mut self, what: Printed) {
        self.printed = self.printed.max(what);
    }

    fn set(&mut self, letter: char, value: Option<String>) -> Result<(), String> {
        let wanted = match letter {
            'p' => "directory name",
            'c' | 'e' => "file name",
            _ => "parameter",
        };
        let value = value.ok_or_else(|| format!("option \"-{letter}\" requires {wanted}"))?;
        match letter {
            'p' => self.prefix = Some(value),
            'c' => self.conf = Some(value),
            'e' => self.error_log = Some(value),
            'g' => self.globals = value,
            _ => {
                let signal = match value.as_str() {
                    "stop" => Signal::Terminate,
                    "quit" => Signal::Quit,
                    "reopen" => Signal::User1,
                    "reload" => Signal::Hangup,
                    _ => return Err(format!("invalid option: \"-s {value}\"")),
                };
                self.task = Task::Signal(signal);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Switches, String> {
        Switches::parse(line.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn switches_stand_alone_or_together() {
        let found = parse("-tq -c/a/b -p dir -g x; -e log").unwrap();
        assert_eq!(found.task, Task::Test { dump: false });
        assert!(found.quiet);
        assert_eq!(found.conf.as_deref(), Some("/a/b"));
        assert_eq!(found.prefix.as_deref(), Some("dir"));
        assert_eq!(found.globals, "x;");
        assert_eq!(found.error_log.as_deref(), Some("log"));
        assert_eq!(parse("-T -t").unwrap().task, Task::Test { dump: true });
        assert_eq!(parse("-Vt").unwrap().printed, Printed::Build);
        assert_eq!(parse("-vt").unwrap().task, Task::Test { dump: false });
        let reload = parse("-c a -s reload").unwrap();
        assert_eq!(reload.task, Task::Signal(Signal::Hangup));
        assert_eq!(
            parse("-sstop").unwrap().task,
            Task::Signal(Signal::Terminate)
        );
    }

    /// The messages are nginx's, because other programs look for them.
    #[test]
    fn mistakes_are_reported_in_nginxs_wording() {
        for (line, problem) in [
            ("-x", "invalid option: \"x\""),
            ("-s foo", "invalid option: \"-s foo\""),
            ("-c", "option \"-c\" requires file name"),
            ("-p", "option \"-p\" requires directory name"),
            ("-g", "option \"-g\" requires parameter"),
            ("foo", "invalid option: \"foo\""),
        ] {
            assert_eq!(parse(line), Err(problem.to_owned()), "{line}");
        }
    }
}
