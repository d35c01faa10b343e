//! PyTorch DDP's buckets.

use fabricsim_units::Bytes;

/// Gradients that are exchanged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Their size.
    pub bytes: Bytes,
    /// The bucket is full when the gradient with this number is there, in the order in which
    /// gradients become ready.
    pub last: usize,
}

/// Buckets of gradients of these sizes, in the order in which they become ready (the reverse of
/// the model's). A bucket is closed by the gradient with which it reaches its cap; none is split
/// (`compute_bucket_assignment_by_size` in PyTorch's `reducer.cpp`).
#[must_use]
pub fn buckets(gradients: &[Bytes], first_cap: Bytes, cap: Bytes) -> Vec<Bucket> {
    let mut filling = Filling::new(first_cap, cap);
    let mut buckets = Vec::new();
    let mut size = 0;
    for (index, gradient) in gradients.iter().enumerate() {
        size += gradient.get();
        if filling.add(*gradient) || index + 1 == gradients.len() {
            buckets.push(Bucket {
                bytes: Bytes::new(size),
                last: index,
            });
            size = 0;
        }
    }
    buckets
}

/// Buckets being filled as gradients become ready.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filling {
    first_cap: Bytes,
    cap: Bytes,
    size: u64,
    first: bool,
}

impl Filling {
    pub(super) fn new(first_cap: Bytes, cap: Bytes) -> Self {
        Filling {
            first_cap,
            cap,
            size: 0,
            first: true,
        }
    }

    /// Another gradient; true if it closes the bucket.
    pub(super) fn add(&mut self, gradient: Bytes) -> bool {
        self.size += gradient.get();
        let cap = if self.first { self.first_cap } else { self.cap };
        let full = self.size >= cap.get();
        if full {
            self.size = 0;
            self.first = false;
        }
        full
    }

    /// The next bucket is the first again.
    pub(super) fn restart(&mut self) {
        self.size = 0;
        self.first = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters of ResNet-18, in the model's order: elements.
    fn resnet18() -> Vec<u64> {
        let norm = |c: u64| [c, c];
        let mut all = vec![64 * 3 * 49];
        all.extend(norm(64));
        let mut inside = 64;
        for width in [64u64, 128, 256, 512] {
            for block in 0..2 {
                let from = if block == 0 { inside } else { width };
                all.push(width * from * 9);
                all.extend(norm(width));
                all.push(width * width * 9);
                all.extend(norm(width));
                if block == 0 && from != width {
                    all.push(width * from);
                    all.extend(norm(width));
                }
            }
            inside = width;
        }
        all.extend([1000 * 512, 1000]);
        all
    }

    #[test]
    fn resnet_18_has_the_buckets_that_pytorch_logs() {
        // pytorch/pytorch issue 48880.
        let gradients: Vec<Bytes> = resnet18().iter().rev().map(|n| Bytes::new(n * 4)).collect();
        let found = buckets(&gradients, Bytes::new(1 << 20), Bytes::new(25 << 20));
        let sizes: Vec<u64> = found.iter().map(|b| b.bytes.get()).collect();
        assert_eq!(sizes, [2_052_000, 28_852_224, 15_853_824]);
    }

    #[test]
    fn two_gigabytes_need_77_buckets() {
        let gradients = vec![Bytes::new(1 << 20); 2_000_000_000 / (1 << 20) + 1];
        let cap = Bytes::new(25 << 20);
        assert_eq!(buckets(&gradients, cap, cap).len(), 77);
    }
}
