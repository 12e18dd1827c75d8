//! The functions of templates: those of Go's text/template and the commonly used ones of Sprig. The host provides
//! functions that need files, requests or the operating system.

mod built_in;
mod cast;
mod compare;
mod dates;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
mod lists;
mod math;
mod paths;
mod patterns;
mod random;
mod strings;
mod types;
mod urls;
mod versions;
mod words;

use crate::function::Function;

pub(crate) use dates::{duration_member, time_member};

/// The function called `name`. The tables are small, and names are looked for once per place in a source.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    const TABLES: [&[Function]; 16] = [
        built_in::FUNCTIONS,
        compare::FUNCTIONS,
        dates::FUNCTIONS,
        defaults::FUNCTIONS,
        dicts::FUNCTIONS,
        encoding::FUNCTIONS,
        lists::FUNCTIONS,
        math::FUNCTIONS,
        patterns::FUNCTIONS,
        paths::FUNCTIONS,
        random::FUNCTIONS,
        strings::FUNCTIONS,
        types::FUNCTIONS,
        urls::FUNCTIONS,
        versions::FUNCTIONS,
        words::FUNCTIONS,
    ];
    let mut functions = TABLES.into_iter().flatten();
    functions.find(|function| function.name == name)
}

/// One row of a table.
const fn function(
    name: &'static str,
    min: usize,
    max: usize,
    run: fn(&mut crate::function::Call<'_>) -> Result<crate::value::Value, crate::error::Fault>,
) -> Function {
    Function {
        name,
        args: (min, max),
        run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_once() {
        let names = [
            "print",
            "eq",
            "date",
            "default",
            "dict",
            "b64enc",
            "list",
            "add",
            "regexMatch",
            "base",
            "uuidv4",
            "trim",
            "typeOf",
            "urlParse",
            "semver",
            "snakecase",
        ];
        for name in names {
            assert_eq!(find(name).map(|found| found.name), Some(name));
        }
        assert!(find("getHostByName").is_none());
    }
}
