//! Hints about mistakes that make something else look like the name of a directive.

/// What somebody may have meant who wrote this as the name of a directive.
pub fn hint(name: &str) -> Option<&'static str> {
    if name.starts_with("//") || name.starts_with("/*") {
        return Some("a comment begins with `#`");
    }
    if name
        .chars()
        .any(|letter| !letter.is_ascii() && letter.is_whitespace())
    {
        return Some("there is a blank in it that is not a space: type it again");
    }
    if name.contains(['“', '”', '„', '‘', '’']) {
        return Some("quotes are `\"` or `'`: others are letters");
    }
    let is_rest_of_pattern = name.contains('}')
        && name.starts_with(|letter: char| letter.is_ascii_digit() || letter == '}');
    is_rest_of_pattern
        .then_some("the brace before it opened a block: put a pattern that has braces in quotes")
}
