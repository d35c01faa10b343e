//! Moving one or two parameters at a time.

use super::spec::FitSpec;
use super::state::{FACTORS, Fit};

impl Fit<'_> {
    /// Moves the parameters `free`, step by step; the objective before and after.
    pub(super) fn run(&mut self, spec: &FitSpec, free: &[usize]) -> Result<(f64, f64), String> {
        let before = self.begin()?;
        let mut best = before;
        for &step in &spec.steps {
            for &parameter in free {
                best = self.search(&[(parameter, 1)], step, best)?;
                for &other in free.iter().filter(|&&other| other < parameter) {
                    if self.of_one_part(parameter, other) {
                        best = self.search(&[(parameter, 1), (other, -1)], step, best)?;
                        best = self.search(&[(parameter, 1), (other, 1)], step, best)?;
                    }
                }
            }
            for tied in self.pull.tied() {
                let all: Vec<_> = tied.into_iter().map(|p| (p, 1)).collect();
                if all.iter().all(|(p, _)| free.contains(p)) {
                    best = self.search(&all, step, best)?;
                }
            }
            best = self.together(free, best)?;
        }
        Ok((before, best))
    }

    /// Whether two parameters are of the same protocol of a generation, or the like: what one of them
    /// takes more the other may take less.
    fn of_one_part(&self, one: usize, other: usize) -> bool {
        let part = |at: usize| self.paths[at].splitn(4, '.').take(3).collect::<Vec<_>>();
        self.paths[one].split('.').count() > 3 && part(one) == part(other)
    }

    /// Moves parameters, each up or down, as long as that helps, or all of them the other way.
    fn search(&mut self, which: &[(usize, i32)], step: f64, mut best: f64) -> Result<f64, String> {
        if which.iter().any(|&(p, _)| self.touched[p].is_empty()) {
            return Ok(best);
        }
        for direction in [step, 1.0 / step] {
            let mut moves = 0;
            while moves < 3 {
                let moved = |&(p, sign): &(usize, i32)| (p, self.factors[p] * direction.powi(sign));
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
