//! What `/proc` shows of this machine and of the sandbox is the same in every run of the tool: a program that puts it
//! into its files has one trace.

use std::fs;

use scenarios::run;

/// The power goes while A works, or when it is done; R comes after that. The check runs in the same boot as R.
fn boots(name: &str, check: &str) -> String {
    let shown = "/proc/sys/kernel/random/boot_id";
    format!(
        "name = '{name}'\nexpect = 'clean'\ncheck = \"{check}\"\n\
         [[worker]]\nname = 'A'\nrun = 'cat {shown} > a; sync a .'\n\
         [[worker]]\nname = 'R'\nafter = ['A']\nrun = 'cat {shown} > r'\n\
         [[fault]]\nkind = 'power-cut'\nworker = 'A'\n[search]\nsearch = 'exhaustive'\n[oracle]\nignore = ['a', 'r']\n"
    )
}

#[test]
fn a_power_cut_is_the_end_of_a_boot() {
    let dir = tempfile::tempdir().expect("a folder");
    let verdict = |name: &str, check: &str| {
        let file = dir.path().join(format!("{name}.toml"));
        fs::write(&file, boots(name, check)).expect("a scenario");
        let answer = run(&[file]);
        let report = answer.report();
        (report["verdict"].clone(), report["explored"]["schedules"].as_u64())
    };
    let (same, schedules) = verdict("same", "cmp r /proc/sys/kernel/random/boot_id");
    assert_eq!(same, "clean");
    assert!(schedules > Some(2), "{schedules:?}");
    let (other, _) = verdict("other", "! grep -qs -e - a || cmp a r");
    assert_eq!(other, "check-failed", "what A has left durably is of another boot");
}

const PROGRAM: &str = r#"
import os, pathlib, socket
seen = [pathlib.Path(p).read_text() for p in (
    "/proc/uptime", "/proc/loadavg", "/proc/self/stat", "/proc/self/status", "/proc/self/statm", "/proc/meminfo",
    "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/random/boot_id", "/proc/self/mountinfo", "/proc/vmstat",
    "/proc/interrupts", "/proc/self/smaps", "/proc/self/io", "/proc/self/sched")]
for path in ("/proc", "/proc/self/stat", "/proc/self/ns/pid", "/proc/self/ns/mnt", "/"):
    seen.append(str(tuple(os.stat(path))))
seen += [os.readlink("/proc/self/ns/pid"), str(os.fstat(os.open("/proc/self/ns/pid", os.O_RDONLY)).st_ino)]
assert os.stat("/proc").st_dev == os.stat("/proc/uptime").st_dev
# Files without a name: pipes, sockets, memory.
read, write = os.pipe()
one, other = socket.socketpair()
memory = os.memfd_create("memory")
for fd in (1, 2, read, write, one.fileno(), other.fileno(), memory):
    link = f"/proc/self/fd/{fd}"
    seen += [str(tuple(os.fstat(fd))), str(tuple(os.stat(link))), os.readlink(link)]
    seen.append(pathlib.Path(f"/proc/self/fdinfo/{fd}").read_text())
assert os.path.sameopenfile(read, write) and not os.path.sameopenfile(one.fileno(), other.fileno())
assert os.readlink(f"/proc/self/fd/{read}") == f"pipe:[{os.fstat(read).st_ino}]"
# A file is the same in parts of any size.
for path in ("self/mountinfo", "self/stat", "self/status", "meminfo", "vmstat", "sys/kernel/random/boot_id"):
    whole = pathlib.Path("/proc", path).read_bytes()
    with open("/proc/" + path, "rb", buffering=0) as file:
        parts = b"".join(iter(lambda: file.read(7), b""))
        assert parts == whole and file.seek(3) == 3 and file.read(9) == whole[3:12], path
        assert os.pread(file.fileno(), 5, 20) == whole[20:25] and file.read(2) == whole[12:14], path
assert pathlib.Path("/proc/self/mountinfo").read_bytes().split()[0] == b"1"
assert pathlib.Path("/proc/sys/kernel/random/boot_id").read_text() == "6e6f636c-6f62-4265-8000-000000000001\n"
# How full the disks are, and what the machine is doing.
for path in ("/", "/usr", "."):
    space = os.statvfs(path)
    assert space.f_bfree == space.f_blocks and space.f_blocks > 0, path
    seen.append(str(space))
assert os.getloadavg() == (0.0, 0.0, 0.0)
seen.append(str(os.sysconf("SC_AVPHYS_PAGES")))
pathlib.Path("seen").write_text("\n".join(seen))
"#;

#[test]
fn one_trace_whatever_the_machine_does() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("seen.py"), PROGRAM).expect("a program");
    let file = folder.path().join("seen.toml");
    fs::write(
        &file,
        "name = \"seen\"\nexpect = \"clean\"\n[[worker]]\nname = \"A\"\nrun = \"/usr/bin/python3 $SCENARIO_DIR/seen.py\"\n",
    )
    .expect("a scenario");
    let hashes: Vec<_> = (0..2)
        .map(|_| {
            let answer = run(std::slice::from_ref(&file));
            assert_eq!(answer.exit, Some(0), "{:?} {}", answer.reports, answer.stderr);
            answer.report()["trace_hash"].as_str().expect("a hash").to_owned()
        })
        .collect();
    assert_eq!(hashes[0], hashes[1]);
}
