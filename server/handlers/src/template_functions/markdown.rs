//! Renders Markdown as HTML: CommonMark with GitHub's tables, strikethrough, task lists, links and footnotes. The
//! output is identical to Caddy's, except that code is not highlighted. HTML in the text is passed through.

use std::collections::HashMap;
use std::fmt::Write;

use comrak::nodes::{Node, NodeHeading, NodeList, NodeTable, NodeValue, TableAlignment};
use comrak::{Arena, Options, parse_document};
use sluice_template::{Fault, Room};

/// Renders `text` as HTML.
pub fn render(text: &str, room: &mut Room) -> Result<String, Fault> {
    // The tree takes some hundred bytes per node, and a node may be a single byte of text.
    room.take(text.len().saturating_mul(40))?;
    let mut options = Options::default();
    options.extension.strikethrough = true;
    options.extension.table = true;
    options.extension.autolink = true;
    options.extension.tasklist = true;
    options.extension.footnotes = true;
    let arena = Arena::new();
    let root = parse_document(&arena, text, &options);
    let mut writer = Writer {
        lines: text.lines().collect(),
        out: String::with_capacity(text.len() * 2),
        ids: HashMap::new(),
        footnotes: Vec::new(),
        plain: 0,
    };
    writer.walk(root);
    writer.write_footnotes();
    room.take(writer.out.len())?;
    Ok(writer.out)
}

/// The next action: enter or leave a node.
enum Visit<'a> {
    Enter(Node<'a>),
    Leave(Node<'a>),
}

struct Writer<'a> {
    lines: Vec<&'a str>,
    out: String,
    /// The IDs of headings, and how often each was used.
    ids: HashMap<String, usize>,
    /// The footnotes in order of appearance.
    footnotes: Vec<Footnote>,
    /// The number of open images, whose content becomes an attribute.
    plain: usize,
}

struct Footnote {
    html: String,
    references: u32,
}

impl<'a> Writer<'_> {
    /// Writes `root` and its descendants. Pending nodes are kept in a list rather than on the stack, because a text may
    /// nest them deeply.
    fn walk(&mut self, root: Node<'a>) {
        let mut pending = vec![Visit::Enter(root)];
        while let Some(visit) = pending.pop() {
            match visit {
                Visit::Enter(node) => {
                    if let NodeValue::FootnoteDefinition(_) = &node.data().value {
                        self.note(node);
                        continue;
                    }
                    self.enter(node);
                    pending.push(Visit::Leave(node));
                    let children: Vec<_> = node.children().collect();
                    pending.extend(children.into_iter().rev().map(Visit::Enter));
                }
                Visit::Leave(node) => self.leave(node),
            }
        }
    }

    fn enter(&mut self, node: Node<'a>) {
        if self.plain > 0 {
            return self.enter_plain(node);
        }
        let data = node.data();
        match &data.value {
            NodeValue::BlockQuote => self.out.push_str("<blockquote>\n"),
            NodeValue::List(list) => self.open_list(list),
            NodeValue::Item(_) => self.open_item(node),
            NodeValue::TaskItem(task) => {
                self.open_item(node);
                let checked = if task.symbol.is_some() {
                    "checked=\"\" "
                } else {
                    ""
                };
                let input = format!("<input {checked}disabled=\"\" type=\"checkbox\"> ");
                self.out.push_str(&input);
            }
            NodeValue::CodeBlock(block) => {
                let language = block
                    .info
                    .split_whitespace()
                    .next()
                    .filter(|_| block.fenced);
                match language {
                    Some(language) => {
                        self.out.push_str("<pre><code class=\"language-");
                        escape(language, &mut self.out);
                        self.out.push_str("\">");
                    }
                    None => self.out.push_str("<pre><code>"),
                }
                escape(&block.literal, &mut self.out);
                self.out.push_str("</code></pre>\n");
            }
            NodeValue::HtmlBlock(block) => self.out.push_str(&block.literal),
            NodeValue::Paragraph if is_tight(node) => {}
            NodeValue::Paragraph => self.out.push_str("<p>"),
            NodeValue::Heading(heading) => {
                let id = self.heading_id(node, heading);
                let open = format!("<h{} id=\"{id}\">", heading.level);
                self.out.push_str(&open);
            }
            NodeValue::ThematicBreak => self.out.push_str("<hr>\n"),
            NodeValue::Table(_) => self.out.push_str("<table>\n"),
            NodeValue::TableRow(is_head) => {
                self.out
                    .push_str(if *is_head { "<thead>\n<tr>\n" } else { "" });
                if !*is_head {
                    let first = node.previous_sibling().is_some_and(is_head_row);
                    self.out
                        .push_str(if first { "<tbody>\n<tr>\n" } else { "<tr>\n" });
                }
            }
            NodeValue::TableCell => self.open_cell(node),
            _ => self.enter_inline(&data.value),
        }
    }

    fn enter_inline(&mut self, value: &NodeValue) {
        match value {
            NodeValue::Text(text) => escape(text, &mut self.out),
            NodeValue::SoftBreak => self.out.push('\n'),
            NodeValue::LineBreak => self.out.push_str("<br>\n"),
            NodeValue::Code(code) => {
                self.out.push_str("<code>");
                escape(&code.literal, &mut self.out);
                self.out.push_str("</code>");
            }
            NodeValue::HtmlInline(html) => self.out.push_str(html),
            NodeValue::Emph => self.out.push_str("<em>"),
            NodeValue::Strong => self.out.push_str("<strong>"),
            NodeValue::Strikethrough => self.out.push_str("<del>"),
            NodeValue::Link(link) => {
                self.out.push_str("<a href=\"");
                escape_url(&link.url, &mut self.out);
                self.out.push('"');
                self.write_title(&link.title);
                self.out.push('>');
            }
            NodeValue::Image(link) => {
                self.out.push_str("<img src=\"");
                escape_url(&link.url, &mut self.out);
                self.out.push_str("\" alt=\"");
                self.plain += 1;
            }
            NodeValue::FootnoteReference(reference) => {
                let (number, again) = (reference.ix, Again(reference.ref_num));
                let html = format!(
                    "<sup id=\"fnref{again}:{number}\"><a href=\"#fn:{number}\" \
                     class=\"footnote-ref\" role=\"doc-noteref\">{number}</a></sup>"
                );
                self.out.push_str(&html);
            }
            // What remains is the document itself, and nodes of extensions that are disabled.
            _ => {}
        }
    }

    fn enter_plain(&mut self, node: Node<'a>) {
        match &node.data().value {
            NodeValue::Text(text) => escape(text, &mut self.out),
            NodeValue::Code(code) => escape(&code.literal, &mut self.out),
            NodeValue::SoftBreak | NodeValue::LineBreak => self.out.push('\n'),
            NodeValue::Image(_) => self.plain += 1,
            _ => {}
        }
    }

    fn leave(&mut self, node: Node<'a>) {
        let data = node.data();
        if self.plain > 0 {
            if let NodeValue::Image(link) = &data.value {
                self.plain -= 1;
                if self.plain == 0 {
                    self.out.push('"');
                    self.write_title(&link.title);
                    self.out.push('>');
                }
            }
            return;
        }
        let close = match &data.value {
            NodeValue::BlockQuote => "</blockquote>\n",
            NodeValue::List(list) if list.list_type == comrak::nodes::ListType::Ordered => {
                "</ol>\n"
            }
            NodeValue::List(_) => "</ul>\n",
            NodeValue::Item(_) | NodeValue::TaskItem(_) => "</li>\n",
            NodeValue::Paragraph if is_tight(node) && node.next_sibling().is_none() => "",
            NodeValue::Paragraph if is_tight(node) => "\n",
            NodeValue::Paragraph => "</p>\n",
            NodeValue::Heading(heading) => {
                let close = format!("</h{}>\n", heading.level);
                self.out.push_str(&close);
                ""
            }
            NodeValue::Table(_) => {
                let rows = node.children().count();
                if rows > 1 {
                    "</tbody>\n</table>\n"
                } else {
                    "</table>\n"
                }
            }
            NodeValue::TableRow(true) => "</tr>\n</thead>\n",
            NodeValue::TableRow(false) => "</tr>\n",
            NodeValue::TableCell if in_head(node) => "</th>\n",
            NodeValue::TableCell => "</td>\n",
            NodeValue::Emph => "</em>",
            NodeValue::Strong => "</strong>",
            NodeValue::Strikethrough => "</del>",
            NodeValue::Link(_) => "</a>",
            _ => "",
        };
        self.out.push_str(close);
    }

    fn open_list(&mut self, list: &NodeList) {
        if list.list_type != comrak::nodes::ListType::Ordered {
            return self.out.push_str("<ul>\n");
        }
        if list.start == 1 {
            return self.out.push_str("<ol>\n");
        }
        let open = format!("<ol start=\"{}\">\n", list.start);
        self.out.push_str(&open);
    }

    /// Blocks of an item start on a new line; the text of a tight item does not.
    fn open_item(&mut self, node: Node<'a>) {
        self.out.push_str("<li>");
        let text_first = node.first_child().is_none_or(is_tight);
        if !text_first {
            self.out.push('\n');
        }
    }

    fn open_cell(&mut self, node: Node<'a>) {
        let name = if in_head(node) { "th" } else { "td" };
        let table = node.ancestors().nth(2);
        let column = node.preceding_siblings().count() - 1;
        let alignment = table.and_then(|table| match &table.data().value {
            NodeValue::Table(table) => alignment(table, column),
            _ => None,
        });
        // As in Caddy, a cell missing from its row does not get a style.
        let given = node.first_child().is_some();
        let open = match alignment.filter(|_| given) {
            Some(side) => format!("<{name} style=\"text-align:{side}\">"),
            None => format!("<{name}>"),
        };
        self.out.push_str(&open);
    }

    fn write_title(&mut self, title: &str) {
        if !title.is_empty() {
            self.out.push_str(" title=\"");
            escape(title, &mut self.out);
            self.out.push('"');
        }
    }

    /// The ID of a heading: the letters and digits of its source in lower case, with `-` between words.
    fn heading_id(&mut self, node: Node<'a>, heading: &NodeHeading) -> String {
        let place = node.data().sourcepos;
        let (first, last) = (place.start.line, place.end.line);
        let last = if heading.setext {
            last.saturating_sub(1).max(first)
        } else {
            last
        };
        let lines = self.lines.get(first.saturating_sub(1)..last).unwrap_or(&[]);
        let mut source = lines.join("\n");
        if !heading.setext {
            let start = place.start.column.saturating_sub(1);
            let line = source
                .get(start..)
                .unwrap_or("")
                .trim_start_matches('#')
                .trim();
            // A closing sequence of `#` is not part of the text.
            let bare = line.trim_end_matches('#');
            let closed = bare.is_empty() || bare.ends_with([' ', '\t']);
            source = if closed { bare.trim_end() } else { line }.to_owned();
        }
        let mut id = String::new();
        for letter in source.trim().chars() {
            if letter.is_ascii_alphanumeric() {
                id.push(letter.to_ascii_lowercase());
            } else if matches!(letter, ' ' | '\t' | '\n' | '-' | '_') {
                id.push('-');
            }
        }
        if id.is_empty() {
            id.push_str("heading");
        }
        self.unique(id)
    }

    fn unique(&mut self, id: String) -> String {
        if !self.ids.contains_key(&id) {
            self.ids.insert(id.clone(), 0);
            return id;
        }
        loop {
            let count = self.ids.entry(id.clone()).or_default();
            *count += 1;
            let numbered = format!("{id}-{count}");
            if !self.ids.contains_key(&numbered) {
                self.ids.insert(numbered.clone(), 0);
                return numbered;
            }
        }
    }

    /// Sets the content of a footnote aside; footnotes are written at the end.
    fn note(&mut self, node: Node<'a>) {
        let NodeValue::FootnoteDefinition(definition) = &node.data().value else {
            return;
        };
        let before = std::mem::take(&mut self.out);
        for child in node.children() {
            self.walk(child);
        }
        let html = std::mem::replace(&mut self.out, before);
        self.footnotes.push(Footnote {
            html,
            references: definition.total_references,
        });
    }

    fn write_footnotes(&mut self) {
        if self.footnotes.is_empty() {
            return;
        }
        self.out
            .push_str("<div class=\"footnotes\" role=\"doc-endnotes\">\n<hr>\n<ol>\n");
        for (at, note) in std::mem::take(&mut self.footnotes).into_iter().enumerate() {
            let number = at + 1;
            let mut back = String::new();
            for reference in 1..=note.references {
                let again = Again(reference);
                write!(
                    back,
                    "&#160;<a href=\"#fnref{again}:{number}\" class=\"footnote-backref\" \
                     role=\"doc-backlink\">&#x21a9;&#xfe0e;</a>"
                )
                .expect("writing to memory does not fail");
            }
            // The back reference goes to the end of the last paragraph.
            let html = match note.html.strip_suffix("</p>\n") {
                Some(text) => format!("{text}{back}</p>\n"),
                None => format!("{}{back}\n", note.html),
            };
            let item = format!("<li id=\"fn:{number}\">\n{html}</li>\n");
            self.out.push_str(&item);
        }
        self.out.push_str("</ol>\n</div>\n");
    }
}

/// The number of a repeated reference to the same footnote; empty for the first.
struct Again(u32);

impl std::fmt::Display for Again {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 > 1 {
            write!(f, "{}", self.0 - 1)
        } else {
            Ok(())
        }
    }
}

/// Whether the node is a paragraph in a tight list.
fn is_tight(node: Node<'_>) -> bool {
    if !matches!(node.data().value, NodeValue::Paragraph) {
        return false;
    }
    let list = node.parent().and_then(|item| match &item.data().value {
        NodeValue::Item(_) | NodeValue::TaskItem(_) => item.parent(),
        _ => None,
    });
    list.is_some_and(|list| match &list.data().value {
        NodeValue::List(list) => list.tight,
        _ => false,
    })
}

fn is_head_row(row: Node<'_>) -> bool {
    matches!(row.data().value, NodeValue::TableRow(true))
}

fn in_head(cell: Node<'_>) -> bool {
    cell.parent().is_some_and(is_head_row)
}

fn alignment(table: &NodeTable, column: usize) -> Option<&'static str> {
    match table.alignments.get(column)? {
        TableAlignment::None => None,
        TableAlignment::Left => Some("left"),
        TableAlignment::Center => Some("center"),
        TableAlignment::Right => Some("right"),
    }
}

fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\0' => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
}

/// Escapes a URL; existing escapes are preserved.
fn escape_url(url: &str, out: &mut String) {
    for byte in url.bytes() {
        match byte {
            b'&' => out.push_str("&amp;"),
            b'\'' => out.push_str("&#39;"),
            byte if byte.is_ascii_alphanumeric() || b"%-_.!~*()#;/?:@=+$,".contains(&byte) => {
                out.push(char::from(byte));
            }
            byte => write!(out, "%{byte:02X}").expect("writing to memory does not fail"),
        }
    }
}
