//! Visits every text and every object of a part of the configuration, so that nothing has to write the part as JSON to
//! search it. The macros that declare objects implement [`Walk`] for all their fields: none can be forgotten.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;

use serde_json::{Map, Value};

/// A part of the configuration, of any size.
pub trait Walk {
    /// Shows `visitor` this part and all that it contains, from the outside in.
    fn walk(&self, visitor: &mut dyn Visitor);
}

/// What [`Walk::walk`] calls.
pub trait Visitor {
    /// A text: a value, or the name of a value in a map. Any text may hold placeholders.
    fn text(&mut self, text: &str);

    /// An object of the model, before its fields.
    fn object(&mut self, object: &dyn Any);
}

/// Calls `visit` with every object of type `T` in `part`, including `part` itself.
pub fn each<T: 'static>(part: &(impl Walk + ?Sized), visit: impl FnMut(&T)) {
    struct Each<T, F>(F, core::marker::PhantomData<fn(&T)>);

    impl<T: 'static, F: FnMut(&T)> Visitor for Each<T, F> {
        fn text(&mut self, _text: &str) {}

        fn object(&mut self, object: &dyn Any) {
            if let Some(object) = object.downcast_ref() {
                (self.0)(object);
            }
        }
    }

    part.walk(&mut Each(visit, core::marker::PhantomData));
}

/// Whether `part` contains an object of type `T`.
pub fn contains<T: 'static>(part: &(impl Walk + ?Sized)) -> bool {
    let mut found = false;
    each(part, |_: &T| found = true);
    found
}

impl Walk for String {
    fn walk(&self, visitor: &mut dyn Visitor) {
        visitor.text(self);
    }
}

impl<T: Walk> Walk for Option<T> {
    fn walk(&self, visitor: &mut dyn Visitor) {
        self.iter().for_each(|part| part.walk(visitor));
    }
}

impl<T: Walk> Walk for Box<T> {
    fn walk(&self, visitor: &mut dyn Visitor) {
        (**self).walk(visitor);
    }
}

impl<T: Walk> Walk for [T] {
    fn walk(&self, visitor: &mut dyn Visitor) {
        self.iter().for_each(|part| part.walk(visitor));
    }
}

impl<T: Walk> Walk for Vec<T> {
    fn walk(&self, visitor: &mut dyn Visitor) {
        self.as_slice().walk(visitor);
    }
}

impl<T: Walk> Walk for BTreeMap<String, T> {
    fn walk(&self, visitor: &mut dyn Visitor) {
        for (name, part) in self {
            visitor.text(name);
            part.walk(visitor);
        }
    }
}

impl Walk for Map<String, Value> {
    fn walk(&self, visitor: &mut dyn Visitor) {
        for (name, value) in self {
            visitor.text(name);
            value.walk(visitor);
        }
    }
}

impl Walk for Value {
    fn walk(&self, visitor: &mut dyn Visitor) {
        match self {
            Value::String(text) => visitor.text(text),
            Value::Array(list) => list.walk(visitor),
            Value::Object(map) => map.walk(visitor),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Implements [`Walk`] for types without a text in them.
macro_rules! without_text {
    ($($type:ty),*) => {$(
        impl $crate::walk::Walk for $type {
            fn walk(&self, _visitor: &mut dyn $crate::walk::Visitor) {}
        }
    )*};
}

/// Implements [`Walk`] for an object that is declared by hand. A field that is not named does not compile.
macro_rules! walk_fields {
    ($($type:ident { $($field:ident),* })*) => {$(
        impl $crate::walk::Walk for $type {
            fn walk(&self, visitor: &mut dyn $crate::walk::Visitor) {
                visitor.object(self);
                let Self { $($field),* } = self;
                $($crate::walk::Walk::walk($field, visitor);)*
            }
        }
    )*};
}

pub(crate) use {walk_fields, without_text};

without_text!(bool, u8, u16, u32, u64, i64, f64);

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;
    use crate::Config;
    use crate::handler::CopyResponse;
    use crate::handler::Map as MapHandler;

    const CONFIG: &str = r#"{"apps":{"http":{"servers":{"srv":{
        "listen":["1"],
        "routes":[{
            "match":[{
                "expression":"2","vars":{"3":["4"]},"not":[{"path_regexp":{"name":"5","pattern":"6"}}],
                "brewing":{"7":["8"]}
            }],
            "handle":[
                {"handler":"map","source":"9","destinations":["10"],"mappings":[{"outputs":["11",true]}]},
                {"handler":"subroute","routes":[{"handle":[
                    {"handler":"headers","request":{"set":{"12":["13"]}}},
                    {"handler":"copy_response","status_code":"{14}"}
                ]}]},
                {"handler":"vars","15":{"16":["17"]}},
                {"handler":"brew","deep":{"18":[null,"19"]}},
                {"handler":"log_append","key":"20","value":"21"}
            ]
        }]
    }}}}}"#;

    struct Texts(Vec<String>);

    impl Visitor for Texts {
        fn text(&mut self, text: &str) {
            self.0.push(text.to_string());
        }

        fn object(&mut self, _object: &dyn Any) {}
    }

    #[test]
    fn every_text_is_visited() {
        let config = Config::from_json(CONFIG).unwrap();
        let mut texts = Texts(Vec::new());
        config.walk(&mut texts);
        let mut numbers: Vec<u32> = texts
            .0
            .iter()
            .filter_map(|text| text.trim_matches(['{', '}']).parse().ok())
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=21).collect::<Vec<_>>(), "{:?}", texts.0);
    }

    #[test]
    fn objects_are_found_at_any_depth() {
        let config = Config::from_json(CONFIG).unwrap();
        assert!(contains::<CopyResponse>(&config));
        assert!(!contains::<crate::nginx::Nginx>(&config));
        let mut sources = Vec::new();
        each(&config, |map: &MapHandler| sources.push(map.source.clone()));
        assert_eq!(sources, vec!["9"]);
    }
}
