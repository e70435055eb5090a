//! For browsers: one self-contained page. Every scenario with its story, its lanes, and a slider over the steps that
//! shows what each file held, who held which lock, and which step came because of which.
//!
//! The page needs no network and runs one script, its own: a content security policy with the script's hash forbids
//! every other. What comes from the programs under test is data in a JSON block, and is shown as text only.

mod content;
mod incident;
mod page;

use std::{io, path::PathBuf};

pub use incident::incident_html;

use self::{content::Budget, page::Scene};
use super::{HumanOptions, Report, Reporter, human};
use crate::publish::publish;

/// Writes the page. It is written anew, as one step, after each scenario, so that a crash loses nothing.
#[derive(Debug)]
pub struct Html {
    file: PathBuf,
    scenes: Vec<Scene>,
    texts: Vec<String>,
    budget: Budget,
}

impl Html {
    /// A reporter that writes this file.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Html { file: file.into(), scenes: Vec::new(), texts: Vec::new(), budget: Budget::default() }
    }

    fn write(&self) -> io::Result<()> {
        let page = page::render(&self.scenes, &self.texts)?;
        publish(&self.file, page.as_bytes())
    }
}

impl Reporter for Html {
    fn report(&mut self, report: &Report) -> io::Result<()> {
        self.scenes.push(Scene::of(report, &mut self.budget));
        self.texts.push(human::render(report, HumanOptions { width: 100, ..HumanOptions::default() }));
        self.write()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write()
    }
}
