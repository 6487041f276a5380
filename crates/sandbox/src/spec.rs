//! What a spoke may have: mounts, environment, listeners, limits.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Layer, SandboxError};

/// Bytes of writable private memory per process (`RLIMIT_DATA`). Node with an empty program has 50 MB of it and CPython
/// less, so this is room for a server that works on documents.
pub const MEMORY_BYTES: u64 = 1 << 30;
/// Bytes of address space per process (`RLIMIT_AS`). Far above the memory, as V8 reserves more than 8 GiB for each
/// WebAssembly memory and Chromium some 80 GiB for each page, without using them; it only stops a process from exhausting
/// page tables.
pub const ADDRESS_SPACE_BYTES: u64 = 256 << 30;
/// Processes and threads in one spoke. Node and tokio start 10 to 20 threads each; a fork bomb ends here. (Under a hub
/// that runs as root up to 300 more are possible, as the kernel then offers a coarser bound only.)
pub const PROCESSES: u32 = 256;
/// Open descriptors per process. A server that watches or indexes a workspace opens thousands of files.
pub const OPEN_FILES: u64 = 8_192;
/// The same where no control group counts kernel memory: each socket can hold some 200 KiB there.
pub const UNCOUNTED_OPEN_FILES: u64 = 1_024;
/// Bytes of one file (`RLIMIT_FSIZE`). An app writes documents, not disks.
pub const FILE_BYTES: u64 = 256 << 20;
/// Bytes of the private `/tmp`; it is memory, so it counts against the machine.
pub const TMP_BYTES: u64 = 64 << 20;
/// Files and directories in the private `/tmp`; each takes about 1 KiB of kernel memory that its bytes do not count.
pub const TMP_FILES: u64 = 16 << 10;
/// Instances of file watchers (inotify) in one spoke, of the 128 that a user usually has on the whole machine. A server
/// that watches files has one or two.
pub const WATCHERS: u64 = 16;
/// Files and directories watched in one spoke, about 1 KiB of kernel memory each.
pub const WATCHES: u64 = 4096;
/// How many times as many of both a program of the user's has: editors and agents watch a repository with all that it
/// depends on.
pub const PROGRAM_WATCHES: u64 = 16;
/// The same for files in `/tmp`, where builds put theirs.
pub const PROGRAM_TMP_FILES: u64 = 16;
/// Its processes and threads: a build starts a compiler for each processor, with threads of its own.
pub const PROGRAM_PROCESSES: u32 = 4_096;
/// Its open descriptors per process, as many as distributions usually allow.
pub const PROGRAM_OPEN_FILES: u64 = 65_536;
/// Longest specification in bytes; it travels as one packet, and a socket's buffer takes about 200 KiB.
pub const MAX_SPEC_BYTES: usize = 64 << 10;
/// Most mounts in one specification; more is a configuration mistake.
pub const MAX_MOUNTS: usize = 64;
/// Most environment entries in one specification.
pub const MAX_ENVIRONMENT: usize = 128;
/// Most listeners in one specification; each costs the hub a descriptor, and one packet carries at most 253.
pub const MAX_LISTENERS: usize = 64;
/// The network whose addresses stand for names inside a spoke, and the length of its prefix. It is public by its number, as
/// some programs insist, and nothing of it can be reached from a spoke but the hub.
pub const NAMES_NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(25, 18, 0, 0), 15);
/// Where a spoke's resolver listens, on 127.0.0.1 and by UDP.
pub const RESOLVER_PORT: u16 = 53;
/// How long building the sandbox may take. It takes milliseconds; this is for a machine under heavy load.
pub const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the init process builds things of its own; no mount may cover or enter these.
const RESERVED: [&str; 4] = ["/proc", "/dev", "/etc", "/sluice-spoke"];
/// Sources that would carry the host's processes, devices or kernel settings into the spoke. (So would the root, which
/// holds them. The same file systems under other names are found when the source is opened.)
const FORBIDDEN_SOURCES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Everything a spoke may have. It has nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Files and directories of the host that the spoke sees, beside the read-only system directories.
    pub mounts: Vec<Mount>,
    /// The whole environment of the spoke.
    pub env: Vec<(String, String)>,
    /// Ports on the spoke's own 127.0.0.1 that lead to the hub.
    pub listen: Vec<u16>,
    /// Ports on which each address of [`NAMES_NETWORK`] leads to the hub. Where there is one, the spoke has a resolver
    /// that the hub answers for, and may use UDP; it needs a network of its own then.
    pub names: Vec<u16>,
    /// Working directory of the spoke, inside the sandbox.
    pub workdir: PathBuf,
    /// Resource limits.
    pub limits: Limits,
    /// How much may lie in folders that the spoke may write. The hub measures them about once a second and ends a spoke
    /// that is over a size; until then it may write more.
    pub quotas: Vec<Quota>,
    /// Layers that the user gives up by name, should the kernel not offer them.
    pub allow_degraded: BTreeSet<Layer>,
}

impl Default for Spec {
    /// No mounts, no environment, no network, `/tmp` as working directory, default limits, nothing given up.
    fn default() -> Self {
        Self {
            mounts: Vec::new(),
            env: Vec::new(),
            listen: Vec::new(),
            names: Vec::new(),
            workdir: PathBuf::from("/tmp"),
            limits: Limits::default(),
            quotas: Vec::new(),
            allow_degraded: BTreeSet::new(),
        }
    }
}

/// One file or directory of the host, made visible in the spoke. Always without set-user-id and device files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Path on the host: absolute, with no symbolic link in it, of a directory or a regular file, not in a file system
    /// that is an interface of the kernel, and not below another mount's source that the spoke may write.
    pub source: PathBuf,
    /// Path in the spoke, absolute; not the root, and not in `/proc`, `/dev`, `/etc`.
    pub target: PathBuf,
    /// Whether the spoke may write.
    pub access: Access,
    /// Whether the spoke may execute files in it.
    pub executable: bool,
}

/// How much may lie in a folder that a spoke may write, with all that is below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// The source of a writable mount.
    pub folder: PathBuf,
    /// Bytes on the disk. Each name of a file or folder counts for at least 4 KiB.
    pub bytes: u64,
}

/// Whether a mount may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read only.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

/// Resource limits of one spoke. Per process unless it says otherwise; where there is a control group
/// ([`crate::WholeSpoke`]), memory is bounded for the whole spoke too, by `memory_bytes` and `tmp_bytes` together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of writable private memory.
    pub memory_bytes: u64,
    /// Bytes of address space.
    pub address_space_bytes: u64,
    /// Processes and threads of the whole spoke.
    pub processes: u32,
    /// Open descriptors.
    pub open_files: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of `/tmp` of the whole spoke.
    pub tmp_bytes: u64,
    /// Seconds of CPU time; `None` for no bound (the hub's turn timeout ends a spoke that spins).
    pub cpu_seconds: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: MEMORY_BYTES,
            address_space_bytes: ADDRESS_SPACE_BYTES,
            processes: PROCESSES,
            open_files: OPEN_FILES,
            file_bytes: FILE_BYTES,
            tmp_bytes: TMP_BYTES,
            cpu_seconds: None,
        }
    }
}

impl Limits {
    /// For a program that the user works with. Its builds and tests run beside it, so it may have what the machine has.
    #[must_use]
    pub fn of_program() -> Self {
        let machine = rustix::system::sysinfo();
        let memory = machine.totalram.saturating_mul(machine.mem_unit.into());
        Self {
            memory_bytes: memory,
            // More than a runtime reserves of its own, for each process.
            address_space_bytes: 1 << 40,
            processes: PROGRAM_PROCESSES,
            open_files: PROGRAM_OPEN_FILES,
            file_bytes: 1 << 40,
            tmp_bytes: memory / 4,
            cpu_seconds: None,
        }
    }
}

impl Spec {
    /// Checks everything that can be checked without touching the system.
    pub(crate) fn check(&self) -> Result<(), SandboxError> {
        let refuse = |why: String| Err(SandboxError::Spec(why));
        for (what, len, max) in [
            ("mounts", self.mounts.len(), MAX_MOUNTS),
            ("environment entries", self.env.len(), MAX_ENVIRONMENT),
            (
                "listeners",
                self.listen.len() + self.names.len(),
                MAX_LISTENERS,
            ),
        ] {
            if len > max {
                return refuse(format!("{len} {what}; at most {max} are possible"));
            }
        }
        let mut targets = BTreeSet::new();
        for mount in &self.mounts {
            self.check_mount(mount)?;
            if !targets.insert(&mount.target) {
                return refuse(format!(
                    "two mounts on {}; give each its own target",
                    mount.target.display()
                ));
            }
        }
        self.check_nesting()?;
        self.check_quotas()?;
        for (key, value) in &self.env {
            if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
                return refuse(format!(
                    "environment entry {key:?} is not possible; use NAME=value without NUL"
                ));
            }
        }
        let mut ports = BTreeSet::new();
        for port in self.listen.iter().chain(&self.names) {
            if *port == 0 || !ports.insert(port) {
                return refuse(format!(
                    "listener port {port} is zero or listed twice; name each port once"
                ));
            }
        }
        if !self.names.is_empty() && self.allow_degraded.contains(&Layer::NetNamespace) {
            return refuse(format!(
                "names need a network of their own; do not give up the layer {}",
                Layer::NetNamespace
            ));
        }
        if !is_plain(&self.workdir) {
            return refuse(format!(
                "working directory {} is not a plain absolute path",
                self.workdir.display()
            ));
        }
        Ok(())
    }

    /// What lies in a writable mount is the spoke's to replace, so it cannot be a source: the next start would mount
    /// what the spoke put there.
    fn check_nesting(&self) -> Result<(), SandboxError> {
        for outer in self.writable() {
            let inner = self
                .mounts
                .iter()
                .find(|inner| inner.source != outer && inner.source.starts_with(outer));
            if let Some(inner) = inner {
                return Err(SandboxError::Spec(format!(
                    "mount source {} lies below {}, which is mounted writable; give it a folder of its own",
                    inner.source.display(),
                    outer.display()
                )));
            }
        }
        Ok(())
    }

    fn check_quotas(&self) -> Result<(), SandboxError> {
        let mut folders = BTreeSet::new();
        for quota in &self.quotas {
            let folder = quota.folder.display();
            if !self.writable().any(|source| source == quota.folder) {
                return Err(SandboxError::Spec(format!(
                    "{folder} has a size and is no folder that the spoke may write; mount it writable, or leave the size out"
                )));
            }
            if !folders.insert(&quota.folder) {
                return Err(SandboxError::Spec(format!(
                    "{folder} has two sizes; give it one"
                )));
            }
        }
        Ok(())
    }

    /// The limits, with no file larger than all that may be written anywhere, where that is known.
    pub(crate) fn bounded_limits(&self) -> Limits {
        let quota = |folder| self.quotas.iter().find(|quota| quota.folder == folder);
        let sizes: Option<Vec<u64>> = self
            .writable()
            .map(|folder| quota(folder).map(|quota| quota.bytes))
            .collect();
        let largest = sizes.and_then(|sizes| sizes.into_iter().max());
        let largest = largest.map_or(u64::MAX, |size| size.max(self.limits.tmp_bytes));
        Limits {
            file_bytes: self.limits.file_bytes.min(largest),
            ..self.limits
        }
    }

    /// Refuses a spoke that could replace `program`, the binary that builds the next sandbox.
    pub(crate) fn check_program(&self, program: &Path) -> Result<(), SandboxError> {
        // If it cannot be resolved, it will not be executed either.
        let resolved = program.canonicalize();
        // Both: a spoke that may write the folder of a link replaces the link, and the program as well.
        let paths = [Some(program), resolved.as_deref().ok()];
        for path in paths.into_iter().flatten() {
            if let Some(writable) = self.writable().find(|source| path.starts_with(source)) {
                return Err(SandboxError::Spec(format!(
                    "{} is mounted writable and holds the spoke binary {}; mount another folder",
                    writable.display(),
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Sources of the mounts that the spoke may write.
    fn writable(&self) -> impl Iterator<Item = &Path> {
        let writable = |mount: &&Mount| mount.access == Access::ReadWrite;
        let mounts = self.mounts.iter().filter(writable);
        mounts.map(|mount| mount.source.as_path())
    }

    fn check_mount(&self, mount: &Mount) -> Result<(), SandboxError> {
        let Mount { source, target, .. } = mount;
        for path in [source, target] {
            if !is_plain(path) || path.as_os_str().as_encoded_bytes().contains(&0) {
                let path = path.display();
                return Err(SandboxError::Spec(format!(
                    "mount path {path} is not a plain absolute path; write it in full"
                )));
            }
        }
        if target.parent().is_none() {
            return Err(SandboxError::Spec(
                "a mount cannot replace the root; give it a directory of its own".to_owned(),
            ));
        }
        if let Some(reserved) = RESERVED
            .iter()
            .find(|reserved| target.starts_with(reserved))
        {
            return Err(SandboxError::Spec(format!(
                "mount target {} lies in {reserved}, which the sandbox makes",
                target.display()
            )));
        }
        if source.parent().is_none() {
            return Err(SandboxError::Spec(
                "the whole file tree cannot be mounted; name the folder that the app needs"
                    .to_owned(),
            ));
        }
        if let Some(forbidden) = FORBIDDEN_SOURCES
            .iter()
            .find(|forbidden| source.starts_with(forbidden))
        {
            return Err(SandboxError::Spec(format!(
                "mount source {} lies in {forbidden}, which would open the sandbox",
                source.display()
            )));
        }
        Ok(())
    }
}

/// Absolute, and without `.` or `..` that could lead elsewhere.
fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}
