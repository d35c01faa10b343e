//! What a command may use of this machine.

use fabricsim_budget::{Budget, Memory};
use fabricsim_units::Bytes;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Flags for what a command may use.
#[derive(Debug, clap::Args)]
pub(super) struct BudgetArgs {
    /// Memory, at most; what would take more is refused [default: 70 % of what the machine, its
    /// container or `ulimit -v` has]
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse_flag)]
    memory: Option<Bytes>,
    /// Threads in all [default: as many as there are processors]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// The part of what there is that a run may hold: others use the machine, too, and not all that is
/// held is counted.
const PERCENT: u64 = 70;

impl BudgetArgs {
    /// Memory, if it was said.
    pub(super) const fn memory(&self) -> Option<Bytes> {
        self.memory
    }

    /// Threads, if they were said.
    pub(super) const fn jobs(&self) -> Option<NonZeroUsize> {
        self.jobs
    }

    /// The budget of a command.
    pub(super) fn budget(&self, exact_full: bool) -> Budget {
        let own = || {
            let whole = available(Path::new("/"))?;
            Some(Bytes::new(whole / 100 * PERCENT))
        };
        let all = Budget::default();
        Budget {
            threads: self.jobs.map_or(all.threads, NonZeroUsize::get),
            exact_full,
            memory: self
                .memory
                .or_else(own)
                .map_or_else(Memory::unlimited, Memory::of),
            ..all
        }
    }
}

/// The smallest of the machine's memory and the limits of this process and of its control groups, as
/// the files below `root` say; nothing where none of them does.
fn available(root: &Path) -> Option<u64> {
    let read = |path: PathBuf| fs::read_to_string(root.join(path)).ok();
    let machine = read("proc/meminfo".into()).and_then(|text| total(&text));
    let groups = read("proc/self/cgroup".into()).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next().unwrap_or_default();
        let own = parts.next().unwrap_or_default().trim_start_matches('/');
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        // The limits of all groups above it hold, too; in a container its own is the mount itself.
        let groups = Path::new(own).ancestors();
        groups
            .map(|group| Path::new(mount).join(group).join(file))
            .collect()
    });
    let limits = limits.filter_map(|path| read(path)?.trim().parse().ok());
    let own = read("proc/self/limits".into()).unwrap_or_default();
    limits.chain(machine).chain(address_space(&own)).min()
}

/// The soft limit of address space in Linux's `/proc/self/limits` (`ulimit -v`), if there is one.
fn address_space(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let soft = lines.find_map(|line| line.strip_prefix("Max address space"))?;
    soft.split_whitespace().next()?.parse().ok()
}

/// `MemTotal` of Linux's `/proc/meminfo`.
fn total(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 16 GiB whose files say this.
    fn machine(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let meminfo = (
            "proc/meminfo",
            "MemTotal:       16777216 kB\nMemFree: 1 kB\n",
        );
        for (path, text) in files.iter().chain([&meminfo]) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        available(root.path())
    }

    #[test]
    fn the_smallest_limit_counts() {
        assert_eq!(machine(&[]), Some(16 << 30));
        let v2 = ("proc/self/cgroup", "0::/a/b\n");
        assert_eq!(
            machine(&[v2, ("sys/fs/cgroup/a/b/memory.max", "max\n")]),
            Some(16 << 30)
        );
        let above = ("sys/fs/cgroup/a/memory.max", "1073741824\n");
        assert_eq!(machine(&[v2, above]), Some(1 << 30));
        let limits = |soft| {
            format!(
                "Max cpu time        unlimited   unlimited   seconds\nMax address space   {soft}   unlimited   bytes\n"
            )
        };
        let space = |soft| machine(&[("proc/self/limits", &limits(soft))]);
        assert_eq!(space("8192000000"), Some(8_192_000_000));
        assert_eq!(space("unlimited"), Some(16 << 30));
        let v1 = ("proc/self/cgroup", "5:cpu:/x\n4:memory,hugetlb:/docker/1\n");
        let own = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
        assert_eq!(machine(&[v1, own]), Some(2 << 30));
        let none = (
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(machine(&[v1, none]), Some(16 << 30));
        assert_eq!(available(Path::new("/nowhere")), None);
    }
}
