//! The largest frames of a network, and what they leave of a wire.

use super::graph::Topology;
use super::hardware::{Headers, Keep, LinkFamily};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The most bytes that a frame carries, the headers of IP and above included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Mtu(u32);

impl Mtu {
    /// Ethernet's own.
    pub const ETHERNET: Mtu = Mtu(1500);
    /// Jumbo frames.
    pub const JUMBO: Mtu = Mtu(9000);
    /// The smallest of InfiniBand, and the largest of IP over it.
    pub const RANGE: (u32, u32) = (256, 65_520);

    /// TCP and IP over version 4, with time stamps.
    const TCP_HEADERS: u64 = 52;
    /// Preamble, Ethernet's header and check sum, the gap between frames.
    const FRAME: u64 = 38;
    /// What RDMA adds to its payload: gap, preamble, Ethernet, IPv4, UDP, BTH and check sums.
    const ROCE_HEADERS: u64 = 82;
    /// InfiniBand's: LRH, BTH, both check sums.
    const IB_HEADERS: u64 = 26;
    /// What RoCE needs beside its payload in a frame.
    const ROCE_INSIDE: u64 = 64;

    /// So many bytes.
    #[must_use]
    pub fn new(bytes: u32) -> Option<Mtu> {
        let (least, most) = Mtu::RANGE;
        (least..=most).contains(&bytes).then_some(Mtu(bytes))
    }

    /// In bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// Bytes of payload in a full TCP segment.
    #[must_use]
    pub fn tcp_payload(self) -> u64 {
        u64::from(self.0) - Mtu::TCP_HEADERS
    }

    /// The part of the wire that TCP's payload has: 1448 of 1538, 8948 of 9038.
    #[must_use]
    pub fn tcp_share(self) -> f64 {
        self.tcp_payload() as f64 / (u64::from(self.0) + Mtu::FRAME) as f64
    }

    /// Bytes of payload in a packet of RDMA: the largest of 256, 512, 1024, 2048 and 4096 that
    /// fits (4096 from 4200 bytes on). Just so many bytes are the MTU of RDMA itself: ports have
    /// room for its headers then.
    #[must_use]
    pub fn rdma_payload(self) -> u64 {
        let sizes = [4096, 2048, 1024, 512];
        let room = match u64::from(self.0) {
            own if sizes.contains(&own) => own,
            port => port.saturating_sub(Mtu::ROCE_INSIDE),
        };
        sizes.into_iter().find(|&size| size <= room).unwrap_or(256)
    }

    /// The part of the wire that the payload of RoCE has: 1024 of 1106, 4096 of 4178.
    #[must_use]
    pub fn roce_share(self) -> f64 {
        let payload = self.rdma_payload();
        payload as f64 / (payload + Mtu::ROCE_HEADERS) as f64
    }

    /// The same over InfiniBand, whose packets have fewer headers.
    #[must_use]
    pub fn infiniband_share(self) -> f64 {
        let payload = self.rdma_payload();
        payload as f64 / (payload + Mtu::IB_HEADERS) as f64
    }

    /// The part of the wire that payload under these headers has.
    #[must_use]
    pub fn share(self, headers: Headers) -> f64 {
        match headers {
            Headers::Tcp => self.tcp_share(),
            Headers::Roce => self.roce_share(),
            Headers::Infiniband => self.infiniband_share(),
        }
    }

    /// Packets a second in which so many bytes of payload travel, `payload` in each.
    #[must_use]
    pub fn packets(bytes_per_second: u64, payload: u64) -> u64 {
        bytes_per_second.div_ceil(payload.max(1))
    }
}

impl Topology {
    /// Gives all networks whose headers are known frames of so many bytes; over `tcp` all of them.
    /// Whether there was such a network.
    pub fn set_mtu(&mut self, mtu: Mtu, tcp: bool) -> bool {
        self.mtu = Some(mtu);
        let mut known = false;
        let networks = self.link_models.iter_mut().map(|(_, model)| model);
        for model in networks.filter(|model| model.family == LinkFamily::Network) {
            let own = model.keeps.iter_mut().find(|keep| keep.headers.is_some());
            if own.is_none() && !tcp {
                continue;
            }
            known = true;
            let headers = match &own {
                Some(keep) if !tcp => keep.headers.unwrap_or(Headers::Tcp),
                _ => Headers::Tcp,
            };
            let keep = Keep {
                what: format!(
                    "packet headers and gaps on the wire, of frames of {} bytes",
                    mtu.0
                ),
                fraction: mtu.share(headers),
                source: "header sizes, arithmetic".to_owned(),
                headers: Some(headers),
            };
            match own {
                Some(own) => *own = keep,
                None => model.keeps.push(keep),
            }
        }
        known
    }
}

impl<'de> Deserialize<'de> for Mtu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = u32::deserialize(deserializer)?;
        let (least, most) = Mtu::RANGE;
        Mtu::new(bytes).ok_or_else(|| {
            D::Error::custom(format!(
                "an MTU of {bytes} bytes; expected {least} to {most}, such as 1500, 4200 or 9000"
            ))
        })
    }
}

impl JsonSchema for Mtu {
    fn schema_name() -> Cow<'static, str> {
        "Mtu".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let (least, most) = Mtu::RANGE;
        json_schema!({
            "type": "integer",
            "minimum": least,
            "maximum": most,
            "description": "The most bytes that a frame carries, headers of IP and above included.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 5e-4, "{found} {expected}");
    }

    /// Header arithmetic as published: TCP 0.941 and 0.990, RoCE 0.926 and 0.980.
    #[test]
    fn headers_take_their_part_of_the_wire() {
        close(Mtu::ETHERNET.tcp_share(), 0.9415);
        close(Mtu::JUMBO.tcp_share(), 0.9900);
        close(Mtu::ETHERNET.roce_share(), 0.9259);
        close(Mtu::JUMBO.roce_share(), 0.9804);
        // Two DGX Spark gained 5 % (NVIDIA/dgx-spark-playbooks issue 103), of 5.9 % at most.
        close(Mtu::JUMBO.roce_share() / Mtu::ETHERNET.roce_share(), 1.0589);
        close(Mtu::JUMBO.infiniband_share(), 0.9937);
    }

    /// The vendor's rule: 4096 bytes of RDMA need an MTU of 4200, 2048 one of 2200.
    #[test]
    fn rdma_takes_the_largest_payload_that_fits() {
        let payload = |bytes| Mtu::new(bytes).unwrap().rdma_payload();
        assert_eq!(
            [1500, 2200, 4200, 9000].map(payload),
            [1024, 2048, 4096, 4096]
        );
        assert_eq!([4096, 1024].map(payload), [4096, 1024]);
        assert_eq!((Mtu::new(200), Mtu::new(65_521)), (None, None));
    }
}
