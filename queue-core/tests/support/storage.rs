//! The queue's port to the modelled world.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use queue_core::storage::{FileSystem, Liveness, LockKind, Meta, Process, Storage};

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

/// When a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Death {
    /// After so many steps.
    pub(crate) after: usize,
    /// Whether it is in the middle of the next step, if that is a write, so that half of it is there.
    pub(crate) within: bool,
}

/// One process's view of a modelled world.
///
/// A killed process takes no step any more: everything it still tries fails without doing anything, so that whatever its
/// code does on the way out (which a killed process does not do) leaves no trace.
#[derive(Debug)]
pub(crate) struct Model<G> {
    gate: G,
    pid: u32,
    serial: Cell<u64>,
    /// Microseconds since this process began: one for each look at the clock, and what it slept.
    clock: Cell<u64>,
    steps: Arc<Mutex<usize>>,
    death: Option<Death>,
}

impl<G: Gate> Model<G> {
    pub(crate) fn new(gate: G, pid: u32) -> Self {
        Model { gate, pid, serial: Cell::new(0), clock: Cell::new(0), steps: Arc::default(), death: None }
    }

    pub(crate) fn killed(mut self, death: Death) -> Self {
        self.death = Some(death);
        self
    }

    /// Counts the steps, also when the storage has been given away.
    pub(crate) fn counter(&self) -> Arc<Mutex<usize>> {
        self.steps.clone()
    }

    /// Whether the process still lives; it dies here if this is its time.
    fn lives(&self) -> io::Result<()> {
        let mut steps = self.steps.lock().unwrap();
        *steps += 1;
        match self.death {
            Some(death) if *steps > death.after => {
                if *steps == death.after + 1 {
                    let pid = self.pid;
                    self.gate.step("kill", |world| {
                        world.kill(pid);
                        Step::Done(())
                    });
                }
                Err(io::Error::other("killed"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the next step is the one that is cut in half.
    fn dies_within(&self) -> bool {
        let steps = *self.steps.lock().unwrap();
        self.death.is_some_and(|death| death.within && steps == death.after)
    }

    fn step<T>(&self, name: &'static str, mut act: impl FnMut(&mut World) -> io::Result<T>) -> io::Result<T> {
        self.lives()?;
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
    owner: (u32, u64),
    held: bool,
}

impl<G: Gate> Drop for OpenLock<G> {
    fn drop(&mut self) {
        if self.held {
            let (inode, owner) = (self.inode, self.owner);
            // The kernel does it for the dead too, so that there is nothing to ask.
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
    /// What is watched, and what had happened when that began.
    type Watch = (PathBuf, u64);

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        // There are no links in this world.
        Ok(path.to_owned())
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<(Vec<u8>, Meta)> {
        let inode = self.step("open", |world| world.open(path))?;
        let (bytes, meta) = self.step("read", |world| Ok((world.contents(inode).to_vec(), world.meta(inode))))?;
        match bytes.len() as u64 > limit {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok((bytes, meta)),
        }
    }

    fn meta(&self, path: &Path) -> io::Result<Meta> {
        self.step("stat", |world| world.open(path).map(|inode| world.meta(inode)))
    }

    fn open_truncated(&self, path: &Path) -> io::Result<OpenFile> {
        let inode = self.step("truncate", |world| world.open_truncated(path))?;
        Ok(self.open(inode, false))
    }

    fn create_new(&self, path: &Path, _like: Option<&Meta>) -> io::Result<OpenFile> {
        let inode = self.step("create", |world| world.create_new(path))?;
        Ok(self.open(inode, false))
    }

    fn open_spare(&self, path: &Path, _like: Option<&Meta>) -> io::Result<OpenFile> {
        let inode = self.step("open", |world| world.open_or_create(path))?;
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
        let mut put = |bytes: &[u8]| {
            self.gate.step("write", |world| {
                match file.position {
                    None => world.append(file.inode, bytes),
                    Some(position) => world.write_at(file.inode, position, bytes),
                }
                Step::Done(())
            });
            file.position = file.position.map(|position| position + bytes.len());
        };
        if self.dies_within() {
            put(&bytes[..bytes.len() / 2]);
        }
        self.lives()?;
        put(bytes);
        Ok(())
    }

    fn cut(&self, file: &mut OpenFile, length: u64) -> io::Result<()> {
        self.step("truncate", |world| {
            world.cut(file.inode, length as usize);
            Ok(())
        })
    }

    fn meta_of(&self, file: &OpenFile) -> io::Result<Meta> {
        self.step("stat", |world| Ok(world.meta(file.inode)))
    }

    fn sync(&self, _file: &mut OpenFile) -> io::Result<()> {
        self.step("sync", |_| Ok(()))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.step("sync", |world| world.open(path).map(drop))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step("sync", |world| world.sync_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename", |world| world.rename(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step("rename", |world| world.rename_new(from, to))
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.step("exchange", |world| world.exchange(one, other))
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

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.step("rmdir", |world| world.remove_dir(path))
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        self.step("list", |world| world.list_dir(path))
    }

    fn open_lock(&self, path: &Path, _kind: LockKind) -> io::Result<OpenLock<G>> {
        let inode = self.step("open", |world| world.open_or_create(path))?;
        // One owner per opening, as flock has it.
        let owner = (self.pid, self.serial());
        Ok(OpenLock { gate: self.gate.clone(), inode, owner, held: false })
    }

    fn lock(&self, lock: &mut OpenLock<G>) -> io::Result<()> {
        self.lives()?;
        let (inode, owner) = (lock.inode, lock.owner);
        self.gate.step("lock", |world| match world.try_lock(inode, owner) {
            true => Step::Done(()),
            false => Step::Blocked,
        });
        lock.held = true;
        Ok(())
    }

    fn try_lock(&self, lock: &mut OpenLock<G>) -> io::Result<bool> {
        lock.held = self.step("trylock", |world| Ok(world.try_lock(lock.inode, lock.owner)))?;
        Ok(lock.held)
    }

    fn lock_within(&self, mut lock: OpenLock<G>, limit: Duration) -> io::Result<Option<OpenLock<G>>> {
        // Time passes for each process by itself here, so that a time-out is a number of attempts.
        for _ in 0..=limit.as_millis() / 20 {
            if self.try_lock(&mut lock)? {
                return Ok(Some(lock));
            }
            self.sleep(Duration::from_millis(20));
        }
        Ok(None)
    }

    fn unlock(&self, lock: &mut OpenLock<G>) -> io::Result<()> {
        self.step("unlock", |world| {
            world.unlock(lock.inode, lock.owner);
            Ok(())
        })?;
        lock.held = false;
        Ok(())
    }

    fn read_note(&self, lock: &mut OpenLock<G>) -> io::Result<Vec<u8>> {
        self.step("read", |world| Ok(world.contents(lock.inode).to_vec()))
    }

    fn write_note(&self, lock: &mut OpenLock<G>, note: &[u8]) -> io::Result<()> {
        self.step("write", |world| {
            world.write_at(lock.inode, 0, note);
            Ok(())
        })
    }

    fn watch(&self, path: &Path) -> io::Result<Self::Watch> {
        Ok((path.to_owned(), self.step("watch", |world| world.watch(path))?))
    }

    fn wait(&self, watch: &mut Self::Watch, _limit: Duration) -> io::Result<bool> {
        self.lives()?;
        let (path, seen) = watch;
        // Nothing tells of a death. When nobody is left who could give the lock up, the time is over.
        let mut told = false;
        self.gate.step("wait", |world| {
            told = world.releases() != *seen;
            if told || world.is_owner_dead(path) { Step::Done(()) } else { Step::Blocked }
        });
        Ok(told)
    }

    fn now(&self) -> Timestamp {
        let microseconds = 1_767_225_600_000_000 + self.tick() as i64;
        Timestamp::from_microsecond(microseconds).expect("within the calendar")
    }

    fn since_boot(&self) -> Duration {
        Duration::from_micros(self.tick())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.tick())
    }

    fn sleep(&self, duration: Duration) {
        let _ = self.step("sleep", |_| Ok(()));
        self.clock.set(self.clock.get() + duration.as_micros() as u64);
    }

    fn give_way(&self) {}

    fn process(&self) -> Process {
        let start = u64::from(self.pid);
        Process { host: "model".into(), pid: self.pid, start, boot: "boot".into(), namespace: 1 }
    }

    fn liveness(&self, process: &Process) -> Liveness {
        let dead = self.step("stat", |world| Ok(world.is_dead(process.pid)));
        if dead.unwrap_or(false) { Liveness::Dead } else { Liveness::Alive }
    }

    fn serial(&self) -> u64 {
        self.serial.replace(self.serial.get() + 1)
    }

    fn file_system(&self, _path: &Path) -> io::Result<FileSystem> {
        Ok(FileSystem { name: "model".into(), remote: false })
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
