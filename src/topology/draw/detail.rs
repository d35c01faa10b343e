//! Machines of one or two nodes, in full.

use super::page::{MARGIN, Page};
use crate::graph::{NodeId, Topology};

/// Draws everything. Returns the page with its right and bottom.
pub(super) fn draw(topology: &Topology, top: f64) -> (Page<'_>, f64, f64) {
    let mut page = Page::new(topology);
    let nodes: Vec<NodeId> = (0..topology.nodes.len() as u32).map(NodeId).collect();
    let domain = page.domain(&nodes);
    let widths: Vec<f64> = nodes.iter().map(|&n| page.node_width(n)).collect();
    let between = 28.0;
    let own: f64 = widths.iter().sum::<f64>() + between * (nodes.len() as f64 - 1.0);
    let shared = domain.len() as f64 * 62.0;
    let (left, right) = (MARGIN + 24.0, MARGIN + 24.0 + own.max(shared));
    let node_top = top + page.fabric_height();
    let mut x = left + (right - left - own) / 2.0;
    let mut bottom = node_top;
    for (&node, width) in nodes.iter().zip(widths) {
        bottom = page.node(node, x, node_top).max(bottom);
        x += width + between;
    }
    page.fabrics(left, right, top);
    bottom = page.shared(&domain, left, right, bottom);
    page.connect();
    (page, right + 24.0, bottom)
}
