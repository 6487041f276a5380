//! What to do about namespaces that this machine does not give: the setting or the profile that is in the way, and the
//! one command that moves it.

use std::fs;
use std::path::Path;

use crate::container::filtered;
use crate::{Container, Engine, Layer};

/// Layers that an ordinary user can have only inside a user namespace of their own.
const NAMESPACES: [Layer; 7] = [
    Layer::UserNamespace,
    Layer::MountNamespace,
    Layer::PidNamespace,
    Layer::NetNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::CgroupNamespace,
];

/// The kernel's reason why a layer cannot be had, with what helps where that is known.
pub(crate) fn with_remedy(layer: Layer, reason: String) -> String {
    let root = rustix::process::geteuid().is_root();
    let remedy = NAMESPACES
        .contains(&layer)
        .then(|| remedy(Path::new("/proc"), root, Container::here()))
        .flatten();
    match remedy {
        Some(remedy) => format!("{reason}: {remedy}"),
        None => reason,
    }
}

/// Settings that take namespaces away: the file below `/proc/sys`, its value, whether it concerns root too, and what to do.
const SETTINGS: [(&str, u64, bool, &str); 3] = [
    (
        "user/max_user_namespaces",
        0,
        true,
        "user namespaces are switched off here; run `sudo sysctl -w user.max_user_namespaces=10000`",
    ),
    (
        "kernel/unprivileged_userns_clone",
        0,
        false,
        "this system gives user namespaces to root only; run `sudo sysctl -w kernel.unprivileged_userns_clone=1`",
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        1,
        false,
        "AppArmor takes all power from user namespaces of programs that it does not know; \
         run `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
];

/// Why there are no namespaces, by what `proc` says, from the whole machine to this process.
fn remedy(proc: &Path, root: bool, container: Option<Container>) -> Option<String> {
    if !proc.join("self/ns/user").exists() {
        return Some(
            "this kernel has no user namespaces; boot one that is built with CONFIG_USER_NS"
                .to_owned(),
        );
    }
    let setting = |name: &str| {
        let text = fs::read_to_string(proc.join("sys").join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    for (name, value, for_root, remedy) in SETTINGS {
        if (for_root || !root) && setting(name) == Some(value) {
            return Some(remedy.to_owned());
        }
    }
    let engine = container.map_or(Engine::Other, |it| it.engine);
    filtered(proc).then(|| {
        let setting = engine.setting();
        format!("a filter of system calls is on this process, as containers have one; {setting}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine with these settings says, for an ordinary user and for root.
    fn said(settings: &[(&str, &str)]) -> [Option<String>; 2] {
        let folder = tempfile::tempdir().unwrap();
        let usual = [("self/ns/user", ""), ("self/status", "Seccomp:\t0\n")];
        for (name, content) in usual.iter().chain(settings) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        [false, true].map(|root| remedy(folder.path(), root, None))
    }

    #[test]
    fn each_obstacle_has_the_command_that_moves_it() {
        let off = ("sys/user/max_user_namespaces", "0\n");
        let debian = ("sys/kernel/unprivileged_userns_clone", "0\n");
        let ubuntu = ("sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        let filtered = ("self/status", "Name:\tsluice\nSeccomp:\t2\n");
        let allowed = ("sys/kernel/unprivileged_userns_clone", "1\n");
        for (settings, for_user, for_root) in [
            (&[][..], None, None),
            (&[allowed], None, None),
            // What holds for the whole machine is said first: without it the rest is of no use.
            (&[off, ubuntu, filtered], Some("max_user"), Some("max_user")),
            (&[debian], Some("unprivileged_userns_clone=1"), None),
            (
                &[ubuntu, filtered],
                Some("apparmor_restrict"),
                Some("--security-opt seccomp="),
            ),
        ] {
            let found = said(settings);
            for (found, expected) in found.into_iter().zip([for_user, for_root]) {
                let says = expected
                    .is_none_or(|it| found.as_ref().is_some_and(|found| found.contains(it)));
                assert!(
                    says && found.is_some() == expected.is_some(),
                    "{settings:?}: {found:?}"
                );
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let no_namespaces = remedy(folder.path(), true, None).unwrap();
        assert!(no_namespaces.contains("CONFIG_USER_NS"));
    }
}
