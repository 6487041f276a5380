//! Default-deny system call filter, made of the table in `syscalls`.
//!
//! A refused call returns an error and does not kill: servers probe for optional features at start, and nothing is gained
//! by ending one that takes no for an answer. The error is `EPERM`, but `ENOSYS` for calls whose callers then fall back to
//! an older one. The wrong architecture kills.
//!
//! seccompiler gives one filter a single action for all matches and one for all else, so there are two filters; the kernel
//! runs both and takes the stricter answer. It cannot refuse by pointer contents (nor could any filter), and its
//! conditions cannot say "one of these bits": each alternative is a rule of its own.

use std::collections::BTreeMap;

use rustix::thread::{SecureComputingMode, secure_computing_mode};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::layers::{Failure, Layers};
use super::syscalls::{
    Argument, CONDITIONAL, Conditional, GROUPS, LEGACY, LEGACY_CONDITIONAL, LISTENING, Test,
    UNSUPPORTED, WATCHERS, WITH_NAMES, WITH_OWN_SOCKETS, WITH_PROGRAM, WITH_PROGRAM_NETWORK,
};
use crate::Layer;

/// What the filter depends on.
#[derive(Clone, Copy)]
pub(super) struct Given {
    /// File watchers are bounded; otherwise they are refused.
    pub(super) watchers: bool,
    /// There are names to ask for, which takes UDP.
    pub(super) names: bool,
    /// The network is the spoke's own, and it may listen there.
    pub(super) own_network: bool,
    /// No Unix socket of the host can be reached, and it may have its own.
    pub(super) own_sockets: bool,
    /// It runs a program that the user works with.
    pub(super) program: bool,
}

/// Installs the filter on this process and all it will start.
pub(super) fn install(layers: &mut Layers, given: Given) -> Result<(), Failure> {
    layers.record(Layer::Seccomp, apply(given))?;
    Ok(())
}

fn apply(given: Given) -> Result<String, String> {
    let (unsupported, allowed) = filters(given).map_err(|error| error.to_string())?;
    // The last one allows no more of them.
    for filter in [&unsupported, &allowed] {
        apply_filter(filter).map_err(|error| error.to_string())?;
    }
    match secure_computing_mode() {
        Ok(SecureComputingMode::Filter) => Ok(format!(
            "{} calls allowed",
            always(given).count() + sometimes().count()
        )),
        Ok(mode) => Err(format!("the mode is {mode:?}")),
        Err(errno) => Err(errno.to_string()),
    }
}

/// The filter of unsupported calls, and the filter that refuses everything not allowed. The second lets the unsupported
/// pass, so that the answer of the first stands.
fn filters(given: Given) -> Result<(BpfProgram, BpfProgram), seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    let unsupported: BTreeMap<i64, Vec<SeccompRule>> = UNSUPPORTED
        .iter()
        .map(|(number, _)| (*number, vec![]))
        .collect();
    let mut allowed = unsupported.clone();
    allowed.extend(always(given).map(|call| (call, vec![])));
    for Conditional {
        call, alternatives, ..
    } in sometimes()
    {
        let rules = alternatives
            .iter()
            .map(|all| rule(all))
            .collect::<Result<_, _>>()?;
        allowed.insert(*call, rules);
    }
    for Conditional {
        call, alternatives, ..
    } in also(given)
    {
        let rules = allowed.entry(*call).or_default();
        for all in *alternatives {
            rules.push(rule(all)?);
        }
    }
    let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    let unsupported =
        SeccompFilter::new(unsupported, SeccompAction::Allow, errno(libc::ENOSYS), arch)?;
    let allowed = SeccompFilter::new(allowed, errno(libc::EPERM), SeccompAction::Allow, arch)?;
    Ok((unsupported.try_into()?, allowed.try_into()?))
}

/// The calls that are allowed with any arguments.
fn always(given: Given) -> impl Iterator<Item = i64> {
    let watchers = WATCHERS.iter().filter(move |_| given.watchers);
    let listening = LISTENING.iter().filter(move |_| given.own_network);
    let groups = GROUPS.iter().chain(LEGACY).chain(watchers).chain(listening);
    groups.flat_map(|group| group.calls).copied()
}

/// The calls that are allowed with some arguments.
fn sometimes() -> impl Iterator<Item = &'static Conditional> {
    CONDITIONAL.iter().chain(LEGACY_CONDITIONAL)
}

/// More arguments for some of them.
fn also(given: Given) -> impl Iterator<Item = &'static Conditional> {
    let names = WITH_NAMES.iter().filter(move |_| given.names);
    let sockets = WITH_OWN_SOCKETS.iter();
    let program = WITH_PROGRAM.iter().filter(move |_| given.program);
    let network = WITH_PROGRAM_NETWORK.iter();
    let network = network.filter(move |_| given.program && given.own_network);
    let sockets = sockets.filter(move |_| given.own_sockets);
    names.chain(sockets).chain(program).chain(network)
}

fn rule(all: &[Argument]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = all.iter().map(|Argument { index, test }| {
        let (operator, value) = match *test {
            Test::Is(value) => (SeccompCmpOp::Eq, value),
            Test::Masked(mask, value) => (SeccompCmpOp::MaskedEq(mask), value),
        };
        // The kernel takes all of these arguments as 32 bits and ignores the rest, so the filter must as well.
        SeccompCondition::new(*index, SeccompCmpArgLen::Dword, operator, value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::syscalls::calls;
    use super::*;

    const ALL: Given = Given {
        watchers: true,
        names: true,
        own_network: true,
        own_sockets: true,
        program: true,
    };

    #[test]
    fn the_filters_compile() {
        filters(ALL).unwrap();
        filters(Given {
            watchers: false,
            names: false,
            own_network: false,
            own_sockets: false,
            program: false,
        })
        .unwrap();
    }

    #[test]
    fn every_call_is_listed_once() {
        let mut seen = BTreeSet::new();
        let conditional = sometimes().map(|conditional| conditional.call);
        for number in always(ALL)
            .chain(conditional)
            .chain(UNSUPPORTED.iter().map(|call| call.0))
        {
            assert!(seen.insert(number), "call {number} is listed twice");
        }
    }

    #[test]
    fn what_opens_a_sandbox_is_not_listed() {
        let forbidden: &[i64] = calls! {
            SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot
            SYS_move_mount SYS_open_tree SYS_fsopen SYS_mount_setattr SYS_unshare SYS_setns SYS_bpf
            SYS_perf_event_open SYS_userfaultfd SYS_keyctl SYS_add_key SYS_request_key SYS_io_uring_enter
            SYS_io_uring_register SYS_pidfd_getfd SYS_kexec_load SYS_init_module SYS_finit_module
            SYS_open_by_handle_at SYS_kcmp SYS_reboot SYS_swapon SYS_quotactl SYS_personality SYS_setuid SYS_seccomp
            SYS_memfd_create
        };
        let conditional = sometimes().map(|conditional| conditional.call);
        for call in always(ALL).chain(conditional) {
            assert!(!forbidden.contains(&call), "call {call} is allowed");
        }
    }

    #[test]
    fn every_call_has_a_reason() {
        let groups = GROUPS
            .iter()
            .chain(LEGACY)
            .chain(WATCHERS)
            .chain(LISTENING)
            .map(|group| group.why);
        let conditional = sometimes()
            .chain(also(ALL))
            .map(|conditional| conditional.why);
        for why in groups
            .chain(conditional)
            .chain(UNSUPPORTED.iter().map(|call| call.1))
        {
            assert!(why.len() > 10, "{why:?} is no reason");
        }
    }
}
