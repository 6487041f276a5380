//! No capabilities, and no way to new ones.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
    capability_is_in_bounding_set, clear_ambient_capability_set, no_new_privs,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
    set_no_new_privs,
};

use super::layers::{Failure, Layers};
use crate::Layer;

/// Makes every later execution unable to gain privileges.
pub(super) fn forbid_new(layers: &mut Layers) -> Result<(), Failure> {
    let outcome = set_no_new_privs(true).and_then(|()| no_new_privs());
    let outcome = match outcome {
        Ok(true) => Ok("set".to_owned()),
        Ok(false) => Err("the flag did not stay set".to_owned()),
        Err(errno) => Err(errno.to_string()),
    };
    layers.record(Layer::NoNewPrivileges, outcome)?;
    Ok(())
}

/// Drops every capability from every set.
pub(super) fn drop_all(layers: &mut Layers) -> Result<(), Failure> {
    layers.record(Layer::Capabilities, empty_all_sets())?;
    Ok(())
}

fn empty_all_sets() -> Result<String, String> {
    let failed = |what: &'static str| move |errno: Errno| format!("{what}: {errno}");
    clear_ambient_capability_set().map_err(failed("clear the ambient set"))?;
    // Before the last step, with which `CAP_SETPCAP` goes: this and the secure bits take it.
    for capability in bounding_set() {
        remove_capability_from_bounding_set(capability)
            .map_err(failed("drop from the bounding set"))?;
    }
    // Id 0 means nothing any more, and that cannot be changed back.
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    set_capabilities_secure_bits(locked).map_err(failed("set the secure bits"))?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(failed("drop the capabilities"))?;
    if capabilities(None).map_err(failed("read the capabilities"))? != none
        || bounding_set().next().is_some()
    {
        return Err("a capability is left".to_owned());
    }
    Ok("none in any set".to_owned())
}

/// Every capability in the bounding set, also those newer than this program.
fn bounding_set() -> impl Iterator<Item = CapabilitySet> {
    (0..u64::BITS)
        .map(|bit| CapabilitySet::from_bits_retain(1 << bit))
        .filter(|capability| capability_is_in_bounding_set(*capability).unwrap_or(false))
}
