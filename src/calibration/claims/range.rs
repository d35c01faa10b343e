//! Ranges: lists of values that commands and places of a claim name as `{nodes}`, and the points
//! that they make. A statement about a range is judged at each of its points.

use std::collections::BTreeMap;

/// Values by the name that commands and places have for them.
pub(crate) type Ranges = BTreeMap<String, Vec<String>>;

/// One value of each range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Point(Vec<(String, String)>);

/// All points of these ranges, the last one changing first; without ranges, one of no values.
pub(crate) fn points<'a>(
    ranges: impl Iterator<Item = (&'a String, &'a Vec<String>)>,
) -> Vec<Point> {
    ranges.fold(vec![Point::default()], |points, (name, values)| {
        let with = |point: &Point, value: &String| {
            let mut point = point.clone();
            point.0.push((name.clone(), value.clone()));
            point
        };
        let each = points
            .iter()
            .flat_map(|point| values.iter().map(move |value| with(point, value)));
        each.collect()
    })
}

/// How a range is named in a text.
pub(crate) fn mark(name: &str) -> String {
    format!("{{{name}}}")
}

impl Point {
    /// A text with this point's values in the places of their names.
    pub(crate) fn fill(&self, text: &str) -> String {
        let values = self.0.iter();
        values.fold(text.to_owned(), |text, (name, value)| {
            text.replace(&mark(name), value)
        })
    }

    /// The value of a range.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(of, _)| of == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(out, "{comma}{name} {value}")?;
        }
        Ok(())
    }
}

/// Some of all points, for people: those that share all values but the last are named together.
pub(crate) fn listed(some: &[&Point], all: &[Point]) -> String {
    let groups = |points: &[&Point]| {
        let mut groups: Vec<(Point, Vec<String>)> = Vec::new();
        for point in points {
            let mut before = (*point).clone();
            let Some((_, last)) = before.0.pop() else {
                continue;
            };
            match groups.last_mut().filter(|(of, _)| *of == before) {
                Some((_, values)) => values.push(last),
                None => groups.push((before, vec![last])),
            }
        }
        groups
    };
    let whole = groups(&all.iter().collect::<Vec<_>>());
    let texts = groups(some).into_iter().map(|(before, values)| {
        let is_whole = whole
            .iter()
            .any(|(of, all)| *of == before && *all == values);
        let last = some.first().and_then(|point| point.0.last());
        let name = last.map_or("", |(name, _)| name);
        match (before.0.is_empty(), is_whole) {
            (true, _) => format!("{name} {}", values.join(", ")),
            (false, true) => format!("{before}"),
            (false, false) => format!("{before} ({name} {})", values.join(", ")),
        }
    });
    texts.collect::<Vec<_>>().join("; ")
}
