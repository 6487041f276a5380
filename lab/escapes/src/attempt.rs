//! What an attempt is.

use serde::{Deserialize, Serialize};

/// What an attempt saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observed {
    /// Nothing was gained; with what was seen instead.
    Held(String),
    /// Something was gained that a spoke must not have.
    Escaped(String),
    /// This machine has nothing that could be tried.
    Absent(String),
    /// The attempt itself went wrong, and showed nothing.
    Failed(String),
}

/// What kind of spoke an attempt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Setting {
    /// One that sees folders of the host.
    Folders,
    /// One that may also reach a name, with a hub that answers for names.
    Name,
    /// One that sees no folder but those of programs, and so may have Unix sockets.
    Programs,
}

/// One attempt to get something that a spoke must not have.
pub(crate) struct Attempt {
    /// What is attacked.
    pub(crate) group: &'static str,
    /// What is tried, unique.
    pub(crate) name: String,
    /// What is to be seen if the walls hold.
    pub(crate) expected: &'static str,
    /// It would reach every process of its user where there is no pid namespace, and is left out there.
    pub(crate) everybody: bool,
    pub(crate) setting: Setting,
    /// It is what a spoke may do, and shows that the attempts beside it do not fail for another reason.
    pub(crate) control: bool,
    code: Box<dyn Fn(&Ground) -> Observed>,
}

impl Attempt {
    pub(crate) fn make(&self, ground: &Ground) -> Observed {
        (self.code)(ground)
    }
}

/// A list of attempts that is being written.
pub(crate) struct Attempts {
    group: &'static str,
    expected: &'static str,
    /// What follows is for this kind of spoke.
    pub(crate) setting: Setting,
    pub(crate) all: Vec<Attempt>,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Self {
            group: "",
            expected: "",
            setting: Setting::Folders,
            all: Vec::new(),
        }
    }

    /// What follows is of this group, and this is expected.
    pub(crate) fn group(&mut self, group: &'static str, expected: &'static str) {
        (self.group, self.expected) = (group, expected);
    }

    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        code: impl Fn(&Ground) -> Observed + 'static,
    ) {
        self.all.push(Attempt {
            group: self.group,
            name: name.into(),
            expected: self.expected,
            everybody: false,
            setting: self.setting,
            control: false,
            code: Box::new(code),
        });
    }

    /// As [`Self::add`], for something that must give nothing.
    pub(crate) fn refused<T>(
        &mut self,
        name: impl Into<String>,
        code: impl Fn(&Ground) -> std::io::Result<T> + 'static,
    ) {
        self.add(name, move |ground| nothing(code(ground), "it was done"));
    }

    /// As [`Self::add`], for what is meant to work.
    pub(crate) fn add_control(
        &mut self,
        name: impl Into<String>,
        code: impl Fn(&Ground) -> Observed + 'static,
    ) {
        self.add(name, code);
        if let Some(attempt) = self.all.last_mut() {
            attempt.control = true;
        }
    }

    /// As [`Self::add`], for what would reach every process of the user.
    pub(crate) fn add_for_everybody(
        &mut self,
        name: impl Into<String>,
        code: impl Fn(&Ground) -> Observed + 'static,
    ) {
        self.add(name, code);
        if let Some(attempt) = self.all.last_mut() {
            attempt.everybody = true;
        }
    }
}

/// What the attacker knows: more than any would.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ground {
    /// Where the spoke sees the folders that it may read, may write, and may execute in.
    pub(crate) mounts: [String; 3],
    /// A file of the host that was not given to the spoke, and what is in it.
    pub(crate) secret_path: String,
    pub(crate) secret: String,
    /// An entry of the hub's environment.
    pub(crate) hub_variable: String,
    /// Ports on which the host listens on every address.
    pub(crate) tcp: u16,
    pub(crate) udp: u16,
    /// On 127.0.0.2 of the host, the port that on 127.0.0.1 leads to the hub.
    pub(crate) relayed: u16,
    /// An address of the host that is not loopback.
    pub(crate) host_address: Option<String>,
    /// A socket of the host in the read-only mount, and the abstract name of another two.
    pub(crate) unix: String,
    pub(crate) abstract_name: String,
    /// On the host: the hub's process, and another of the same user.
    pub(crate) hub: i32,
    pub(crate) victim: i32,
    pub(crate) victim_name: String,
    /// The host's name, and a message queue and a shared memory of it.
    pub(crate) host_name: String,
    pub(crate) queue: Option<i32>,
    /// User id that is not the spoke's.
    pub(crate) another_user: u32,
    pub(crate) hub_is_root: bool,
    /// Limits of the spoke.
    pub(crate) processes: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) tmp_bytes: u64,
    pub(crate) file_bytes: u64,
    pub(crate) open_files: u64,
    /// Whether a control group bounds the whole spoke.
    pub(crate) control_group: bool,
    /// What kind of spoke it is: the attempts for it are made.
    pub(crate) setting: Setting,
    /// Whether there is a pid namespace; without one, attempts that would reach everybody are left out.
    pub(crate) own_pids: bool,
    /// Paths that are there on the host.
    pub(crate) there: Vec<String>,
    /// Only these are tried, if any are named.
    pub(crate) only: Vec<String>,
}

/// A file in the folder that may be read, and what is in it.
pub(crate) const FILE: &str = "file";
pub(crate) const CONTENT: &str = "as the host left it";
/// Sockets of the host in each mount begin with this, and those that are made when the spoke runs with the other.
pub(crate) const SOCKET: &str = "host-socket";
pub(crate) const LATE_SOCKET: &str = "late-socket";
/// A link there that leads to the secret, made by the host.
pub(crate) const LINK: &str = "link";
/// A program in the folder that may be written, and in the one for programs, that belongs to another user and has the bit that makes it run as that one.
pub(crate) const SET_ID_PROGRAM: &str = "set-id";

/// What one attempt saw, by its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) observed: Observed,
}

/// Something was got that must not be.
pub(crate) fn escaped(what: impl std::fmt::Display) -> Observed {
    Observed::Escaped(what.to_string())
}

pub(crate) fn held(what: impl std::fmt::Display) -> Observed {
    Observed::Held(what.to_string())
}

pub(crate) fn failed(what: impl std::fmt::Display) -> Observed {
    Observed::Failed(what.to_string())
}

/// A call that must give nothing: whatever it gave, or the error.
pub(crate) fn nothing<T>(result: std::io::Result<T>, gained: &str) -> Observed {
    match result {
        Ok(_) => escaped(gained),
        Err(error) => held(error),
    }
}
