//! Machines of one or two nodes, in full.

use super::page::{Home, MARGIN, Page};
use crate::graph::{NodeId, Topology};

/// More servers than anyone looks at are alike.
const MOST_SERVERS: usize = 8;

/// Draws everything. Returns the page with its right and bottom.
pub(super) fn draw(topology: &Topology, top: f64) -> (Page<'_>, f64, f64) {
    let mut page = Page::new(topology);
    let nodes: Vec<NodeId> = (0..topology.nodes.len() as u32).map(NodeId).collect();
    let domain = page.domain(&nodes);
    let nodes = nodes.into_iter().map(Home::Node);
    let servers = page.servers().into_iter().map(Home::Server);
    let homes: Vec<Home> = nodes.chain(servers.take(MOST_SERVERS)).collect();
    let widths: Vec<f64> = homes.iter().map(|&home| page.width(home)).collect();
    let between = 28.0;
    let own: f64 = widths.iter().sum::<f64>() + between * (homes.len() as f64 - 1.0);
    let shared = domain.len() as f64 * 62.0;
    let (left, right) = (MARGIN + 24.0, MARGIN + 24.0 + own.max(shared));
    let node_top = top + page.fabric_height();
    let mut x = left + (right - left - own) / 2.0;
    let mut bottom = node_top;
    for (&home, width) in homes.iter().zip(widths) {
        bottom = page.home(home, x, node_top).max(bottom);
        x += width + between;
    }
    page.fabrics(left, right, top);
    bottom = page.shared(&domain, left, right, bottom);
    page.connect();
    (page, right + 24.0, bottom)
}
