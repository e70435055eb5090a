//! The programs that scenarios need, built from this workspace.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Where `noclobber` and `queue` are.
#[derive(Debug)]
pub struct Programs {
    /// The folder that holds both.
    pub folder: PathBuf,
}

impl Programs {
    /// `noclobber`.
    pub fn noclobber(&self) -> PathBuf {
        self.folder.join("noclobber")
    }

    /// A `PATH` on which workers find `queue`.
    pub fn path(&self) -> OsString {
        let mut path = OsString::from(&self.folder);
        path.push(":");
        path.push(env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        path
    }
}

/// Builds the programs, once per process, into the target folder and the profile of whoever asks.
///
/// # Panics
/// When they do not build: without them no test means anything.
pub fn programs() -> &'static Programs {
    static BUILT: OnceLock<Programs> = OnceLock::new();
    BUILT.get_or_init(|| {
        // TARGET/PROFILE/NAME for a program, TARGET/PROFILE/deps/NAME for a test.
        let me = env::current_exe().expect("the path of this program");
        let folder = me.ancestors().skip(1).find(|dir| !dir.ends_with("deps")).expect("a program lies in a folder");
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--bins", "-p", "noclobber", "-p", "queue-core"]);
        cargo.arg("--target-dir").arg(folder.parent().unwrap_or(Path::new("target")));
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo starts");
        assert!(built.success(), "noclobber and queue do not build");
        Programs { folder: folder.to_owned() }
    })
}
