//! The pages that people read, as the tests see them: blocks of code, what stands before them, headings and links.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// How a block that no test runs is marked, in the paragraph before it; the reason follows.
pub const NOT_RUN: &str = "Not run by the tests:";

/// A fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// The first word behind the fence.
    pub language: String,
    /// Between the fences.
    pub text: String,
    /// The paragraph directly before it, without its markup.
    pub before: String,
    /// Where the text is in the page.
    pub place: Range<usize>,
}

impl Block {
    /// The file that it is the content of: the paragraph before it ends with its name in backticks and a colon.
    pub fn file(&self) -> Option<&str> {
        let name = self.before.strip_suffix("`:").or_else(|| self.before.strip_suffix("`："))?;
        let name = &name[name.rfind('`')? + 1..];
        (!name.contains(' ') && name.contains('.')).then_some(name)
    }

    /// Whether it is marked as not run.
    pub fn is_not_run(&self) -> bool {
        self.before.contains(NOT_RUN)
    }
}

/// A link.
#[derive(Clone, Debug)]
pub struct Link {
    /// As written.
    pub target: String,
    /// Where it is, for messages.
    pub line: usize,
}

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Its file.
    pub file: PathBuf,
    /// All of it.
    pub text: String,
    /// Its blocks, in order.
    pub blocks: Vec<Block>,
    /// Its links and pictures.
    pub links: Vec<Link>,
    /// What a link into it can name behind `#`.
    pub anchors: Vec<String>,
}

impl Page {
    /// Reads a page.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn read(file: &Path) -> Page {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        Page::parse(file, &text)
    }

    /// Takes a page apart.
    pub fn parse(file: &Path, text: &str) -> Page {
        let mut page = Page { file: file.to_owned(), text: text.to_owned(), ..Page::default() };
        let mut before = String::new();
        let mut heading: Option<String> = None;
        let mut block: Option<Block> = None;
        for (event, place) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    let language = info.split([' ', ',']).next().unwrap_or_default().to_owned();
                    let before = before.trim().to_owned();
                    block = Some(Block { language, text: String::new(), before, place: place.end..place.end });
                }
                Event::End(TagEnd::CodeBlock) => {
                    page.blocks.extend(block.take());
                    before.clear();
                }
                Event::Start(Tag::Paragraph | Tag::Item) => before.clear(),
                Event::Start(Tag::Heading { .. }) => {
                    before.clear();
                    heading = Some(String::new());
                }
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let same = page.anchors.iter().filter(|a| **a == anchor).count();
                    page.anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let line = text[..place.start].lines().count().max(1);
                    page.links.push(Link { target: dest_url.into_string(), line });
                }
                Event::Text(part) => match (&mut block, &mut heading) {
                    (Some(block), _) => {
                        if block.text.is_empty() {
                            block.place.start = place.start;
                        }
                        block.place.end = place.end;
                        block.text.push_str(&part);
                    }
                    (None, Some(heading)) => heading.push_str(&part),
                    (None, None) => before.push_str(&part),
                },
                Event::Code(code) => match &mut heading {
                    Some(heading) => heading.push_str(&code),
                    None => before.push_str(&format!("`{code}`")),
                },
                Event::SoftBreak | Event::HardBreak => before.push(' '),
                _ => {}
            }
        }
        page
    }
}

/// What a heading is called behind `#`.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The links of a page that lead nowhere, in words. `inside`: the folder that links may not leave, if any.
pub fn dead_links(page: &Page, inside: Option<&Path>) -> Vec<String> {
    let folder = page.file.parent().unwrap_or(Path::new("."));
    let dead = |link: &Link| -> Option<String> {
        if link.target.contains("://") || link.target.starts_with("mailto:") {
            return None;
        }
        let (file, wanted) = link.target.split_once('#').unwrap_or((&link.target, ""));
        let target = if file.is_empty() { page.file.clone() } else { folder.join(file) };
        let why = match target.canonicalize() {
            Err(_) => "no such file".to_owned(),
            Ok(target) if inside.is_some_and(|inside| !target.starts_with(inside)) => "it leaves the book".to_owned(),
            Ok(target) if !wanted.is_empty() => {
                let anchors = Page::read(&target).anchors;
                (!anchors.iter().any(|anchor| anchor == wanted))
                    .then(|| format!("no such heading, only {anchors:?}"))?
            }
            Ok(_) => return None,
        };
        Some(format!("{}:{}: {}: {why}", page.file.display(), link.line, link.target))
    };
    page.links.iter().filter_map(dead).collect()
}

/// All pages below a folder, in order.
///
/// # Panics
/// When the folder cannot be read.
pub fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A `b` & c!\n\nA worker, `w.py`:\n\n```python\nx\n\ny\n```\n\n```console\n$ a\n```\n\n*Not run by the tests: why.*\n\n\
                        ```sh\nz\n```\n\n## A b c\n\n[here](#a-b--c) [there](#gone) [up](../no.md) [out](https://x.y)\n";

    #[test]
    fn a_page_is_taken_apart() {
        let page = Page::parse(Path::new("p.md"), PAGE);
        assert_eq!(page.anchors, ["a-b--c", "a-b-c"]);
        let [file, console, not_run] = &page.blocks[..] else { panic!("{:?}", page.blocks) };
        assert_eq!((file.language.as_str(), file.text.as_str(), file.file()), ("python", "x\n\ny\n", Some("w.py")));
        assert_eq!(&PAGE[file.place.clone()], file.text);
        // What stands before one block is not said of the next.
        assert_eq!((console.language.as_str(), console.file()), ("console", None));
        assert!(not_run.is_not_run() && !file.is_not_run());
        assert_eq!(page.links.len(), 4);
    }

    #[test]
    fn a_dead_link_and_a_dead_heading_are_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().canonicalize().expect("a path").join("p.md");
        fs::write(&file, PAGE).expect("written");
        let dead = dead_links(&Page::read(&file), None);
        assert_eq!(dead.len(), 2, "{dead:?}");
        assert!(dead[0].contains("#gone") && dead[1].contains("../no.md"), "{dead:?}");
        let outside = Page::parse(&file, "[x](/etc/passwd)");
        assert_eq!(dead_links(&outside, file.parent()).len(), 1);
    }
}
