//! The container that this process is in, what of it is in the way of a sandbox, and the setting that moves it.

use std::env;
use std::fs;
use std::path::Path;

/// What has started the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A pod, with any runtime of containers.
    Kubernetes,
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// Another one, such as LXC or systemd-nspawn.
    Other,
}

impl Engine {
    /// The name that people know.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "Kubernetes",
            Self::Docker => "Docker",
            Self::Podman => "Podman",
            Self::Other => "a container",
        }
    }

    /// The one setting with which spokes have every layer and a `/proc`. The profile is in the packages and in the image.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Kubernetes => {
                "give the pod `hostUsers: false` and its container `securityContext: {procMount: Unmasked, seccompProfile: \
                 {type: Localhost, localhostProfile: sluice.json}, appArmorProfile: {type: Unconfined}}` (sluice.json is \
                 /usr/share/sluice/seccomp.json on each node; the Helm chart does it with `sandbox.enabled=true`)"
            }
            Self::Podman => {
                "start it with `podman run --security-opt seccomp=/usr/share/sluice/seccomp.json --security-opt unmask=ALL …`"
            }
            Self::Docker => {
                "start it with `docker run --security-opt seccomp=/usr/share/sluice/seccomp.json \
                 --security-opt apparmor=unconfined --security-opt systempaths=unconfined …`"
            }
            // Podman leaves no sign of itself where the root is read-only.
            Self::Other => {
                "start it with `docker run --security-opt seccomp=/usr/share/sluice/seccomp.json \
                 --security-opt apparmor=unconfined --security-opt systempaths=unconfined …`, or with \
                 `podman run --security-opt seccomp=/usr/share/sluice/seccomp.json --security-opt unmask=ALL …`"
            }
        }
    }
}

/// What a sandbox meets in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Container {
    /// What has started it.
    pub engine: Engine,
    /// A filter of system calls is on this process.
    pub filtered: bool,
    /// Files of `/proc` are covered. The kernel then gives no namespace a `/proc` that shows them, so spokes have none.
    pub masked: bool,
}

impl Container {
    /// The container around this process; `None` on a machine.
    #[must_use]
    pub fn here() -> Option<Self> {
        let set = |name: &str| env::var(name).ok();
        Self::at(Path::new("/"), &set)
    }

    /// As [`Self::here`], by the files below `root` and the variables that are `set`.
    fn at(root: &Path, set: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let (filtered, masked) = (filtered(&root.join("proc")), masked(&root.join("proc")));
        // Podman, LXC and systemd-nspawn say in it who they are.
        let named = set("container");
        let engine = if set("KUBERNETES_SERVICE_HOST").is_some() {
            Engine::Kubernetes
        } else if named.as_deref() == Some("podman") || root.join("run/.containerenv").exists() {
            Engine::Podman
        } else if root.join(".dockerenv").exists() {
            Engine::Docker
        } else if named.is_some() || (filtered && masked) {
            Engine::Other
        } else {
            return None;
        };
        Some(Self {
            engine,
            filtered,
            masked,
        })
    }
}

/// Whether a filter of system calls is on this process.
pub(crate) fn filtered(proc: &Path) -> bool {
    let status = fs::read_to_string(proc.join("self/status")).unwrap_or_default();
    let mode = status.lines().find_map(|it| it.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

/// Whether something is mounted over a part of `/proc`.
fn masked(proc: &Path) -> bool {
    // An ordinary machine mounts this one there, over an empty folder, which hides nothing.
    const FORMATS: &str = "/proc/sys/fs/binfmt_misc";
    let mounts = fs::read_to_string(proc.join("self/mountinfo")).unwrap_or_default();
    let mut targets = mounts.lines().filter_map(|it| it.split(' ').nth(4));
    targets.any(|target| target.starts_with("/proc/") && target != FORMATS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(files: &[(&str, &str)], set: &[&str]) -> Option<Container> {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let value = |name: &str| {
            set.iter()
                .find_map(|it| it.strip_prefix(name)?.strip_prefix('='))
        };
        Container::at(root.path(), &|name| value(name).map(str::to_owned))
    }

    #[test]
    fn containers_are_known_by_what_their_engines_leave() {
        let filter = ("proc/self/status", "Name:\tsluice\nSeccomp:\t2\n");
        let mask = (
            "proc/self/mountinfo",
            "36 35 0:4 / /proc rw - proc proc rw\n37 36 0:5 / /proc/acpi ro - tmpfs tmpfs ro\n",
        );
        let formats = (
            "proc/self/mountinfo",
            "37 36 0:5 / /proc/sys/fs/binfmt_misc rw - binfmt_misc b rw\n",
        );
        let docker = (".dockerenv", "");
        let podman = ("run/.containerenv", "");
        for (files, set, expected) in [
            (&[formats] as &[_], &[] as &[_], None),
            (&[filter], &[], None),
            (&[docker], &[], Some((Engine::Docker, false, false))),
            (
                &[docker, filter, mask],
                &[],
                Some((Engine::Docker, true, true)),
            ),
            (&[podman, mask], &[], Some((Engine::Podman, false, true))),
            (
                &[docker, filter],
                &["KUBERNETES_SERVICE_HOST=10.0.0.1"],
                Some((Engine::Kubernetes, true, false)),
            ),
            (&[filter, mask], &[], Some((Engine::Other, true, true))),
            (&[], &["container=lxc"], Some((Engine::Other, false, false))),
            (
                &[],
                &["container=podman"],
                Some((Engine::Podman, false, false)),
            ),
        ] {
            let found = at(files, set).map(|it| (it.engine, it.filtered, it.masked));
            assert_eq!(found, expected, "{files:?} {set:?}");
        }
    }
}
