//! A process whose first thread ends before the others: it lives on, its exit code is the one that counts, and what it
//! has open is closed when the last one ends.

use std::fs;

use scenarios::run;

const PROGRAM: &str = r#"
import ctypes, os, threading, time
def late():
    time.sleep(0.1)
    open("late", "w").write("written\n")
    os._exit(7)
threading.Thread(target=late).start()
ctypes.CDLL(None).syscall(60, 0)
"#;

#[test]
fn the_last_thread_gives_the_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("late.py"), PROGRAM).expect("a program");
    let scenario = "name = \"late\"\nexpect = \"clean\"\ncheck = \"grep -q written late\"\n\
                    [[worker]]\nname = \"A\"\nrun = \"/usr/bin/python3 $SCENARIO_DIR/late.py\"\nexit = [7]\n\
                    [[worker]]\nname = \"B\"\nrun = \"echo 1 > other\"\n";
    let file = folder.path().join("late.toml");
    fs::write(&file, scenario).expect("a scenario");
    let answer = run(&[file]);
    assert_eq!(answer.exit, Some(0), "{:?} {}", answer.reports, answer.stderr);
    assert_eq!(answer.report()["verdict"], "clean");
    assert_eq!(answer.report()["explored"]["exhausted"], true);
}

/// Ends with the lock held, the file open and threads that sleep: whichever dies last gives all of it back.
const HOLDER: &str = r#"
import fcntl, os, threading, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
for _ in range(3):
    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
with open("n") as file:
    n = int(file.read())
out = open("n", "w")
out.write(str(n + 1))
out.flush()
os._exit(0)
"#;

#[test]
fn the_last_thread_gives_back_what_its_process_held() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("holder.py"), HOLDER).expect("a program");
    let worker =
        |name: &str| format!("[[worker]]\nname = \"{name}\"\nrun = \"/usr/bin/python3 $SCENARIO_DIR/holder.py\"\n");
    let scenario = format!(
        "name = \"held\"\nexpect = \"clean\"\nfiles = {{ n = \"0\" }}\ncheck = \"grep -q 2 n\"\n{}{}",
        worker("A"),
        worker("B")
    );
    let file = folder.path().join("held.toml");
    fs::write(&file, scenario).expect("a scenario");
    let mut hashes = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let answer = run(std::slice::from_ref(&file));
        assert_eq!(answer.exit, Some(0), "{:?} {}", answer.reports, answer.stderr);
        assert_eq!(answer.report()["explored"]["exhausted"], true);
        // Twice as many when the closing that publishes the write is missed.
        assert_eq!(answer.report()["explored"]["schedules"], 8);
        hashes.insert(answer.report()["trace_hash"].as_str().expect("a hash").to_owned());
    }
    assert_eq!(hashes.len(), 1, "{hashes:?}");
}
