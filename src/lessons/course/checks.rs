//! Answers of lessons, from the figures of their positions.

use super::spec::{AnswerSpec, CheckSpec};
use crate::LessonError;
use fabricsim_report::lesson::{Answer, Check, Figure, Position};
use fabricsim_report::numbers::three_digits;

/// How far off a reader's number may be.
const TOLERANCE: f64 = 0.1;

/// The question with its answer.
pub(super) fn check(
    spec: &CheckSpec,
    unit: &str,
    positions: &[Position],
) -> Result<Check, LessonError> {
    let at = |position: usize, scene: usize| {
        let figures = positions.get(position).map(|p| &p.figures);
        figures
            .and_then(|figures| figures.get(scene))
            .ok_or(LessonError::NoFigure { position, scene })
    };
    let label = |position: usize| positions[position].label.clone();
    let (answer, figures) = match &spec.answer {
        AnswerSpec::LeastOf(among) | AnswerSpec::MostOf(among) => {
            let all = among.iter().map(|&position| at(position, 0));
            let all: Vec<&Figure> = all.collect::<Result<_, _>>()?;
            let least = matches!(spec.answer, AnswerSpec::LeastOf(_));
            let texts = among.iter().zip(&all);
            let figures = texts.map(|(&p, figure)| format!("{}: {}", label(p), figure.text));
            let options = among.iter().map(|&position| label(position)).collect();
            let figures = figures.collect::<Vec<_>>().join(", ");
            (Answer::Choice(options, extreme(&all, least)?), figures)
        }
        AnswerSpec::LeastAt(position) | AnswerSpec::MostAt(position) => {
            at(*position, 0)?;
            let all: Vec<&Figure> = positions[*position].figures.iter().collect();
            let least = matches!(spec.answer, AnswerSpec::LeastAt(_));
            let options = all.iter().map(|figure| figure.of.clone()).collect();
            let figures = all.iter().map(|f| format!("{}: {}", f.of, f.text));
            let figures = figures.collect::<Vec<_>>().join(", ");
            (Answer::Choice(options, extreme(&all, least)?), figures)
        }
        &AnswerSpec::FigureAt(position, scene) => {
            let figure = at(position, scene)?;
            let (value, unit) = readable(figure.value, unit);
            (Answer::Number(value, unit, TOLERANCE), figure.text.clone())
        }
        &AnswerSpec::Ratio(first, second) => {
            let (a, b) = (at(first.0, first.1)?, at(second.0, second.1)?);
            let ratio = a.value / b.value;
            if !ratio.is_finite() {
                let (position, scene) = second;
                return Err(LessonError::NoFigure { position, scene });
            }
            let figures = format!("{} / {} = {}", a.text, b.text, three_digits(ratio));
            (
                Answer::Number(ratio, "times".to_owned(), TOLERANCE),
                figures,
            )
        }
    };
    Ok(Check {
        question: spec.question.clone(),
        answer,
        why: format!("{} ({figures})", spec.why),
    })
}

/// The index of the least or largest, which must stand out.
fn extreme(all: &[&Figure], least: bool) -> Result<usize, LessonError> {
    let better = |a: f64, b: f64| if least { a < b } else { a > b };
    let mut best = 0;
    for (index, figure) in all.iter().enumerate() {
        if better(figure.value, all[best].value) {
            best = index;
        }
    }
    let known = all.get(best).map(|figure| figure.value);
    let ties = all.iter().filter(|figure| Some(figure.value) == known);
    if ties.count() == 1 {
        Ok(best)
    } else {
        Err(LessonError::NoAnswer)
    }
}

/// A figure in a unit that a person would answer in.
fn readable(value: f64, unit: &str) -> (f64, String) {
    if unit != "ns" {
        return (value, unit.to_owned());
    }
    let units = [("s", 1e9), ("ms", 1e6), ("µs", 1e3)];
    let fits = units.into_iter().find(|(_, of)| value >= *of);
    let (name, of) = fits.unwrap_or(("ns", 1.0));
    (value / of, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::lessons;
    use super::super::spec::{AnswerSpec, LessonSpec};

    /// The reader turns the knob, or thinks: what is shown first is not enough to answer.
    #[test]
    fn the_first_view_does_not_answer_the_check() {
        for file in lessons() {
            let spec: LessonSpec = serde_json::from_str(&file.text).unwrap();
            let needed = match &spec.check.answer {
                AnswerSpec::LeastOf(all) | AnswerSpec::MostOf(all) => all.clone(),
                AnswerSpec::LeastAt(at) | AnswerSpec::MostAt(at) => vec![*at],
                AnswerSpec::FigureAt(at, _) => vec![*at],
                AnswerSpec::Ratio((a, _), (b, _)) => vec![*a, *b],
            };
            let shown = spec.knob.shown;
            assert!(needed.iter().any(|&at| at != shown), "{}", file.name);
        }
    }
}
