//! Variables of a request.

use std::sync::Arc;

use sluice_route::{Kind, Provenance};

use crate::seldom::Empty;

/// A small map of named values. Requests have so few that a linear search is faster than hashing.
#[derive(Clone, Default)]
pub struct Vars {
    entries: Vec<Var>,
    used: usize,
}

#[derive(Clone)]
struct Var {
    name: Arc<str>,
    kind: Kind,
    provenance: Provenance,
    value: Vec<u8>,
}

impl Vars {
    /// The value called `name`.
    pub fn find(&self, name: &str) -> Option<&[u8]> {
        self.entries[..self.used]
            .iter()
            .find(|var| &*var.name == name)
            .map(|var| &var.value[..])
    }

    /// The type of the value called `name` in the configuration: string, number or boolean.
    pub fn kind(&self, name: &str) -> Kind {
        let mut set = self.entries[..self.used].iter();
        set.find(|var| &*var.name == name)
            .map_or(Kind::Null, |var| var.kind)
    }

    /// Which parts of a path the value called `name` may affect; `None` if it is not set.
    pub fn provenance(&self, name: &str) -> Option<Provenance> {
        let mut set = self.entries[..self.used].iter();
        set.find(|var| &*var.name == name).map(|var| var.provenance)
    }

    /// Like [`Vars::slot`], with the given provenance.
    pub fn slot_from(&mut self, name: &Arc<str>, provenance: Provenance) -> &mut Vec<u8> {
        let at = self.place_of(name, Kind::Text);
        let var = &mut self.entries[at];
        var.provenance = provenance;
        &mut var.value
    }

    /// Sets the string called `name`, a value derived from the request; returns its cleared buffer for writing.
    pub fn slot(&mut self, name: &Arc<str>) -> &mut Vec<u8> {
        self.slot_from(name, Provenance::Name)
    }

    /// Like [`Vars::slot`], for a value of type `kind` that the configuration provides.
    pub fn slot_of(&mut self, name: &Arc<str>, kind: Kind) -> &mut Vec<u8> {
        let at = self.place_of(name, kind);
        let var = &mut self.entries[at];
        var.provenance = Provenance::Configured;
        &mut var.value
    }

    /// The index of the value called `name`, which is cleared or added. A new value has request provenance.
    fn place_of(&mut self, name: &Arc<str>, kind: Kind) -> usize {
        let at = self.entries[..self.used]
            .iter()
            .position(|var| var.name == *name);
        let at = at.unwrap_or_else(|| {
            match self.entries.get_mut(self.used) {
                Some(spare) => spare.name = name.clone(),
                None => self.entries.push(Var {
                    name: name.clone(),
                    kind,
                    provenance: Provenance::Name,
                    value: Vec::new(),
                }),
            }
            self.used += 1;
            self.used - 1
        });
        let var = &mut self.entries[at];
        var.kind = kind;
        var.value.clear();
        at
    }

    /// Removes all values and keeps their allocations.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// All values, in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries[..self.used]
            .iter()
            .map(|var| (&*var.name, &var.value[..]))
    }
}

impl Empty for Vars {
    fn empty() -> &'static Self {
        static EMPTY: Vars = Vars {
            entries: Vec::new(),
            used: 0,
        };
        &EMPTY
    }

    fn clear(&mut self) {
        Vars::clear(self);
    }
}
