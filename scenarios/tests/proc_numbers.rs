//! What `/proc` shows of this machine and of the sandbox is the same in every run of the tool: a program that puts it
//! into its files has one trace.

use std::fs;

use scenarios::run;

const PROGRAM: &str = r#"
import os, pathlib
seen = [pathlib.Path(p).read_text() for p in (
    "/proc/uptime", "/proc/loadavg", "/proc/self/stat", "/proc/self/status", "/proc/self/statm", "/proc/meminfo",
    "/proc/sys/kernel/random/uuid", "/proc/sys/kernel/random/boot_id")]
for path in ("/proc", "/proc/self/stat", "/proc/self/ns/pid", "/proc/self/ns/mnt", "/"):
    seen.append(str(tuple(os.stat(path))))
seen += [os.readlink("/proc/self/ns/pid"), str(os.fstat(os.open("/proc/self/ns/pid", os.O_RDONLY)).st_ino)]
assert os.stat("/proc").st_dev == os.stat("/proc/uptime").st_dev
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
