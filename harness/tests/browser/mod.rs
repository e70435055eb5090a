//! Pages in a real browser.
#![allow(missing_docs, unreachable_pub)]

use std::process::Command;

/// A browser that was loaded with a page: its document afterwards, and what it complained of.
pub struct Browsed {
    pub document: String,
    pub complaints: Vec<String>,
}

pub fn browse(page: &str, arguments: &[&str]) -> Browsed {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, page).unwrap();
    let program = ["chromium", "google-chrome", "chromium-browser", "chrome"]
        .into_iter()
        .find(|name| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| folder.join(name).exists())
        })
        .expect("a browser (chromium or google-chrome): run scenarios/setup");
    let output = Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"])
        .args(["--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("the browser starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    Browsed {
        document: String::from_utf8_lossy(&output.stdout).into_owned(),
        complaints: stderr.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect(),
    }
}
