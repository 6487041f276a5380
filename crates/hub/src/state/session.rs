//! The document of a conversation.

use std::collections::BTreeMap;

use ifc::state::{
    Allowed, CountedCall, Endorsement, EnteredCall, Final, Grant, LedgerState, MonitorState, Reach,
    Scope, Target, Trusted,
};
use ifc::{Collaboration, Lattice, ReceiptId, Writer};

use super::labels::{StoredCall, StoredLabel, StoredText};
use super::twin::{Stored, Word, unreadable};
use crate::twin;

/// What the replicas of a front share of one conversation.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SessionDoc {
    /// When it was written, in milliseconds of Unix time.
    pub at: u64,
    /// What was granted, refused and done.
    pub monitor: MonitorState,
    /// The calls that the client executes, by the name that it knows each under.
    pub waiting: BTreeMap<String, ReceiptId>,
    /// The digest of the request that the newest answer with permits for another front was for, and the names of its calls.
    pub released: Option<([u8; 32], Vec<String>)>,
}

impl SessionDoc {
    /// Whether nothing is lost if it is not written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let begun = Self {
            at: self.at,
            monitor: MonitorState {
                turn: self.monitor.turn,
                ..MonitorState::default()
            },
            ..Self::default()
        };
        *self == begun
    }

    /// Its text.
    #[must_use]
    pub fn write(&self, lattice: &Lattice) -> String {
        // The keys of its maps are strings, so it can be written. An empty text cannot be read.
        serde_json::to_string(&Document::write(self, lattice)).unwrap_or_default()
    }

    /// Reads the text of a document.
    ///
    /// # Errors
    /// It has another form.
    pub fn read(text: &str, lattice: &Lattice) -> Result<Self, String> {
        let document: Document = serde_json::from_str(text).map_err(unreadable)?;
        document.read(lattice)
    }
}

twin! {
    Document of SessionDoc {
        at: u64,
        monitor: StoredMonitor,
        waiting: BTreeMap<String, Word>,
        #[serde(deserialize_with = "super::present")]
        released: Option<(Word, Vec<String>)>,
    }
}

twin! {
    StoredMonitor of MonitorState {
        turn: u64,
        grants: Vec<StoredGrant>,
        refusals: Vec<StoredCall>,
        allowed: Vec<StoredAllowed>,
        trust: Vec<StoredTrust>,
        ledger: StoredLedger,
    }
}

twin! {
    StoredLedger of LedgerState {
        calls: Vec<StoredEntered>,
        counted: Vec<StoredCounted>,
        is_full: bool,
    }
}

twin! {
    StoredEntered of EnteredCall {
        id: Word,
        key: String,
        state: Word,
    }
}

twin! {
    StoredCounted of CountedCall {
        id: Word,
        state: Word,
        app: String,
        tool: String,
        arguments: Vec<(String, StoredText)>,
        label: StoredLabel,
    }
}

twin! {
    StoredAllowed of Allowed {
        call: StoredCall,
        excess: StoredLabel,
        texts: Vec<StoredText>,
    }
}

twin! {
    StoredTrust of Endorsement {
        number: u64,
        place: Vec<String>,
        what: StoredTrusted,
        taints: StoredLabel,
        reach: Vec<StoredReach>,
    }
}

twin! {
    StoredReach of Reach {
        app: String,
        effect: Word,
        finals: StoredFinal,
        until: Word,
    }
}

twin! {
    enum StoredTrusted of Trusted {
        Parts { 0 => source: Word, 1 => parts: Vec<String>, }
        Writer { 0 => writer: StoredWriter, }
    }
}

twin! {
    enum StoredFinal of Final {
        Same { 0 => tool: String, 1 => control: StoredText, }
        Named { tool => tool: String, flags => flags: Vec<String>, texts => texts: Vec<StoredText>, }
    }
}

twin! {
    StoredWriter of Writer {
        app: String,
        tool: String,
        by: String,
        value: String,
    }
}

twin! {
    StoredGrant of Grant {
        target: StoredTarget,
        scope: StoredScope,
        taints: StoredLabel,
        #[serde(deserialize_with = "super::present")]
        at_hosts: Option<String>,
    }
}

twin! {
    enum StoredScope of Scope {
        Whole {}
        Argument { 0 => path: Word, }
    }
}

twin! {
    enum StoredTarget of Target {
        Tool { 0 => app: String, 1 => tool: String, }
        User { 0 => apps: Vec<String>, }
        Address { 0 => apps: Vec<String>, }
        Provider { 0 => provider: String, }
        Host { 0 => app: String, 1 => host: String, 2 => port: u16, }
        Domain { 0 => app: String, 1 => domain: String, }
        Memory { 0 => apps: Vec<String>, }
        Collaboration { 0 => of: StoredCollaboration, }
        Served { 0 => of: StoredCollaboration, 1 => tool: String, }
    }
}

twin! {
    StoredCollaboration of Collaboration {
        asks: String,
        serves: String,
        functionality: String,
        direction: Word,
    }
}
