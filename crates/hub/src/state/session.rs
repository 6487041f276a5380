//! The document of a conversation.

use std::collections::{BTreeMap, BTreeSet};

use ifc::state::{
    Allowed, CallState, CountedCall, Endorsement, EnteredCall, Final, Grant, LedgerState,
    MonitorState, Reach, Scope, Target, Trusted,
};
use ifc::{Effect, Lattice, ReceiptId, Until, Writer};
use serde::{Deserialize, Serialize};

use super::labels::{Stored, StoredCall, StoredLabel, StoredText, present, read_all, write_all};
use super::unreadable;

/// What the replicas of a front share of one conversation.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SessionDoc {
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
            monitor: MonitorState {
                turn: self.monitor.turn,
                ..MonitorState::default()
            },
            ..Self::default()
        };
        *self == begun
    }

    /// Its text. Grants for the collaboration of two apps are left out: the fronts that share state have no apps that
    /// collaborate.
    #[must_use]
    pub fn write(&self, lattice: &Lattice) -> String {
        let MonitorState {
            turn,
            grants,
            refusals,
            allowed,
            trust,
            ledger,
        } = &self.monitor;
        let grants = grants.iter();
        let allowed = allowed.iter().map(|allowed| StoredAllowed {
            call: Stored::write(&allowed.call, lattice),
            excess: Stored::write(&allowed.excess, lattice),
            texts: write_all(&allowed.texts, lattice),
        });
        let trust = trust.iter();
        let calls = ledger.calls.iter();
        let counted = ledger.counted.iter();
        let waiting = self.waiting.iter();
        let released = self.released.as_ref();
        let document = Document {
            turn: *turn,
            grants: grants.filter_map(|it| write_grant(it, lattice)).collect(),
            refusals: write_all(refusals, lattice),
            allowed: allowed.collect(),
            trust: trust.map(|it| write_trust(it, lattice)).collect(),
            calls: calls
                .map(|it| (id_name(it.id), it.state.name().to_owned(), it.key.clone()))
                .collect(),
            counted: counted.map(|it| write_counted(it, lattice)).collect(),
            is_full: ledger.is_full,
            waiting: waiting
                .map(|(name, id)| (name.clone(), id_name(*id)))
                .collect(),
            released: released.map(|(request, names)| (request.to_vec(), names.clone())),
        };
        // Its maps have strings as keys, so it can be written. An empty text cannot be read.
        serde_json::to_string(&document).unwrap_or_default()
    }

    /// Reads the text of a document.
    ///
    /// # Errors
    /// It has another form.
    pub fn read(text: &str, lattice: &Lattice) -> Result<Self, String> {
        let document: Document = serde_json::from_str(text).map_err(unreadable)?;
        let grants = document.grants.into_iter();
        let grants = grants.map(|it| read_grant(it, lattice));
        let allowed = document.allowed.into_iter().map(|it| {
            let (call, texts) = (it.call.read(lattice)?, read_all(it.texts, lattice)?);
            let excess = it.excess.known(lattice);
            Ok(excess.map(|excess| Allowed {
                call,
                excess,
                texts,
            }))
        });
        let trust = document.trust.into_iter();
        let trust = trust.map(|it| read_trust(it, lattice));
        let calls = document.calls.into_iter().map(|(id, state, key)| {
            let (id, state) = (read_id(&id)?, read_state(&state)?);
            Ok(EnteredCall { id, key, state })
        });
        let counted = document.counted.into_iter();
        let counted = counted.map(|it| read_counted(it, lattice));
        let waiting = document.waiting.into_iter();
        let waiting = waiting.map(|(name, id)| Ok((name, read_id(&id)?)));
        let released = document.released.map(|(request, names)| {
            let request = request.try_into();
            let request = request.map_err(|_| unreadable("a digest has another length"))?;
            Ok::<_, String>((request, names))
        });
        Ok(Self {
            monitor: MonitorState {
                turn: document.turn,
                grants: known(grants)?,
                refusals: read_all(document.refusals, lattice)?,
                allowed: known(allowed)?,
                trust: known(trust)?,
                ledger: LedgerState {
                    calls: calls.collect::<Result<_, String>>()?,
                    counted: counted.collect::<Result<_, String>>()?,
                    is_full: document.is_full,
                },
            },
            waiting: waiting.collect::<Result<_, String>>()?,
            released: released.transpose()?,
        })
    }
}

/// Those that the lattice has the labels of.
fn known<T>(all: impl Iterator<Item = Result<Option<T>, String>>) -> Result<Vec<T>, String> {
    all.filter_map(Result::transpose).collect()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    turn: u64,
    grants: Vec<StoredGrant>,
    refusals: Vec<StoredCall>,
    allowed: Vec<StoredAllowed>,
    trust: Vec<StoredTrust>,
    /// Id, state and key of each.
    calls: Vec<(String, String, String)>,
    counted: Vec<StoredCounted>,
    is_full: bool,
    waiting: BTreeMap<String, String>,
    #[serde(deserialize_with = "present")]
    released: Option<(Vec<u8>, Vec<String>)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredGrant {
    target: Vec<String>,
    #[serde(deserialize_with = "present")]
    argument: Option<String>,
    taints: StoredLabel,
    #[serde(deserialize_with = "present")]
    at_hosts: Option<String>,
}

fn write_grant(grant: &Grant, lattice: &Lattice) -> Option<StoredGrant> {
    Some(StoredGrant {
        target: target_words(&grant.target)?,
        argument: match &grant.scope {
            Scope::Whole => None,
            Scope::Argument(path) => Some(path.to_string()),
        },
        taints: StoredLabel::write(&grant.taints, lattice),
        at_hosts: grant.at_hosts.clone(),
    })
}

fn read_grant(grant: StoredGrant, lattice: &Lattice) -> Result<Option<Grant>, String> {
    let target = read_target(grant.target);
    let target = target.ok_or_else(|| unreadable("a grant is for no known target"))?;
    let scope = match grant.argument {
        None => Scope::Whole,
        Some(path) => Scope::Argument(Box::new(path.parse().map_err(unreadable)?)),
    };
    let taints = grant.taints.known(lattice);
    Ok(taints.map(|taints| Grant {
        target,
        scope,
        taints,
        at_hosts: grant.at_hosts,
    }))
}

/// The kind of a target, and its names.
fn target_words(target: &Target) -> Option<Vec<String>> {
    let (kind, words): (&str, Vec<&str>) = match target {
        Target::Tool(app, tool) => ("tool", vec![app, tool]),
        Target::User(apps) => ("user", apps.iter().map(String::as_str).collect()),
        Target::Address(apps) => ("address", apps.iter().map(String::as_str).collect()),
        Target::Memory(apps) => ("memory", apps.iter().map(String::as_str).collect()),
        Target::Provider(provider) => ("provider", vec![provider]),
        Target::Domain(app, domain) => ("domain", vec![app, domain]),
        Target::Host(app, host, port) => {
            let port = port.to_string();
            return Some(vec!["host".to_owned(), app.clone(), host.clone(), port]);
        }
        Target::Collaboration(_) | Target::Served(..) => return None,
    };
    let words = std::iter::once(kind).chain(words);
    Some(words.map(str::to_owned).collect())
}

fn read_target(words: Vec<String>) -> Option<Target> {
    let mut words = words.into_iter();
    let kind = words.next()?;
    let set = |words: &mut std::vec::IntoIter<String>| words.by_ref().collect::<BTreeSet<_>>();
    let target = match kind.as_str() {
        "tool" => Target::Tool(words.next()?, words.next()?),
        "user" => Target::User(set(&mut words)),
        "address" => Target::Address(set(&mut words)),
        "memory" => Target::Memory(set(&mut words)),
        "provider" => Target::Provider(words.next()?),
        "domain" => Target::Domain(words.next()?, words.next()?),
        "host" => Target::Host(words.next()?, words.next()?, words.next()?.parse().ok()?),
        _ => return None,
    };
    words.next().is_none().then_some(target)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAllowed {
    call: StoredCall,
    excess: StoredLabel,
    texts: Vec<StoredText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTrust {
    number: u64,
    place: BTreeSet<String>,
    what: StoredTrusted,
    taints: StoredLabel,
    reach: Vec<StoredReach>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredTrusted {
    /// A source and the parts of its text.
    Parts(String, Vec<String>),
    /// App, tool, by what it is known, and its name there.
    Writer(String, String, String, String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredReach {
    app: String,
    effect: String,
    finals: StoredFinal,
    until: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredFinal {
    /// A tool and its control arguments.
    Same(String, StoredText),
    /// A tool, flags and texts.
    Named(String, Vec<String>, Vec<StoredText>),
}

fn write_trust(trust: &Endorsement, lattice: &Lattice) -> StoredTrust {
    let reach = trust.reach.iter().map(|reach| StoredReach {
        app: reach.app.clone(),
        effect: reach.effect.name().to_owned(),
        finals: match &reach.finals {
            Final::Same(tool, control) => {
                StoredFinal::Same(tool.clone(), StoredText::write(control, lattice))
            }
            Final::Named { tool, flags, texts } => {
                StoredFinal::Named(tool.clone(), flags.clone(), write_all(texts, lattice))
            }
        },
        until: reach.until.name().to_owned(),
    });
    StoredTrust {
        number: trust.number,
        place: trust.place.clone(),
        what: match trust.what.clone() {
            Trusted::Parts(source, parts) => StoredTrusted::Parts(source.to_string(), parts),
            Trusted::Writer(it) => StoredTrusted::Writer(it.app, it.tool, it.by, it.value),
        },
        taints: StoredLabel::write(&trust.taints, lattice),
        reach: reach.collect(),
    }
}

fn read_trust(trust: StoredTrust, lattice: &Lattice) -> Result<Option<Endorsement>, String> {
    let reach = trust.reach.into_iter().map(|reach| {
        Ok(Reach {
            app: reach.app,
            effect: one_of(&Effect::ALL, Effect::name, &reach.effect)?,
            finals: match reach.finals {
                StoredFinal::Same(tool, control) => Final::Same(tool, control.read(lattice)?),
                StoredFinal::Named(tool, flags, texts) => Final::Named {
                    tool,
                    flags,
                    texts: read_all(texts, lattice)?,
                },
            },
            until: one_of(&[Until::Task, Until::Session], Until::name, &reach.until)?,
        })
    });
    let reach = reach.collect::<Result<_, String>>()?;
    let what = match trust.what {
        StoredTrusted::Parts(source, parts) => {
            Trusted::Parts(source.parse().map_err(unreadable)?, parts)
        }
        StoredTrusted::Writer(app, tool, by, value) => Trusted::Writer(Writer {
            app,
            tool,
            by,
            value,
        }),
    };
    let taints = trust.taints.known(lattice);
    Ok(taints.map(|taints| Endorsement {
        number: trust.number,
        place: trust.place,
        what,
        taints,
        reach,
    }))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCounted {
    id: String,
    state: String,
    app: String,
    tool: String,
    arguments: Vec<(String, StoredText)>,
    label: StoredLabel,
}

fn write_counted(call: &CountedCall, lattice: &Lattice) -> StoredCounted {
    let arguments = call.arguments.iter();
    let arguments = arguments.map(|(name, text)| (name.clone(), Stored::write(text, lattice)));
    StoredCounted {
        id: id_name(call.id),
        state: call.state.name().to_owned(),
        app: call.app.clone(),
        tool: call.tool.clone(),
        arguments: arguments.collect(),
        label: Stored::write(&call.label, lattice),
    }
}

fn read_counted(call: StoredCounted, lattice: &Lattice) -> Result<CountedCall, String> {
    let arguments = call.arguments.into_iter();
    let arguments = arguments.map(|(name, text)| Ok((name, text.read(lattice)?)));
    Ok(CountedCall {
        id: read_id(&call.id)?,
        state: read_state(&call.state)?,
        app: call.app,
        tool: call.tool,
        arguments: arguments.collect::<Result<_, String>>()?,
        label: call.label.read(lattice)?,
    })
}

/// `SEED-NUMBER`, the seed in hexadecimal digits.
pub(super) fn id_name(id: ReceiptId) -> String {
    format!("{:016x}-{}", id.seed, id.number)
}

pub(super) fn read_id(name: &str) -> Result<ReceiptId, String> {
    let read = || {
        let (seed, number) = name.split_once('-')?;
        Some(ReceiptId {
            seed: u64::from_str_radix(seed, 16).ok()?,
            number: number.parse().ok()?,
        })
    };
    read().ok_or_else(|| unreadable("a call has no name"))
}

fn read_state(name: &str) -> Result<CallState, String> {
    one_of(&CallState::ALL, CallState::name, name)
}

fn one_of<T: Copy>(
    all: &[T],
    name: impl Fn(T) -> &'static str,
    written: &str,
) -> Result<T, String> {
    let found = all.iter().copied().find(|it| name(*it) == written);
    found.ok_or_else(|| unreadable("a word has no meaning"))
}
