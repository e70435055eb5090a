//! The checks.

use std::{fs, path::Path};

use serde::Serialize;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// There.
    Ok,
    /// Works, but not as well as it could.
    Limited,
    /// Nothing can be run.
    Missing,
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A short name.
    pub id: &'static str,
    /// How it is.
    pub health: Health,
    /// What was found, in words.
    pub detail: String,
    /// What to do; empty when nothing is to be done.
    pub fix: String,
}

/// Memory that a schedule's files need at least, in bytes: worlds are kept in memory.
const LITTLE_MEMORY: u64 = 256 << 20;

/// Looks at everything. `control` tries real control of processes: whether it had namespaces of its own for that, or why it
/// fails.
pub fn examine(control: impl FnOnce() -> Result<bool, String>) -> Vec<Check> {
    let proc = Path::new("/proc");
    let mut checks = vec![processor(std::env::consts::OS, std::env::consts::ARCH), kernel(proc)];
    checks.extend([ptrace(proc), namespaces(proc, is_root()), memory(proc), processors(), processes(proc)]);
    let controlled = control();
    if controlled == Ok(false)
        && let Some(found) = checks.iter_mut().find(|check| check.id == "namespaces" && check.health == Health::Ok)
    {
        // No setting says so: a filter of system calls, or a /proc of which parts are masked.
        *found = without_namespaces("something forbids them (the container's runtime?)", "");
    }
    checks.push(match controlled {
        Ok(_) => check("control", Health::Ok, "a built-in race was run and found".into(), ""),
        Err(why) => check("control", Health::Missing, why, "see the checks above, and the advice for where this runs"),
    });
    checks
}

fn check(id: &'static str, health: Health, detail: String, fix: &str) -> Check {
    Check { id, health, detail, fix: fix.into() }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn processor(os: &str, arch: &str) -> Check {
    let detail = format!("{os} on {arch}");
    match (os, arch) {
        ("linux", "x86_64") => check("system", Health::Ok, detail, ""),
        _ => check("system", Health::Missing, detail, "run it on Linux on x86_64, or in such a virtual machine"),
    }
}

fn kernel(proc: &Path) -> Check {
    let release = read(proc, "sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    // PTRACE_GET_SYSCALL_INFO came with 5.3.
    if version >= (5, 3) {
        check("kernel", Health::Ok, release, "")
    } else {
        check("kernel", Health::Missing, release, "Linux 5.3 or later is needed")
    }
}

fn ptrace(proc: &Path) -> Check {
    match read(proc, "sys/kernel/yama/ptrace_scope").as_deref() {
        Some("3") => check(
            "ptrace",
            Health::Missing,
            "kernel.yama.ptrace_scope is 3: nobody may trace, until the next boot".into(),
            "set kernel.yama.ptrace_scope to 0, 1 or 2 in /etc/sysctl.d and boot again",
        ),
        Some("2") if !is_root() => check(
            "ptrace",
            Health::Limited,
            "kernel.yama.ptrace_scope is 2: only with CAP_SYS_PTRACE".into(),
            "run as root, or: sysctl kernel.yama.ptrace_scope=1",
        ),
        _ => check("ptrace", Health::Ok, "processes may trace their children".into(), ""),
    }
}

fn namespaces(proc: &Path, root: bool) -> Check {
    let capable = effective_capabilities(proc).is_some_and(|caps| caps & (1 << CAP_SYS_ADMIN) != 0);
    if capable {
        return check("namespaces", Health::Ok, "CAP_SYS_ADMIN".into(), "");
    }
    let off = |name| read(proc, name).is_some_and(|value| value == "0");
    let restricted = read(proc, "sys/kernel/apparmor_restrict_unprivileged_userns").is_some_and(|value| value != "0");
    let found = [
        (off("sys/user/max_user_namespaces"), "sysctl user.max_user_namespaces=10000"),
        (off("sys/kernel/unprivileged_userns_clone"), "sysctl kernel.unprivileged_userns_clone=1"),
        (restricted && !root, "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ];
    match found.into_iter().find(|(forbids, _)| *forbids) {
        Some((_, fix)) => without_namespaces("neither CAP_SYS_ADMIN nor user namespaces for ordinary users", fix),
        None => check("namespaces", Health::Ok, "user namespaces, as an ordinary user".into(), ""),
    }
}

fn without_namespaces(why: &str, fix: &str) -> Check {
    let so = "process numbers are the machine's, no --watch, no copies of started workers, one schedule at a time";
    check("namespaces", Health::Limited, format!("{why}: {so}"), fix)
}

/// See capabilities(7).
const CAP_SYS_ADMIN: u32 = 21;

fn effective_capabilities(proc: &Path) -> Option<u64> {
    let status = read(proc, "self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn memory(proc: &Path) -> Check {
    let info = read(proc, "meminfo").unwrap_or_default();
    let available = info
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    match available.map(|kib| kib << 10) {
        Some(bytes) if bytes < LITTLE_MEMORY => check(
            "memory",
            Health::Limited,
            format!("{} MiB available: worlds are kept in memory", bytes >> 20),
            "free some, or explore smaller folders (--dir)",
        ),
        Some(bytes) => check("memory", Health::Ok, format!("{} MiB available for worlds", bytes >> 20), ""),
        None => check("memory", Health::Limited, "unknown".into(), ""),
    }
}

fn processors() -> Check {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let fix = if count == 1 { "--jobs gains nothing here" } else { "" };
    check("processors", Health::Ok, format!("{count} to use"), fix)
}

fn processes(proc: &Path) -> Check {
    let limits = read(proc, "self/limits").unwrap_or_default();
    let limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max processes"))
        .and_then(|rest| rest.split_whitespace().next().map(str::to_owned))
        .unwrap_or_else(|| "unknown".into());
    match limit.parse::<u64>() {
        Ok(limit) if limit < 256 => check(
            "processes",
            Health::Limited,
            format!("at most {limit} for this user"),
            "ulimit -u 4096, or a container with a larger pids limit",
        ),
        _ => check("processes", Health::Ok, format!("at most {limit} for this user"), ""),
    }
}

fn read(proc: &Path, name: &str) -> Option<String> {
    fs::read_to_string(proc.join(name)).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name and text.
    type File = (&'static str, &'static str);

    /// A `/proc` with these files.
    fn proc(files: &[File]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn what_forbids_namespaces_is_named() {
        let nobody = ("self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
        let cases: [(&[File], Health, &str); 5] = [
            (&[nobody], Health::Ok, ""),
            (
                &[nobody, ("sys/user/max_user_namespaces", "0\n")],
                Health::Limited,
                "sysctl user.max_user_namespaces=10000",
            ),
            (
                &[nobody, ("sys/kernel/unprivileged_userns_clone", "0\n")],
                Health::Limited,
                "sysctl kernel.unprivileged_userns_clone=1",
            ),
            (
                &[nobody, ("sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")],
                Health::Limited,
                "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
            ),
            (
                &[("self/status", "CapEff:\t000001ffffffffff\n"), ("sys/user/max_user_namespaces", "0\n")],
                Health::Ok,
                "",
            ),
        ];
        for (files, health, fix) in cases {
            let found = namespaces(proc(files).path(), false);
            assert_eq!((found.health, found.fix.as_str()), (health, fix), "{files:?}");
        }
    }

    #[test]
    fn old_kernels_and_other_systems_are_refused() {
        for (release, health) in
            [("6.1.0-38-amd64", Health::Ok), ("5.3.0", Health::Ok), ("5.2.21", Health::Missing), ("x", Health::Missing)]
        {
            let dir = proc(&[("sys/kernel/osrelease", release)]);
            assert_eq!(kernel(dir.path()).health, health, "{release}");
        }
        assert_eq!(processor("macos", "aarch64").health, Health::Missing);
        assert_eq!(processor("linux", "x86_64").health, Health::Ok);
    }

    #[test]
    fn nobody_may_trace_at_scope_three() {
        let dir = proc(&[("sys/kernel/yama/ptrace_scope", "3\n")]);
        assert_eq!(ptrace(dir.path()).health, Health::Missing);
    }

    #[test]
    fn little_memory_and_few_processes_are_limits() {
        let dir = proc(&[
            ("meminfo", "MemTotal: 9 kB\nMemAvailable:    1024 kB\n"),
            (
                "self/limits",
                "Limit   Soft Limit  Hard Limit  Units\nMax processes             64      64      processes\n",
            ),
        ]);
        assert_eq!(memory(dir.path()).health, Health::Limited);
        assert_eq!(processes(dir.path()).health, Health::Limited);
    }

    #[test]
    fn the_last_check_is_the_real_thing() {
        let why = "control is not working: the built-in race was not found in 40 schedules";
        let broken = examine(|| Err(why.into()));
        let last = broken.last().unwrap();
        assert_eq!((last.id, last.health, last.detail.as_str()), ("control", Health::Missing, why));
        let works = examine(|| Ok(true));
        assert_eq!(works.last().unwrap().health, Health::Ok);
        let limited = examine(|| Ok(false));
        let namespaces = limited.iter().find(|check| check.id == "namespaces").unwrap();
        assert_eq!((limited.last().unwrap().health, namespaces.health), (Health::Ok, Health::Limited));
    }
}
