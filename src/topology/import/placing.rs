//! From the words between devices to a tree of switches, bridges and CPUs that gives the same
//! words.
//!
//! PIX, PXB, PHB and NODE are levels of a tree: devices that share a level are one group. The
//! groups are made from the cells, and a cell that does not fit them is a fault. NVLink hides
//! the level between two GPUs; where nothing else tells it, they go to the NUMA node that
//! their affinity names, each to a root port of its own.

use super::draft::{Draft, Far, Forwarder, Gpu, Nic, Up};
use super::parts::{Generation, GpuClues, NamedGpu, Parts};
use super::smi::{Cell, SmiMatrix, Word};
use super::{ImportOptions, TopologyError, asked_gpu, say_model};
use crate::hardware::PcieRole;

/// Levels of the tree, lowest first.
const LEVELS: [Word; 4] = [Word::Pix, Word::Pxb, Word::Phb, Word::Node];
const PXB: usize = 1;
const PHB: usize = 2;
const NODE: usize = 3;

/// Devices by group, at each level.
struct Groups {
    /// By level and device: the smallest member of its group.
    of: Vec<Vec<usize>>,
}

/// Places the devices of a matrix.
pub(super) fn place(
    matrix: &SmiMatrix,
    origin: &str,
    options: &ImportOptions,
    parts: &mut Parts<'_>,
    notes: &mut Vec<String>,
) -> Result<Draft, TopologyError> {
    let groups = Groups::of(matrix);
    groups.check(matrix, origin)?;
    let asked = asked_gpu(options, parts, origin)?;
    let c2c = matrix.devices.iter().any(|device| device.own_numa);
    let links = Links::of(matrix, parts);
    let (model, generation) = gpu_model(asked, &links, c2c, origin, parts, notes)?;
    let nics = matrix.devices.len() - matrix.gpus;
    notes.push(format!(
        "the matrix does not tell PCIe links{}: taken as {} GT/s x16{}",
        if nics > 0 { " and NICs" } else { "" },
        generation.megatransfers / 1000,
        if nics > 0 {
            format!(", {} Gbit/s", generation.nic_speed / 1000)
        } else {
            String::new()
        }
    ));
    let cpus = cpus(matrix, &groups);
    let mut draft = Draft {
        nvlink: generation.nvlink.clone(),
        ..Draft::default()
    };
    let vendor = if c2c { "arm64" } else { &generation.vendor };
    for number in 0..cpus.len() {
        let Some(cpu) = parts.cpu(vendor, generation.family, generation.model, cpus.len()) else {
            continue;
        };
        if number == 0 && cpus.len() > 1 {
            draft.socket = Some(parts.wire(cpu.socket.0, cpu.socket.1));
        }
        draft.cpus.push(cpu.model);
    }
    let mut slots: Vec<Option<Up>> = vec![None; matrix.devices.len()];
    for (cpu, members) in cpus.iter().enumerate() {
        let mut tree = Tree {
            groups: &groups,
            generation,
            parts,
            draft: &mut draft,
            slots: &mut slots,
        };
        tree.hang(Up::Cpu(cpu), NODE, members);
    }
    for (number, device) in matrix.devices.iter().enumerate() {
        let (Some(up), Some(wire)) = (slots[number], parts.pcie(generation.megatransfers, 16))
        else {
            continue;
        };
        if number >= matrix.gpus {
            draft.nics.push(Nic {
                model: parts.nic(generation.nic, generation.nic_speed, true),
                rdma: device.rdma.clone(),
                cable: parts.cable(generation.nic, generation.nic_speed),
                up,
                wire,
            });
            continue;
        }
        let cpu = cpus.iter().position(|members| members.contains(&number));
        let (slot, c2c) = if device.own_numa {
            (None, Some((cpu.unwrap_or(0), parts.c2c(None, C2C_LINKS))))
        } else {
            (Some((up, wire)), None)
        };
        draft.gpus.push(Gpu {
            model: model.clone(),
            slot,
            c2c,
        });
    }
    links.add(&mut draft, generation.sm, parts);
    Ok(draft)
}

/// Of each GPU of a superchip with two, as `topologies/hardware.json` says.
const C2C_LINKS: u32 = 5;

/// The GPUs' model and what belongs to it: as asked for, as the file's name has it, or the one
/// generation whose GPUs have so many NVLinks. Between generations nothing is guessed.
fn gpu_model(
    asked: Option<String>,
    links: &Links,
    c2c: bool,
    origin: &str,
    parts: &Parts<'_>,
    notes: &mut Vec<String>,
) -> Result<(String, &'static Generation), TopologyError> {
    if let Some(model) = asked
        && let Some(sm) = parts.sm_of(&model)
    {
        return Ok((model, Parts::generation(sm)));
    }
    if let Some(NamedGpu { model, sm, note }) = parts.named_gpu(origin, links.most) {
        notes.push(note);
        return Ok((model, Parts::generation(sm)));
    }
    let has_so_many = |generation: &Generation| generation.nvlinks == links.most;
    let fitting = match links.most {
        0 => Vec::new(),
        _ => parts.generations(has_so_many),
    };
    if let [generation] = fitting.as_slice() {
        let clues = GpuClues {
            sm: Some(generation.sm),
            nvlinks: links.most,
            c2c,
            ..GpuClues::default()
        };
        if let Some((model, _)) = parts.gpu(&clues) {
            notes.push(format!(
                "the matrix does not say the GPUs' model: taken as {model}, for its {} NVLinks \
                 (--gpu)",
                links.most
            ));
            return Ok((model, generation));
        }
    }
    let possible = match (links.most, fitting.is_empty()) {
        (0, _) => parts.models_of(true, |_| true),
        (_, false) => parts.models_of(false, has_so_many),
        (_, true) => parts.models_of(false, |generation| generation.nvlinks >= links.most),
    };
    Err(TopologyError::Text {
        origin: origin.to_owned(),
        line: 1,
        column: 1,
        found: match links.most {
            0 => "GPUs of which the matrix does not say the model, without NVLinks".into(),
            n => format!("GPUs of which the matrix does not say the model, with {n} NVLinks each"),
        },
        expected: say_model(&possible),
        nearest: None,
    })
}

/// NVLinks as the matrix has them.
struct Links {
    /// Between two GPUs, or from a GPU to the NVSwitches.
    direct: Vec<(usize, usize, u32)>,
    switched: Option<(usize, u32)>,
    /// Of one GPU.
    most: u32,
}

impl Links {
    fn of(matrix: &SmiMatrix, parts: &Parts<'_>) -> Self {
        let mut direct = Vec::new();
        let mut sums = vec![0u32; matrix.gpus];
        for a in 0..matrix.gpus {
            for b in a + 1..matrix.gpus {
                if let Some(Cell {
                    word: Word::Nv(count),
                    ..
                }) = matrix.between(a, b)
                {
                    direct.push((a, b, count));
                    sums[a] += count;
                    sums[b] += count;
                }
            }
        }
        let most = sums.iter().copied().max().unwrap_or(0);
        let pairs = matrix.gpus * matrix.gpus.saturating_sub(1) / 2;
        let (first, limit) = (direct.first().copied(), parts.most_nvlinks());
        let all_alike =
            direct.len() == pairs && direct.iter().all(|l| Some(l.2) == first.map(|f| f.2));
        // More than a GPU has: then all of them lead to every other GPU through switches.
        if let (Some((_, _, count)), true, true) = (first, all_alike, most > limit) {
            return Links {
                direct: Vec::new(),
                switched: Some((matrix.gpus, count)),
                most: count,
            };
        }
        Links {
            direct,
            switched: None,
            most,
        }
    }

    fn add(&self, draft: &mut Draft, sm: u32, parts: &mut Parts<'_>) {
        for &(a, b, count) in &self.direct {
            draft.nvlinks.insert((a, Far::Gpu(b)), count);
        }
        if let Some((gpus, count)) = self.switched {
            for gpu in 0..gpus {
                draft.nvlinks.insert((gpu, Far::Switch(0)), count);
            }
            draft.add_nvswitches(1, sm, parts);
        }
    }
}

impl Groups {
    fn of(matrix: &SmiMatrix) -> Self {
        let count = matrix.devices.len();
        let mut group: Vec<usize> = (0..count).collect();
        let mut of = Vec::new();
        for level in LEVELS {
            for a in 0..count {
                for b in 0..a {
                    let joined = matrix.between(a, b).is_some_and(|cell| cell.word == level);
                    let (one, other) = (group[a].min(group[b]), group[a].max(group[b]));
                    if joined && one != other {
                        for member in &mut group {
                            if *member == other {
                                *member = one;
                            }
                        }
                    }
                }
            }
            of.push(group.clone());
        }
        Groups { of }
    }

    fn word(&self, a: usize, b: usize) -> Word {
        let level = self.of.iter().position(|groups| groups[a] == groups[b]);
        level.map_or(Word::Sys, |level| LEVELS[level])
    }

    /// Whether every cell is what the groups give.
    fn check(&self, matrix: &SmiMatrix, origin: &str) -> Result<(), TopologyError> {
        for a in 0..matrix.devices.len() {
            for b in 0..a {
                let Some(cell) = matrix.between(a, b) else {
                    continue;
                };
                let is_nv = matches!(cell.word, Word::Nv(_));
                let (one, other) = (&matrix.devices[a].label, &matrix.devices[b].label);
                let expected = if is_nv && a >= matrix.gpus {
                    "no NVLinks at a NIC".to_owned()
                } else if is_nv || cell.word == self.word(a, b) {
                    continue;
                } else {
                    format!(
                        "{} between {one} and {other}, which follows from the other cells",
                        self.word(a, b).text()
                    )
                };
                return Err(TopologyError::Text {
                    origin: origin.to_owned(),
                    line: cell.line,
                    column: cell.column,
                    found: cell.word.text(),
                    expected,
                    nearest: None,
                });
            }
        }
        Ok(())
    }
}

/// The devices of each CPU (NUMA node), in the order of their first devices.
fn cpus(matrix: &SmiMatrix, groups: &Groups) -> Vec<Vec<usize>> {
    let count = matrix.devices.len();
    // A GPU behind C2C is SYS to everything, wherever it is.
    let anywhere = |device: usize| matrix.devices[device].own_numa;
    let apart = |a: &[usize], b: &[usize]| {
        a.iter().any(|&x| {
            b.iter().any(|&y| {
                let told = matrix.between(x, y).map(|cell| cell.word);
                told == Some(Word::Sys) && !anywhere(x) && !anywhere(y)
            })
        })
    };
    let mut rest: Vec<Vec<usize>> = (0..count)
        .filter(|&device| groups.of[NODE][device] == device)
        .map(|first| {
            (first..count)
                .filter(|&device| groups.of[NODE][device] == first)
                .collect()
        })
        .collect();
    let affinity = |members: &[usize]| {
        members
            .iter()
            .find_map(|&device| matrix.devices[device].affinity.as_ref())
    };
    // First those that say where they are …
    let mut cpus: Vec<(Option<&String>, Vec<usize>)> = Vec::new();
    let mut unknown = Vec::new();
    for members in rest.drain(..) {
        let Some(place) = affinity(&members) else {
            unknown.push(members);
            continue;
        };
        let same = cpus
            .iter_mut()
            .find(|(other, there)| *other == Some(place) && !apart(there, &members));
        match same {
            Some((_, there)) => there.extend(members),
            None => cpus.push((Some(place), members)),
        }
    }
    // … then the others: GPUs where there are fewest, NICs in equal parts, in order.
    let (gpus, nics): (Vec<_>, Vec<_>) = unknown
        .into_iter()
        .partition(|members| members[0] < matrix.gpus);
    for members in gpus {
        let fewest = cpus
            .iter_mut()
            .filter(|(_, there)| !apart(there, &members))
            .min_by_key(|(_, there)| there.iter().filter(|&&d| d < matrix.gpus).count());
        match fewest {
            Some((_, there)) => there.extend(members),
            None => cpus.push((None, members)),
        }
    }
    let (number, targets) = (nics.len(), cpus.len());
    for (position, members) in nics.into_iter().enumerate() {
        let wish = position * targets / number;
        let fits = |at: &usize| !apart(&cpus[*at].1, &members);
        match std::iter::once(wish)
            .chain(0..cpus.len())
            .find(|at| *at < cpus.len() && fits(at))
        {
            Some(at) => cpus[at].1.extend(members),
            None => cpus.push((None, members)),
        }
    }
    let mut cpus: Vec<Vec<usize>> = cpus.into_iter().map(|(_, members)| members).collect();
    for members in &mut cpus {
        members.sort_unstable();
    }
    cpus.sort();
    cpus
}

/// Hangs devices under forwarders.
struct Tree<'a, 'h> {
    groups: &'a Groups,
    generation: &'static Generation,
    parts: &'a mut Parts<'h>,
    draft: &'a mut Draft,
    slots: &'a mut [Option<Up>],
}

impl Tree<'_, '_> {
    /// Hangs `members`, a group of `level`, under `up`.
    fn hang(&mut self, up: Up, level: usize, members: &[usize]) {
        if level == 0 {
            for &device in members {
                self.slots[device] = Some(up);
            }
            return;
        }
        let inner = self.split(level - 1, members);
        let several = inner.len() > 1;
        for group in &inner {
            // A group of NODE has host bridges as its parts; one of PHB root ports; one of
            // PXB switches; one of PIX devices. What is alone needs nothing to share.
            let up = match level {
                NODE if self.split(PXB, group).len() > 1 => {
                    self.forwarder(up, PcieRole::HostBridge)
                }
                PHB if self.split(0, group).len() > 1 => self.forwarder(up, PcieRole::Switch),
                PXB if several || group.len() > 1 => self.forwarder(up, PcieRole::Switch),
                _ => up,
            };
            self.hang(up, level - 1, group);
        }
    }

    fn split(&self, level: usize, members: &[usize]) -> Vec<Vec<usize>> {
        let mut parts: Vec<(usize, Vec<usize>)> = Vec::new();
        for &device in members {
            let group = self.groups.of[level][device];
            match parts.iter_mut().find(|(other, _)| *other == group) {
                Some((_, devices)) => devices.push(device),
                None => parts.push((group, vec![device])),
            }
        }
        parts.into_iter().map(|(_, devices)| devices).collect()
    }

    fn forwarder(&mut self, up: Up, role: PcieRole) -> Up {
        let rate = self.generation.megatransfers;
        let wire = match role {
            PcieRole::HostBridge => Some(self.parts.wire("inside-cpu", 1)),
            _ => self.parts.pcie(rate, 16),
        };
        if let Some(wire) = wire {
            let model = self.parts.pcie_switch(rate, role);
            self.draft.forwarders.push(Forwarder { model, up, wire });
            return Up::Forwarder(self.draft.forwarders.len() - 1);
        }
        up
    }
}
