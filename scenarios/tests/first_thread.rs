//! A process whose first thread ends before the others lives on, and its exit code is the one that counts.

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
