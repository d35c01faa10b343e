//! Components of a file, each made into a template once.

use super::error::Fault;
use super::graph::DeviceKind;
use super::models::{Models, kind};
use super::selector;
use super::spec::{ComponentSpec, DeviceSpec, InstanceSpec, LinkSpec, TopologySpec};
use super::template::{
    MAX_DEVICES, MAX_WIRES, Part, Spot, Template, Wire, lanes, pair, too_many_devices,
    too_many_wires,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Components may contain components this many times over.
const MAX_DEPTH: usize = 32;

/// Makes templates on demand, each component once.
pub(super) struct Builder<'a> {
    spec: &'a TopologySpec,
    made: BTreeMap<&'a str, Option<Rc<Template>>>,
    /// Components being made, outermost first.
    open: Vec<&'a str>,
    /// Size of everything made.
    built: u64,
}

impl<'a> Builder<'a> {
    pub(super) fn new(spec: &'a TopologySpec) -> Self {
        Builder {
            spec,
            made: BTreeMap::new(),
            open: Vec::new(),
            built: 0,
        }
    }

    /// The template of the component that `instance` (at `at`) names. `None` if it has
    /// faults, which are told once.
    pub(super) fn of_instance(
        &mut self,
        instance: &'a InstanceSpec,
        at: &str,
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) -> Option<Rc<Template>> {
        check_instance(instance, at, faults);
        let at = format!("{at}.component");
        let Some((name, _)) = self.spec.components.get_key_value(&instance.component) else {
            let known = self.spec.components.keys().map(String::as_str);
            faults.push(Fault::unknown(at, "components", &instance.component, known));
            return None;
        };
        if let Some(position) = self.open.iter().position(|open| open == name) {
            let mut chain = self.open[position..].to_vec();
            chain.push(name);
            faults.push(Fault::new(
                at,
                format!("`{name}`, which contains itself: {}", chain.join(" > ")),
                "a component that does not lead back here",
            ));
            return None;
        }
        if self.open.len() >= MAX_DEPTH {
            faults.push(Fault::new(
                at,
                format!("components within components {MAX_DEPTH} deep"),
                format!("at most {MAX_DEPTH} levels"),
            ));
            return None;
        }
        self.of_component(name, models, faults)
    }

    /// The template of a component of this name.
    pub(super) fn of_component(
        &mut self,
        name: &'a str,
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) -> Option<Rc<Template>> {
        if let Some(made) = self.made.get(name) {
            return made.clone();
        }
        let component = self.spec.components.get(name)?;
        self.open.push(name);
        let before = faults.len();
        let template = self.make(name, component, models, faults);
        self.open.pop();
        let made = template.filter(|_| faults.len() == before).map(Rc::new);
        self.made.insert(name, made.clone());
        made
    }

    fn make(
        &mut self,
        name: &str,
        component: &'a ComponentSpec,
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) -> Option<Template> {
        let at = format!("components.{name}");
        check_component_names(component, &at, faults);
        let price = match &component.price {
            Some(price) => models.price(price, &format!("{at}.price"), faults),
            None => None,
        };
        let mut template = Template {
            spots: vec![Spot {
                name: String::new(),
                node: component.node.then_some(0),
                inside: 0..u32::from(component.node),
                price,
            }],
            nodes: u32::from(component.node),
            ..Template::default()
        };
        self.add_devices(component, &at, &mut template, models, faults)?;
        self.add_instances(component, &at, &mut template, models, faults)?;
        self.built += template.size();
        for (i, link) in component.links.iter().enumerate() {
            add_link(
                link,
                &format!("{at}.links[{i}]"),
                &mut template,
                models,
                faults,
            );
        }
        for (group, text) in &component.ports {
            let at = format!("{at}.ports.{group}");
            if let Some(selected) = template.select(text, &at, faults) {
                add_ports(group, selected, &at, &mut template, faults);
            }
        }
        Some(template)
    }

    fn add_devices(
        &mut self,
        component: &'a ComponentSpec,
        at: &str,
        template: &mut Template,
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) -> Option<()> {
        for (name, device) in &component.devices {
            let at = format!("{at}.devices.{name}");
            let model = models.device(&device.model, &format!("{at}.model"), faults);
            let stem = models.stem(name, &device.rdma, &at, faults);
            let first = template.parts.len() as u32;
            if device.count == 0 || device.count > 1 << 16 {
                faults.push(Fault::new(
                    format!("{at}.count"),
                    device.count.to_string(),
                    "a number from 1 to 65536",
                ));
                // Known but empty, so that selectors of it are no faults too.
                template.devices.insert(name.clone(), (first, 0));
                continue;
            }
            let size = self.built + template.size() + u64::from(device.count);
            if size > MAX_DEVICES {
                faults.push(too_many_devices(&format!("{at}.count"), size));
                return None;
            }
            template.devices.insert(name.clone(), (first, device.count));
            // Faults make the template void; the numbers only keep later checks going.
            check_rdma(device, model.map(|(_, m)| kind(m)), &at, faults);
            let (number, kind) = model.map_or((0, DeviceKind::Cpu), |(n, m)| (n, kind(m)));
            template.parts.extend((0..device.count).map(|index| Part {
                kind,
                model: number,
                stem: stem.unwrap_or(0),
                index: index as u16,
                place: 0,
            }));
        }
        Some(())
    }

    fn add_instances(
        &mut self,
        component: &'a ComponentSpec,
        at: &str,
        template: &mut Template,
        models: &mut Models<'a>,
        faults: &mut Vec<Fault>,
    ) -> Option<()> {
        for (i, instance) in component.instances.iter().enumerate() {
            let at = format!("{at}.instances[{i}]");
            let inner = self.of_instance(instance, &at, models, faults)?;
            if component.node && inner.nodes > 0 {
                faults.push(Fault::new(
                    format!("{at}.component"),
                    format!(
                        "`{}`, which holds a node, inside a node",
                        instance.component
                    ),
                    "a component without `\"node\": true`",
                ));
                return None;
            }
            let count = u64::from(instance.count);
            let size = self.built + template.size() + count * inner.size();
            if size > MAX_DEVICES {
                faults.push(too_many_devices(&format!("{at}.count"), size));
                return None;
            }
            let wires = template.wires.len() as u64 + count * inner.wires.len() as u64;
            if wires > MAX_WIRES {
                faults.push(too_many_wires(&format!("{at}.count"), wires));
                return None;
            }
            template.add_copies(instance, &inner, component.node);
        }
        Some(())
    }
}
fn add_link<'a>(
    link: &'a LinkSpec,
    at: &str,
    template: &mut Template,
    models: &mut Models<'a>,
    faults: &mut Vec<Fault>,
) {
    let from = template.select(&link.from, &format!("{at}.from"), faults);
    let to = template.select(&link.to, &format!("{at}.to"), faults);
    let model = models.link(&link.link, &format!("{at}.link"), faults);
    let lanes = lanes(link, at, faults);
    let (Some(from), Some(to)) = (from, to) else {
        return;
    };
    let pairs = match pair(link, &from, &to, at) {
        Ok(pairs) => pairs,
        Err(fault) => {
            faults.push(fault);
            return;
        }
    };
    if pairs.iter().any(|(f, t)| f == t) {
        faults.push(Fault::new(
            at,
            format!(
                "a link of a device to itself, between `{}` and `{}`",
                link.from, link.to
            ),
            "two different devices at each wire's ends",
        ));
        return;
    }
    let wires = template.wires.len() as u64 + pairs.len() as u64;
    if wires > MAX_WIRES {
        faults.push(too_many_wires(at, wires));
        return;
    }
    if let (Some((model, _)), Some(lanes)) = (model, lanes) {
        template
            .wires
            .extend(pairs.into_iter().map(|(from, to)| Wire {
                from,
                to,
                model,
                lanes,
            }));
    }
}

fn add_ports(
    group: &str,
    selected: Vec<u32>,
    at: &str,
    template: &mut Template,
    faults: &mut Vec<Fault>,
) {
    if let Some(&other) = selected
        .iter()
        .find(|&&d| template.parts[d as usize].kind != DeviceKind::Nic)
    {
        faults.push(Fault::new(
            at,
            format!("a {}", template.parts[other as usize].kind.label()),
            "NICs only: a fabric joins NICs",
        ));
        return;
    }
    let members = template.ports.entry(group.to_owned()).or_default();
    members.extend(selected);
    let mut sorted = members.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|w| w[0] == w[1]) {
        faults.push(Fault::new(
            at,
            format!("a device that an instance inside has in its own ports `{group}` already"),
            "each device once in a group",
        ));
    }
}

/// What can be wrong with an instance by itself.
fn check_instance(instance: &InstanceSpec, at: &str, faults: &mut Vec<Fault>) {
    if let Err(problem) = selector::check_name(&instance.name) {
        faults.push(Fault::new(
            format!("{at}.name"),
            problem,
            "letters, digits, `_`, `-` and `.`",
        ));
    }
    if instance.name.ends_with(|c: char| c.is_ascii_digit()) {
        faults.push(Fault::new(
            format!("{at}.name"),
            format!("`{}`", instance.name),
            "a name that does not end in a digit: copies are numbered",
        ));
    }
    if instance.count == 0 {
        faults.push(Fault::new(format!("{at}.count"), "0", "at least 1"));
    }
}

/// RDMA names are those of NICs, one for each, such as NCCL_IB_HCA can name.
fn check_rdma(device: &DeviceSpec, kind: Option<DeviceKind>, at: &str, faults: &mut Vec<Fault>) {
    let names = &device.rdma;
    if names.is_empty() {
        return;
    }
    if kind.is_some_and(|kind| kind != DeviceKind::Nic) {
        let found = "names of devices that are no NICs";
        faults.push(Fault::new(format!("{at}.rdma"), found, "none"));
    }
    if names.len() != device.count as usize {
        let expected = format!("{}, one for each NIC", device.count);
        let found = format!("{} names", names.len());
        faults.push(Fault::new(format!("{at}.rdma"), found, expected));
    }
    for (number, name) in names
        .iter()
        .enumerate()
        .filter(|(_, name)| !is_rdma_name(name))
    {
        faults.push(Fault::new(
            format!("{at}.rdma[{number}]"),
            format!("`{name}`"),
            "a name such as mlx5_0: letters, digits, `_`, `-` and `.`",
        ));
    }
}

/// Whether NCCL_IB_HCA can name it.
pub(super) fn is_rdma_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

/// Names that selectors cannot hold, and device names that number into each other.
fn check_component_names(component: &ComponentSpec, at: &str, faults: &mut Vec<Fault>) {
    for name in component.devices.keys() {
        if let Err(problem) = selector::check_name(name) {
            faults.push(Fault::new(
                format!("{at}.devices"),
                problem,
                "letters, digits, `_`, `-` and `.`",
            ));
        }
        if let Some((other, _)) =
            selector::split_number(name, |n| component.devices.contains_key(n))
        {
            faults.push(Fault::new(
                format!("{at}.devices.{name}"),
                format!("`{name}`, beside `{other}`: their numbered names could be the same"),
                "names of which none is another with digits added",
            ));
        }
    }
}
