//! `sluice top`: the status of a running server in a terminal, redrawn each second.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sluice_net::sys::terminal::{Keys, size};
use sluice_observe::status::Snapshot;

use super::status::screen::{View, lines};
use super::status::snapshot;
use crate::Exit;
use crate::admin_client::{Client, Place};
use crate::messages::{Failed, MessageFormat};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    place: Place,
}

/// The pause between two screens.
const PAUSE: Duration = Duration::from_secs(1);

/// Values of the chart: as many as a wide terminal has columns.
const RATES_MAX: usize = 300;

/// The size of a terminal that does not know its own.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Quit,
    Pause,
    Sort,
    Up(usize),
    Down(usize),
    Nothing,
}

impl Wish {
    /// What the bytes of some keys ask for, in order: keys pressed quickly arrive together.
    fn all_of(mut bytes: &[u8]) -> Vec<Wish> {
        let mut wishes = Vec::new();
        while !bytes.is_empty() {
            let length = match bytes {
                // A key with a name: it ends with a letter or a tilde after the prefix.
                [b'\x1b', b'[' | b'O', rest @ ..] => {
                    let end = rest.iter().position(|byte| (0x40..0x7f).contains(byte));
                    end.map_or(bytes.len(), |end| end + 3)
                }
                _ => 1,
            };
            let (key, rest) = bytes.split_at(length);
            wishes.push(Wish::of(key));
            bytes = rest;
        }
        wishes
    }

    fn of(key: &[u8]) -> Wish {
        match key {
            // Control-C and Control-D are keys as well.
            b"q" | b"Q" | b"\x03" | b"\x04" | b"\x1b" => Wish::Quit,
            b"p" | b" " => Wish::Pause,
            b"s" => Wish::Sort,
            b"k" | b"\x1b[A" | b"\x1bOA" => Wish::Up(1),
            b"j" | b"\x1b[B" | b"\x1bOB" => Wish::Down(1),
            b"\x1b[5~" => Wish::Up(10),
            b"\x1b[6~" => Wish::Down(10),
            _ => Wish::Nothing,
        }
    }
}

impl Args {
    /// Draws until `q` is pressed.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let address = self.place.address(format)?;
        let client = Client::new(address.clone());
        // Before the screen changes: the usual mistake is a server that does not run.
        let first = snapshot(&client)?;
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            let help = "`sluice status` prints the same once";
            return Err(Failed::new("standard input and output are not a terminal").help(help));
        }
        let keys = Keys::read_from(io::stdin().as_fd()).map_err(Failed::new)?;
        let screen = Alternate::open().map_err(Failed::new)?;
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let view = View {
            has_colors: !no_color,
            ..View::default()
        };
        let outcome = watch(&client, first, view, &address, &keys);
        drop((screen, keys));
        outcome.map(|()| Exit::Done)
    }
}

fn watch(
    client: &Client,
    mut shown: Snapshot,
    mut view: View,
    address: &str,
    keys: &Keys,
) -> Result<(), Failed> {
    let mut last: Option<Snapshot> = None;
    loop {
        note_rate(&mut view, last.as_ref(), &shown);
        let next_at = Instant::now() + PAUSE;
        loop {
            draw(&shown, &view, address).map_err(Failed::new)?;
            let left = next_at.saturating_duration_since(Instant::now());
            let pressed = keys.next(left).map_err(Failed::new)?;
            for wish in Wish::all_of(&pressed) {
                match wish {
                    Wish::Quit => return Ok(()),
                    Wish::Pause => view.is_paused = !view.is_paused,
                    Wish::Sort => view.order = view.order.next(),
                    Wish::Up(by) => view.skipped = view.skipped.saturating_sub(by),
                    Wish::Down(by) => {
                        let max = shown.sites.rows.len().saturating_sub(1);
                        view.skipped = (view.skipped + by).min(max);
                    }
                    Wish::Nothing => {}
                }
            }
            if Instant::now() >= next_at {
                break;
            }
        }
        if !view.is_paused {
            last = Some(std::mem::replace(&mut shown, snapshot(client)?));
        }
    }
}

/// Adds the requests of the last second to the chart.
fn note_rate(view: &mut View, last: Option<&Snapshot>, shown: &Snapshot) {
    let Some(last) = last.filter(|_| !view.is_paused) else {
        return;
    };
    let passed = shown.at - last.at;
    let requests = shown
        .requests
        .requests
        .saturating_sub(last.requests.requests);
    if passed > 0.0 {
        if view.rates.len() >= RATES_MAX {
            view.rates.pop_front();
        }
        view.rates.push_back(requests as f64 / passed);
    }
}

fn draw(shown: &Snapshot, view: &View, address: &str) -> io::Result<()> {
    let (width, height) = size(io::stdout().as_fd()).unwrap_or(USUAL_SIZE);
    let lines = lines(shown, view, address, (width.into(), height.into()));
    // Each line is written over the one before and its rest erased, so that nothing flickers.
    let text = lines.join("\x1b[K\r\n");
    let mut out = io::stdout().lock();
    write!(out, "\x1b[H{text}\x1b[K\x1b[J")?;
    out.flush()
}

/// The alternate screen of the terminal, without a cursor, until it is dropped.
struct Alternate;

impl Alternate {
    fn open() -> io::Result<Alternate> {
        let mut out = io::stdout().lock();
        write!(out, "\x1b[?1049h\x1b[?25l\x1b[2J")?;
        out.flush()?;
        Ok(Alternate)
    }
}

impl Drop for Alternate {
    fn drop(&mut self) {
        let mut out = io::stdout().lock();
        // A terminal that is gone has no screen to restore.
        let _ = write!(out, "\x1b[?25h\x1b[?1049l");
        let _ = out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_meanings() {
        for (key, wish) in [
            (&b"q"[..], Wish::Quit),
            (b"\x03", Wish::Quit),
            (b"\x1b", Wish::Quit),
            (b"\x1b[B", Wish::Down(1)),
            (b"\x1b[5~", Wish::Up(10)),
            (b"x", Wish::Nothing),
            (b"", Wish::Nothing),
        ] {
            assert_eq!(Wish::of(key), wish, "{key:?}");
        }
        let together = Wish::all_of(b"s\x1b[A\x1b[6~q\x1b");
        let wishes = [
            Wish::Sort,
            Wish::Up(1),
            Wish::Down(10),
            Wish::Quit,
            Wish::Quit,
        ];
        assert_eq!(together, wishes);
        assert_eq!(Wish::all_of(b"\x1b["), [Wish::Nothing], "cut off");
    }
}
