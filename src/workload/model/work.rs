//! Writing kernels down: a forward list in its order, and the backward list that mirrors it.

use super::kernel::{GemmShape, Kernel, KernelKind, LayerKernels, Part, Pass, Style};

/// A layer as it is written. Backward kernels are pushed in the order of the forward pass, group
/// by group, and turned round in the end.
pub(super) struct Work {
    style: Style,
    part: Part,
    forward: Vec<Kernel>,
    /// One group for each forward step; each in its own order.
    backward: Vec<Vec<Kernel>>,
    /// Indices into `forward` of the attention core.
    core: Vec<usize>,
}

/// A linear layer on one GPU.
pub(super) struct Linear {
    /// Names of the product, of the input's gradient, and of the weight's.
    pub(super) names: [&'static str; 3],
    /// Rows in all, of all `batch` products; a mean where experts share them.
    pub(super) rows: f64,
    /// Columns of the input, of each product.
    pub(super) input: u64,
    /// Columns of the output, of each product.
    pub(super) output: u64,
    /// Values of a row of the output in memory: more where it is padded.
    pub(super) output_row: u64,
    /// Independent products (experts).
    pub(super) batch: u64,
    /// Whether the product's gradient of the bias is a pass of its own.
    pub(super) bias: bool,
}

impl Work {
    pub(super) fn new(style: Style) -> Self {
        Work {
            style,
            part: Part::AttentionEntry,
            forward: Vec::new(),
            backward: Vec::new(),
            core: Vec::new(),
        }
    }

    /// What follows belongs there.
    pub(super) fn part(&mut self, part: Part) {
        self.part = part;
    }

    /// A pass over memory, and what it is backward.
    pub(super) fn memory(
        &mut self,
        (pass, names): (Pass, [&'static str; 2]),
        forward_bytes: f64,
        backward_bytes: f64,
    ) {
        let kind = KernelKind::Memory(pass);
        let forward = self.kernel(names[0], kind, 0.0, forward_bytes);
        let backward = self.kernel(names[1], kind, 0.0, backward_bytes);
        self.step(vec![forward], vec![backward]);
    }

    /// A linear layer: forward m × k · k × n; backward the input's gradient m × n · n × k and the
    /// weight's k × m · m × n.
    pub(super) fn linear(&mut self, linear: &Linear) {
        let Linear {
            names,
            rows,
            input,
            output,
            output_row,
            batch,
            bias,
        } = *linear;
        // Exact in all but the mean that experts get, which is rounded up.
        let m = (rows / batch as f64).ceil() as u64;
        let (k, n) = (input, output);
        let style = self.style;
        let work = 2.0 * rows * k as f64 * n as f64;
        let (inputs, outputs) = (rows * k as f64, rows * n as f64);
        let weights = (batch * k * n) as f64;
        let (w, o, g) = (
            style.width as f64,
            style.operand_width as f64,
            style.gradient_width as f64,
        );
        // The same in all three: a weight's gradient reads both by columns.
        let widths = [input, output_row];
        let shape = |m, n, k| {
            KernelKind::Gemm(GemmShape {
                m,
                n,
                k,
                batch,
                widths,
            })
        };
        let other = KernelKind::Memory(Pass::Other);
        // FP8 operands are written plain and transposed: for this product and for the weight's.
        let cast = |name, elements: f64| {
            (style.operand_width < style.width)
                .then(|| self.kernel(name, other, 0.0, elements * (w + 2.0 * o)))
        };
        let mut forward: Vec<Kernel> = cast("cast_input", inputs).into_iter().collect();
        let mut backward: Vec<Kernel> = cast("cast_gradient", outputs).into_iter().collect();
        forward.push(self.kernel(
            names[0],
            shape(m, n, k),
            work,
            o * (inputs + weights) + w * outputs,
        ));
        backward.push(self.kernel(
            names[1],
            shape(m, k, n),
            work,
            o * (outputs + weights) + w * inputs,
        ));
        let sum = if style.fused_accumulation { 2.0 * g } else { w };
        backward.push(self.kernel(
            names[2],
            shape(k, n, m),
            work,
            o * (inputs + outputs) + sum * weights,
        ));
        if bias {
            backward.push(self.kernel("bias_gradient", other, 0.0, w * outputs));
        }
        self.step(forward, backward);
    }

    /// One step: kernels forward, and kernels backward in their order.
    pub(super) fn step(&mut self, forward: Vec<Kernel>, backward: Vec<Kernel>) {
        self.forward.extend(forward);
        self.backward.push(backward);
    }

    /// As [`Work::step`]; selective recomputation repeats it.
    pub(super) fn core_step(&mut self, forward: Vec<Kernel>, backward: Vec<Kernel>) {
        let first = self.forward.len();
        self.core.extend(first..first + forward.len());
        self.step(forward, backward);
    }

    /// A kernel of the present part.
    pub(super) fn kernel(
        &self,
        name: &'static str,
        kind: KernelKind,
        flops: f64,
        bytes: f64,
    ) -> Kernel {
        Kernel {
            name,
            part: self.part,
            kind,
            flops,
            bytes,
        }
    }

    /// The lists, and those of the forward kernels that are the attention core.
    pub(super) fn finish(self) -> (LayerKernels, Vec<Kernel>) {
        let core = self.core.iter().map(|&i| self.forward[i]).collect();
        let kernels = LayerKernels {
            forward: self.forward,
            recompute: Vec::new(),
            backward: self.backward.into_iter().rev().flatten().collect(),
        };
        (kernels, core)
    }
}
