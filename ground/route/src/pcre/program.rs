//! Compiles a pattern to steps for the backtracking matcher, for patterns that cannot be matched in linear time. `run`
//! executes the steps.

use alloc::string::String;
use alloc::vec::Vec;

use super::PatternError;
use super::required::Required;
use super::tree::{ByteSet, Eagerness, Node, Place, Target};
use crate::limits::PATTERN_STEPS_MAX;

/// A step at which it is remembered from which positions on nothing matches: what is tried from there depends on the
/// position and on nothing before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point(pub u32);

impl Point {
    /// No point: what is tried from there depends on what went before, too.
    pub const NONE: Point = Point(u32::MAX);
}

/// One step. A number says where another step stands.
#[derive(Clone, Debug)]
pub enum Step {
    /// This byte.
    Byte(u8),
    /// One of these bytes.
    Set(ByteSet),
    /// A place.
    At(Place),
    /// One of these bytes as often as it says; nothing after it has to be remembered but how often.
    Run {
        /// Which bytes.
        set: ByteSet,
        /// How often at least.
        min: u32,
        /// How often at most.
        max: u32,
        /// What is tried first.
        eagerness: Eagerness,
        /// The byte that has to follow, where that is known.
        then: Option<u8>,
        /// The number of this run.
        run: usize,
        /// What is behind it, as a point.
        point: Point,
    },
    /// Goes on at the first; at the second, if that leads nowhere.
    Either(usize, usize, Point),
    /// Goes on elsewhere.
    Jump(usize),
    /// Remembers where it is.
    Mark(usize),
    /// A group ends that began where this mark was set.
    Close {
        /// The mark.
        mark: usize,
        /// The number of the group.
        group: usize,
    },
    /// Another turn of a repetition, unless the latest took no byte since this mark.
    Again {
        /// The mark.
        mark: usize,
        /// Where a turn begins.
        turn: usize,
        /// Whether another turn is tried first.
        eager: bool,
        /// This step as a point.
        point: Point,
    },
    /// Steps up to a `Done`, which are not tried anew; then on at `next`.
    Atomic {
        /// Behind them.
        next: usize,
    },
    /// Looks whether the steps up to a `Done` match; then on at `next`.
    Look {
        /// Whether they must not.
        negated: bool,
        /// Behind them.
        next: usize,
    },
    /// Goes back so many bytes.
    GoBack(usize),
    /// The text of a group once more.
    Back {
        /// The number of the group.
        group: usize,
        /// Whether the case of letters does not count.
        folded: bool,
    },
    /// The match is said to begin here.
    Keep,
    /// The end.
    Done,
}

/// The steps of a pattern.
#[derive(Clone, Debug)]
pub struct Program {
    /// The steps.
    pub steps: Vec<Step>,
    /// How many groups there are, the whole match included.
    pub groups: usize,
    /// How many marks are set.
    pub marks: usize,
    /// The bytes that a match begins with; `None` if it may be empty.
    pub first: Option<ByteSet>,
    /// Whether it only matches at the very beginning.
    pub is_anchored: bool,
    /// The texts that every match has in it.
    pub required: Required,
    /// How many runs there are.
    pub runs: usize,
    /// How many points there are.
    pub points: u32,
}

impl Program {
    /// Makes steps of a pattern with so many groups; `names` are those of groups.
    pub fn new(node: &Node, groups: u32, names: &[(String, u32)]) -> Result<Program, PatternError> {
        let mut maker = Maker {
            steps: Vec::new(),
            marks: 0,
            runs: 0,
            points: 0,
            // What follows a reference back depends on the text of a group.
            unfit: usize::from(node.has_references()),
            names,
        };
        maker.add(node)?;
        maker.push(Step::Done)?;
        maker.look_ahead();
        let mut first = ByteSet::EMPTY;
        let may_be_empty = node.first_bytes(&mut first);
        Ok(Program {
            steps: maker.steps,
            groups: groups as usize + 1,
            marks: maker.marks,
            first: (!may_be_empty && first != ByteSet::ALL).then_some(first),
            is_anchored: node.is_anchored(),
            required: Required::of(node),
            runs: maker.runs,
            points: maker.points,
        })
    }
}

struct Maker<'n> {
    steps: Vec<Step>,
    marks: usize,
    runs: usize,
    points: u32,
    /// How many things around here make what is tried depend on what went before.
    unfit: usize,
    names: &'n [(String, u32)],
}

impl Maker<'_> {
    fn push(&mut self, step: Step) -> Result<usize, PatternError> {
        if self.steps.len() >= PATTERN_STEPS_MAX {
            return Err(PatternError::malformed(0, "the pattern is too large"));
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    fn mark(&mut self) -> usize {
        self.marks += 1;
        self.marks - 1
    }

    fn point(&mut self) -> Point {
        if self.unfit > 0 {
            return Point::NONE;
        }
        self.points += 1;
        Point(self.points - 1)
    }

    /// A step that is filled in later: it has two ways to go on.
    fn fork(&mut self) -> Result<usize, PatternError> {
        let point = self.point();
        self.push(Step::Either(0, 0, point))
    }

    /// Fills it in.
    fn join(&mut self, fork: usize, first: usize, second: usize) {
        if let Step::Either(one, other, _) = &mut self.steps[fork] {
            (*one, *other) = (first, second);
        }
    }

    fn add(&mut self, node: &Node) -> Result<(), PatternError> {
        match node {
            Node::Empty => Ok(()),
            Node::Byte(byte) => self.push(Step::Byte(*byte)).map(drop),
            Node::Set(set) => self.push(Step::Set(*set)).map(drop),
            Node::At(place) => self.push(Step::At(*place)).map(drop),
            Node::Keep => self.push(Step::Keep).map(drop),
            Node::Sequence(nodes) => nodes.iter().try_for_each(|node| self.add(node)),
            Node::Choice(nodes) => self.choice(nodes, &mut |maker, node| maker.add(node)),
            Node::Group(number, node) => {
                let mark = self.mark();
                self.push(Step::Mark(mark))?;
                self.add(node)?;
                let group = *number as usize;
                self.push(Step::Close { mark, group }).map(drop)
            }
            Node::Repeat {
                node,
                min,
                max,
                eagerness,
            } => self.repeat(node, *min, *max, *eagerness),
            Node::Atomic(node) => {
                let head = self.push(Step::Atomic { next: 0 })?;
                self.add(node)?;
                self.push(Step::Done)?;
                self.steps[head] = Step::Atomic {
                    next: self.steps.len(),
                };
                Ok(())
            }
            Node::Look {
                behind,
                negated,
                node,
            } => self.look(*behind, *negated, node),
            Node::Back { target, folded } => {
                let group = self.number_of(target) as usize;
                let folded = *folded;
                self.push(Step::Back { group, folded }).map(drop)
            }
        }
    }

    fn number_of(&self, target: &Target) -> u32 {
        match target {
            Target::Number(number) => *number,
            Target::Name(name) => {
                let known = self.names.iter().find(|(known, _)| known == name);
                known.map_or(0, |(_, number)| *number)
            }
        }
    }

    fn choice(
        &mut self,
        nodes: &[Node],
        add: &mut dyn FnMut(&mut Self, &Node) -> Result<(), PatternError>,
    ) -> Result<(), PatternError> {
        let mut ends = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            if index + 1 == nodes.len() {
                add(self, node)?;
                continue;
            }
            let head = self.fork()?;
            add(self, node)?;
            ends.push(self.push(Step::Jump(0))?);
            self.join(head, head + 1, self.steps.len());
        }
        let end = self.steps.len();
        for jump in ends {
            self.steps[jump] = Step::Jump(end);
        }
        Ok(())
    }

    fn look(&mut self, behind: bool, negated: bool, node: &Node) -> Result<(), PatternError> {
        let head = self.push(Step::Look { negated, next: 0 })?;
        match behind {
            false => self.add(node)?,
            true => {
                let branches = match node {
                    Node::Choice(branches) => branches.as_slice(),
                    node => core::slice::from_ref(node),
                };
                self.choice(branches, &mut |maker, branch| {
                    // Each branch has a width: the parser saw to it.
                    maker.push(Step::GoBack(branch.width().unwrap_or(0)))?;
                    maker.add(branch)
                })?;
            }
        }
        self.push(Step::Done)?;
        let next = self.steps.len();
        self.steps[head] = Step::Look { negated, next };
        Ok(())
    }

    fn repeat(
        &mut self,
        node: &Node,
        min: u32,
        max: Option<u32>,
        eagerness: Eagerness,
    ) -> Result<(), PatternError> {
        let set = match node {
            Node::Byte(byte) => {
                let mut set = ByteSet::EMPTY;
                set.add(*byte);
                Some(set)
            }
            Node::Set(set) => Some(*set),
            _ => None,
        };
        if let Some(set) = set {
            self.runs += 1;
            let step = Step::Run {
                set,
                min,
                max: max.unwrap_or(u32::MAX),
                eagerness,
                then: None,
                run: self.runs - 1,
                point: self.point(),
            };
            return self.push(step).map(drop);
        }
        if eagerness == Eagerness::Possessive {
            let head = self.push(Step::Atomic { next: 0 })?;
            self.turns(node, min, max, true)?;
            self.push(Step::Done)?;
            let next = self.steps.len();
            self.steps[head] = Step::Atomic { next };
            return Ok(());
        }
        self.turns(node, min, max, eagerness == Eagerness::Greedy)
    }

    /// A repetition of more than single bytes: its turns one after the other, and a circle where it has no end.
    fn turns(
        &mut self,
        node: &Node,
        min: u32,
        max: Option<u32>,
        eager: bool,
    ) -> Result<(), PatternError> {
        let Some(max) = max else {
            return self.circle(node, min, eager);
        };
        for _ in 0..min {
            self.add(node)?;
        }
        let mut skips = Vec::new();
        for _ in min..max {
            skips.push(self.fork()?);
            self.add(node)?;
        }
        let end = self.steps.len();
        for skip in skips {
            self.join_either(skip, eager, skip + 1, end);
        }
        Ok(())
    }

    /// A repetition without an end.
    fn circle(&mut self, node: &Node, min: u32, eager: bool) -> Result<(), PatternError> {
        // Whether there is another turn depends on where this one began, if it may take nothing.
        let unfit = usize::from(node.may_be_empty());
        self.unfit += unfit;
        for _ in 1..min {
            self.add(node)?;
        }
        let skip = match min {
            0 => Some(self.fork()?),
            _ => None,
        };
        let mark = self.mark();
        let turn = self.push(Step::Mark(mark))?;
        self.add(node)?;
        let point = self.point();
        self.push(Step::Again {
            mark,
            turn,
            eager,
            point,
        })?;
        if let Some(skip) = skip {
            self.join_either(skip, eager, turn, self.steps.len());
        }
        self.unfit -= unfit;
        Ok(())
    }

    fn join_either(&mut self, fork: usize, eager: bool, turn: usize, end: usize) {
        match eager {
            true => self.join(fork, turn, end),
            false => self.join(fork, end, turn),
        }
    }

    /// Notes for each run which byte has to follow.
    fn look_ahead(&mut self) {
        for at in 1..self.steps.len() {
            let following = match &self.steps[at] {
                Step::Byte(byte) => *byte,
                _ => continue,
            };
            if let Step::Run { then, .. } = &mut self.steps[at - 1] {
                *then = Some(following);
            }
        }
    }
}
