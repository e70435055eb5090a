//! What the README and the book say: every command and scenario in them is run, and every link leads somewhere.
//!
//! A page is read from its top in a folder of its own:
//! - a block behind "`NAME`:" is the content of that file,
//! - `console` is a transcript: each command is run, and what is shown of its output must be in it,
//! - `sh` is run and must succeed,
//! - `toml` with workers and an expectation is a scenario and must be as expected; other TOML must fit into one,
//! - `text` behind "drawn by" is what the last scenario's report shows of the order that was found.
//!
//! What cannot be run says why in the paragraph before it. `NOCLOBBER_BOOK=write` writes the drawings anew.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use scenarios::{
    book::{Block, Page, dead_links, pages},
    folder, programs,
    transcript::{entries, missing, plain},
};

/// Blocks that may be marked as not run, over all pages.
const NOT_RUN: usize = 8;
/// Accounts of what was done once, with programs at versions that are installed elsewhere; `scenarios/programs` runs
/// some of them.
const ACCOUNTS: [&str; 2] = ["worked-examples.md", "kill-table.md"];

fn root() -> PathBuf {
    folder().parent().expect("the repository").canonicalize().expect("a path")
}

fn book() -> PathBuf {
    root().join("docs/src")
}

/// Runs the blocks of one page.
struct Reader {
    page: Page,
    here: tempfile::TempDir,
    /// The report of the last scenario.
    last: String,
    wrong: Vec<String>,
    not_run: usize,
    written: Vec<(std::ops::Range<usize>, String)>,
}

impl Reader {
    fn read(file: &Path) -> Reader {
        let here = tempfile::tempdir().expect("a folder");
        symlink(folder(), here.path().join("scenarios")).expect("a link");
        let (last, wrong, written) = (String::new(), Vec::new(), Vec::new());
        let mut reader = Reader { page: Page::read(file), here, last, wrong, not_run: 0, written };
        for block in reader.page.blocks.clone() {
            match block.language.as_str() {
                _ if block.is_not_run() => reader.not_run += 1,
                "rust" | "text" if block.file().is_none() => reader.shown(&block),
                _ if block.file().is_some() => reader.file(&block),
                "console" => reader.transcript(&block),
                "sh" => reader.shell(&block),
                "toml" => reader.toml(&block),
                other => reader.complain(&block, &format!("nobody knows what to do with a block of `{other}`")),
            }
        }
        reader
    }

    fn complain(&mut self, block: &Block, what: &str) {
        let line = self.page.text[..block.place.start].lines().count() + 1;
        self.wrong.push(format!("{}:{line}: {what}", self.page.file.display()));
    }

    fn run(&self, shell: &str) -> Output {
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &format!("exec 2>&1\n{shell}")]).current_dir(self.here.path());
        command.env("PATH", programs().path()).env_remove("NO_COLOR").stdin(Stdio::null());
        // As on a terminal of a newcomer: no settings of this test's own.
        command.env("CARGO_TARGET_DIR", programs().folder.parent().expect("a target folder"));
        command.output().expect("bash starts")
    }

    fn file(&mut self, block: &Block) {
        let Some(name) = block.file() else { return };
        let path = self.here.path().join(name);
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder");
        fs::write(&path, &block.text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        if name.ends_with(".toml") && block.text.contains("[[worker]]") {
            self.scenario(block, name);
        }
    }

    fn transcript(&mut self, block: &Block) {
        for entry in entries(&block.text) {
            let output = self.run(&entry.command);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let code = output.status.code();
            // Who shows nothing shows that it went well; who shows something may show an anomaly.
            let fine = if entry.shown.is_empty() { code == Some(0) } else { matches!(code, Some(0 | 1 | 3)) };
            if !fine {
                self.complain(block, &format!("`{}` ends with {code:?}: {said}", entry.command));
            } else if let Some(lines) = missing(&entry.shown, &said) {
                self.complain(block, &format!("`{}` does not say\n{lines}\nbut\n{said}", entry.command));
            }
            self.last = said;
        }
    }

    fn shell(&mut self, block: &Block) {
        let output = self.run(&block.text);
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            self.complain(block, &format!("ends with {:?}: {said}", output.status.code()));
        }
    }

    fn toml(&mut self, block: &Block) {
        let has = |key: &str| block.text.lines().any(|line| line.starts_with(key));
        if has("[[worker]]") && has("expect") {
            fs::write(self.here.path().join("scenario.toml"), &block.text).expect("written");
            self.scenario(block, "scenario.toml");
        } else if has("[dependencies]") || has("[dev-dependencies]") {
            // Cargo's; what it names is built by the example project.
        } else {
            let workers = if has("[[worker]]") {
                String::new()
            } else {
                let worker = |name: &str| format!("[[worker]]\nname = \"{name}\"\nrun = \"cat queue.json\"\n");
                ["A", "B"].map(worker).concat()
            };
            let expect = if has("expect") { "" } else { "expect = \"clean\"\n" };
            fs::write(self.here.path().join("part.toml"), format!("{expect}{}\n{workers}", block.text))
                .expect("written");
            // Only read: a part of a scenario has nothing to run.
            let output = self
                .run("noclobber run --max-schedules 1 part.toml > out 2>&1 || [ $? != 2 ] || ! grep -n part.toml out");
            if !output.status.success() {
                let said = fs::read_to_string(self.here.path().join("out")).unwrap_or_default();
                self.complain(block, &format!("does not fit into a scenario: {said}"));
            }
        }
    }

    fn scenario(&mut self, block: &Block, name: &str) {
        let output = self.run(&format!("noclobber run '{name}'"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            self.complain(block, &format!("{name} is not as expected: {said}"));
        }
        self.last = said;
    }

    /// What is shown of a report, and is drawn by nobody but the tool.
    fn shown(&mut self, block: &Block) {
        // Rust is compiled and run as documentation tests of the example project.
        if block.language == "rust" {
            return;
        }
        if !block.before.contains("drawn by") && !block.before.contains("画出") {
            return self.complain(block, "a text that nobody says where it is from");
        }
        let drawn: String = self
            .last
            .lines()
            .skip(2)
            .take_while(|line| !line.starts_with("  replay "))
            .map(|l| format!("{l}\n"))
            .collect();
        if std::env::var_os("NOCLOBBER_BOOK").is_some_and(|value| value == "write") {
            self.written.push((block.place.clone(), drawn));
        } else if drawn.lines().map(plain).ne(block.text.lines().map(plain)) {
            self.complain(block, &format!("the drawing is not in step (NOCLOBBER_BOOK=write writes it):\n{drawn}"));
        }
    }

    /// Writes the drawings into the page.
    fn write(&self) {
        let mut text = self.page.text.clone();
        for (place, drawn) in self.written.iter().rev() {
            text.replace_range(place.clone(), drawn);
        }
        if !self.written.is_empty() {
            fs::write(&self.page.file, text).expect("written");
        }
    }
}

/// Pages in another language: their blocks are those of the first.
fn translations() -> [(PathBuf, PathBuf); 2] {
    [
        (root().join("README.zh.md"), root().join("README.md")),
        (book().join("zh/tutorial.md"), book().join("tutorial.md")),
    ]
}

#[test]
fn every_command_and_scenario_is_as_it_says() {
    let translated: BTreeSet<PathBuf> = translations().into_iter().map(|(file, _)| file).collect();
    let chosen = std::env::var("NOCLOBBER_PAGE").unwrap_or_default();
    let mut all = pages(&book());
    all.push(root().join("README.md"));
    let account = |file: &PathBuf| ACCOUNTS.iter().any(|name| *file == book().join(name));
    all.retain(|file| !translated.contains(file) && !account(file) && file.to_string_lossy().contains(&chosen));
    assert!(!all.is_empty(), "no page");
    let mut wrong = Vec::new();
    let mut not_run = 0;
    let mut blocks = 0;
    for file in all {
        let began = std::time::Instant::now();
        let reader = Reader::read(&file);
        reader.write();
        println!("{}: {} blocks, {:.1?}", file.display(), reader.page.blocks.len(), began.elapsed());
        blocks += reader.page.blocks.len();
        not_run += reader.not_run;
        wrong.extend(reader.wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(not_run <= NOT_RUN, "{not_run} blocks of {blocks} are not run");
}

#[test]
fn what_a_page_says_wrong_is_noticed() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("page.md");
    for (page, why) in [
        ("```console\n$ echo a\nb\n```\n", "does not say"),
        ("```console\n$ no-such-program\n```\n", "ends with Some(127)"),
        ("```sh\nfalse\n```\n", "ends with Some(1)"),
        ("```toml\n[oracle]\nserail = true\n```\n", "does not fit"),
        (
            "```toml\nexpect = \"deadlock\"\n[[worker]]\nname = \"A\"\nrun = \"echo a >> f; cat f\"\n[[worker]]\nname = \"B\"\nrun = \"cat f\"\n```\n",
            "not as expected",
        ),
        ("```text\nx\n```\n", "nobody says"),
        ("It is drawn by hand:\n\n```text\nx\n```\n", "not in step"),
        ("```yaml\nx: 1\n```\n", "nobody knows"),
    ] {
        fs::write(&file, page).expect("written");
        let reader = Reader::read(&file);
        assert!(matches!(&reader.wrong[..], [wrong] if wrong.contains(why)), "{why}: {:?}", reader.wrong);
    }
}

#[test]
fn every_link_leads_somewhere() {
    let book = book();
    let mut dead: Vec<String> =
        pages(&book).iter().flat_map(|file| dead_links(&Page::read(file), Some(&book))).collect();
    let beside = [
        "README.md",
        "README.zh.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "harness/bindings/python/README.md",
    ];
    dead.extend(beside.iter().flat_map(|file| dead_links(&Page::read(&root().join(file)), None)));
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn the_summary_has_every_page_once() {
    let book = book();
    let summary = Page::read(&book.join("SUMMARY.md"));
    let mut listed: Vec<PathBuf> = summary.links.iter().map(|link| book.join(&link.target)).collect();
    listed.push(summary.file.clone());
    listed.sort();
    assert_eq!(listed, pages(&book));
}

#[test]
fn translations_have_the_same_commands() {
    for (translated, original) in translations() {
        let blocks = |file: &Path| -> Vec<(String, String)> {
            Page::read(file).blocks.into_iter().map(|block| (block.language, block.text)).collect()
        };
        let (translated_blocks, blocks) = (blocks(&translated), blocks(&original));
        assert!(!blocks.is_empty());
        for (n, (there, here)) in translated_blocks.iter().zip(&blocks).enumerate() {
            assert_eq!(there, here, "block {} of {}", n + 1, translated.display());
        }
        assert_eq!(translated_blocks.len(), blocks.len(), "{}", translated.display());
    }
}

/// Each kind has its page in the catalogue, and the page a scenario that expects it.
#[test]
fn every_kind_of_anomaly_has_its_page() {
    let catalogue = book().join("catalogue");
    let reference = fs::read_to_string(book().join("reference/anomalies.md")).expect("the reference");
    let kinds: Vec<&str> =
        reference.lines().filter_map(|line| line.strip_prefix("| [`")?.split_once('`').map(|(kind, _)| kind)).collect();
    assert_eq!(kinds.len(), 12, "{kinds:?}");
    for kind in kinds {
        let page = Page::read(&catalogue.join(format!("{kind}.md")));
        let expected = format!("expect = \"{kind}\"");
        assert!(page.blocks.iter().any(|b| b.language == "toml" && b.text.contains(&expected)), "{kind}");
        assert!(page.blocks.iter().any(|b| b.language == "text" && b.before.contains("drawn by")), "{kind}");
    }
}
