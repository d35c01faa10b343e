//! Kernels of a step against what can be calculated by hand.

use super::compute::Gpu;
use super::spec::Precision;
use crate::kernel::{DataType, KernelLaw, Products};
use crate::model::kernel::{GemmShape, Kernel, KernelKind, Part};
use fabricsim_topology::Architecture;
use fabricsim_topology::catalogue;
use fabricsim_topology::hardware::{DeviceModel, GpuModel, Sourced};
use proptest::prelude::*;

fn model(gpu: &str) -> GpuModel {
    match &catalogue::hardware().devices[gpu] {
        DeviceModel::Gpu(model) => model.clone(),
        _ => panic!("{gpu} is no GPU"),
    }
}

fn architecture(of: &GpuModel) -> Architecture {
    catalogue::hardware().architectures[&of.architecture].clone()
}

fn product(m: u64, n: u64, k: u64, batch: u64) -> Kernel {
    let elements = (m * n + n * k + m * k) as f64 * batch as f64;
    Kernel {
        name: "product",
        part: Part::Mlp,
        kind: KernelKind::Gemm(GemmShape {
            m,
            n,
            k,
            batch,
            widths: [n, k],
        }),
        flops: 2.0 * m as f64 * n as f64 * k as f64 * batch as f64,
        bytes: 2.0 * elements,
    }
}

fn seconds(gpu: &Gpu, kernel: &Kernel) -> f64 {
    let time = gpu.time([kernel]);
    (time.compute + time.memory).seconds()
}

/// How much longer than in a profile a large product takes in a step, and the share of the peak that it
/// reaches in the profile.
fn slowed(name: &str, precision: Precision) -> (f64, f64) {
    let of_gpu = model(name);
    let gpu = Gpu::new(&of_gpu, &architecture(&of_gpu), (precision, 2)).unwrap();
    let kernel = product(16384, 16384, 16384, 1);
    let (operands, peak) = match precision {
        Precision::Bf16 => (DataType::Bf16, &of_gpu.bf16_tflops),
        Precision::Fp8 => (DataType::Fp8, of_gpu.fp8_tflops.as_ref().unwrap()),
    };
    let shape = crate::kernel::Kernel::Products(Products {
        m: 16384,
        n: 16384,
        k: 16384,
        batch: 1,
        widths: [16384; 2],
        operands,
        bytes: kernel.bytes,
    });
    let law = KernelLaw::new(&of_gpu).unwrap();
    let profiled = (law.time(&shape) - law.launch(&shape)).seconds();
    assert!(gpu.time([&kernel]).compute > gpu.time([&kernel]).memory.times(100));
    let step = gpu.time([&kernel]).compute.seconds();
    (
        step / profiled,
        kernel.flops / (peak.value * 1e12) / profiled,
    )
}

#[test]
fn products_are_slowed_by_the_cube_root_of_what_they_reach_over_what_power_allows() {
    for (name, precision) in [
        ("a100-sxm-80gb", Precision::Bf16),
        ("h100-sxm", Precision::Bf16),
        ("h100-sxm", Precision::Fp8),
        ("b200", Precision::Fp8),
    ] {
        let of = architecture(&model(name));
        let power = of.kernels.unwrap().power.unwrap().value;
        let (slower, share) = slowed(name, precision);
        assert!(share > power, "{name}: {share} in a profile");
        let wanted = (share / power).cbrt();
        assert!(
            (slower / wanted - 1.0).abs() < 1e-6,
            "{name}: {slower} times as long, {wanted} wanted"
        );
    }
}

#[test]
fn a_card_with_more_power_is_faster_by_its_ratio() {
    let (more, less) = (model("gb300"), model("gb200"));
    let wanted = more.sustained.as_ref().unwrap().value;
    let kernel = product(16384, 16384, 16384, 1);
    for precision in [Precision::Bf16, Precision::Fp8] {
        let of = |gpu: &GpuModel| Gpu::new(gpu, &architecture(gpu), (precision, 2)).unwrap();
        // The same SMs, so that waves are the same.
        let mut same = less.clone();
        same.sms.clone_from(&more.sms);
        same.bf16_tflops.clone_from(&more.bf16_tflops);
        same.fp8_tflops.clone_from(&more.fp8_tflops);
        let compute = |gpu: &GpuModel| of(gpu).time([&kernel]).compute.seconds();
        let faster = compute(&same) / compute(&more);
        assert!((faster / wanted - 1.0).abs() < 0.01, "{faster}");
    }
}

#[test]
fn a_product_that_memory_limits_is_as_fast_as_in_a_profile() {
    let of_gpu = model("h100-sxm");
    let gpu = Gpu::new(&of_gpu, &architecture(&of_gpu), (Precision::Bf16, 2)).unwrap();
    let kernel = product(16, 8192, 8192, 1);
    let shape = crate::kernel::Kernel::Products(Products {
        m: 16,
        n: 8192,
        k: 8192,
        batch: 1,
        widths: [8192; 2],
        operands: DataType::Bf16,
        bytes: kernel.bytes,
    });
    let alone = KernelLaw::new(&of_gpu).unwrap().time(&shape).seconds();
    assert!((seconds(&gpu, &kernel) / alone - 1.0).abs() < 1e-6);
}

#[test]
fn shares_of_the_users_own_are_taken_in_place_of_the_law() {
    let h100 = model("h100-sxm");
    let mut own = architecture(&h100);
    let kernels = own.kernels.as_mut().unwrap();
    let sourced = kernels.memory_share.clone();
    kernels.power = None;
    assert!(Gpu::new(&h100, &own, (Precision::Bf16, 2)).is_none());
    let kernels = own.kernels.as_mut().unwrap();
    let source = sourced.source.clone();
    kernels.gemm_share = Some(Sourced {
        value: 0.5,
        ..sourced
    });
    kernels.tile = Some(Sourced {
        value: (128, 256),
        source,
        comment: None,
    });
    let gpu = Gpu::new(&h100, &own, (Precision::Bf16, 2)).unwrap();
    // 132 SMs with one tile each: all at half of 989 TFLOP/s, and 3 us.
    let kernel = product(12 * 128, 11 * 256, 8192, 1);
    let time = gpu.time([&kernel]);
    let wanted = kernel.flops / (0.5 * h100.bf16_tflops.value * 1e12);
    assert!((time.compute.seconds() / wanted - 1.0).abs() < 1e-6);
    assert!((time.memory.micros() - 3.0).abs() < 1e-6);
    assert!(Gpu::new(&h100, &own, (Precision::Fp8, 2)).is_none());
}

proptest! {
    #[test]
    fn a_bigger_peak_never_makes_a_kernel_slower(
        (m, n, k) in (1u64..20_000, 1u64..20_000, 1u64..20_000),
        batch in 1u64..16,
        more in 1.0f64..3.0,
        at in 0usize..4,
        precision in prop_oneof![Just(Precision::Bf16), Just(Precision::Fp8)],
    ) {
        let small = model(["h100-sxm", "gb200", "b300", "l40s"][at]);
        let mut large = small.clone();
        large.bf16_tflops.value *= more;
        if let Some(fp8) = &mut large.fp8_tflops {
            fp8.value *= more;
        }
        let of = architecture(&small);
        let kernel = product(m, n, k, batch);
        let small = Gpu::new(&small, &of, (precision, 2)).unwrap();
        let large = Gpu::new(&large, &of, (precision, 2)).unwrap();
        prop_assert!(seconds(&large, &kernel) <= seconds(&small, &kernel) + 2e-12);
    }
}
