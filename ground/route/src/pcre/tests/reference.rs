//! The simplest possible engine, without memoization or shortcuts, as a reference for the real one on random patterns
//! and texts.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::cell::Cell;

use super::super::parse::{self, Parsed};
use super::super::program::Program;
use super::super::run;
use super::super::tree::{Eagerness, Node, Place, Target};

/// Where a match is: the position, the beginning of the match, the groups.
#[derive(Clone, Debug)]
struct State {
    at: usize,
    start: usize,
    groups: Vec<Option<(usize, usize)>>,
}

type Then<'a> = &'a dyn Fn(State) -> Option<State>;

/// A repetition: what, at least, at most, and whether more is tried first.
type Turns<'n> = (&'n Node, u32, Option<u32>, bool);

/// Where a group begins and ends, if it matched.
type Extent = Option<(usize, usize)>;

struct Reference<'t> {
    text: &'t [u8],
    names: &'t [(String, u32)],
    /// What may still be tried; some of what is made has more ways than there is time for.
    fuel: Cell<u32>,
}

impl Reference<'_> {
    /// The whole match and the groups; `Err` where it would take too long.
    fn find(&self, parsed: &Parsed) -> Result<Option<Vec<Extent>>, ()> {
        for at in 0..=self.text.len() {
            let state = State {
                at,
                start: at,
                groups: vec![None; parsed.groups as usize + 1],
            };
            let found = self.node(&parsed.node, state, &Some);
            if self.fuel.get() == 0 {
                return Err(());
            }
            if let Some(mut state) = found {
                state.groups[0] = Some((state.start, state.at));
                return Ok(Some(state.groups));
            }
        }
        Ok(None)
    }

    fn node(&self, node: &Node, mut state: State, then: Then<'_>) -> Option<State> {
        self.fuel.set(self.fuel.get().checked_sub(1)?);
        let here = self.text.get(state.at).copied();
        match node {
            Node::Empty => then(state),
            Node::Byte(_) | Node::Set(_) => {
                let fits = here.is_some_and(|here| match node {
                    Node::Byte(byte) => here == *byte,
                    Node::Set(set) => set.has(here),
                    _ => false,
                });
                state.at += 1;
                fits.then(|| then(state))?
            }
            Node::At(place) => self.holds(*place, state.at).then(|| then(state))?,
            Node::Sequence(nodes) => match nodes.split_first() {
                None => then(state),
                Some((first, rest)) => self.node(first, state, &|state| {
                    self.node(&Node::Sequence(rest.to_vec()), state, then)
                }),
            },
            Node::Choice(nodes) => nodes
                .iter()
                .find_map(|node| self.node(node, state.clone(), then)),
            Node::Group(number, node) => {
                let from = state.at;
                self.node(node, state, &|mut state| {
                    state.groups[*number as usize] = Some((from, state.at));
                    then(state)
                })
            }
            Node::Repeat {
                node,
                min,
                max,
                eagerness,
            } => {
                let turns = (&**node, *min, *max, *eagerness != Eagerness::Lazy);
                match eagerness {
                    Eagerness::Possessive => then(self.turns(turns, 0, state, &Some)?),
                    Eagerness::Greedy | Eagerness::Lazy => self.turns(turns, 0, state, then),
                }
            }
            Node::Atomic(node) => then(self.node(node, state, &Some)?),
            Node::Look { .. } => self.look(node, state, then),
            Node::Back { target, folded } => {
                let number = match target {
                    Target::Number(number) => *number,
                    Target::Name(name) => self.names.iter().find(|(known, _)| known == name)?.1,
                };
                let (from, to) = state.groups[number as usize]?;
                let here = self.text.get(state.at..state.at + to - from)?;
                let wanted = &self.text[from..to];
                let fits = here == wanted || *folded && here.eq_ignore_ascii_case(wanted);
                state.at += to - from;
                fits.then(|| then(state))?
            }
            Node::Keep => {
                state.start = state.at;
                then(state)
            }
        }
    }

    fn turns(&self, turns: Turns<'_>, done: u32, state: State, then: Then<'_>) -> Option<State> {
        let (node, min, max, eager) = turns;
        let another = |state: State| {
            if max.is_some_and(|max| done >= max) {
                return None;
            }
            let from = state.at;
            self.node(node, state, &|state| {
                // A turn that took nothing is the last one of an endless repetition.
                let is_last = max.is_none() && done + 1 >= min.max(1) && state.at == from;
                match is_last {
                    true => then(state),
                    false => self.turns(turns, done + 1, state, then),
                }
            })
        };
        match (done < min, eager) {
            (true, _) => another(state),
            (false, true) => another(state.clone()).or_else(|| then(state)),
            (false, false) => then(state.clone()).or_else(|| another(state)),
        }
    }

    fn look(&self, node: &Node, state: State, then: Then<'_>) -> Option<State> {
        let Node::Look {
            behind,
            negated,
            node,
        } = node
        else {
            return None;
        };
        let back = |node: &Node| {
            let mut state = state.clone();
            state.at = state.at.checked_sub(node.width()?)?;
            self.node(node, state, &Some)
        };
        let found = match (behind, &**node) {
            (false, node) => self.node(node, state.clone(), &Some),
            (true, Node::Choice(nodes)) => nodes.iter().find_map(back),
            (true, node) => back(node),
        };
        match (negated, found) {
            (true, None) => then(state),
            (false, Some(found)) => then(State {
                at: state.at,
                ..found
            }),
            _ => None,
        }
    }

    fn holds(&self, place: Place, at: usize) -> bool {
        let text = self.text;
        let is_word = |at: usize| {
            let byte = text.get(at).copied();
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let is_edge = (at > 0 && is_word(at - 1)) != is_word(at);
        match place {
            Place::Start => at == 0,
            Place::LineStart => at == 0 || at < text.len() && text[at - 1] == b'\n',
            Place::End => at == text.len(),
            Place::LastEnd => at == text.len() || text[at..] == *b"\n",
            Place::LineEnd => at == text.len() || text[at] == b'\n',
            Place::WordEdge => is_edge,
            Place::NoWordEdge => !is_edge,
        }
    }
}

/// Patterns with everything that is tried step by step.
struct Made {
    random: super::Made,
    groups: u64,
}

impl Made {
    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.random.next(all.len() as u64) as usize]
    }

    fn pattern(&mut self, depth: u32) -> String {
        let mut out = String::new();
        for _ in 0..=self.random.next(3) {
            out += &self.part(depth);
        }
        out
    }

    fn part(&mut self, depth: u32) -> String {
        let often = [
            "", "", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "{2}", "{1,2}", "{2,}",
            "{0,3}?",
        ];
        let kind = self.random.next(if depth == 0 { 6 } else { 16 });
        let inner = |made: &mut Made| made.pattern(depth - 1);
        let part = match kind {
            0..=2 => self.one_of(&["a", "b", "/", "a", "ab", "/a"]).to_string(),
            3 => self
                .one_of(&[".", "[^/]", "[ab]", r"\w", "[a-z/]"])
                .to_string(),
            4 => {
                return self
                    .one_of(&["^", "$", r"\b", r"\B", "(?m:^)", "(?m:$)", r"\z"])
                    .to_string();
            }
            5 if self.groups > 0 && self.random.next(2) == 0 => {
                let number = 1 + self.random.next(self.groups);
                format!(r"\{number}")
            }
            5 => self.one_of(&["(?i:A)", r"\K", "b"]).to_string(),
            6 | 7 => {
                self.groups += 1;
                format!("({})", inner(self))
            }
            8 => format!("(?:{})", inner(self)),
            9 | 10 => format!("(?:{}|{})", inner(self), inner(self)),
            11 => {
                let inside = inner(self);
                return format!("{}{inside})", self.one_of(&["(?=", "(?!"]));
            }
            12 => {
                let inside = self.one_of(&["a", "/b", "a|b/", "^", "[^b]a", "(?!a)."]);
                return format!("{}{inside})", self.one_of(&["(?<=", "(?<!"]));
            }
            13 => format!("(?>{})", inner(self)),
            14 => format!("(?i:{})", inner(self)),
            _ => return format!("{}|{}", inner(self), inner(self)),
        };
        part + self.one_of(&often)
    }

    fn text(&mut self) -> Vec<u8> {
        let bytes = b"aabb//A\n.";
        let length = self.random.next(14);
        let mut byte = || bytes[self.random.next(bytes.len() as u64) as usize];
        (0..length).map(|_| byte()).collect()
    }
}

#[test]
fn matches_equal_those_of_the_simplest_engine() {
    let seed = 0x5eed_0010;
    super::std::println!("seed {seed:#x}");
    let mut made = Made {
        random: super::Made(seed),
        groups: 0,
    };
    let (mut compared, mut matched, mut remembered) = (0, 0, 0);
    for _ in 0..6_000 {
        made.groups = 0;
        let text = made.pattern(3);
        let Ok(parsed) = parse::parse(text.as_bytes(), false) else {
            continue;
        };
        let Ok(program) = Program::new(&parsed.node, parsed.groups, &parsed.names) else {
            continue;
        };
        remembered += u32::from(program.points > 0);
        for _ in 0..6 {
            let subject = made.text();
            let reference = Reference {
                text: &subject,
                names: &parsed.names,
                fuel: Cell::new(20_000),
            };
            let Ok(wanted) = reference.find(&parsed) else {
                continue;
            };
            // With a memory from the start, and as it is used.
            for memo_after in [0, 3, u32::MAX] {
                let (mut found, mut tries) = (Vec::new(), 0);
                let own = run::find_counting(
                    &program,
                    &subject,
                    Some(&mut found),
                    memo_after,
                    &mut tries,
                );
                let Ok(own) = own else { continue };
                let pair = |(from, to): (u32, u32)| (from as usize, to as usize);
                let own = own.then(|| found.iter().map(|group| group.map(pair)).collect());
                let shown = String::from_utf8_lossy(&subject);
                assert_eq!(
                    own, wanted,
                    "{text} on {shown:?}, memory after {memo_after}"
                );
                compared += 1;
            }
            matched += u32::from(wanted.is_some());
        }
    }
    assert!(compared > 60_000, "{compared}");
    assert!(matched > 5_000, "{matched}");
    assert!(remembered > 2_000, "{remembered}");
}
