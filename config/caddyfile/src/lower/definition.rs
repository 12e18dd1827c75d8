//! The definition of a directive or an option: its name, its syntax, what becomes of it, the options inside its block, and
//! the function that lowers it.
//!
//! Each definition stands beside its lowering: those of directives in `directives`, of global options in `options`, of
//! matchers in `matchers`. Diagnostics, the order of directives, warnings and the reference table are made from them;
//! `crate::registry` lists them.

use sluice_model::Duration;

use super::Lowering;
use super::outcome::Outcomes;
use crate::tree::Directive;

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does what Caddy's documentation says.
    Works,
    /// It does what is named.
    Partly(&'static str),
    /// Its effect is always there, with or without the line; says why.
    Always(&'static str),
    /// It has no effect, and a warning says so; the text says what applies instead.
    NoEffect(&'static str),
    /// It works, with a warning: it has a new name.
    Renamed(&'static str),
    /// It is refused by name; says what to do instead.
    Unsupported(&'static str),
    /// As `Unsupported`; no released version of Caddy accepts it either.
    Unreleased(&'static str),
    /// As `Unsupported`; Caddy without plugins refuses it as well.
    Plugin(&'static str),
}

/// The diagnostic for a line that is known and rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why, in a few words.
    pub why: &'static str,
    /// What to do instead.
    pub instead: &'static str,
}

impl Verdict {
    /// The diagnostic for a rejected line; `None` if it is lowered.
    pub fn refused(self) -> Option<Refused> {
        let (why, instead) = match self {
            Verdict::Works
            | Verdict::Partly(_)
            | Verdict::Always(_)
            | Verdict::NoEffect(_)
            | Verdict::Renamed(_) => return None,
            Verdict::Unsupported(instead) => ("not supported by sluice", instead),
            Verdict::Unreleased(instead) => ("not in any released version of Caddy", instead),
            Verdict::Plugin(instead) => ("needs a plugin in Caddy as well", instead),
        };
        Some(Refused { why, instead })
    }

    /// Whether it is lowered under this name.
    pub fn is_lowered(self) -> bool {
        self.refused().is_none() && !matches!(self, Verdict::Renamed(_))
    }

    /// Whether Caddy without plugins accepts the line. The reference table counts no others.
    pub fn is_counted(self) -> bool {
        !matches!(self, Verdict::Unreleased(_) | Verdict::Plugin(_))
    }
}

/// What the reference table and diagnostics need to know of a directive, an option or a matcher.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name: the first word of its lines.
    pub name: &'static str,
    /// How it is written.
    pub syntax: &'static str,
    /// What becomes of it.
    pub verdict: Verdict,
    /// Whether Caddy without plugins does not have it: it is sluice's own, or that of a well-known plugin.
    pub is_own: bool,
    /// What stands in its block.
    pub block: Block,
    /// Arguments that have no effect, if some have none.
    pub idle_arguments: Option<&'static IdleArguments>,
}

/// What stands in the block of a line.
#[derive(Clone, Copy)]
pub enum Block {
    /// No options: there is no block, or its lines are free text.
    Free,
    /// Directives.
    Directives,
    /// Options.
    Options(&'static dyn OptionTable),
    /// Options of the module that the first argument names.
    Modules(&'static [(&'static str, &'static dyn OptionTable)]),
    /// Modules, one a line, each with options in its own block.
    ModuleLines(&'static [(&'static str, &'static dyn OptionTable)]),
}

/// Arguments without effect on a line of which others have one.
pub struct IdleArguments {
    /// What an argument is.
    pub kind: &'static str,
    /// Those that have an effect.
    pub working: &'static [&'static str],
    /// What applies instead of the others.
    pub instead: &'static str,
}

/// The options of a directive, a module or another option.
pub trait OptionTable: Sync {
    /// What diagnostics call the line or module around the options.
    fn name(&self) -> &'static str;

    /// Whether Caddy without plugins does not have it.
    fn is_own(&self) -> bool;

    /// The option at a position; `None` behind the last.
    fn entry(&self, at: usize) -> Option<&'static Entry>;

    /// Another table whose options are accepted besides.
    fn others(&self) -> Option<&'static dyn OptionTable> {
        None
    }

    /// How the line around the options is written, if that is known here.
    fn syntax(&self) -> Option<&'static str> {
        None
    }
}

impl dyn OptionTable {
    /// All options.
    pub fn entries(&self) -> impl Iterator<Item = &'static Entry> {
        (0..).map_while(|at| self.entry(at))
    }

    /// The option with this name.
    pub fn find(&self, name: &str) -> Option<&'static Entry> {
        self.entries().find(|entry| entry.name == name)
    }

    /// The names of the options that are lowered.
    pub fn lowered_names(&self) -> impl Iterator<Item = &'static str> {
        let lowered = self.entries().filter(|entry| entry.verdict.is_lowered());
        lowered.map(|entry| entry.name)
    }

    /// How a line is written: an option, or the line around the options.
    pub fn usage(&self, name: &str) -> Option<&'static str> {
        match self.find(name) {
            Some(entry) => Some(entry.syntax),
            None => self.syntax().filter(|_| self.name() == name),
        }
    }
}

/// How the lines of an option are read into a `T`: most are one argument for one field.
pub(super) enum Read<T> {
    /// By a function; `None` if the line was refused.
    With(fn(&mut Lowering<'_>, &Directive, &mut T) -> Option<()>),
    /// One argument.
    Text(fn(&mut T) -> &mut String),
    /// One argument or more, in place of earlier ones.
    Texts(fn(&mut T) -> &mut Vec<String>),
    /// One argument or more, besides earlier ones.
    MoreTexts(fn(&mut T) -> &mut Vec<String>),
    /// One duration.
    Time(fn(&mut T) -> &mut Duration),
    /// One size, in bytes.
    Size(fn(&mut T) -> &mut i64),
    /// One number; the text says of what.
    Number(&'static str, fn(&mut T) -> &mut i64),
    /// Nothing: the line itself is the setting.
    Flag(fn(&mut T) -> &mut bool),
    /// One of these words.
    Choice(&'static [&'static str], fn(&mut T) -> &mut String),
    /// One of these words or more, besides earlier ones.
    Choices(&'static [&'static str], fn(&mut T) -> &mut Vec<String>),
    /// Not by this table: the option is refused, or the code that reads the block has it.
    Elsewhere,
}

/// An option, and how it is read into a `T`.
pub(super) struct OptionDefinition<T> {
    entry: Entry,
    read: Read<T>,
}

/// An option that is lowered.
pub(super) const fn option<T>(
    name: &'static str,
    syntax: &'static str,
    read: Read<T>,
) -> OptionDefinition<T> {
    let entry = Entry::new(name, syntax);
    OptionDefinition { entry, read }
}

/// An option that is refused by name.
pub(super) const fn refused<T>(
    name: &'static str,
    syntax: &'static str,
    verdict: Verdict,
) -> OptionDefinition<T> {
    option(name, syntax, Read::Elsewhere).but(verdict)
}

impl Entry {
    const fn new(name: &'static str, syntax: &'static str) -> Entry {
        Entry {
            name,
            syntax,
            verdict: Verdict::Works,
            is_own: false,
            block: Block::Free,
            idle_arguments: None,
        }
    }
}

impl<T> OptionDefinition<T> {
    /// With another verdict.
    pub(super) const fn but(mut self, verdict: Verdict) -> Self {
        self.entry.verdict = verdict;
        self
    }

    /// As one that Caddy without plugins does not have.
    pub(super) const fn own(mut self) -> Self {
        self.entry.is_own = true;
        self
    }

    /// With something in its block.
    pub(super) const fn holding(mut self, block: Block) -> Self {
        self.entry.block = block;
        self
    }

    /// With arguments some of which have no effect.
    pub(super) const fn idle_arguments(mut self, idle: &'static IdleArguments) -> Self {
        self.entry.idle_arguments = Some(idle);
        self
    }
}

/// The options of a directive, a module or another option, which are read into a `T`.
pub(super) struct Options<T: 'static> {
    name: &'static str,
    is_own: bool,
    options: &'static [OptionDefinition<T>],
    /// Further options: other tables have `options` as well, and not these.
    more: &'static [OptionDefinition<T>],
    others: Option<&'static dyn OptionTable>,
}

impl<T> Options<T> {
    /// The options of what has this name.
    pub(super) const fn new(
        name: &'static str,
        options: &'static [OptionDefinition<T>],
    ) -> Options<T> {
        Options {
            name,
            is_own: false,
            options,
            more: &[],
            others: None,
        }
    }

    /// As those of something that Caddy without plugins does not have.
    pub(super) const fn own(mut self) -> Self {
        self.is_own = true;
        self
    }

    /// With further options behind those that it has in common with other tables.
    pub(super) const fn more(mut self, more: &'static [OptionDefinition<T>]) -> Self {
        self.more = more;
        self
    }

    /// With those of another table besides, which are read elsewhere.
    pub(super) const fn and(mut self, others: &'static dyn OptionTable) -> Self {
        self.others = Some(others);
        self
    }

    /// Whether there is an option of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.option(name).is_some()
    }

    fn option(&self, name: &str) -> Option<&'static OptionDefinition<T>> {
        let mut options = self.options.iter().chain(self.more);
        options.find(|option| option.entry.name == name)
    }
}

impl<T> OptionTable for Options<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_own(&self) -> bool {
        self.is_own
    }

    fn entry(&self, at: usize) -> Option<&'static Entry> {
        let mut options = self.options.iter().chain(self.more);
        options.nth(at).map(|option| &option.entry)
    }

    fn others(&self) -> Option<&'static dyn OptionTable> {
        self.others
    }
}

/// A block without options.
pub(super) static NO_OPTIONS: Options<()> = Options::new("", &[]);

/// Lowers a line of a directive; `None` if it was refused.
type Lower = fn(&mut Lowering<'_>, &Directive) -> Outcomes;

/// A directive. Its place in the list of all directives is its place in their order.
#[derive(Clone, Copy)]
pub struct Definition {
    /// Its name, its syntax and what becomes of it.
    pub entry: Entry,
    /// Its options.
    options: &'static dyn OptionTable,
    /// The directive that it is sorted and grouped as; its own name unless it is a form of another one.
    pub(super) sorted_as: &'static str,
    pub(super) lower: Lower,
}

/// A directive that is lowered.
pub(super) const fn directive(
    name: &'static str,
    syntax: &'static str,
    lower: Lower,
) -> Definition {
    Definition {
        entry: Entry::new(name, syntax),
        options: &NO_OPTIONS,
        sorted_as: name,
        lower,
    }
}

impl Definition {
    /// With options in its block.
    pub(super) const fn with(mut self, options: &'static dyn OptionTable) -> Definition {
        self.options = options;
        self.entry.block = Block::Options(options);
        self
    }

    /// With directives in its block.
    pub(super) const fn holding_directives(mut self) -> Definition {
        self.entry.block = Block::Directives;
        self
    }

    /// With another verdict.
    pub(super) const fn but(mut self, verdict: Verdict) -> Definition {
        self.entry.verdict = verdict;
        self
    }

    /// As one that Caddy without plugins does not have.
    pub(super) const fn own(mut self) -> Definition {
        self.entry.is_own = true;
        self
    }

    /// The same directive under an old name.
    pub(super) const fn formerly(mut self, old: &'static str) -> Definition {
        self.entry.verdict = Verdict::Renamed(self.entry.name);
        self.entry.name = old;
        self.sorted_as = old;
        self
    }

    /// Sorted and grouped as another directive.
    pub(super) const fn sorted_as(mut self, other: &'static str) -> Definition {
        self.sorted_as = other;
        self
    }
}

/// A directive is the table of its options, which also knows how the directive itself is written.
impl OptionTable for Definition {
    fn name(&self) -> &'static str {
        self.entry.name
    }

    fn is_own(&self) -> bool {
        self.entry.is_own
    }

    fn entry(&self, at: usize) -> Option<&'static Entry> {
        self.options.entry(at)
    }

    fn syntax(&self) -> Option<&'static str> {
        Some(self.entry.syntax)
    }
}

impl Lowering<'_> {
    /// Reads the lines of a block as options of a table; messages give its name.
    pub(super) fn read_options<T>(
        &mut self,
        table: &'static Options<T>,
        lines: &[Directive],
        into: &mut T,
    ) -> Option<()> {
        let outer = std::mem::replace(&mut self.place, table);
        let done = self.read_lines(table, lines, into);
        self.place = outer;
        done
    }

    /// As [`Lowering::read_options`], but messages go on giving the name of the line around the block.
    pub(super) fn read_lines<T>(
        &mut self,
        table: &'static Options<T>,
        lines: &[Directive],
        into: &mut T,
    ) -> Option<()> {
        self.each(lines, |this, line| this.read_option(table, line, into))
    }

    /// Refuses a line whose name is not in the table of the block being read. For code that reads options by their names
    /// itself: what its table lacks it cannot read.
    pub(super) fn known_option(&mut self, line: &Directive) -> Option<()> {
        match self.place.find(&line.name.text) {
            Some(_) => Some(()),
            None => self.unknown_option(line),
        }
    }

    /// Reads one line as an option of a table.
    pub(super) fn read_option<T>(
        &mut self,
        table: &'static Options<T>,
        line: &Directive,
        into: &mut T,
    ) -> Option<()> {
        let Some(option) = table.option(&line.name.text) else {
            return self.unknown_option(line);
        };
        match &option.read {
            Read::With(read) => return read(self, line, into),
            Read::Text(field) => *field(into) = self.single_text(line)?,
            Read::Texts(field) => *field(into) = self.texts(line)?,
            Read::MoreTexts(field) => field(into).extend(self.texts(line)?),
            Read::Time(field) => *field(into) = self.single_duration(line)?,
            Read::Size(field) => *field(into) = self.single_size(line)?,
            Read::Number(what, field) => *field(into) = self.single_number(line, what)?,
            Read::Flag(field) => {
                self.flag(line)?;
                *field(into) = true;
            }
            Read::Choice(words, field) => {
                let word = self.single(line)?;
                *field(into) = self.one_of(word, words)?;
            }
            Read::Choices(words, field) => {
                self.texts(line)?;
                for word in &line.args {
                    field(into).push(self.one_of(word, words)?);
                }
            }
            Read::Elsewhere => return self.unknown_option(line),
        }
        Some(())
    }
}
