//! Random choices that a number decides: the same case for the same number, on every machine.

/// A stream of random numbers (splitmix64; Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to `below`, without it.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.next() % below.max(1)
    }

    /// One of `from`, each as often as it is there.
    pub(crate) fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, cases: u64) -> bool {
        self.below(100) < cases
    }

    /// From `low` to `high`, all scales alike.
    pub(crate) fn scaled(&mut self, low: f64, high: f64) -> f64 {
        let part = self.below(1 << 30) as f64 / (1u64 << 30) as f64;
        low * (high / low).powf(part)
    }
}
