//! How the connections of a plan move data, in little memory: many differ in their routes only.

use super::{RouteId, Transport};
use rustc_hash::FxHashMap;

/// A transport for each connection, in order of their ids.
#[derive(Debug, Clone, Default)]
pub struct Transports {
    all: Vec<Entry>,
    /// Transports as they first occurred.
    kinds: Vec<Transport>,
    number_of: FxHashMap<Transport, u32>,
}

/// A transport: its routes, and which kind it is of.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Stored over, loaded over, of the network; [`NO_ROUTE`] if there is none.
    routes: [u32; 3],
    kind: u32,
}

const NO_ROUTE: u32 = u32::MAX;

impl Transports {
    /// None so far, with room for so many.
    #[must_use]
    pub fn with_capacity(connections: usize) -> Self {
        Transports {
            all: Vec::with_capacity(connections),
            ..Transports::default()
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// One for each kind: transports of one kind are the same but for their routes.
    #[must_use]
    pub fn kinds(&self) -> &[Transport] {
        &self.kinds
    }

    /// Which kind a connection's is of.
    ///
    /// # Panics
    /// If there is no such connection.
    #[must_use]
    pub fn kind_of(&self, connection: usize) -> usize {
        self.all[connection].kind as usize
    }

    /// A connection's routes: stored over, loaded over, of its network.
    ///
    /// # Panics
    /// If there is no such connection.
    #[must_use]
    #[inline]
    pub fn routes_of(&self, connection: usize) -> [Option<RouteId>; 3] {
        let [store, load, network] = self.all[connection].routes;
        [route(store), route(load), route(network)]
    }

    /// A connection's.
    ///
    /// # Panics
    /// If there is no such connection.
    #[must_use]
    #[inline]
    pub fn get(&self, connection: usize) -> Transport {
        let [store, load, network] = self.routes_of(connection);
        with_routes(
            self.kinds[self.kind_of(connection)],
            [store, load],
            network.unwrap_or(RouteId(NO_ROUTE)),
        )
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Transport> + Clone + '_ {
        (0..self.all.len()).map(|connection| self.get(connection))
    }

    /// The kind of a transport, whatever its routes.
    pub fn kind(&mut self, transport: Transport) -> u32 {
        let bare = with_routes(transport, [None; 2], RouteId(NO_ROUTE));
        let kinds = &mut self.kinds;
        *self.number_of.entry(bare).or_insert_with(|| {
            kinds.push(transport);
            kinds.len() as u32 - 1
        })
    }

    /// Adds one of a known kind.
    pub fn push_of(&mut self, kind: u32, routes: [Option<RouteId>; 3]) {
        let routes = routes.map(|route| route.map_or(NO_ROUTE, |r| r.0));
        self.all.push(Entry { routes, kind });
    }

    /// Adds one.
    pub fn push(&mut self, transport: Transport) {
        let kind = self.kind(transport);
        let network = transport.network.map(|leg| leg.route);
        self.push_of(kind, [transport.store, transport.load, network]);
    }

    /// Adds all of another plan, whose routes have numbers larger by so much.
    pub fn append(&mut self, other: &Transports, routes: u32) {
        let kinds: Vec<u32> = other.kinds.iter().map(|&t| self.kind(t)).collect();
        for (connection, entry) in other.all.iter().enumerate() {
            let moved = |route: RouteId| RouteId(route.0 + routes);
            let routes = other.routes_of(connection).map(|r| r.map(moved));
            self.push_of(kinds[entry.kind as usize], routes);
        }
    }
}

/// A route, if there is one.
#[inline]
fn route(number: u32) -> Option<RouteId> {
    (number != NO_ROUTE).then_some(RouteId(number))
}

#[inline]
fn with_routes(
    transport: Transport,
    [store, load]: [Option<RouteId>; 2],
    network: RouteId,
) -> Transport {
    Transport {
        store,
        load,
        network: transport.network.map(|mut leg| {
            leg.route = network;
            leg
        }),
        ..transport
    }
}

impl FromIterator<Transport> for Transports {
    fn from_iter<I: IntoIterator<Item = Transport>>(transports: I) -> Self {
        let mut all = Transports::default();
        transports.into_iter().for_each(|t| all.push(t));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Later, MessageCost, NetworkLeg};
    use fabricsim_units::{Bandwidth, Time};

    #[test]
    fn what_goes_in_comes_out() {
        let us = Time::from_micros;
        let local = Transport {
            store: Some(RouteId(3)),
            load: None,
            network: None,
            latency: us(1),
            credit_latency: us(2),
        };
        let remote = Transport {
            store: None,
            network: Some(NetworkLeg {
                route: RouteId(5),
                post_latency: us(1),
                message: MessageCost::flat(us(3)),
                later: Later::NEVER,
                rate: Bandwidth::from_gb_per_sec(50),
                ahead: 0,
            }),
            ..local
        };
        let slow = Transport {
            latency: us(9),
            ..local
        };
        let mut elsewhere = local;
        (elsewhere.store, elsewhere.load) = (Some(RouteId(0)), Some(RouteId(1)));
        let given = [local, remote, slow, elsewhere];
        let all = Transports::from_iter(given);
        assert!(all.iter().eq(given));
        assert_eq!(all.kinds().len(), 3, "routes make no kind");
        assert_eq!(all.kind_of(0), all.kind_of(3));

        let mut twice = all.clone();
        twice.append(&all, 10);
        assert_eq!((twice.len(), twice.kinds().len()), (8, 3));
        assert_eq!(twice.get(4).store, Some(RouteId(13)));
        assert_eq!(twice.routes_of(5), [None, None, Some(RouteId(15))]);
        assert_eq!(twice.get(6).latency, us(9));
    }
}
