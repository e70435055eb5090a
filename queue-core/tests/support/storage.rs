//! The queue's port to the modelled world.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use queue_core::storage::{Process, Storage};

use super::world::{Inode, World};

/// What a step came to.
pub(crate) enum Step<T> {
    Done(T),
    /// It has to wait, and changed nothing: to be tried again once a lock was given up.
    Blocked,
}

/// Decides when the steps of one process happen. Between two of them other processes may take any number of theirs.
pub(crate) trait Gate: Clone {
    /// Waits for the step's turn, then takes it.
    fn step<T>(&self, name: &'static str, act: impl FnMut(&mut World) -> Step<T>) -> T;
}

/// One process's view of a modelled world.
#[derive(Debug)]
pub(crate) struct Model<G> {
    gate: G,
    pid: u32,
    serial: Cell<u64>,
    /// Microseconds since this process began: one for each look at the clock, and what it slept.
    clock: Cell<u64>,
}

impl<G: Gate> Model<G> {
    pub(crate) fn new(gate: G, pid: u32) -> Self {
        Model { gate, pid, serial: Cell::new(0), clock: Cell::new(0) }
    }

    fn step<T>(&self, name: &'static str, mut act: impl FnMut(&mut World) -> T) -> T {
        self.gate.step(name, |world| Step::Done(act(world)))
    }

    fn tick(&self) -> u64 {
        self.clock.replace(self.clock.get() + 1)
    }

    fn open(&self, inode: Inode, appends: bool) -> OpenFile {
        OpenFile { inode, position: (!appends).then_some(0) }
    }
}

pub(crate) struct OpenFile {
    inode: Inode,
    /// Where the next write goes; none: at the end.
    position: Option<usize>,
}

pub(crate) struct OpenLock<G: Gate> {
    gate: G,
    inode: Inode,
    owner: u64,
    held: bool,
}

impl<G: Gate> Drop for OpenLock<G> {
    fn drop(&mut self) {
        if self.held {
            let (inode, owner) = (self.inode, self.owner);
            self.gate.step("close", |world| {
                world.unlock(inode, owner);
                Step::Done(())
            });
        }
    }
}

impl<G: Gate> Storage for Model<G> {
    type File = OpenFile;
    type Lock = OpenLock<G>;

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let inode = self.step("open", |world| world.open(path))?;
        let bytes = self.step("read", |world| world.contents(inode).to_vec());
        match bytes.len() as u64 > limit {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(bytes),
        }
    }

    fn open_truncated(&self, path: &Path) -> io::Result<OpenFile> {
        let inode = self.step("truncate", |world| world.open_truncated(path))?;
        Ok(self.open(inode, false))
    }

    fn create_new(&self, path: &Path) -> io::Result<OpenFile> {
        let inode = self.step("create", |world| world.create_new(path))?;
        Ok(self.open(inode, false))
    }

    fn open_append(&self, path: &Path) -> io::Result<OpenFile> {
        let inode = self.step("open", |world| world.open_or_create(path))?;
        Ok(self.open(inode, true))
    }

    fn read_tail(&self, file: &mut OpenFile, limit: u64) -> io::Result<Vec<u8>> {
        self.step("read", |world| {
            let content = world.contents(file.inode);
            let start = content.len().saturating_sub(limit as usize);
            Ok(content[start..].to_vec())
        })
    }

    fn write(&self, file: &mut OpenFile, bytes: &[u8]) -> io::Result<()> {
        self.step("write", |world| match file.position {
            None => world.append(file.inode, bytes),
            Some(position) => world.write_at(file.inode, position, bytes),
        });
        file.position = file.position.map(|position| position + bytes.len());
        Ok(())
    }

    fn sync(&self, _file: &mut OpenFile) -> io::Result<()> {
        self.step("sync", |_| Ok(()))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step("sync", |world| world.sync_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename", |world| world.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("link", |world| world.hard_link(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step("unlink", |world| world.remove_file(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step("mkdir", |world| world.create_dir(path))
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        self.step("list", |world| world.list_dir(path))
    }

    fn open_lock(&self, path: &Path) -> io::Result<OpenLock<G>> {
        let inode = self.step("open", |world| world.open_or_create(path))?;
        Ok(OpenLock {
            gate: self.gate.clone(),
            inode,
            // One owner per opening, as flock has it.
            owner: u64::from(self.pid) << 32 | self.serial(),
            held: false,
        })
    }

    fn lock(&self, lock: &mut OpenLock<G>) -> io::Result<()> {
        let (inode, owner) = (lock.inode, lock.owner);
        self.gate.step("lock", |world| match world.try_lock(inode, owner) {
            true => Step::Done(()),
            false => Step::Blocked,
        });
        lock.held = true;
        Ok(())
    }

    fn try_lock(&self, lock: &mut OpenLock<G>) -> io::Result<bool> {
        lock.held = self.step("trylock", |world| world.try_lock(lock.inode, lock.owner));
        Ok(lock.held)
    }

    fn unlock(&self, lock: &mut OpenLock<G>) -> io::Result<()> {
        self.step("unlock", |world| world.unlock(lock.inode, lock.owner));
        lock.held = false;
        Ok(())
    }

    fn now(&self) -> Timestamp {
        let microseconds = 1_767_225_600_000_000 + self.tick() as i64;
        Timestamp::from_microsecond(microseconds).expect("within the calendar")
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.tick())
    }

    fn sleep(&self, duration: Duration) {
        self.step("sleep", |_| ());
        self.clock.set(self.clock.get() + duration.as_micros() as u64);
    }

    fn process(&self) -> Process {
        Process { host: "model".into(), pid: self.pid, start: u64::from(self.pid) }
    }

    fn serial(&self) -> u64 {
        self.serial.replace(self.serial.get() + 1)
    }
}

/// The gate of a process that is alone in its world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alone(Arc<Mutex<World>>);

impl Alone {
    pub(crate) fn new(world: World) -> Self {
        Alone(Arc::new(Mutex::new(world)))
    }

    pub(crate) fn world(&self) -> World {
        self.0.lock().unwrap().clone()
    }
}

impl Gate for Alone {
    fn step<T>(&self, name: &'static str, mut act: impl FnMut(&mut World) -> Step<T>) -> T {
        match act(&mut self.0.lock().unwrap()) {
            Step::Done(result) => result,
            Step::Blocked => {
                panic!("{name} waits for a lock, and nobody else is there to give it up")
            }
        }
    }
}
