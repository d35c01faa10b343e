//! How much of a large machine's operation is recorded, in words.

use super::numbers::grouped;
use super::record::{LinkUse, Recorded};

/// A link's name, and for how many others it stands.
pub(super) fn with_others(link: &LinkUse) -> String {
    match link.alike {
        0 | 1 => link.name.clone(),
        all => format!("{} and {} alike", link.name, grouped(u64::from(all - 1))),
    }
}

/// For how many links `links` stand.
pub(super) fn link_count(links: &[LinkUse]) -> u64 {
    links.iter().map(|link| u64::from(link.alike)).sum()
}

/// What is recorded and what is left out, and how to get all of it.
#[must_use]
pub fn recorded_sentence(recorded: &Recorded) -> String {
    let counted = |count: u32| grouped(u64::from(count));
    let mut sentence = format!(
        "The timeline is of {} of {} GPUs",
        counted(recorded.gpus),
        counted(recorded.ranks)
    );
    if recorded.until < recorded.end {
        sentence += &format!(
            ", and with the use of links over time of the first {} of {}",
            recorded.until.human(),
            recorded.end.human()
        );
    }
    if recorded.accounts < recorded.ranks {
        sentence += &format!(
            "; the first {} ranks have an account of their time",
            counted(recorded.accounts)
        );
    }
    sentence += "; links that carried as much are told once";
    if recorded.links_left_out > 0 {
        sentence += &format!(
            ", without the {} least busy",
            grouped(recorded.links_left_out)
        );
    }
    sentence + ". --exact-full records all."
}
