//! What drawings must show. How they look was judged by eye: with `FABRICSIM_PICTURES` set
//! to a folder, the tests leave their drawings there.

use super::scene::{Anchor, Scene, text_width};
use super::{Faulty, Style, detail, dot, overview, svg};
use crate::tests::{build, pair, rack, server};
use crate::{DeviceId, LinkId, Overrides, Topology, catalogue, expand, load};

fn samples() -> Vec<(String, Topology)> {
    let mut list = vec![
        ("server".to_owned(), build(&server(), 1)),
        ("rack".to_owned(), build(&rack(), 18)),
        ("racks".to_owned(), build(&rack(), 20)),
        ("pair".to_owned(), build(&pair(), 1)),
    ];
    let drives = include_str!("../../../tests/cases/topologies/drives.json");
    for nodes in [1, 2, 12, 300] {
        let spec = load::parse(drives, "drives").unwrap();
        let overrides = Overrides { nodes: Some(nodes) };
        let topology = expand(&spec, catalogue::hardware(), &overrides).unwrap();
        list.push((format!("drives-{nodes}"), topology));
    }
    for name in catalogue::names() {
        for nodes in [1, 2, 4, 16, 18, 64, 127, 1024] {
            let spec = catalogue::find(name).unwrap();
            let overrides = Overrides { nodes: Some(nodes) };
            let topology = expand(&spec, catalogue::hardware(), &overrides).unwrap();
            list.push((format!("{name}-{nodes}"), topology));
        }
    }
    list
}

/// Left, top, right, bottom.
type Area = (f64, f64, f64, f64);

fn overlap(a: Area, b: Area) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

fn areas(scene: &Scene) -> Vec<(String, Area)> {
    let tiles = scene.tiles.iter().map(|t| {
        let half = t.width / 2.0;
        (t.tip.clone(), (t.x - half, t.y, t.x + half, t.y + t.height))
    });
    let captions = scene.captions.iter().map(|c| {
        // Most faces are narrower than the widest that is allowed for.
        let width = text_width(&c.text, c.size) * 0.93;
        let left = match c.anchor {
            Anchor::Start => c.x,
            Anchor::Middle => c.x - width / 2.0,
        };
        let area = (left, c.y - c.size * 0.75, left + width, c.y + c.size * 0.2);
        (c.text.clone(), area)
    });
    tiles.chain(captions).collect()
}

#[test]
fn nothing_lies_on_anything_else_or_off_the_page() {
    for (name, topology) in samples() {
        let (page, width, bottom) = if topology.nodes.len() <= 2 {
            detail::draw(&topology, 96.0)
        } else {
            overview::draw(&topology, 96.0, None)
        };
        let areas = areas(&page.scene);
        for (i, (what, a)) in areas.iter().enumerate() {
            assert!(
                a.0 >= 0.0 && a.2 <= width && a.1 >= 70.0 && a.3 <= bottom + 1.0,
                "{name}: {what} is off the page"
            );
            for (other, b) in &areas[..i] {
                assert!(!overlap(*a, *b), "{name}: {what} lies on {other}");
            }
        }
    }
}

#[test]
fn drawings_are_whole_documents_of_modest_size() {
    let folder = std::env::var_os("FABRICSIM_PICTURES").map(std::path::PathBuf::from);
    for (name, topology) in samples() {
        let text = svg(&topology, &Style::default());
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert_eq!(text.matches("<g").count(), text.matches("</g>").count());
        assert!(!text.contains("NaN") && !text.contains("inf"), "{name}");
        assert!(text.len() < 300_000, "{name}: {}", text.len());
        if let Some(folder) = &folder {
            std::fs::write(folder.join(format!("{name}.svg")), text).unwrap();
            let busy = |link: LinkId| Some(f64::from(link.0 % 101) / 100.0);
            let style = Style {
                numbered: false,
                utilisation: Some(&busy),
                title: None,
                faulty: None,
            };
            let text = svg(&topology, &style);
            std::fs::write(folder.join(format!("{name}-busy.svg")), text).unwrap();
        }
    }
}

#[test]
fn every_device_of_a_server_is_drawn() {
    let topology = build(&server(), 1);
    let text = svg(&topology, &Style::default());
    for (id, _) in topology.devices() {
        let tip = format!("<title>{}</title>", topology.device_name(id));
        assert!(text.contains(&tip), "{tip}");
    }
}

#[test]
fn use_colours_the_lines() {
    let topology = build(&pair(), 1);
    let full = |_: LinkId| Some(1.0);
    let style = Style {
        numbered: false,
        utilisation: Some(&full),
        title: Some("Use <of> & links"),
        faulty: None,
    };
    let text = svg(&topology, &style);
    // Three wires, and the end of the scale.
    assert_eq!(text.matches("#c81928").count(), 4);
    assert!(text.contains("Use &lt;of&gt; &amp; links"));
}

#[test]
fn dot_has_every_device_and_wire() {
    let topology = build(&server(), 2);
    let text = dot(&topology);
    assert_eq!(text.matches(" -- ").count(), topology.link_count() / 2);
    assert_eq!(text.matches("fillcolor").count(), topology.device_count());
}

#[test]
fn what_is_faulty_is_marked_and_its_node_drawn_in_full() {
    let spec = catalogue::find("superpod-h100").unwrap();
    let overrides = Overrides { nodes: Some(16) };
    let topology = expand(&spec, catalogue::hardware(), &overrides).unwrap();
    let nic = topology.nodes[5].nics[0];
    let link = |link: LinkId| {
        let (from, to) = topology.ends(link);
        from == nic || to == nic
    };
    let device = |device: DeviceId| device == nic;
    let style = Style {
        numbered: false,
        faulty: Some(Faulty {
            link: &link,
            device: &device,
        }),
        ..Style::default()
    };
    let text = svg(&topology, &style);
    let named = format!(">{}</text>", topology.nodes[5].name);
    assert!(text.contains(">With a fault</text>") && text.contains(&named));
    // The legend's line, two lines or more, the NIC's tile in full and its mark above.
    assert!(
        text.matches("#c2187a").count() >= 4,
        "{}",
        text.matches("#c2187a").count()
    );
    assert!(!svg(&topology, &Style::default()).contains("#c2187a"));
}

#[test]
fn the_legend_says_what_each_line_is() {
    let drawn = |name: &str| {
        let topology = load(name, &Overrides { nodes: Some(1) }).unwrap();
        svg(&topology, &Style::default())
    };
    let text = drawn("dgx-h100");
    for (line, rate) in [
        ("NVLink, GPU – NVSwitch, 4 lanes", 83),
        ("NVLink, GPU – NVSwitch, 5 lanes", 103),
        ("network, NIC – network switch", 49),
    ] {
        assert!(text.contains(&format!(">{line}: {rate} GB/s<")), "{line}");
    }
    // As thick as they are drawn, so that one is told from the other.
    let width = |lanes: &str| {
        let (before, _) = text.split_once(&format!("{lanes} lanes:")).unwrap();
        let (_, mark) = before.rsplit_once("stroke-width=\"").unwrap();
        mark.split('"').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(width("NVSwitch, 4") < width("NVSwitch, 5"));
}
