//! A machine of one's own: four GPUs on two sockets, without NVLink. What do more links between the
//! sockets bring?

use fabricsim::topology::load;
use fabricsim::{Bytes, Collective, Measure, ScenarioError, measure};

/// Two GPUs behind each socket, and so many links between the sockets.
fn machine(lanes: u32) -> String {
    format!(
        r#"{{
  "name": "two-sockets",
  "title": "4 L40S on two sockets",
  "source": "made up",
  "components": {{
    "server": {{
      "node": true,
      "devices": {{
        "gpu": {{ "model": "l40s", "count": 4 }},
        "cpu": {{ "model": "xeon-8480c", "count": 2 }}
      }},
      "links": [
        {{ "from": "gpu[0-1]", "to": "cpu[0]", "link": "pcie4", "lanes": 16 }},
        {{ "from": "gpu[2-3]", "to": "cpu[1]", "link": "pcie4", "lanes": 16 }},
        {{ "from": "cpu[0]", "to": "cpu[1]", "link": "upi-sapphire-rapids", "lanes": {lanes} }}
      ]
    }}
  }},
  "instances": [{{ "name": "node", "component": "server", "count": 1 }}]
}}"#
    )
}

fn main() -> Result<(), ScenarioError> {
    let size = Bytes::new(256 << 20);
    let mut rows = Vec::new();
    for lanes in [1, 2, 4] {
        let own = load::parse(&machine(lanes), "two-sockets")?;
        let measured = measure(&Measure::new(own, Collective::AllReduce, [size]))?;
        rows.extend(measured.sizes.first().map(|row| (lanes, *row)));
    }
    if let [(_, one), .., (_, four)] = rows.as_slice() {
        println!(
            "An all-reduce of {size} takes {} with one link between the sockets and {} with four.\n",
            one.time.human(),
            four.time.human(),
        );
    }
    println!("links  time     busbw GB/s  bound");
    for (lanes, row) in rows {
        let (time, bound) = (row.time.human(), row.bound.human());
        println!(
            "{lanes:>5}  {time}  {:>10.1}  {bound}",
            row.bus_bandwidth.gb_per_sec()
        );
    }
    Ok(())
}
