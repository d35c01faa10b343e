//! An algorithm as something that moves: who sends which chunk when, and what is written where.

use super::own::own;
use super::passage::Sent;
use super::places::Places;
use super::words::{Words, merged};
use super::{ExplainError, ExplainSpec, Followed, follow};
use fabricsim_collective::{Collective, Piece, Rank};
use fabricsim_report::explanation::CellState;
use fabricsim_report::lesson::{
    OwnData, Picture, Scene, Sent as SentOf, StepOf, StepsPicture, Write, nano,
};
use fabricsim_report::numbers::{micros, size};
use fabricsim_units::Time;
use std::collections::BTreeMap;

/// What NCCL's tree is inside a node.
const CHAIN: &str = "Inside one node NCCL's tree is a chain: sums go up it to rank 0, the result comes back down. It branches between nodes only.";

/// An algorithm that is played.
///
/// # Errors
/// As [`explain`](super::explain).
pub fn steps_scene(spec: &ExplainSpec) -> Result<Scene, ExplainError> {
    let followed = follow(spec)?;
    let program = followed.built.program.as_ref();
    let words = Words::new(program, &followed.walk);
    let mut values = Values::new(&words);
    let places = Places::of(&followed, spec.ranks);
    let messages = messages(&followed, &places, &mut values);
    let writes = writes(&followed, &mut values);
    let mut wires: Vec<(u32, u32)> = messages.iter().map(|m| (m.2, m.3)).collect();
    wires.sort_unstable();
    wires.dedup();
    let ranks = || (0..spec.ranks).map(Rank);
    let columns = 0..words.count();
    let promised = ranks().map(|rank| {
        let of = |column| words.promised(rank, column).map(|piece| values.of(&piece));
        columns.clone().map(of).collect()
    });
    let promised: Vec<Vec<Option<u32>>> = promised.collect();
    let own = own_data(&followed, &words, &mut values);
    let identities = values.identities.iter().max().map_or(1, |most| most + 1);
    let parts = words.parts();
    let picture = StepsPicture {
        size: places.size,
        headings: places.headings,
        places: places.places,
        wires,
        colours: (0..identities).map(|k| colour(k, identities)).collect(),
        messages,
        columns: columns.clone().map(|c| words.column_name(c)).collect(),
        writes,
        own,
        promised,
        numbers: (0..spec.ranks)
            .map(|rank| (0..parts).map(|part| number(rank, part)).collect())
            .collect(),
        steps: step_times(&followed),
        wrong: followed.walk.wrong.as_ref().map(ToString::to_string),
        words: values.words,
        identities: values.identities,
        values: values.parts,
    };
    let setting = match (spec.ranks, followed.nodes) {
        (1, _) => "1 rank".to_owned(),
        (ranks, 1) => format!("{ranks} ranks"),
        (ranks, nodes) => format!("{ranks} ranks on {nodes} nodes"),
    };
    let cost = followed.cost(spec);
    Ok(Scene {
        name: match followed.is_chain() {
            true => "tree (a chain)".to_owned(),
            false => followed.name(spec),
        },
        about: format!("{setting}, {}", size(program.bytes() as f64)),
        end: followed.times.end,
        took: micros(followed.times.end.micros()),
        notes: followed
            .is_chain()
            .then(|| CHAIN.to_owned())
            .into_iter()
            .collect(),
        overlap: Some(cost.overlap()),
        cost: Some(cost),
        picture: Picture::Steps(Box::new(picture)),
    })
}

/// What a rank contributes in the mode with numbers: told apart by rank and part at a glance.
fn number(rank: u32, part: u32) -> u32 {
    10 * (rank + 1) + part
}

/// Hues far from each other, as light as text on them needs.
fn colour(index: u32, count: u32) -> String {
    let hue = if count <= 12 {
        f64::from(index) / f64::from(count.max(1))
    } else {
        (f64::from(index) * 0.381_966).fract()
    };
    let lightness = if index.is_multiple_of(2) { 0.62 } else { 0.70 };
    let channel = |shift: f64| {
        let k = (shift + hue * 12.0) % 12.0;
        let a = 0.62 * f64::min(lightness, 1.0 - lightness);
        let value = lightness - a * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    format!(
        "#{:02x}{:02x}{:02x}",
        channel(0.0),
        channel(8.0),
        channel(4.0)
    )
}

/// Sums that were met, each once.
struct Values<'w, 'p> {
    of_words: &'w Words<'p>,
    parts: Vec<Vec<(u32, u32)>>,
    words: Vec<String>,
    identities: Vec<u32>,
    /// By what they are of, and their names: the same sum may be of one chunk or of several.
    known: BTreeMap<(Vec<(u32, u64)>, String), u32>,
}

impl<'w, 'p> Values<'w, 'p> {
    fn new(of_words: &'w Words<'p>) -> Self {
        Values {
            of_words,
            parts: Vec::new(),
            words: Vec::new(),
            identities: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    /// The number of a piece's value.
    fn of(&mut self, piece: &Piece) -> u32 {
        let word = self.of_words.message(std::slice::from_ref(piece));
        let key = (piece.value.clone(), word);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let part = |&(rank, at): &(u32, u64)| (rank, self.of_words.part(Rank(rank), at));
        self.parts.push(piece.value.iter().map(part).collect());
        self.words.push(key.1.clone());
        self.identities.push(self.of_words.identity(piece));
        let index = self.parts.len() as u32 - 1;
        self.known.insert(key, index);
        index
    }

    fn of_all(&mut self, pieces: &[Piece]) -> Vec<u32> {
        merged(pieces).iter().map(|piece| self.of(piece)).collect()
    }
}

/// What is sent, in order of its begin. What passes a switch is on its way in for the first half of its
/// time, and on its way out for the second.
fn messages(followed: &Followed, places: &Places, values: &mut Values<'_, '_>) -> Vec<SentOf> {
    let mut out = Vec::new();
    for (step, all) in (1u32..).zip(&followed.sent) {
        let whole = |sent: &Sent| {
            let switch = sent.from.switch().or(sent.to.switch());
            let with = all.iter().filter(|other| {
                other.operation == sent.operation
                    && other.from.switch().or(other.to.switch()) == switch
            });
            with.map(|other| other.when)
                .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
                .unwrap_or(sent.when)
        };
        for sent in all {
            let (begin, end) = match (sent.from.switch(), sent.to.switch()) {
                (None, None) => sent.when,
                (into, _) => {
                    let (begin, end) = whole(sent);
                    let middle = Time::from_picos(u64::midpoint(begin.picos(), end.picos()));
                    if into.is_some() {
                        (middle, end)
                    } else {
                        (begin, middle)
                    }
                }
            };
            let first = sent.pieces.first();
            out.push(SentOf(
                nano(begin),
                nano(end),
                places.at(sent.from, sent.channel),
                places.at(sent.to, sent.channel),
                first.map_or(0, |piece| values.of_words.identity(piece)),
                sent.bytes(),
                values.of_all(&sent.pieces),
                step,
                sent.operation,
            ));
        }
    }
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    out
}

/// What is written, in order of time.
fn writes(followed: &Followed, values: &mut Values<'_, '_>) -> Vec<Write> {
    let words = values.of_words;
    let ranks = followed.built.program.ranks() as usize;
    let mut rows: Vec<Vec<Vec<Piece>>> = vec![vec![Vec::new(); words.count()]; ranks];
    let mut changes: Vec<_> = followed
        .walk
        .changes
        .iter()
        .map(|change| (followed.times.of(change), change))
        .collect();
    changes.sort_by_key(|(time, change)| (*time, change.step));
    let mut out = Vec::new();
    for (time, change) in changes {
        words.apply(&mut rows, change);
        for column in words.places(change) {
            let stored = change.at.is_some();
            let now = if stored {
                values.of_all(&rows[change.rank.index()][column])
            } else {
                values.of_all(&change.pieces)
            };
            let rank = change.rank.0;
            out.push(Write(nano(time), rank, column as u32, now, !stored));
        }
    }
    out
}

/// What ranks begin with.
fn own_data(followed: &Followed, words: &Words<'_>, values: &mut Values<'_, '_>) -> OwnData {
    let program = followed.built.program.as_ref();
    let table = own(program, words);
    let collective = program.collective();
    let ranks = u64::from(program.ranks());
    let block = (program.bytes() / ranks).max(1);
    let outputs = words.outputs();
    let in_place = words.shows_own();
    let cells = (0u32..).zip(&table.holds).map(|(rank, row)| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            if cell.state != CellState::Own {
                return None;
            }
            let at = match collective {
                Collective::AllToAllV => {
                    let matrix = program.matrix()?;
                    matrix.sent_before(Rank(rank), Rank(column as u32))
                }
                Collective::ReduceScatter | Collective::Scatter | Collective::AllToAll => {
                    column as u64 * block
                }
                Collective::AllReduce | Collective::Reduce | Collective::Broadcast => {
                    let of = |&c: &usize| words.promised(Rank(0), c)?.value.first().map(|v| v.1);
                    outputs.get(column).and_then(of).unwrap_or(0)
                }
                _ => 0,
            };
            let value = vec![(rank, at)];
            Some(values.of(&Piece { len: 1, value }))
        });
        cells.collect()
    });
    OwnData {
        in_place,
        cells: cells.collect(),
        columns: table.columns,
    }
}

/// From when to when each step is, and what its busiest port moves.
fn step_times(followed: &Followed) -> Vec<StepOf> {
    let ranks = followed.built.program.ranks();
    let steps = followed.sent.iter().map(|all| {
        let begin = all.iter().map(|s| s.when.0).min().unwrap_or(Time::ZERO);
        let end = all.iter().map(|s| s.when.1).max().unwrap_or(Time::ZERO);
        let busiest = super::passage::ports(std::slice::from_ref(all), ranks).busiest;
        StepOf(nano(begin), nano(end), busiest)
    });
    steps.collect()
}
