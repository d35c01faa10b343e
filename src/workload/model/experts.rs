//! The kernels of a layer's experts.
//!
//! With R rows on this GPU before dispatch, T in a tensor-parallel group, k experts for each of
//! them and E experts in all:
//!
//! - router: a product R × h · h × E, then softmax and choice over 4-byte scores, 8RE bytes;
//! - dispatch copies rows into the order of experts: wRh + wRkh, and as much backward;
//! - on average Tk rows come to this GPU's E / ep experts, as one grouped product each way;
//! - combine: wRkh + wRh, and as much backward.

use super::kernel::{Part, Pass};
use super::layer::Scene;
use super::spec::ExpertSpec;
use super::work::{Linear, Work};

/// Writes router, routed experts and shared experts.
pub(super) fn write(scene: &Scene<'_>, work: &mut Work, experts: &ExpertSpec) {
    let hidden = scene.model.hidden;
    if experts.shared > 0 {
        work.part(Part::SharedExperts);
        let ffn = experts.shared * experts.ffn / scene.tp;
        scene.mlp(work, scene.rows, ffn, 1, scene.model.biases);
    }
    work.part(Part::Router);
    let names = ["router", "router_dgrad", "router_wgrad"];
    work.linear(&Linear {
        rows: scene.outer_rows,
        bias: false,
        ..scene.linear(names, hidden, experts.count)
    });
    let scores = 8.0 * scene.outer_rows * experts.count as f64;
    work.memory(
        (Pass::Other, ["choose_experts", "choose_experts_backward"]),
        scores,
        scores,
    );
    let copies = scene.w * scene.outer_rows * hidden as f64 * (1 + experts.per_token) as f64;
    let names = ["dispatch", "dispatch_backward"];
    work.memory((Pass::Other, names), copies, copies);
    work.part(Part::Experts);
    let rows = scene.rows * experts.per_token as f64;
    let (ffn, local) = (experts.ffn / scene.tp, experts.count / scene.ep);
    scene.mlp(work, rows, ffn, local, scene.model.biases);
    work.part(Part::Combine);
    let names = ["combine", "combine_backward"];
    work.memory((Pass::Other, names), copies, copies);
}
