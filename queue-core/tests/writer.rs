//! The process that writes for all, and those who ask it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A writer that serves in a folder of its own.
struct Served {
    folder: tempfile::TempDir,
    child: Child,
    socket: String,
}

impl Served {
    fn start() -> Served {
        Served::with("exec \"$0\" \"$@\"")
    }

    /// Started by this shell command.
    fn with(command: &str) -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = Command::new("sh")
            .args([
                "-c",
                command,
                env!("CARGO_BIN_EXE_queue"),
                "serve",
                "--idle",
                "30s",
                "--durability",
                "none",
                "--no-snapshots",
            ])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("queue starts");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("what it says");
        let said: Value = serde_json::from_str(&line).expect("a line of JSON");
        assert_eq!(said["outcome"], "serving", "{line}");
        let socket = said["socket"].as_str().expect("a path").to_owned();
        Served { folder, child, socket }
    }

    fn queue(&self, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_queue"));
        command.args(arguments).args(["--strategy", "writer", "--durability", "none", "--no-snapshots"]);
        let ran = command.current_dir(self.folder.path()).output().expect("queue starts");
        let lines = String::from_utf8_lossy(&ran.stdout).into_owned();
        (ran.status.code(), lines.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// It is given up after a few seconds, not waited for: its operations were carried out, and everybody else is served.
#[test]
fn who_does_not_read_the_answers_does_not_stop_the_others() {
    let served = Served::start();
    let mut rude = UnixStream::connect(&served.socket).expect("it listens");
    rude.set_write_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let task = |n: usize| format!(r#"{{"id":"r{n}","account":"a","params":null,"state":"queued","attempts":0}}"#);
    let request = |n: usize| {
        format!("{{\"id\":\"{n}\",\"again\":false,\"ask\":{{\"Operate\":{{\"Push\":{{\"tasks\":[{}]}}}}}}}}\n", task(n))
    };
    // Far more answers than a socket has room for. That it stops taking them is no failure here.
    let all: String = (0..4000).map(request).collect();
    let _ = rude.write_all(all.as_bytes());

    let begun = Instant::now();
    let (exit, lines) = served.queue(&["push", "--id", "polite", "--timeout", "60s"]);
    assert_eq!((exit, &lines[0]["outcome"]), (Some(0), &"pushed".into()), "after {:?}", begun.elapsed());
    let (_, listed) = served.queue(&["list"]);
    assert!(listed.iter().any(|task| task["id"] == "r0"), "what was carried out stays");
    // Its connection is closed: after what was sent there is an end.
    rude.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
    let mut answers = Vec::new();
    let end = rude.read_to_end(&mut answers);
    assert!(end.is_ok() || end.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
    let answered = answers.iter().filter(|byte| **byte == b'\n').count();
    assert!((1..4000).contains(&answered), "{answered} answers");
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let served = Served::start();
    for nonsense in [
        "nonsense\n",
        "{\"id\":1}\n",
        "\u{0}\n",
        "{\"id\":\"1\",\"again\":false,\"ask\":{\"Operate\":{\"Push\":{\"tasks\":[{\"id\":\"\"}]}}}}\n",
    ] {
        let mut stream = UnixStream::connect(&served.socket).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
        stream.write_all(nonsense.as_bytes()).expect("it reads");
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert_eq!(String::from_utf8_lossy(&said), "", "{nonsense:?}");
    }
    let (exit, lines) = served.queue(&["push", "--id", "t1", "--timeout", "60s"]);
    assert_eq!((exit, &lines[0]["outcome"]), (Some(0), &"pushed".into()));
    let (_, listed) = served.queue(&["list"]);
    assert_eq!(listed.len(), 1, "{listed:?}");
}

/// Whoever has connected and says nothing does not keep the others out, even if nobody can connect beside it any more.
#[test]
fn who_connects_and_says_nothing_makes_room() {
    let served = Served::with("ulimit -n 24; exec \"$0\" \"$@\"");
    let idle: Vec<UnixStream> = (0..40).map(|_| UnixStream::connect(&served.socket).expect("it listens")).collect();
    for number in 0..3 {
        let (exit, said) = served.queue(&["push", "--id", &format!("t{number}"), "--timeout", "20s"]);
        assert_eq!((exit, said[0]["outcome"].as_str()), (Some(0), Some("pushed")), "{said:?}");
    }
    drop(idle);
}
