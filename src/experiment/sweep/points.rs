//! The points of a sweep: every combination of its axes' values that its filters let pass.

use super::place::with_values;
use super::spec::{AxisSpec, BaseRef, Condition, PartSpec, SweepSpec};
use super::values::{number, range};
use crate::catalogue;
use crate::error::ScenarioError;
use crate::read::Scenario;
use crate::refusal::{check_length, fault, refusal, refuse};
use crate::site::Machines;
use fabricsim_report::sweep::{MOST_NAME, MOST_TITLE, value_text};
use fabricsim_topology::Fault;
use fabricsim_topology::error::nearest;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A sweep whose axes have been checked.
#[derive(Debug)]
pub struct Sweep {
    /// Its file.
    pub spec: SweepSpec,
    /// Names of all axes, in the order of their columns.
    pub axes: Vec<String>,
    /// What is run, in order.
    pub points: Vec<Point>,
    bases: Vec<Base>,
}

/// One of a sweep's experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its number, from 0.
    pub number: u32,
    /// By axis, in the order of [`Sweep::axes`]: its value, or its option's name; nothing where another
    /// part of the sweep has the axis.
    pub values: Vec<Option<Value>>,
    base: usize,
    set: Vec<(String, Value)>,
}

/// A scenario without its variants, which are an axis.
#[derive(Debug)]
struct Base {
    json: Value,
    variants: Option<Axis>,
    origin: String,
    folder: PathBuf,
}

/// The axis on which the variants of a base stand.
const VARIANT: &str = "variant";
/// The axis of a sweep's parts.
const PART: &str = "part";

/// One value of an axis: what stands in tables, and what it sets.
#[derive(Debug, Clone)]
struct Level {
    label: Value,
    set: Vec<(String, Value)>,
}

#[derive(Debug, Clone)]
struct Axis {
    name: String,
    levels: Vec<Level>,
}

impl Sweep {
    /// The points of a sweep that is read from `origin` in `folder`; not more than `most`.
    ///
    /// # Errors
    /// All that is wrong with its axes, a base that is none, too many points.
    pub fn new(
        spec: SweepSpec,
        (folder, origin): (&Path, &str),
        most: u32,
    ) -> Result<Self, ScenarioError> {
        let parts = spec.parts();
        check_parts(&spec, &parts, origin)?;
        let mut bases = Vec::new();
        let mut names: Vec<String> = Vec::new();
        if parts.len() > 1 {
            names.push(PART.to_owned());
        }
        let mut all = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let at = match spec.parts.is_empty() {
                true => String::new(),
                false => format!("parts[{index}]."),
            };
            let base = base_of(&part.base, folder)?;
            let axes = axes_of(part, &base, &at).map_err(|faults| refusal(origin, faults))?;
            for axis in &axes {
                if !names.contains(&axis.name) {
                    names.push(axis.name.clone());
                }
            }
            all.push((part, axes, at));
            bases.push(base);
        }
        let mut points = Vec::new();
        for (index, (part, axes, at)) in all.iter().enumerate() {
            let groups = groups_of(part, axes, at).map_err(|fault| refusal(origin, vec![fault]))?;
            let sizes: Vec<usize> = groups.iter().map(|g| axes[g[0]].levels.len()).collect();
            let product = sizes
                .iter()
                .try_fold(1u64, |all, &n| all.checked_mul(n as u64));
            let product = product.filter(|&n| n <= u64::from(most.saturating_mul(16).max(most)));
            let Some(product) = product else {
                return Err(too_many(origin, most));
            };
            for place in 0..product {
                let levels = levels_at(place, &groups, &sizes, axes);
                let mut values = vec![None; names.len()];
                if parts.len() > 1 {
                    values[0] = Some(Value::from(part.name.clone()));
                }
                let mut set = Vec::new();
                for (axis, level) in axes.iter().zip(&levels) {
                    let column = names.iter().position(|name| *name == axis.name);
                    if let Some(column) = column {
                        values[column] = Some(level.label.clone());
                    }
                    set.extend(level.set.iter().cloned());
                }
                if !passes(part, axes, &levels) {
                    continue;
                }
                if points.len() >= most as usize {
                    return Err(too_many(origin, most));
                }
                points.push(Point {
                    number: points.len() as u32,
                    values,
                    base: index,
                    set,
                });
            }
        }
        if points.is_empty() {
            let wrong = fault("only, skip", "no point passes".into(), "at least one");
            return Err(refusal(origin, vec![wrong]));
        }
        Ok(Sweep {
            spec,
            axes: names,
            points,
            bases,
        })
    }

    /// The scenario of a point.
    ///
    /// # Errors
    /// Values that have no place in it.
    pub fn scenario(&self, point: &Point, machines: &Machines) -> Result<Scenario, ScenarioError> {
        let base = &self.bases[point.base];
        let origin = match self.description(point) {
            values if values.is_empty() => base.origin.clone(),
            values => format!("{} with {values}", base.origin),
        };
        with_values(&base.json, &origin, &point.set, (&base.folder, machines))
    }

    /// Where relative paths of a point start.
    #[must_use]
    pub fn folder(&self, point: &Point) -> &Path {
        &self.bases[point.base].folder
    }

    /// Whether an axis sets a place, by its short name or in full.
    pub(super) fn varies(&self, short: &str, place: &str) -> bool {
        let mut set = self.points.iter().flat_map(|point| &point.set);
        set.any(|(path, _)| path == short || path == place)
    }

    /// What a point is called in messages: its axes with their values.
    #[must_use]
    pub fn description(&self, point: &Point) -> String {
        let named = self.axes.iter().zip(&point.values);
        let axes = named
            .filter_map(|(name, value)| Some(format!("{name}={}", value_text(value.as_ref()?))));
        axes.collect::<Vec<_>>().join(" ")
    }
}

fn too_many(origin: &str, most: u32) -> ScenarioError {
    let expected = format!("at most {most} points (--max-points N takes more)");
    refusal(origin, vec![fault("axes", "more".to_owned(), expected)])
}

fn check_parts(spec: &SweepSpec, parts: &[PartSpec], origin: &str) -> Result<(), ScenarioError> {
    let mut faults = Vec::new();
    let own = !(spec.axes.is_empty()
        && spec.zip.is_empty()
        && spec.only.is_empty()
        && spec.skip.is_empty());
    if spec.base.is_some() && !spec.parts.is_empty() || spec.base.is_none() && own {
        let expected = "`base` with `axes`, or `parts` that have their own";
        faults.push(fault("base", "both, or `axes` without it".into(), expected));
    } else if parts.is_empty() {
        faults.push(fault("base", "nothing to vary".into(), "`base` or `parts`"));
    }
    let title = spec.title.as_deref().unwrap_or_default();
    check_length("name", &spec.name, MOST_NAME, &mut faults);
    check_length("title", title, MOST_TITLE, &mut faults);
    let mut names = BTreeSet::new();
    for (index, part) in parts.iter().enumerate() {
        if !names.insert(&part.name) {
            let found = format!("`{}` again", part.name);
            faults.push(fault(
                &format!("parts[{index}].name"),
                found,
                "another name",
            ));
        }
    }
    refuse(origin, faults)
}

fn base_of(base: &BaseRef, folder: &Path) -> Result<Base, ScenarioError> {
    let (scenario, folder) = match base {
        BaseRef::Name(name) => (
            crate::parse(catalogue::text(name)?, name, &[])?,
            PathBuf::new(),
        ),
        BaseRef::Path(path) => {
            let path = folder.join(path);
            let own = path.parent().unwrap_or(Path::new("")).to_owned();
            (crate::read(&path, &[])?, own)
        }
        BaseRef::Inline(spec) => {
            let text = json!(spec).to_string();
            (crate::parse(&text, &spec.name, &[])?, folder.to_owned())
        }
    };
    let mut json = scenario.json;
    let variants = variants_of(&json);
    if let Value::Object(map) = &mut json {
        map.remove("variants");
        map.remove("baseline");
    }
    // A sweep records no timelines, and the size that is traced may be none of a point's.
    if let Some(Value::Object(job)) = json.pointer_mut("/job/collective") {
        job.remove("trace");
    }
    Ok(Base {
        json,
        variants,
        origin: scenario.origin,
        folder,
    })
}

/// All axes of a part: its base's variants first.
fn axes_of(part: &PartSpec, base: &Base, at: &str) -> Result<Vec<Axis>, Vec<Fault>> {
    let mut axes: Vec<Axis> = base.variants.iter().cloned().collect();
    let mut faults = Vec::new();
    for (index, spec) in part.axes.iter().enumerate() {
        match axis_of(spec, &format!("{at}axes[{index}]")) {
            Ok(axis) if axes.iter().any(|known| known.name == axis.name) => {
                let found = format!("`{}` again", axis.name);
                let place = format!("{at}axes[{index}].name");
                faults.push(fault(&place, found, "another name"));
            }
            Ok(axis) => axes.push(axis),
            Err(fault) => faults.push(fault),
        }
    }
    match faults.is_empty() {
        true => Ok(axes),
        false => Err(faults),
    }
}

fn variants_of(base: &Value) -> Option<Axis> {
    let variants = base.get("variants")?.as_array()?;
    let level = |variant: &Value| Level {
        label: variant["name"].clone(),
        set: match variant["set"].as_object() {
            Some(set) => set.iter().map(|(p, v)| (p.clone(), v.clone())).collect(),
            None => Vec::new(),
        },
    };
    (!variants.is_empty()).then(|| Axis {
        name: VARIANT.to_owned(),
        levels: variants.iter().map(level).collect(),
    })
}

fn axis_of(spec: &AxisSpec, at: &str) -> Result<Axis, Fault> {
    let given = [
        spec.values.is_some(),
        spec.range.is_some(),
        !spec.options.is_empty(),
    ];
    if given.iter().filter(|&&given| given).count() != 1 {
        let expected = "one of `values`, `range` and `options`";
        return Err(fault(at, "none, or several".into(), expected));
    }
    let Some(path) = &spec.path else {
        let Some(name) = spec.name.clone().filter(|_| !spec.options.is_empty()) else {
            let expected = "`path` with values, or `name` with `options`";
            return Err(fault(at, "no `path`".into(), expected));
        };
        let level = |option: &super::spec::OptionSpec| Level {
            label: Value::from(option.name.clone()),
            set: option
                .set
                .iter()
                .map(|(p, v)| (p.clone(), v.clone()))
                .collect(),
        };
        return Ok(Axis {
            name,
            levels: spec.options.iter().map(level).collect(),
        });
    };
    if !spec.options.is_empty() {
        let expected = "no `path`: options have places of their own";
        return Err(fault(at, "`path` and `options`".into(), expected));
    }
    let values = match (&spec.values, &spec.range) {
        (Some(values), _) => values.clone(),
        (None, Some(spec)) => range(spec, &format!("{at}.range"))?,
        (None, None) => Vec::new(),
    };
    if values.is_empty() {
        let place = format!("{at}.values");
        return Err(fault(&place, "none".into(), "at least one"));
    }
    let level = |value: Value| Level {
        label: value.clone(),
        set: vec![(path.clone(), value)],
    };
    Ok(Axis {
        name: spec.name.clone().unwrap_or_else(|| path.clone()),
        levels: values.into_iter().map(level).collect(),
    })
}

/// Which axes go together, in the order of the first of each.
fn groups_of(part: &PartSpec, axes: &[Axis], at: &str) -> Result<Vec<Vec<usize>>, Fault> {
    let names = || axes.iter().map(|axis| axis.name.as_str());
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, zip) in part.zip.iter().enumerate() {
        let place = format!("{at}zip[{index}]");
        let mut members = Vec::new();
        for name in zip {
            let Some(axis) = names().position(|known| known == name) else {
                return Err(unknown_axis(&place, name, names()));
            };
            if taken.insert(axis, index).is_some() {
                let found = format!("`{name}` again");
                return Err(fault(&place, found, "each axis once"));
            }
            members.push(axis);
        }
        let lengths = || members.iter().map(|&axis| axes[axis].levels.len());
        if members.len() < 2 || lengths().any(|n| Some(n) != lengths().next()) {
            let found: Vec<String> = lengths().map(|n| n.to_string()).collect();
            let expected = "at least two axes with as many values";
            return Err(fault(
                &place,
                format!("{} values", found.join(", ")),
                expected,
            ));
        }
        groups.push(members);
    }
    groups.extend(
        (0..axes.len())
            .filter(|axis| !taken.contains_key(axis))
            .map(|axis| vec![axis]),
    );
    groups.sort_by_key(|group| group.iter().copied().min());
    for filter in part.only.iter().chain(&part.skip) {
        for name in filter.keys() {
            if !names().any(|known| known == name) {
                return Err(unknown_axis(&format!("{at}only, skip"), name, names()));
            }
        }
    }
    Ok(groups)
}

fn unknown_axis<'a>(
    place: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Fault {
    let all: Vec<&str> = names.clone().collect();
    Fault {
        nearest: nearest(name, names),
        ..fault(
            place,
            format!("`{name}`"),
            format!("the name of an axis: {}", all.join(", ")),
        )
    }
}

/// The level of each axis at a place of the crossed groups, the last of which varies fastest.
fn levels_at(place: u64, groups: &[Vec<usize>], sizes: &[usize], axes: &[Axis]) -> Vec<Level> {
    let mut levels: Vec<Option<Level>> = vec![None; axes.len()];
    let mut rest = place;
    for (group, &size) in groups.iter().zip(sizes).rev() {
        let index = (rest % size as u64) as usize;
        rest /= size as u64;
        for &axis in group {
            levels[axis] = Some(axes[axis].levels[index].clone());
        }
    }
    levels.into_iter().flatten().collect()
}

fn passes(part: &PartSpec, axes: &[Axis], levels: &[Level]) -> bool {
    let meets = |filter: &BTreeMap<String, Condition>| {
        filter.iter().all(|(name, condition)| {
            let axis = axes.iter().position(|axis| axis.name == *name);
            axis.is_some_and(|axis| holds(condition, &levels[axis].label))
        })
    };
    (part.only.is_empty() || part.only.iter().any(meets)) && !part.skip.iter().any(meets)
}

fn holds(condition: &Condition, value: &Value) -> bool {
    match condition {
        Condition::OneOf(values) => values
            .iter()
            .any(|one| one == value || number(one).is_some() && number(one) == number(value)),
        Condition::Within(bounds) => {
            let Some(found) = number(value) else {
                return false;
            };
            let least = bounds.min.as_ref().and_then(number);
            let most = bounds.max.as_ref().and_then(number);
            least.is_none_or(|least| found >= least) && most.is_none_or(|most| found <= most)
        }
    }
}
