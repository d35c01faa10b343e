//! Names the build: a digest of everything that the program is built from, so that a sweep's folder can say which
//! program made its points. Not the commit: a folder may be run by what is not committed.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// All that the program is built from but its dependencies, whose versions are in Cargo.lock.
const SOURCES: [&str; 3] = ["src", "topologies", "Cargo.lock"];

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        collect(Path::new(source), &mut files)?;
    }
    files.sort();
    let mut hash = DefaultHasher::new();
    for file in &files {
        hash.write(file.to_string_lossy().as_bytes());
        hash.write(&fs::read(file)?);
    }
    let version = env!("CARGO_PKG_VERSION");
    println!(
        "cargo::rustc-env=FABRICSIM_BUILD={version}-{:016x}",
        hash.finish()
    );
    Ok(())
}

/// The files of a folder and of those in it; of a file itself.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        if path.exists() {
            files.push(path.to_owned());
        }
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
