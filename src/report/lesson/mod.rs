//! A lesson: a question, pictures that move on one clock, a knob, and a question to check oneself.

mod folder;
mod index;
mod lanes;
mod machine;
mod page;
mod slides;
mod text;

pub use folder::{check_lessons_target, write_lessons, write_slides};
pub use index::index_page;
pub use lanes::{DrawnLanes, NotShown, Shown, lanes_picture};
pub use machine::machine_picture;
pub use page::lesson_page;
pub use slides::{Slide, slides};
pub use text::{lesson_json, lesson_text, lessons_text};

use crate::explanation::{Cost, Switch, SwitchOperation};
use fabricsim_units::Time;
use serde::{Serialize, Serializer};

/// What a page plays. Everything in it was computed when the page was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lesson {
    /// What it is about, in a few words.
    pub title: String,
    /// The part of the lecture that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Where it is in the course.
    #[serde(skip)]
    pub course: Option<InCourse>,
    /// What it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// What can be turned.
    pub knob: Knob,
    /// What to see, in sentences.
    pub see: Vec<String>,
    /// A question with an answer that was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// Drawings of machines, as SVG whose lines carry the numbers of [`MachinePicture::lines`].
    pub drawings: Vec<String>,
    /// The same drawings without words, for slides.
    #[serde(skip)]
    pub bare: Vec<BareDrawing>,
    /// Colours of links, from unused to full, in even steps.
    pub heat: Vec<String>,
    /// What the pictures leave out.
    pub leaves_out: String,
    /// The version of fabricsim.
    pub version: String,
}

impl Lesson {
    /// The colour of a link of which so many thousandths are in use.
    fn heat(&self, thousandths: u16) -> &str {
        let last = self.heat.len().saturating_sub(1);
        let step = (usize::from(thousandths) * last + 500) / 1000;
        self.heat
            .get(step.min(last))
            .map_or("#c8ccd2", String::as_str)
    }
}

/// A lesson's place in a course. Pages of a course lie beside each other, as NAME.html and index.html.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InCourse {
    /// From 1.
    pub number: usize,
    /// How many lessons there are.
    pub of: usize,
    /// The name and the title of the one before.
    pub previous: Option<(String, String)>,
    /// Those of the next one.
    pub next: Option<(String, String)>,
}

/// Something to turn, with pictures for each of its positions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Knob {
    /// What is turned: `size`.
    pub name: String,
    /// The position that is shown first, an index.
    pub shown: usize,
    /// All positions are shown below each other, on one axis; the chosen one is marked.
    pub stacked: bool,
    /// What the figures are: `time`.
    pub figure: String,
    /// Their unit; those in `ns` are written as times.
    pub unit: String,
    /// The positions, in order.
    pub positions: Vec<Position>,
}

/// A position of a knob.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Position {
    /// `8 MiB`.
    pub label: String,
    /// The figure of each scene, for the curve over all positions.
    pub figures: Vec<Figure>,
    /// What is played, side by side; none where the page would become too large.
    pub scenes: Vec<Scene>,
}

/// A number of a scene, and how it is written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Whose: the scene's name.
    pub of: String,
    /// In the unit of all figures of a lesson.
    pub value: f64,
    /// `3.38 ms`.
    pub text: String,
}

/// Something that is played.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scene {
    /// `ring`.
    pub name: String,
    /// `8 ranks, 8 KiB`.
    pub about: String,
    /// When it ends, nanoseconds.
    #[serde(serialize_with = "nanos")]
    pub end: Time,
    /// How long it takes, as written.
    pub took: String,
    /// What it costs by count and by closed form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Why the simulated time is another one than the counted one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    /// Lines of text below it.
    pub notes: Vec<String>,
    /// The picture.
    #[serde(flatten)]
    pub picture: Picture,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Picture {
    /// Chunks that go between ranks.
    Steps(Box<StepsPicture>),
    /// What streams do when.
    Lanes(LanesPicture),
    /// A machine's links at work.
    Machine(MachinePicture),
}

/// In nanoseconds, rounded.
fn nanos<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(nano(*time))
}

/// A time in nanoseconds, to a tenth.
#[must_use]
pub fn nano(time: Time) -> f64 {
    (time.picos() as f64 / 100.0).round() / 10.0
}

/// Ranks, switches, and the chunks that go between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepsPicture {
    /// Width and height, in the unit of places.
    pub size: (f64, f64),
    /// Words above parts of the picture: the middle, and the text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headings: Vec<(f64, String)>,
    /// Ranks in order, of several trees once for each; then switches.
    pub places: Vec<PlaceOf>,
    /// Who talks to whom: two places.
    pub wires: Vec<(u32, u32)>,
    /// Colours of chunks.
    pub colours: Vec<String>,
    /// What is sent, in order of its begin.
    pub messages: Vec<Sent>,
    /// Places in the memory of ranks.
    pub columns: Vec<String>,
    /// What is written there, in order of time.
    pub writes: Vec<Write>,
    /// What each rank has to begin with: columns, and values by rank and column.
    pub own: OwnData,
    /// What the collective promises, by rank and column: an index of `values`.
    pub promised: Vec<Vec<Option<u32>>>,
    /// Sums of contributions, each (rank, part of its data).
    pub values: Vec<Vec<(u32, u32)>>,
    /// The colour of each of `values`.
    pub identities: Vec<u32>,
    /// How `values` are written.
    pub words: Vec<String>,
    /// The numbers that ranks contribute, by rank and part.
    pub numbers: Vec<Vec<u32>>,
    /// The steps of textbooks.
    pub steps: Vec<StepOf>,
    /// It is not what it says: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
}

/// A rank or a switch on the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlaceOf {
    /// From the left.
    pub x: f64,
    /// From the top.
    pub y: f64,
    /// Half of its width.
    pub size: f64,
    /// `3`, `NVSwitch`.
    pub label: String,
    /// Which rank it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// What it is, if no rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<Switch>,
}

/// A chunk on its way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sent(
    /// Begin, nanoseconds.
    pub f64,
    /// Arrival, nanoseconds.
    pub f64,
    /// From this place.
    pub u32,
    /// To that one.
    pub u32,
    /// The colour.
    pub u32,
    /// Bytes.
    pub u64,
    /// What it carries: indices of values.
    pub Vec<u32>,
    /// In which step, from 1.
    pub u32,
    /// What a switch at one end does with it.
    pub Option<SwitchOperation>,
);

/// Something written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Write(
    /// When, nanoseconds.
    pub f64,
    /// The rank.
    pub u32,
    /// The column.
    pub u32,
    /// The values that are there now.
    pub Vec<u32>,
    /// It is passed on, not stored.
    pub bool,
);

/// What ranks begin with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnData {
    /// Its columns are the first columns of the picture.
    pub in_place: bool,
    /// The columns.
    pub columns: Vec<String>,
    /// An index of values, by rank and column.
    pub cells: Vec<Vec<Option<u32>>>,
}

/// A step of a textbook.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepOf(
    /// When its first message begins, nanoseconds.
    pub f64,
    /// When the last one has arrived.
    pub f64,
    /// Bytes of the busiest port.
    pub u64,
);

/// Streams below each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LanesPicture {
    /// The lanes, from above.
    pub lanes: Vec<LaneOf>,
    /// Kinds of spans: the page's colour, and its name.
    pub looks: Vec<(String, String)>,
    /// What is written into spans.
    pub words: Vec<String>,
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneOf {
    /// `rank 0: compute`.
    pub name: String,
    /// A kind, begin and duration in nanoseconds, and an index of words.
    pub spans: Vec<(u32, f64, f64, u32)>,
}

/// A machine's drawing without words, and the words beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct BareDrawing {
    /// Width and height, in the drawing's own unit.
    pub size: (f64, f64),
    /// SVG elements, whose lines carry the numbers of [`MachinePicture::lines`].
    pub shapes: String,
    /// Names of devices, nodes and rows.
    pub labels: Vec<DrawnLabel>,
    /// Kinds of devices, and the colours of their boxes.
    pub kinds: Vec<(String, String)>,
}

/// A name in a drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnLabel {
    /// Its middle, or where it begins; the middle of its letters.
    pub at: (f64, f64),
    /// How wide it may be, in the drawing's own unit; of what stands free, until it meets another one.
    pub room: f64,
    /// `at` is its middle.
    pub centred: bool,
    /// The words.
    pub text: String,
}

/// A machine's drawing, whose links light up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachinePicture {
    /// An index of the lesson's drawings.
    pub drawing: usize,
    /// Width of the bins, nanoseconds.
    pub bin: f64,
    /// Lines of the drawing that carry anything: the number of the line, what it can carry in GB/s, and
    /// an index of `uses`.
    pub lines: Vec<(u32, f64, u32)>,
    /// Thousandths of a line's rate in use in each bin, of its busiest link. Lines that are alike share
    /// one.
    pub uses: Vec<Vec<u16>>,
    /// How far ranks are, in thousandths of the bytes that they move, by bin: as many as are shown.
    pub progress: Vec<(String, Vec<u16>)>,
    /// When the steps of a key press end, nanoseconds.
    pub steps: Vec<f64>,
}

/// A question with an answer that was simulated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// What is asked.
    pub question: String,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// Why it is so; the figures behind it.
    pub why: String,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// One of several: their texts, and which one it is.
    Choice(Vec<String>, usize),
    /// A number: its value, unit, and how far off one may be, as a share of it.
    Number(f64, String, f64),
}
