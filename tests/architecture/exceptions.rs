//! What breaks a law and may do so for now. The lists only get shorter: what is not in them fails, and so does an entry
//! that is no longer needed; with `FABRICSIM_BLESS=1` such entries are taken out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Holds what was found against the list of a law, `tests/architecture/LAW.txt`.
pub(super) fn hold(law: &str, what: &str, found: BTreeSet<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/architecture/{law}.txt"));
    let mut known: BTreeSet<String> = match fs::read_to_string(&path) {
        Ok(text) => text.lines().map(str::to_owned).collect(),
        // A new law begins with what breaks it.
        Err(_) => found.clone(),
    };
    if std::env::var_os("FABRICSIM_BLESS").is_some() {
        known.retain(|entry| found.contains(entry));
        let text: String = known.iter().map(|entry| format!("{entry}\n")).collect();
        fs::write(&path, text).unwrap();
    }
    let new: Vec<&String> = found.difference(&known).collect();
    assert!(new.is_empty(), "{what}; found\n{new:#?}");
    let gone: Vec<&String> = known.difference(&found).collect();
    assert!(
        gone.is_empty(),
        "no longer needed in {}: take out\n{gone:#?}",
        path.display()
    );
}
