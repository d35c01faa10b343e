//! Moving one parameter at a time, and from where a fit begins to where it ends.

use super::spec::FitSpec;
use super::state::{FACTORS, Fit};
use crate::summary::Counting;

/// What errors count for on the way from afar: first hardly anything below 30 %, and large ones are
/// heard from everywhere, so that there are few valleys and no parameter has to be right before
/// others can be; then tables begin to tell more of what they know.
const FROM_AFAR: [Counting; 2] = [
    Counting {
        large: 2.0,
        small: 0.3,
    },
    Counting {
        large: 0.6,
        small: 0.1,
    },
];

impl Fit<'_> {
    /// Moves the parameters `free`, step by step; the objective before and after.
    ///
    /// The first round is made twice, from the hardware files' values and from where smoother
    /// objectives lead: either may end in a valley that the other does not find.
    pub(super) fn run(&mut self, spec: &FitSpec, free: &[usize]) -> Result<(f64, f64), String> {
        let before = self.begin()?;
        let mut best = before;
        let mut steps = spec.steps.iter();
        if let Some(&first) = steps.next() {
            best = self.first_round(free, first, best)?;
        }
        for &step in steps {
            best = self.round(free, step, best)?;
        }
        Ok((before, best))
    }

    /// A round from either place; the objective where the better one ends.
    fn first_round(&mut self, free: &[usize], step: f64, best: f64) -> Result<f64, String> {
        let start = self.place();
        let best = self.round(free, step, best)?;
        let near = self.place();
        self.back_to(start);
        self.approach(free)?;
        let far = self.round(free, step, self.present())?;
        if self.is_better(far, best) {
            return Ok(far);
        }
        self.back_to(near);
        Ok(best)
    }

    /// Moves parameters to where smoother objectives lead.
    fn approach(&mut self, free: &[usize]) -> Result<(), String> {
        for counting in FROM_AFAR {
            self.counting = counting;
            self.together(free, self.present())?;
        }
        self.counting = Counting::AT_LAST;
        Ok(())
    }

    /// Moves each parameter by `step`, and those that are tied to each other, then all together;
    /// the objective then.
    fn round(&mut self, free: &[usize], step: f64, mut best: f64) -> Result<f64, String> {
        for &parameter in free {
            best = self.search(&[parameter], step, best)?;
        }
        for tied in self.pull.tied() {
            if tied.iter().all(|p| free.contains(p)) {
                best = self.search(&tied, step, best)?;
            }
        }
        self.together(free, best)
    }

    /// Moves parameters up as long as that helps, or else down.
    fn search(&mut self, which: &[usize], step: f64, mut best: f64) -> Result<f64, String> {
        if which.iter().any(|&p| self.touched[p].is_empty()) {
            return Ok(best);
        }
        for direction in [step, 1.0 / step] {
            let mut moves = 0;
            while moves < 3 {
                let moved = |&p: &usize| (p, self.factors[p] * direction);
                let moved: Vec<(usize, f64)> = which.iter().map(moved).collect();
                if moved
                    .iter()
                    .any(|(_, factor)| !(FACTORS.0..=FACTORS.1).contains(factor))
                {
                    break;
                }
                let (objective, all) = self.moved(&moved)?;
                if !self.is_better(objective, best) {
                    break;
                }
                best = objective;
                self.settle(&moved, all);
                moves += 1;
            }
            if moves > 0 {
                break;
            }
        }
        Ok(best)
    }

    /// How well the measurements know a parameter.
    pub(super) fn range(
        &mut self,
        parameter: usize,
        best: f64,
    ) -> Result<Option<(f64, f64)>, String> {
        if self.touched[parameter].is_empty() {
            return Ok(None);
        }
        let mut ends = [1.0f64; 2];
        for (end, sign) in ends.iter_mut().zip([-1.0, 1.0]) {
            for power in 1..=5 {
                *end = 1.1f64.powi(power * power).powf(sign);
                let factor = self.factors[parameter] * *end;
                if self.moved(&[(parameter, factor)])?.0 > best * 1.01 {
                    break;
                }
            }
        }
        let digits = |x: f64| (x * 100.0).round() / 100.0;
        Ok(Some((digits(ends[0]), digits(ends[1]))))
    }
}
