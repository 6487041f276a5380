//! Landlock: three rulesets on top of one another, so that a kernel which has only the older ones still gives those.

use std::os::fd::AsFd;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    NetPort, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

use super::layers::{Failure, Layers};
use super::root::{Place, Rights, View};
use crate::{Layer, Spec};

/// The oldest Landlock that is worth its name: before it, a file could be truncated past the rules.
const REQUIRED: ABI = ABI::V3;
/// The newest file rights this program knows; those that the kernel lacks are left out.
const KNOWN: ABI = ABI::V9;

/// Confines this process to `view`, and its TCP connections to the ports of `spec` unless its network is its own.
pub(super) fn restrict(
    layers: &mut Layers,
    view: &View,
    spec: &Spec,
    own_network: bool,
) -> Result<(), Failure> {
    layers.record(Layer::Landlock, verdict(restrict_files(view)))?;
    // Nothing but the hub's sockets and the spoke's own is in a network of its own, and a rule names one port.
    let network = match own_network {
        true => Ok("the network is the spoke's own".to_owned()),
        false => verdict(restrict_network(spec)),
    };
    layers.record(Layer::LandlockNetwork, network)?;
    layers.record(Layer::LandlockScope, verdict(restrict_scope()))?;
    Ok(())
}

fn verdict(outcome: Result<RestrictionStatus, RulesetError>) -> Result<String, String> {
    match outcome {
        Ok(RestrictionStatus {
            ruleset: RulesetStatus::NotEnforced,
            ..
        }) => Err("not enforced".to_owned()),
        Ok(RestrictionStatus {
            no_new_privs: false,
            ..
        }) => Err("privileges can still be gained".to_owned()),
        Ok(RestrictionStatus {
            landlock: LandlockStatus::Available { effective_abi, .. },
            ..
        }) => Ok(format!("ABI {effective_abi:?}")),
        // The rules are enforced, and the kernel's Landlock version is unknown.
        Ok(_) => Ok("enforced".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn restrict_files(view: &View) -> Result<RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .create()?;
    for (place, rights) in &view.rules {
        ruleset = match place {
            Place::Named(path) => match PathFd::new(path) {
                Ok(parent) => add(ruleset, parent, access(*rights, path.is_dir()))?,
                // A path that does not exist needs no rule. Should it be unreadable for another reason, it stays forbidden.
                Err(_) => ruleset,
            },
            Place::Opened(source) => {
                add(ruleset, &source.place, access(*rights, source.directory))?
            }
        };
    }
    ruleset.restrict_self()
}

fn add(
    ruleset: RulesetCreated,
    parent: impl AsFd,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    ruleset.add_rule(PathBeneath::new(parent, access))
}

fn access(rights: Rights, directory: bool) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    // Not for device files: none can be made, none is in a mount, and no control of a device passes. Nor for sockets: the
    // filter lets `bind` pass, by which one of a pair would be left in a mount; and to those of its own a spoke connects
    // without a right. Nor for named pipes, at which a program of the host would wait.
    let write = AccessFs::from_write(KNOWN)
        & !(AccessFs::MakeChar
            | AccessFs::MakeBlock
            | AccessFs::MakeSock
            | AccessFs::MakeFifo
            | AccessFs::ResolveUnix
            | AccessFs::IoctlDev);
    let access = match rights {
        Rights::Read => read,
        Rights::ReadExecute => read | AccessFs::Execute,
        Rights::ReadWrite => read | write,
        Rights::ReadWriteExecute => read | write | AccessFs::Execute,
        Rights::OwnSockets => AccessFs::MakeSock.into(),
        Rights::OwnPipes => AccessFs::MakeFifo.into(),
        Rights::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate,
        // A size or a mode is set by a control of the device.
        Rights::Terminal => read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev,
    };
    // The kernel refuses rights on a file that only a directory can have.
    if directory {
        access
    } else {
        access & AccessFs::from_file(KNOWN)
    }
}

fn restrict_network(spec: &Spec) -> Result<RestrictionStatus, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        // Binding as well, for which no rule follows: a spoke takes no port of the host.
        .handle_access(AccessNet::from_all(ABI::V4))?;
    let mut ruleset = moving_between_folders(ruleset)?;
    for port in spec.listen.iter().chain(&spec.names) {
        ruleset = ruleset.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    ruleset.restrict_self()
}

fn restrict_scope() -> Result<RestrictionStatus, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::from_all(ABI::V6))?;
    moving_between_folders(ruleset)?.restrict_self()
}

/// Makes a ruleset that is not about files, and leaves renames and links from one folder to another to the one that
/// is: the kernel denies them wherever any ruleset does not speak of them.
fn moving_between_folders(ruleset: Ruleset) -> Result<RulesetCreated, RulesetError> {
    let ruleset = ruleset.handle_access(AccessFs::Refer)?.create()?;
    match PathFd::new("/") {
        Ok(root) => ruleset.add_rule(PathBeneath::new(root, AccessFs::Refer)),
        Err(_) => Ok(ruleset),
    }
}
