//! What is remembered from one session to the next, and under which label.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use hub::trace::Event;
use hub::{Completion, CompletionRequest};
use ifc::{
    Call, Effect, Exceeded, Label, Labeled, Lattice, Order, Policy, PolicyError, Rule, Sink,
};
use llm::{Scripted, call_answer, text_answer};
use store::{Entry, EntryId, Identity, Limits, Memory, Namespace, SqliteMemory};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::stage::{Stage, newest_results, users};

/// What `mail` returns is untrusted, what `web` is given must not be.
pub(crate) struct MailIsUntrusted {
    /// What may be remembered; without one there is no rule for it.
    pub(crate) memory: Option<Label>,
}

pub(crate) fn untrusted() -> Label {
    Lattice::four_point().label("untrusted").unwrap()
}

impl Policy for MailIsUntrusted {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let (name, limit, exceeded) = match sink {
            Sink::Call(call) if call.app == "web" => ("web.limit", Label::bottom(), Exceeded::Ask),
            Sink::Call(_) => ("mail.limit", Label::top(), Exceeded::Ask),
            Sink::Answer(_) => ("answer.limit", Label::top(), Exceeded::Ask),
            Sink::MemoryWrite(_) if self.memory.is_some() => {
                let limit = self.memory.clone().unwrap();
                ("memory.limit", limit, Exceeded::Deny)
            }
            _ => return Err(PolicyError("no rule".to_owned())),
        };
        Ok(Rule {
            exceeded,
            ..Rule::asking(name.to_owned(), Effect::Write, limit)
        })
    }

    fn label_result(&self, call: &Call, result: String, _: bool) -> Labeled {
        let label = match call.app.as_str() {
            "mail" => untrusted(),
            _ => Label::bottom(),
        };
        Labeled::label_tcb(result, label)
    }
}

/// A memory in a folder of its own.
pub(crate) struct Archive {
    folder: TempDir,
    memory: Arc<SqliteMemory>,
}

impl Archive {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let memory = open(&folder, Lattice::four_point());
        Self { folder, memory }
    }

    /// A session over `mail` and `web`.
    fn session(&self, model: fn(&CompletionRequest) -> Completion) -> Stage {
        self.with(model, Some(Label::top()), false)
    }

    fn with(
        &self,
        model: fn(&CompletionRequest) -> Completion,
        limit: Option<Label>,
        private: bool,
    ) -> Stage {
        let apps = [("mail", "ok"), ("web", "ok")];
        let policy = MailIsUntrusted { memory: limit };
        let model = Scripted::new("scripted", model);
        Stage::with_memory(&apps, policy, model, self.memory.clone(), private)
    }

    pub(crate) fn memory(&self) -> Arc<SqliteMemory> {
        self.memory.clone()
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let namespaces = self.memory.namespaces().unwrap();
        let list = |own: &Namespace| self.memory.list(own, 1000, &Label::top()).unwrap();
        namespaces.iter().flat_map(list).collect()
    }
}

fn open(folder: &TempDir, lattice: Lattice) -> Arc<SqliteMemory> {
    let path = folder.path().join("memory/test.sqlite");
    Arc::new(SqliteMemory::open(&path, lattice, Limits::default()).unwrap())
}

/// What the prompt shows of the user's newest words, memories included.
pub(crate) fn query(request: &CompletionRequest) -> String {
    users(request).pop().unwrap_or_default()
}

pub(crate) fn results(request: &CompletionRequest) -> usize {
    newest_results(request).len()
}

/// Reads a mail and says when the delivery comes; without a mail it says what it was shown.
fn reads(request: &CompletionRequest) -> Completion {
    match results(request) {
        0 if query(request).contains("mail") => {
            call_answer("echo", r#"{"text":"the delivery comes on Friday"}"#)
        }
        0 => text_answer(query(request)),
        _ => text_answer("The delivery comes on Friday."),
    }
}

fn shows(request: &CompletionRequest) -> Completion {
    text_answer(query(request))
}

pub(crate) async fn said(stage: &mut Stage, apps: &[&str], text: &str) -> String {
    let outcome = stage.ask_apps(apps, text).await.unwrap();
    outcome.result.unwrap().reveal_tcb().to_owned()
}

fn recalled(stage: &Stage) -> Vec<(String, Vec<String>)> {
    let recalled = stage.traced(|event| match event {
        Event::Recalled { memories } => Some(memories),
        _ => None,
    });
    let recalled = recalled.into_iter().flatten();
    recalled
        .map(|memory| (memory.origin, memory.label))
        .collect()
}

/// Why nothing was recalled or kept.
pub(crate) fn failures(stage: &Stage) -> Vec<String> {
    stage.traced(|event| match event {
        Event::MemoryFailed { reason } => Some(reason.to_string()),
        _ => None,
    })
}

#[tokio::test]
async fn what_was_said_yesterday_is_known_today_with_its_source() {
    let archive = Archive::new();
    said(
        &mut archive.session(reads),
        &["mail"],
        "Read the newest mail",
    )
    .await;
    let mut today = archive.session(shows);
    let shown = said(&mut today, &["mail"], "When is the delivery?").await;
    assert!(
        shown.starts_with("Remembered from earlier conversations:\n- "),
        "{shown}"
    );
    let answer = ", with mail, the assistant said: \"The delivery comes on Friday.\"";
    assert!(shown.contains(answer), "{shown}");
    assert!(
        shown.ends_with("The user says now:\nWhen is the delivery?"),
        "{shown}"
    );
    let label = vec!["untrusted".to_owned()];
    let recalled = recalled(&today);
    assert_eq!(recalled.len(), 1);
    assert!(
        recalled[0].0.contains("with mail") && recalled[0].1 == label,
        "{recalled:?}"
    );
}

#[tokio::test]
async fn an_untrusted_memory_makes_a_later_call_ask() {
    let archive = Archive::new();
    said(
        &mut archive.session(reads),
        &["mail"],
        "Read the newest mail",
    )
    .await;
    let mut today = archive.session(|request| match results(request) {
        0 if query(request).contains("Friday") => call_answer("web__echo", r#"{"text":"Friday"}"#),
        _ => text_answer("nothing is known"),
    });
    let outcome = today
        .ask_apps(&["mail", "web"], "Publish the delivery")
        .await;
    assert_eq!(outcome.unwrap().refused, 1);
    let causes = &today.watcher.questions[0].causes;
    assert_eq!(causes[0].source, ifc::Source::Memory);
    assert!(causes[0].excerpt.contains("with mail"));
}

#[tokio::test]
async fn an_app_is_told_what_its_own_conversations_said_and_the_hub_everything() {
    let archive = Archive::new();
    let mut first = archive.session(|_| text_answer("noted"));
    said(&mut first, &["mail"], "delivery alpha").await;
    said(&mut first, &["mail", "web"], "delivery beta").await;
    said(&mut first, &[], "delivery gamma").await;
    for (apps, known) in [
        (&["mail"][..], &["alpha"][..]),
        (&["web"], &[]),
        (&["mail", "web"], &["alpha", "beta"]),
        (&[], &["alpha", "beta", "gamma"]),
    ] {
        // Without a rule for memory nothing is added.
        let mut reader = archive.with(shows, None, false);
        let shown = said(&mut reader, apps, "the delivery?").await;
        for word in ["alpha", "beta", "gamma"] {
            assert_eq!(
                shown.contains(word),
                known.contains(&word),
                "{apps:?}: {shown}"
            );
        }
    }
    assert_eq!(archive.entries().len(), 6);
}

/// The attack: the user removes an app, and adds another one later whose author chose the name of the old one.
#[tokio::test]
async fn an_app_that_takes_the_name_of_another_is_told_nothing_of_it() {
    let archive = Archive::new();
    let with = |origin: u8, model: fn(&CompletionRequest) -> Completion, limit: Option<Label>| {
        let policy = MailIsUntrusted { memory: limit };
        let apps = [("mail", "ok"), ("web", "ok")];
        Stage::with_apps_and(&apps, policy, Scripted::new("scripted", model), |setup| {
            setup.memory = Some(archive.memory());
            let mut apps = setup.apps.iter_mut();
            let mail = apps.find(|app| app.spoke.app == "mail").unwrap();
            mail.origin = Identity::from_digest([origin; 32]);
        })
    };
    let writer = |origin| with(origin, |_| text_answer("noted"), Some(Label::top()));
    // Without a rule for memory nothing is added.
    let reader = |origin| with(origin, shows, None);
    let mut before = writer(1);
    said(&mut before, &["mail"], "delivery alpha").await;
    said(&mut before, &["mail", "web"], "delivery beta").await;
    for apps in [&["mail"][..], &["mail", "web"]] {
        let mut other = reader(2);
        let shown = said(&mut other, apps, "the delivery?").await;
        assert_eq!(shown, "the delivery?", "{apps:?}");
        assert!(recalled(&other).is_empty(), "{apps:?}");
    }
    // Nor is the old one told what is said with the new one.
    said(&mut writer(2), &["mail"], "delivery delta").await;
    let shown = said(&mut reader(1), &["mail", "web"], "the delivery?").await;
    assert!(shown.contains("alpha") && shown.contains("beta"), "{shown}");
    assert!(!shown.contains("delta"), "{shown}");
}

/// `sluice memory list` names it.
#[tokio::test]
async fn a_damaged_memory_leaves_the_others() {
    let archive = Archive::new();
    let mut before = archive.session(|_| text_answer("noted"));
    said(&mut before, &["mail"], "delivery alpha").await;
    said(&mut before, &["mail"], "delivery beta").await;
    let file = rusqlite::Connection::open(archive.folder.path().join("memory/test.sqlite"));
    let damage = "UPDATE memory SET text = CAST(x'ff' AS TEXT) WHERE text = 'delivery alpha'";
    assert_eq!(file.unwrap().execute(damage, []), Ok(1));
    let archive = Archive {
        memory: open(&archive.folder, Lattice::four_point()),
        ..archive
    };
    let mut today = archive.with(shows, None, false);
    let shown = said(&mut today, &["mail"], "the delivery?").await;
    assert!(
        shown.contains("beta") && !shown.contains("alpha"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_conversation_is_not_told_what_it_says_itself() {
    let archive = Archive::new();
    let mut stage = archive.session(shows);
    said(&mut stage, &["mail"], "delivery on Friday").await;
    let shown = said(&mut stage, &["mail"], "when is the delivery").await;
    assert_eq!(shown, "when is the delivery");
    assert!(recalled(&stage).is_empty());
}

#[tokio::test]
async fn a_private_session_reads_and_leaves_nothing() {
    let archive = Archive::new();
    said(&mut archive.session(shows), &["mail"], "delivery on Friday").await;
    let before = archive.entries();
    assert_eq!(before.len(), 2);
    let mut private = archive.with(shows, Some(Label::top()), true);
    assert_eq!(
        said(&mut private, &["mail"], "the delivery").await,
        "the delivery"
    );
    assert_eq!(archive.entries(), before);
}

#[tokio::test]
async fn what_exceeds_the_limit_is_not_remembered() {
    let archive = Archive::new();
    let mut stage = archive.with(reads, Some(Label::bottom()), false);
    said(&mut stage, &["mail"], "Read the newest mail").await;
    let entries = archive.entries();
    assert_eq!(entries.len(), 1);
    assert!(entries[0].label.is_bottom());
    let refused = |event: &Event| matches!(event, Event::NotRemembered { reason, .. } if reason.contains("memory.limit"));
    assert!(stage.trace().iter().any(refused));
}

#[tokio::test]
async fn an_answer_goes_with_what_it_was_made_from() {
    let archive = Archive::new();
    said(&mut archive.session(shows), &["mail"], "delivery on Friday").await;
    said(
        &mut archive.session(shows),
        &["mail"],
        "when is the delivery",
    )
    .await;
    let entries = archive.entries();
    assert_eq!(entries.len(), 4);
    let first = entries.last().unwrap();
    let forgotten = archive.memory.forget(&[first.id]).unwrap();
    // Its own answer, and the answer of the second session, which was told of both.
    assert_eq!(forgotten.family.entries.len(), 3);
    let left = archive.entries();
    assert!(left.len() == 1 && left[0].sources.is_empty());
    let mut third = archive.session(shows);
    assert!(
        !said(&mut third, &["mail"], "the delivery")
            .await
            .contains("Friday")
    );
}

/// A taint whose name is gone makes its memories ⊤, which no conversation is told of.
#[tokio::test]
async fn a_memory_of_another_lattice_is_for_the_user_alone() {
    let lattice = |names: [&str; 2]| {
        let categories = Order::Categories(names.map(str::to_owned).to_vec());
        Lattice::new(&categories, &Order::TwoPoint).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    // The first taint is what mails are labelled with.
    let memory = open(&folder, lattice(["mail", "web"]));
    let archive = Archive { folder, memory };
    said(
        &mut archive.session(reads),
        &["mail"],
        "Read the newest mail",
    )
    .await;
    let other = lattice(["letters", "pages"]);
    let archive = Archive {
        memory: open(&archive.folder, other),
        ..archive
    };
    let entries = archive.entries();
    assert!(
        entries
            .iter()
            .any(|entry| entry.label.is_top() && !entry.unknown.is_empty())
    );
    let shown = said(
        &mut archive.session(shows),
        &["mail"],
        "When is the delivery?",
    )
    .await;
    assert_eq!(shown, "When is the delivery?");
}

#[tokio::test]
async fn a_memory_that_fails_ends_no_turn_and_is_told() {
    let policy = MailIsUntrusted {
        memory: Some(Label::top()),
    };
    let model = Scripted::new("scripted", shows);
    let apps = [("mail", "ok")];
    let archive = Archive::new();
    let file = rusqlite::Connection::open(archive.folder.path().join("memory/test.sqlite"));
    let damage = "DROP TABLE source; DROP TABLE memory; DROP TABLE namespace";
    file.unwrap().execute_batch(damage).unwrap();
    let mut stage = Stage::with_memory(&apps, policy, model, archive.memory(), false);
    assert_eq!(said(&mut stage, &["mail"], "go").await, "go");
    let failed = failures(&stage);
    assert_eq!(failed.len(), 2);
    assert!(failed[0].starts_with("nothing is recalled: "), "{failed:?}");
    assert!(
        failed[1].starts_with("this turn may not be remembered: "),
        "{failed:?}"
    );
}

/// A memory of which one append goes wrong.
pub(crate) struct Hindered {
    inner: Arc<SqliteMemory>,
    appends: AtomicUsize,
    /// Which one, from 0.
    at: usize,
    /// It is done, says so, and waits for the word to return. Without this it fails, and nothing is done.
    held: Option<Held>,
}

struct Held {
    done: UnboundedSender<()>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Hindered {
    pub(crate) fn failing(archive: &Archive, at: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: archive.memory(),
            appends: AtomicUsize::new(0),
            at,
            held: None,
        })
    }

    fn holding(
        archive: &Archive,
        at: usize,
    ) -> (Arc<Self>, UnboundedReceiver<()>, mpsc::Sender<()>) {
        let (done, is_done) = unbounded_channel();
        let (go, go_on) = mpsc::channel();
        let held = Held {
            done,
            go_on: Mutex::new(go_on),
        };
        let memory = Self {
            inner: archive.memory(),
            appends: AtomicUsize::new(0),
            at,
            held: Some(held),
        };
        (Arc::new(memory), is_done, go)
    }
}

impl Memory for Hindered {
    fn append(
        &self,
        namespace: &Namespace,
        drafts: &[store::Draft],
    ) -> Result<usize, store::MemoryError> {
        if self.appends.fetch_add(1, Ordering::SeqCst) != self.at {
            return self.inner.append(namespace, drafts);
        }
        let Some(held) = &self.held else {
            return Err(store::MemoryError::Full("test".to_owned()));
        };
        let gone = self.inner.append(namespace, drafts);
        held.done.send(()).unwrap();
        held.go_on.lock().unwrap().recv().unwrap();
        gone
    }

    fn list(
        &self,
        namespace: &Namespace,
        most: usize,
        at: &Label,
    ) -> Result<Vec<Entry>, store::MemoryError> {
        self.inner.list(namespace, most, at)
    }

    fn show(&self, id: store::EntryId, at: &Label) -> Result<Option<Entry>, store::MemoryError> {
        self.inner.show(id, at)
    }

    fn search(
        &self,
        namespace: &Namespace,
        query: &store::Query,
        at: &Label,
        most: usize,
    ) -> Result<Vec<store::Found>, store::MemoryError> {
        self.inner.search(namespace, query, at, most)
    }

    fn labels(&self, namespace: &Namespace) -> Result<Vec<Label>, store::MemoryError> {
        self.inner.labels(namespace)
    }

    fn ids(&self, namespace: &Namespace) -> Result<Vec<store::EntryId>, store::MemoryError> {
        self.inner.ids(namespace)
    }

    fn derived(&self, ids: &[store::EntryId]) -> Result<store::Family, store::MemoryError> {
        self.inner.derived(ids)
    }

    fn forget(&self, ids: &[store::EntryId]) -> Result<store::Forgotten, store::MemoryError> {
        self.inner.forget(ids)
    }

    fn expire(&self, before: store::Time) -> Result<usize, store::MemoryError> {
        self.inner.expire(before)
    }

    fn unreadable(&self, namespace: &Namespace) -> Result<Vec<EntryId>, store::MemoryError> {
        self.inner.unreadable(namespace)
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, store::MemoryError> {
        self.inner.namespaces()
    }
}

fn over(memory: Arc<dyn Memory>) -> Stage {
    let policy = MailIsUntrusted {
        memory: Some(Label::top()),
    };
    let model = Scripted::new("scripted", shows);
    Stage::with_memory(&[("mail", "ok")], policy, model, memory, false)
}

/// The texts that are left, oldest first, once the first entry is forgotten.
fn left_without_the_first(archive: &Archive) -> Vec<String> {
    let first = archive.entries().pop().unwrap();
    archive.memory.forget(&[first.id]).unwrap();
    let left = archive.entries().into_iter().rev();
    left.map(|entry| match entry.content {
        store::Content::Interaction { text, .. } => text,
        other => panic!("{other:?}"),
    })
    .collect()
}

/// The memory takes longer than anybody waits: what it keeps all the same is a source of what comes later.
#[tokio::test]
async fn what_is_stored_when_nobody_waits_any_more_is_a_source() {
    let archive = Archive::new();
    let (memory, mut is_done, go) = Hindered::holding(&archive, 0);
    let mut stage = over(memory);
    let cancel = Arc::clone(&stage.cancel);
    let interrupting = tokio::spawn(async move {
        is_done.recv().await.unwrap();
        cancel.notify_one();
    });
    said(&mut stage, &["mail"], "delivery on Friday").await;
    interrupting.await.unwrap();
    go.send(()).unwrap();
    // What is remembered later waits for what came before, and is not mistaken for another conversation's.
    let shown = said(&mut stage, &["mail"], "when is the delivery").await;
    assert_eq!(shown, "when is the delivery");
    assert_eq!(archive.entries().len(), 4);
    assert_eq!(left_without_the_first(&archive), ["when is the delivery"]);
}

#[tokio::test]
async fn what_was_stored_before_another_part_failed_is_a_source() {
    let archive = Archive::new();
    let mut stage = over(Hindered::failing(&archive, 1));
    said(&mut stage, &["mail"], "delivery on Friday").await;
    assert_eq!(archive.entries().len(), 1);
    let shown = said(&mut stage, &["mail"], "when is the delivery").await;
    assert_eq!(shown, "when is the delivery");
    assert_eq!(archive.entries().len(), 3);
    assert_eq!(left_without_the_first(&archive), ["when is the delivery"]);
}

/// The user forgets something while a conversation that shows it goes on: what follows from it is not kept,
/// with a reason that says so, and all else is.
#[tokio::test]
async fn what_follows_from_what_was_forgotten_meanwhile_is_not_kept_and_the_user_is_told_why() {
    let archive = Archive::new();
    let mut stage = archive.session(shows);
    said(&mut stage, &["mail"], "delivery on Friday").await;
    assert!(left_without_the_first(&archive).is_empty());
    said(&mut stage, &["mail"], "when is the delivery").await;
    let failed = failures(&stage);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].starts_with("the answer is not remembered: it follows from a forgotten entry"),
        "{failed:?}"
    );
    assert_eq!(archive.entries().len(), 1);
    // Elsewhere nothing follows from it.
    said(&mut stage, &["web"], "the weather").await;
    assert_eq!(archive.entries().len(), 3);
}
