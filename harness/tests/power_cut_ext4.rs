//! The model `ext4-ordered` against a real ext4: random programs run on a loop device, whose bytes are copied after
//! each call. Each copy is what the disk would hold had the power gone then; it is mounted (the kernel recovers the
//! journal) and read, and the tree found must be among those that the model allows for the calls made so far.
//!
//! Needs root, loop devices and mkfs.ext4. The long run, 400 programs:
//! `cargo test -p noclobber --test power_cut_ext4 -- --ignored --nocapture`.

mod power_cut_support;

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use noclobber::{
    fault::power_cut::{BLOCK, Disk, DiskModel, Event, Limits, NodeId, states, tree_hash},
    world::{Node, Tree, WorkTree},
};
use power_cut_support::{Action, Program, initial};
use rand_pcg::{Pcg64, rand_core::Rng as _};

const IMAGE_SIZE: u64 = 10 << 20;
const CALLS: usize = 14;

fn sh(command: &str) -> Result<(), String> {
    let out = Command::new("sh").args(["-c", command]).output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if out.status.success() { Ok(()) } else { Err(format!("`{command}`: {said}")) }
}

/// A mounted image, unmounted in any case.
struct Mounted(PathBuf);

/// A file that goes when it is not needed any more. Each image has a name of its own: the device of an earlier mount of
/// the same file may still be there, with what it remembers.
struct Image(PathBuf);

impl Image {
    fn new(dir: &Path) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        Image(dir.join(format!("image{}", MADE.fetch_add(1, Ordering::Relaxed))))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Mounted {
    fn new(image: &Path, at: &Path, options: &str) -> Result<Self, String> {
        sh(&format!("mount -t ext4 -o loop,{options} {} {}", image.display(), at.display()))?;
        Ok(Mounted(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(e) = sh(&format!("umount {0} || umount -l {0}", self.0.display())) {
            eprintln!("{e}");
        }
    }
}

struct Lab {
    dir: tempfile::TempDir,
    template: PathBuf,
    seen: Tally,
    /// What the model is told of the events so far.
    told: fn(&[Event]) -> Vec<Event>,
}

#[derive(Default, Debug)]
struct Tally {
    programs: usize,
    points: usize,
    images: usize,
    states: usize,
    model_states: usize,
    undecided: usize,
    outside: Vec<String>,
}

impl Lab {
    fn new(told: fn(&[Event]) -> Vec<Event>) -> Result<Lab, String> {
        let root = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
        let dir = tempfile::Builder::new().prefix("noclobber-ext4-").tempdir_in(root).map_err(|e| e.to_string())?;
        let template = dir.path().join("template");
        File::create(&template).and_then(|f| f.set_len(IMAGE_SIZE)).map_err(|e| e.to_string())?;
        // A smaller image would get no journal.
        sh(&format!("mkfs.ext4 -q -b {BLOCK} -J size=4 -m 0 {}", template.display()))?;
        let at = dir.path().join("mount");
        fs::create_dir(&at).map_err(|e| e.to_string())?;
        fs::create_dir(dir.path().join("look")).map_err(|e| e.to_string())?;
        {
            let _mounted = Mounted::new(&template, &at, "rw")?;
            fs::create_dir(at.join("w")).map_err(|e| e.to_string())?;
            WorkTree::new(at.join("w")).reset(&initial(BLOCK), &|_| true).map_err(|e| e.to_string())?;
            fs::write(at.join("other"), "x").map_err(|e| e.to_string())?;
        }
        Ok(Lab { dir, template, seen: Tally::default(), told })
    }

    fn program(&mut self, seed: u64) -> Result<(), String> {
        let disk = Disk::new(&initial(BLOCK));
        let mut program = Program::new(&disk, BLOCK);
        let mut random = Pcg64::new(u128::from(seed) << 64, 0x0a02_bdbf_7bb3_c0a7_ac28_fa16_a64a_bf96);
        while program.actions.len() < CALLS {
            let bits = random.next_u64().to_le_bytes();
            program.act([bits[0], bits[1], bits[2], bits[3], bits[4]]);
        }
        let image = Image::new(self.dir.path());
        fs::copy(&self.template, &image.0).map_err(|e| e.to_string())?;
        let mut copies: Vec<(usize, Vec<u8>)> = Vec::new();
        {
            let at = self.dir.path().join("mount");
            let _mounted = Mounted::new(&image.0, &at, "rw,commit=3600")?;
            let mut real = Real { root: at.join("w"), other: at.join("other"), open: BTreeMap::new() };
            for (action, events) in &program.actions {
                let failed = |e: io::Error| format!("program {seed}: {action:?}: {e}");
                real.act(action).map_err(failed)?;
                copies.push((*events, fs::read(&image.0).map_err(failed)?));
                // What the kernel may do by itself at any time: write files back, commit the journal.
                for _ in 0..random.next_u32() % 3 {
                    real.kernel_works(random.next_u32()).map_err(failed)?;
                    copies.push((*events, fs::read(&image.0).map_err(failed)?));
                }
            }
        }
        self.seen.programs += 1;
        let mut read: HashMap<[u8; 32], Tree> = HashMap::new();
        let mut checked = std::collections::HashSet::new();
        let mut allowed: HashMap<usize, noclobber::fault::power_cut::States> = HashMap::new();
        for (events, bytes) in copies {
            self.seen.points += 1;
            let key = *blake3::hash(&bytes).as_bytes();
            if let std::collections::hash_map::Entry::Vacant(place) = read.entry(key) {
                self.seen.images += 1;
                place.insert(self.look(&bytes)?);
            }
            let tree = &read[&key];
            let hash = tree_hash(tree);
            if !checked.insert((events, hash)) {
                continue;
            }
            self.seen.states += 1;
            let limits = Limits { states: 1 << 16, look: 1 << 12, block: BLOCK };
            let model = allowed.entry(events).or_insert_with(|| {
                states(&disk, &(self.told)(&program.events[..events]), DiskModel::Ext4Ordered, limits)
            });
            self.seen.model_states += model.known;
            if !model.states.iter().any(|state| state.hash == hash) {
                if model.complete {
                    let calls: Vec<String> =
                        program.actions.iter().filter(|(_, n)| *n <= events).map(|(a, _)| brief(a)).collect();
                    let nearest = nearest(tree, model.states.iter().map(|state| &state.tree));
                    self.seen.outside.push(format!("program {seed}: after\n  {}\n{nearest}", calls.join("\n  ")));
                } else {
                    self.seen.undecided += 1;
                }
            }
        }
        Ok(())
    }

    /// What the kernel makes of these bytes.
    fn look(&self, bytes: &[u8]) -> Result<Tree, String> {
        let image = Image::new(self.dir.path());
        fs::write(&image.0, bytes).map_err(|e| e.to_string())?;
        let at = self.dir.path().join("look");
        let _mounted = Mounted::new(&image.0, &at, "rw")?;
        WorkTree::new(at.join("w")).capture(&|_| true).map_err(|e| e.to_string())
    }
}

struct Real {
    root: PathBuf,
    other: PathBuf,
    open: BTreeMap<NodeId, File>,
}

impl Real {
    fn act(&mut self, action: &Action) -> io::Result<()> {
        let path = |path: &str| self.root.join(path);
        match action {
            Action::Create(node, name) => {
                let mut options = OpenOptions::new();
                let file = options.read(true).write(true).create_new(true).mode(0o644).open(path(name))?;
                self.open.insert(*node, file);
            }
            Action::Mkdir(name) => fs::create_dir(path(name))?,
            Action::Symlink(name) => std::os::unix::fs::symlink("a", path(name))?,
            Action::Link(from, to) => fs::hard_link(path(from), path(to))?,
            Action::Unlink(name) => fs::remove_file(path(name))?,
            Action::Rmdir(name) => fs::remove_dir(path(name))?,
            Action::Rename(from, to) => fs::rename(path(from), path(to))?,
            Action::Write { path: name, offset, data, durable: true, .. } => {
                let file = OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).open(path(name))?;
                file.write_all_at(data, *offset)?;
            }
            Action::Write { node, path: name, offset, data, .. } => {
                if !self.open.contains_key(node) {
                    let file = OpenOptions::new().read(true).write(true).open(path(name))?;
                    self.open.insert(*node, file);
                }
                self.open[node].write_all_at(data, *offset)?;
            }
            Action::Truncate(name, size) => OpenOptions::new().write(true).open(path(name))?.set_len(*size)?,
            Action::Reserve(name, to, keep_size) => {
                let file = OpenOptions::new().write(true).open(path(name))?;
                let flags = if *keep_size {
                    rustix::fs::FallocateFlags::KEEP_SIZE
                } else {
                    rustix::fs::FallocateFlags::empty()
                };
                rustix::fs::fallocate(&file, flags, 0, *to)?;
            }
            Action::Chmod(name, mode) => fs::set_permissions(path(name), fs::Permissions::from_mode(*mode))?,
            Action::Close(node) => drop(self.open.remove(node)),
            Action::Sync { path: name, data_only } => {
                let file = File::open(path(name))?;
                if *data_only { file.sync_data()? } else { file.sync_all()? }
            }
            Action::SyncAll => rustix::fs::syncfs(File::open(&self.root)?)?,
        }
        Ok(())
    }

    /// Something that the kernel does on its own when it likes: it commits the journal (forced here by an fsync of a
    /// file that the program does not know), or writes some file's pages back without committing.
    fn kernel_works(&self, what: u32) -> io::Result<()> {
        if what.is_multiple_of(2) || self.open.is_empty() {
            let other = OpenOptions::new().write(true).open(&self.other)?;
            other.set_permissions(fs::Permissions::from_mode(0o600 + (what >> 8 & 7)))?;
            other.set_len(u64::from(what >> 12 & 0xff))?;
            return other.sync_all();
        }
        let file = self.open.values().nth(what as usize / 2 % self.open.len()).expect("not empty");
        write_back(file.as_raw_fd())
    }
}

/// Writes a file's dirty pages back, and commits nothing: `sync_file_range`, through a program that offers it, so that
/// no test needs `unsafe`.
fn write_back(fd: i32) -> io::Result<()> {
    let path = format!("/proc/{}/fd/{fd}", std::process::id());
    // SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER
    let script = "import ctypes, os, sys\n\
                  fd = os.open(sys.argv[1], os.O_RDONLY)\n\
                  sys.exit(-ctypes.CDLL(None).sync_file_range(fd, ctypes.c_long(0), ctypes.c_long(0), 6))";
    let status = Command::new("python3").args(["-S", "-E", "-c", script, &path]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("sync_file_range failed")) }
}

fn brief(action: &Action) -> String {
    match action {
        Action::Write { path, offset, data, durable, .. } => {
            format!("write {path} {offset}..{}{}", offset + data.len() as u64, if *durable { " O_DSYNC" } else { "" })
        }
        other => format!("{other:?}"),
    }
}

fn show(tree: &Tree) -> BTreeMap<String, String> {
    let node = |node: &Node| match node {
        Node::File { mode, bytes } => {
            let mut runs: Vec<(u8, usize)> = Vec::new();
            for byte in bytes.chunks(64).map(|chunk| chunk[0]) {
                match runs.last_mut() {
                    Some((last, n)) if *last == byte => *n += 1,
                    _ => runs.push((byte, 1)),
                }
            }
            let zeros = bytes.iter().filter(|byte| **byte == 0).count();
            format!("{mode:o} {} bytes, {zeros} zeros, #{}", bytes.len(), &blake3::hash(bytes).to_hex()[..8])
        }
        other => format!("{other:?}"),
    };
    tree.iter().map(|(path, n)| (path.clone(), node(n))).collect()
}

fn nearest<'t>(tree: &Tree, others: impl Iterator<Item = &'t Tree>) -> String {
    let found = show(tree);
    let difference = |other: &Tree| {
        let other = show(other);
        let names: std::collections::BTreeSet<&String> = found.keys().chain(other.keys()).collect();
        let differ: Vec<String> = names
            .into_iter()
            .filter(|name| found.get(*name) != other.get(*name))
            .map(|name| format!("    {name}: disk {:?}, model {:?}", found.get(name), other.get(name)))
            .collect();
        differ
    };
    let best = others.map(difference).min_by_key(Vec::len).unwrap_or_default();
    format!("  the disk held {found:?}\n  nearest state of the model differs in\n{}", best.join("\n"))
}

/// Runs programs and compares; `None`: this machine cannot.
fn compare(seeds: std::ops::Range<u64>, told: fn(&[Event]) -> Vec<Event>) -> Option<Tally> {
    let mut lab = match Lab::new(told) {
        Ok(lab) => lab,
        Err(why) => {
            eprintln!("\n*** NOT VALIDATED: this machine has no ext4 loop devices ({why}).");
            eprintln!("*** The model of power cuts was compared with no real disk in this run.\n");
            let is_root = rustix::process::geteuid().is_root();
            assert!(!is_root, "root, and still no ext4 loop device: {why}");
            return None;
        }
    };
    for seed in seeds {
        lab.program(seed).unwrap();
    }
    let seen = lab.seen;
    println!(
        "{} programs, {} cut points, {} distinct images, {} states seen, {} allowed there in sum, {} outside the model, \
         {} undecided",
        seen.programs,
        seen.points,
        seen.images,
        seen.states,
        seen.model_states,
        seen.outside.len(),
        seen.undecided
    );
    assert!(seen.states > seen.programs, "too little was seen: {seen:?}");
    Some(seen)
}

fn validate(seeds: std::ops::Range<u64>) {
    let Some(seen) = compare(seeds, <[Event]>::to_vec) else { return };
    assert!(seen.outside.is_empty(), "{}", seen.outside[..seen.outside.len().min(12)].join("\n\n"));
    assert_eq!(seen.undecided, 0);
}

#[test]
fn what_a_real_ext4_leaves_is_among_the_states_of_the_model() {
    validate(0..8);
}

#[test]
fn a_model_that_promises_too_much_is_caught() {
    let everything_lasts = |events: &[Event]| [events, &[Event::SyncAll]].concat();
    let Some(seen) = compare(100..102, everything_lasts) else { return };
    assert!(!seen.outside.is_empty(), "{seen:?}");
}

#[test]
#[ignore = "a quarter of an hour: 100 programs"]
fn programs_0_to_99_on_a_real_ext4() {
    validate(0..100);
}

#[test]
#[ignore = "a quarter of an hour: 100 programs"]
fn programs_100_to_199_on_a_real_ext4() {
    validate(100..200);
}

#[test]
#[ignore = "half an hour: 200 programs"]
fn programs_200_to_399_on_a_real_ext4() {
    validate(200..400);
}
