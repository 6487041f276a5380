//! Who listens at a Unix socket.
//!
//! Whoever answers there is told all memories and can plant others, and a socket's name says nothing of
//! who that is: while the server is down, another user may listen in its place.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::error::RedisError;

const ROOT: u32 = 0;

/// Write permission of a folder for others than its owner. The sticky bit does not help: it keeps what is there, and not
/// others from being first.
const BY_OTHERS: u32 = 0o022;

/// A socket at which somebody listens who may.
pub(super) struct Listener(OwnedFd);

impl Listener {
    /// Looks who listens at a socket.
    ///
    /// # Errors
    /// Nobody, or a user who could have been put in the place of the server.
    pub(super) fn at(path: &Path) -> Result<Self, RedisError> {
        // This very socket: to look at a path, and then to connect to it, might be two different ones.
        let socket = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let listener = Self(socket.map_err(failed)?);
        let peer = UnixStream::connect(listener.path()).map_err(failed)?;
        let peer = rustix::net::sockopt::socket_peercred(&peer).map_err(failed)?;
        let (uid, own) = (peer.uid.as_raw(), rustix::process::geteuid().as_raw());
        if may_listen(uid, own, || folders(path)).map_err(failed)? {
            return Ok(listener);
        }
        let path = path.to_owned();
        Err(RedisError::Stranger { path, uid })
    }

    /// Where to connect to it, as long as this is there.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// A folder on the way to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Folder {
    owner: u32,
    /// Whether others than its owner may put something there.
    is_shared: bool,
}

/// The user's own server may listen, root's, and one of a user (`redis`) in whose folder the socket is, if
/// nobody else could have made the socket or a folder on the way to it.
fn may_listen(
    uid: u32,
    own: u32,
    folders: impl FnOnce() -> io::Result<Vec<Folder>>,
) -> io::Result<bool> {
    if [own, ROOT].contains(&uid) {
        return Ok(true);
    }
    let is_safe = |folder: &Folder| !folder.is_shared && [own, ROOT, uid].contains(&folder.owner);
    Ok(folders()?.iter().all(is_safe))
}

/// The folders above a path as it is written, where each link would be, and above what it leads to.
fn folders(path: &Path) -> io::Result<Vec<Folder>> {
    let (written, real) = (std::path::absolute(path)?, path.canonicalize()?);
    let above = written.ancestors().skip(1);
    let above = above.chain(real.ancestors().skip(1));
    above
        .map(|folder| {
            let found = folder.metadata()?;
            Ok(Folder {
                owner: found.uid(),
                is_shared: found.mode() & BY_OTHERS != 0,
            })
        })
        .collect()
}

fn failed(error: impl Into<io::Error>) -> RedisError {
    RedisError::Server(error.into().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const OWN: u32 = 1000;
    const REDIS: u32 = 101;
    const OTHER: u32 = 1001;

    #[test]
    fn another_user_may_listen_in_its_own_place_only() {
        let folder = |owner, is_shared| Folder { owner, is_shared };
        let (root, redis) = (folder(ROOT, false), folder(REDIS, false));
        let check =
            |uid, folders: &[Folder]| may_listen(uid, OWN, || Ok(folders.to_vec())).unwrap();
        let tmp = folder(ROOT, true);
        for uid in [OWN, ROOT] {
            assert!(check(uid, &[tmp]));
        }
        assert!(check(REDIS, &[redis, root]));
        assert!(check(REDIS, &[folder(OWN, false), root]));
        // Whoever was first in a shared folder, by a folder of its own or without one.
        assert!(!check(OTHER, &[tmp]));
        assert!(!check(OTHER, &[folder(OTHER, false), tmp]));
        assert!(!check(OTHER, &[folder(OTHER, true), root]));
        // In another one's.
        assert!(!check(OTHER, &[redis, root]));
        let nothing = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(may_listen(OTHER, OWN, nothing).is_err());
    }

    #[test]
    fn folders_are_those_of_the_links_too() {
        let top = tempfile::tempdir().unwrap();
        let (open, safe) = (top.path().join("open"), top.path().join("safe"));
        for (folder, mode) in [(&open, 0o1777), (&safe, 0o700)] {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::write(safe.join("socket"), "").unwrap();
        symlink(&safe, open.join("link")).unwrap();
        let shared = |path: &Path| {
            let folders = folders(path).unwrap();
            folders.iter().filter(|folder| folder.is_shared).count()
        };
        let of_top = shared(top.path());
        assert_eq!(shared(&safe.join("socket")), of_top);
        assert!(shared(&open.join("link/socket")) > of_top);
        assert!(folders(&safe.join("nothing")).is_err());
    }
}
