//! NCCL's graph XML (`NCCL_GRAPH_DUMP_FILE`, `NCCL_GRAPH_FILE`): the channels that a search
//! found, or that somebody wants (NCCL 2.30.7 `src/graph/search.cc`).
//!
//! A dump holds channels as they are searched, before NCCL doubles them.

use super::MOST_CHANNELS;
use fabricsim_topology::import::xml::{self, Element};
use fabricsim_topology::{PathType, TopologyError};

/// A graph file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GraphFile {
    /// In the order of the file: ring, tree, CollNet direct, CollNet chain, NVLS in a dump.
    pub graphs: Vec<Graph>,
}

/// The channels of one algorithm.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// 0 ring, 1 tree, 2 CollNet chain, 3 NVLS, 4 CollNet direct.
    pub id: u32,
    /// What a channel looks like.
    pub pattern: Pattern,
    /// Whether a channel may leave by another NIC than it enters by: 0 no, 1 yes, 2 if that
    /// is better.
    pub cross_nic: u32,
    /// GB/s of a channel inside a host.
    pub speed_intra: f64,
    /// GB/s of a channel between hosts.
    pub speed_inter: f64,
    /// µs of the network.
    pub latency_inter: f64,
    /// The worst path between its GPUs.
    pub type_intra: PathType,
    /// The worst path between its GPUs and NICs.
    pub type_inter: PathType,
    /// Whether all channels have the first one's order.
    pub same_channels: bool,
    /// The channels.
    pub channels: Vec<Channel>,
}

/// What a channel looks like, by NCCL's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// 1: the network's traffic is shared by the first two GPUs.
    BalancedTree,
    /// 2: a parent at the first GPU, children at the second.
    SplitTree,
    /// 3: all network traffic at the first GPU.
    Tree,
    /// 4.
    Ring,
    /// 5: NVLink SHARP.
    Nvls,
    /// 6: every head exchanges with every GPU.
    CollnetDirect,
}

const PATTERNS: [(u32, Pattern); 6] = [
    (1, Pattern::BalancedTree),
    (2, Pattern::SplitTree),
    (3, Pattern::Tree),
    (4, Pattern::Ring),
    (5, Pattern::Nvls),
    (6, Pattern::CollnetDirect),
];

/// A way through the GPUs of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// The NIC by which data comes in, with several hosts.
    pub entry: Option<u64>,
    /// In order; of an NVLS graph only the head.
    pub gpus: Vec<GraphGpu>,
    /// The NIC by which data leaves, with several hosts.
    pub exit: Option<u64>,
}

/// How a file names a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GraphGpu {
    /// By its device number, with the host's in the top byte where NVLink joins hosts.
    Dev(u64),
    /// By its rank, which counts for more than a device number.
    Rank(u32),
}

/// The path types that have a word in these files; C2C and NET have none.
const TYPES: [PathType; 9] = [
    PathType::Loc,
    PathType::Nvl,
    PathType::Nvb,
    PathType::Pix,
    PathType::Pxb,
    PathType::P2c,
    PathType::Pxn,
    PathType::Phb,
    PathType::Sys,
];

impl GraphFile {
    /// Reads a file; `origin` names it in errors.
    ///
    /// # Errors
    /// [`TopologyError::Text`] at the first place that does not fit.
    pub fn parse(text: &str, origin: &str) -> Result<GraphFile, TopologyError> {
        let document = xml::read(text, origin, "graphs")?;
        let root = Element::root(&document, origin);
        let version = root.required("version")?;
        if version.trim() != "1" {
            let expected = "version 1, the only one that NCCL reads";
            return Err(root.misfit(format!("version=\"{version}\""), expected));
        }
        let graphs = root.all("graph").map(|element| graph(&element));
        Ok(GraphFile {
            graphs: graphs.collect::<Result<_, _>>()?,
        })
    }
}

fn graph(element: &Element<'_>) -> Result<Graph, TopologyError> {
    let number: u32 = element.required_number("pattern")?;
    let pattern = PATTERNS.iter().find(|&&(known, _)| known == number);
    let Some(&(_, pattern)) = pattern else {
        let expected = "1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS or 6 CollNet direct";
        return Err(element.misfit(format!("pattern=\"{number}\""), expected));
    };
    let channels: Vec<Channel> = element
        .all("channel")
        .map(|channel| self::channel(&channel))
        .collect::<Result<_, _>>()?;
    let told: usize = element.required_number("nchannels")?;
    if told != channels.len() {
        return Err(element.misfit(
            format!("nchannels=\"{told}\" and {} `<channel>`", channels.len()),
            "as many channels as told",
        ));
    }
    if told > usize::from(MOST_CHANNELS) {
        let expected = format!("at most {MOST_CHANNELS}, NCCL's limit");
        return Err(element.misfit(format!("{told} channels"), expected));
    }
    let cross_nic = element.required_number("crossnic")?;
    if cross_nic > 2 {
        return Err(element.misfit(format!("crossnic=\"{cross_nic}\""), "0, 1 or 2"));
    }
    Ok(Graph {
        id: element.required_number("id")?,
        pattern,
        cross_nic,
        speed_intra: amount(element, "speedintra")?,
        speed_inter: amount(element, "speedinter")?,
        latency_inter: match element.text("latencyinter") {
            Some(_) => amount(element, "latencyinter")?,
            None => 0.0,
        },
        type_intra: path_type(element, "typeintra")?,
        type_inter: path_type(element, "typeinter")?,
        same_channels: element.required_number::<u8>("samechannels")? != 0,
        channels,
    })
}

fn amount(element: &Element<'_>, name: &str) -> Result<f64, TopologyError> {
    let value: f64 = element.required_number(name)?;
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    let expected = format!("a number of at least 0 in `{name}`");
    Err(element.misfit(format!("{name}=\"{value}\""), expected))
}

fn path_type(element: &Element<'_>, name: &str) -> Result<PathType, TopologyError> {
    let word = element.required(name)?;
    TYPES
        .into_iter()
        .find(|kind| kind.label() == word)
        .ok_or_else(|| {
            let known = TYPES.map(PathType::label);
            element.unknown(word, &format!("a type of path in `{name}`"), &known)
        })
}

fn channel(element: &Element<'_>) -> Result<Channel, TopologyError> {
    let mut channel = Channel::default();
    for child in element.children() {
        match child.name() {
            "net" => {
                let dev = device(&child)?;
                if channel.exit.is_some() || channel.gpus.is_empty() && channel.entry.is_some() {
                    let expected = "one NIC before the GPUs and one after them";
                    return Err(child.misfit("another `<net>`", expected));
                }
                if channel.gpus.is_empty() {
                    channel.entry = Some(dev);
                } else {
                    channel.exit = Some(dev);
                }
            }
            "gpu" => {
                if channel.exit.is_some() {
                    let expected = "all GPUs before the last NIC";
                    return Err(child.misfit("a `<gpu>` after the `<net>` at the end", expected));
                }
                channel.gpus.push(match child.number("rank")? {
                    Some(rank) => GraphGpu::Rank(rank),
                    None => GraphGpu::Dev(device(&child)?),
                });
            }
            other => {
                return Err(child.unknown(other, "a part of a channel", &["net", "gpu"]));
            }
        }
    }
    if channel.gpus.is_empty() {
        return Err(element.misfit("a channel without GPUs", "at least one `<gpu>`"));
    }
    Ok(channel)
}

/// A device number: hexadecimal, with `0x` before it or without.
fn device(element: &Element<'_>) -> Result<u64, TopologyError> {
    let text = element.required("dev")?.trim();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let number = u64::from_str_radix(digits, 16).ok();
    number.filter(|_| !digits.starts_with('+')).ok_or_else(|| {
        element.misfit(
            format!("dev=\"{text}\""),
            "a hexadecimal number such as 3 or 0x1f",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_HOSTS: &str = r#"<graphs version="1">
  <!-- A ring through three GPUs, and a tree that names ranks. -->
  <graph id="0" pattern="4" crossnic="2" nchannels="2" speedintra="22" speedinter="17.5"
         latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="0">
    <channel><net dev="0"/><gpu dev="0"/><gpu dev="a"/><gpu dev="0x1"/><net dev="0x2"/></channel>
    <channel><net dev="2"/><gpu dev="1"/><gpu dev="0xa"/><gpu dev="0"/><net dev="0"/></channel>
  </graph>
  <graph id="1" pattern="1" crossnic="0" nchannels="1" speedintra="22" speedinter="22" typeintra="PHB" typeinter="PXN" samechannels="1">
    <channel><gpu rank="2" dev="7"/><gpu rank="0"/></channel>
  </graph>
  <graph id="3" pattern="5" crossnic="0" nchannels="0" speedintra="0" speedinter="0" latencyinter="0" typeintra="LOC" typeinter="LOC" samechannels="0"/>
</graphs>"#;

    #[test]
    fn a_file_is_read_whole() {
        let file = GraphFile::parse(TWO_HOSTS, "two-hosts.xml").unwrap();
        assert_eq!(file.graphs.len(), 3);
        let ring = &file.graphs[0];
        assert_eq!((ring.pattern, ring.cross_nic), (Pattern::Ring, 2));
        assert_eq!((ring.speed_intra, ring.speed_inter), (22.0, 17.5));
        assert_eq!(ring.channels[0].entry, Some(0));
        assert_eq!(ring.channels[0].exit, Some(2));
        let devs = [0, 10, 1].map(GraphGpu::Dev);
        assert_eq!(ring.channels[0].gpus, devs);
        let tree = &file.graphs[1];
        assert_eq!(tree.channels[0].gpus, [2, 0].map(GraphGpu::Rank));
        assert_eq!(tree.type_inter, PathType::Pxn);
        assert!(file.graphs[2].channels.is_empty());
    }

    #[test]
    fn faults_name_line_and_remedy() {
        let cases = [
            ("pattern=\"4\"", "pattern=\"9\"", "line 3", "4 ring"),
            ("nchannels=\"2\"", "nchannels=\"3\"", "line 3", "as many"),
            (
                "typeintra=\"NVL\"",
                "typeintra=\"NVLL\"",
                "line 3",
                "`NVL`?",
            ),
            ("dev=\"a\"", "dev=\"g\"", "line 5", "hexadecimal"),
            (
                "<net dev=\"0x2\"/>",
                "<net dev=\"0x2\"/><gpu dev=\"3\"/>",
                "line 5",
                "last NIC",
            ),
            ("crossnic=\"2\"", "crossnic=\"3\"", "line 3", "0, 1 or 2"),
            (
                "speedintra=\"22\"",
                "speedintra=\"-1\"",
                "line 3",
                "at least 0",
            ),
            (
                "samechannels=\"0\"",
                "samechanels=\"0\"",
                "line 3",
                "samechanels",
            ),
            (
                "graphs version=\"1\"",
                "graphs version=\"2\"",
                "line 1",
                "version 1",
            ),
            ("</graphs>", "", "line 1", "no XML"),
        ];
        for (from, to, line, words) in cases {
            let broken = TWO_HOSTS.replacen(from, to, 1);
            let error = GraphFile::parse(&broken, "broken.xml")
                .unwrap_err()
                .to_string();
            assert!(error.contains("broken.xml"), "{error}");
            assert!(
                error.contains(line) && error.contains(words),
                "{to}: {error}"
            );
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        use proptest::prelude::*;
        proptest!(ProptestConfig::with_cases(300), |(at in 0..TWO_HOSTS.len(), len in 0..40usize,
                                                     with in "[<>\"/ =a-z0-9]{0,6}")| {
            let end = (at + len).min(TWO_HOSTS.len());
            let text = format!("{}{with}{}", &TWO_HOSTS[..at], &TWO_HOSTS[end..]);
            // An error is an answer, too.
            let read = GraphFile::parse(&text, "fuzz");
            prop_assert!(read.is_err() || text.contains("<graphs"));
        });
    }
}
