//! What to do about namespaces that this machine does not give: the setting or the profile that is in the way, and the
//! one command that moves it.

use std::fs;
use std::path::Path;

use crate::Layer;

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
        .then(|| remedy(Path::new("/proc"), root))
        .flatten();
    match remedy {
        Some(remedy) => format!("{reason}: {remedy}"),
        None => reason,
    }
}

/// Why no namespaces are given, by what `proc` says, from the whole machine to this process.
fn remedy(proc: &Path, root: bool) -> Option<&'static str> {
    let setting = |name: &str| {
        let text = fs::read_to_string(proc.join("sys").join(name)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    if !proc.join("self/ns/user").exists() {
        return Some(
            "this kernel has no user namespaces; boot one that is built with CONFIG_USER_NS",
        );
    }
    if setting("user/max_user_namespaces") == Some(0) {
        return Some(
            "user namespaces are switched off here; run `sudo sysctl -w user.max_user_namespaces=10000`",
        );
    }
    // Both are about whoever is not root.
    if !root && setting("kernel/unprivileged_userns_clone") == Some(0) {
        return Some(
            "this system gives user namespaces to root only; run `sudo sysctl -w kernel.unprivileged_userns_clone=1`",
        );
    }
    if !root && setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        return Some(
            "AppArmor takes all power from user namespaces of programs that it does not know; \
             run `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
        );
    }
    let status = fs::read_to_string(proc.join("self/status")).unwrap_or_default();
    let filtered = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))
        .is_some_and(|mode| mode.trim() == "2");
    filtered.then_some(
        "a filter of system calls is on this process, as containers have one; start the container with \
         `docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined …`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine with these settings says, for an ordinary user and for root.
    fn said(settings: &[(&str, &str)]) -> [Option<&'static str>; 2] {
        let folder = tempfile::tempdir().unwrap();
        let usual = [("self/ns/user", ""), ("self/status", "Seccomp:\t0\n")];
        for (name, content) in usual.iter().chain(settings) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        [false, true].map(|root| remedy(folder.path(), root))
    }

    #[test]
    fn each_obstacle_has_the_command_that_moves_it() {
        let off = ("sys/user/max_user_namespaces", "0\n");
        let debian = ("sys/kernel/unprivileged_userns_clone", "0\n");
        let ubuntu = ("sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        let filtered = (
            "self/status",
            "Name:\tsluice\nSeccomp:\t2\nSeccomp_filters:\t1\n",
        );
        for (settings, command, for_root) in [
            (&[off][..], "user.max_user_namespaces=10000", true),
            (&[debian], "kernel.unprivileged_userns_clone=1", false),
            (
                &[ubuntu],
                "kernel.apparmor_restrict_unprivileged_userns=0",
                false,
            ),
            (&[filtered], "--security-opt seccomp=unconfined", true),
            // What holds for the whole machine is said first: without it the rest is of no use.
            (
                &[off, ubuntu, filtered],
                "user.max_user_namespaces=10000",
                true,
            ),
            (
                &[ubuntu, filtered],
                "kernel.apparmor_restrict_unprivileged_userns=0",
                false,
            ),
        ] {
            let [user, root] = said(settings);
            assert!(user.unwrap().contains(command), "{settings:?}: {user:?}");
            let same = root.is_some_and(|root| root.contains(command));
            assert_eq!(same, for_root, "{settings:?}: {root:?}");
        }
    }

    #[test]
    fn nothing_is_said_where_nothing_is_known() {
        assert_eq!(said(&[]), [None, None]);
        let allowed = [
            ("sys/user/max_user_namespaces", "96365\n"),
            ("sys/kernel/unprivileged_userns_clone", "1\n"),
            ("sys/kernel/apparmor_restrict_unprivileged_userns", "0\n"),
        ];
        assert_eq!(said(&allowed), [None, None]);
        let folder = tempfile::tempdir().unwrap();
        assert!(
            remedy(folder.path(), true)
                .unwrap()
                .contains("CONFIG_USER_NS")
        );
    }
}
