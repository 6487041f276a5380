//! Names, and the addresses that stand for them inside one spoke.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use crate::DomainName;

/// The first address of the network whose addresses stand for names. They are local to a spoke and lead to the hub alone, so
/// any network would do, but for programs that refuse to connect where a name has no public address: those for private
/// use and for tests (RFC 6890) are out. This one is public by its number; it was given to an owner that runs nothing there.
pub const NETWORK: Ipv4Addr = Ipv4Addr::new(25, 18, 0, 0);
/// The length of its prefix.
pub const PREFIX: u8 = 15;
/// Names that one spoke can have. A busy page names a few hundred; each takes about half a kilobyte of the hub.
pub const MAX_NAMES: usize = 4096;

/// The names of one spoke. An address stands for the same name as long as the spoke lives, so that
/// nothing that an app has kept leads to another place later.
#[derive(Debug, Default)]
pub struct Table {
    names: Vec<DomainName>,
    places: HashMap<DomainName, usize>,
}

impl Table {
    /// The address of this name, a new one if it has none; `None` where there is no room for another name.
    pub fn address(&mut self, name: &DomainName) -> Option<Ipv4Addr> {
        if let Some(place) = self.places.get(name) {
            return address_at(*place);
        }
        // No name makes way for another: its address would lead to a place that was decided on under another
        // name.
        if self.names.len() >= MAX_NAMES {
            return None;
        }
        let place = self.names.len();
        self.names.push(name.clone());
        self.places.insert(name.clone(), place);
        address_at(place)
    }

    /// The name that this address stands for, if it was ever given out.
    #[must_use]
    pub fn name(&self, address: Ipv4Addr) -> Option<&DomainName> {
        // The network's own address stands for nothing.
        let place = address
            .to_bits()
            .checked_sub(NETWORK.to_bits())?
            .checked_sub(1)?;
        self.names.get(usize::try_from(place).ok()?)
    }
}

fn address_at(place: usize) -> Option<Ipv4Addr> {
    let offset = u32::try_from(place).ok()?.checked_add(1)?;
    NETWORK
        .to_bits()
        .checked_add(offset)
        .map(Ipv4Addr::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_address_and_the_table_has_an_end() {
        let name = |number: usize| DomainName::new(&format!("n{number}.example.org")).unwrap();
        let mut table = Table::default();
        let first = table.address(&name(0)).unwrap();
        assert_eq!(first, Ipv4Addr::new(25, 18, 0, 1));
        let given = (0..10_000).filter_map(|number| table.address(&name(number)));
        let given: std::collections::BTreeSet<_> = given.collect();
        assert_eq!(given.len(), MAX_NAMES);
        for address in &given {
            assert_eq!(address.octets()[..2], [25, 18]);
        }
        assert_eq!(table.address(&name(0)), Some(first));
        assert_eq!(table.name(first), Some(&name(0)));
        let last = *given.last().unwrap();
        assert_eq!(table.name(last), Some(&name(MAX_NAMES - 1)));
        for unknown in [
            NETWORK,
            Ipv4Addr::LOCALHOST,
            Ipv4Addr::new(198, 19, 255, 255),
        ] {
            assert_eq!(table.name(unknown), None);
        }
    }
}
