//! The names of the workers: `W` means each of its copies `W.1`, `W.2`, ...

use std::collections::BTreeMap;

use super::{Problem, ScenarioError, names::nearest, table::Item};

/// The most workers a scenario may have.
pub(super) const MAX_WORKERS: usize = 1_000;

/// Which workers a name means.
#[derive(Debug, Default)]
pub(super) struct Roster {
    count: usize,
    names: BTreeMap<String, Vec<usize>>,
    open: Vec<usize>,
}

impl Roster {
    /// Adds the next worker; false when its name is taken.
    pub(super) fn add(&mut self, name: &str, group: &str) -> bool {
        let index = self.count;
        self.count += 1;
        self.open.push(index);
        name == group || self.names.insert(name.to_owned(), vec![index]).is_none()
    }

    /// Ends the copies of one written worker; false when its name is taken.
    pub(super) fn close_group(&mut self, group: &str) -> bool {
        let members = std::mem::take(&mut self.open);
        self.names.insert(group.to_owned(), members).is_none()
    }

    /// Every worker.
    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.count).collect()
    }

    /// The workers that a name, or each name of a list, means: sorted, each once.
    pub(super) fn resolve_all(&self, item: &Item<'_>) -> Result<Vec<usize>, ScenarioError> {
        let mut found = Vec::new();
        for item in item.one_or_many()? {
            let name = item.string("the name of a worker in quotes, or a list of names")?;
            found.extend(self.get(name).map_err(|problem| item.error(problem))?);
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn get(&self, name: &str) -> Result<&[usize], Problem> {
        self.names.get(name).map(Vec::as_slice).ok_or_else(|| {
            let known: Vec<&str> = self.names.keys().map(String::as_str).collect();
            let nearest = nearest(name, &known).unwrap_or_default().to_owned();
            Problem::UnknownWorker { name: name.to_owned(), nearest }
        })
    }
}
