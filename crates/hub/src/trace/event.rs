//! What happened, one variant each.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{AnswerSource, Call, Cause, Flow, Names, Recalled, Score, Text, Usage};
use crate::StopReason;

/// The answer to a question that was not answered in time.
pub const UNANSWERED: &str = "none in time";

/// What happened: what the turn machine and its drivers make, a trace holds, `--json` prints and
/// [`show`](super::show()) says to people. Unknown members are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// A session began.
    SessionStarted {
        /// The session's name.
        session: String,
        /// `rtbas-lazy`, `rtbas-lazy-checked`, `rtbas-eager` or `rtbas-drafted`; `gateway`, where no step is made.
        mode: String,
        /// The screener's name.
        screener: String,
        /// Whether every query stands alone, and nothing of it is remembered.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        private: bool,
    },
    /// The planner chose.
    Planned {
        /// The apps that it found to be needed.
        needed: Vec<String>,
        /// The apps of the conversation that was taken; none for a vanilla spoke's.
        #[serde(rename = "app", with = "super::apps")]
        apps: BTreeSet<String>,
        /// Whether each app is asked separately, and the answers are combined.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        each: bool,
        /// Who chose and why: `planner`, `planner, follow-up`, `planner, group NAME`, `planner, nobody is
        /// there to choose`, `permission ID`, `user`, `user, kept as permission ID` or `command line`.
        by: String,
    },
    /// Several apps serve a functionality, and one of them was chosen, or none.
    ServingChosen {
        /// The app that asks.
        asks: String,
        /// The functionality.
        functionality: String,
        /// The apps that serve it.
        among: Vec<String>,
        /// The one that is asked; none if the request goes nowhere.
        serves: Option<String>,
        /// Who chose: `permission ID`, `user`, `user, kept as permission ID`, `user, earlier in this
        /// session`, `no one can answer: there is no terminal`, or why a choice was not kept.
        by: String,
    },
    /// The planner could not tell whether an app is needed; it was not taken.
    PlanUnclear {
        /// The app.
        app: String,
        /// Why.
        reason: Text,
    },
    /// Apps were asked separately.
    Gathered {
        /// Those that gave an answer.
        answered: Vec<String>,
        /// Those that gave none.
        missing: Vec<String>,
    },
    /// Apps that were to share a conversation did not start; the others go on without them.
    LeftOut {
        /// Those that did not start.
        apps: Vec<String>,
    },
    /// The tools that a client or an app offers, while everything is only observed.
    Offered {
        /// The app.
        app: String,
        /// The tools with their schemas and annotations, without their descriptions, as JSON.
        tools: Text,
    },
    /// A spoke runs.
    SpokeStarted {
        /// Its app.
        app: String,
        /// The hub's process id of it.
        pid: u32,
        /// The isolation layers in force.
        layers: Vec<String>,
        /// The layers that the user gave up.
        given_up: Vec<String>,
        /// The app's tools.
        tools: Vec<String>,
        /// Milliseconds from the request until the app had listed its tools.
        start_ms: u64,
    },
    /// A spoke is gone.
    SpokeEnded {
        /// Its app.
        app: String,
        /// Why.
        reason: Text,
    },
    /// The spoke opened a connection through the hub, or was refused one.
    Egress {
        /// Its app.
        app: String,
        /// The configured destination, or the name that the app asked for.
        to: String,
        /// What became of it.
        outcome: Text,
    },
    /// An app asked for a name that it may not reach. Each name is said once for a spoke.
    NameDenied {
        /// The app.
        app: String,
        /// The name, in the app's words.
        name: Text,
        /// Why, and what to write to allow it.
        reason: Text,
    },
    /// The user was asked whether an app may connect.
    ConnectionAsked {
        /// The app.
        app: String,
        /// The name that the app asked for, and the port.
        to: String,
        /// The registrable domain that an answer for longer than once is about.
        domain: String,
        /// What the app was given until then.
        label: Names,
        /// The rule.
        rule: String,
        /// The answer: `once`, `session`, `always`, `no` or [`UNANSWERED`].
        answer: String,
    },
    /// Memories were recalled for the user's next message (SecGPT appendix C).
    Recalled {
        /// Which ones.
        memories: Vec<Recalled>,
    },
    /// Words of this turn may be remembered, and are written now.
    Remembered {
        /// The id of the memory.
        id: String,
        /// Its label.
        label: Names,
        /// Its length.
        bytes: usize,
    },
    /// Words of this turn may not be remembered.
    NotRemembered {
        /// Their label.
        label: Names,
        /// Why.
        reason: Text,
    },
    /// So many older memories were forgotten to make room for those of this turn.
    MadeRoom {
        /// How many.
        count: usize,
    },
    /// The memory could not be read or written: nothing was recalled, or it is not known whether this
    /// turn is remembered. The turn went on.
    MemoryFailed {
        /// Why.
        reason: Text,
    },
    /// The user said something.
    User {
        /// The text.
        text: Text,
        /// Its label.
        label: Names,
        /// The user, where the front names one for each request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A screener chose the next step's label (RTBAS Algorithm 4, line 4).
    Screened {
        /// The step within the turn.
        step: usize,
        /// The screener.
        screener: String,
        /// The relevant regions, the first [`Score::MOST`] of them in reading order; `None` is everything.
        relevant: Option<Vec<u32>>,
        /// How many more are relevant.
        #[serde(default, skip_serializing_if = "is_zero")]
        more_relevant: usize,
        /// How many regions there were.
        regions: usize,
        /// The label of the whole history.
        before: Names,
        /// The label of the relevant regions.
        after: Names,
        /// Why the screener could not tell: everything is relevant, or another decided.
        failure: Option<Text>,
        /// How strongly the draft depends on the regions, where the screener could tell; the first
        /// [`Score::MOST`] of them in reading order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        scores: Vec<Score>,
    },
    /// Some of what was read is above the clearance of every provider that may take the conversation's steps, and is
    /// masked for them. Each taint is said once in a conversation.
    Uncleared {
        /// The step within the turn.
        step: usize,
        /// What is above, or `any`, which is everything that the providers are not cleared for by name.
        above: Names,
        /// The label of what is left.
        label: Names,
    },
    /// The user was asked whether a provider may be sent text above its clearance.
    ClearanceAsked {
        /// The step within the turn.
        step: usize,
        /// What is above, as in [`Event::Uncleared`].
        above: Names,
        /// Whether it may, from now on in this session.
        allowed: bool,
    },
    /// A language model was consulted for something other than the next step.
    Consulted {
        /// `judge`, `plan`, `summary` or `facts`.
        purpose: String,
        /// Which provider.
        provider: String,
        /// What it cost.
        usage: Usage,
    },
    /// A prompt was made by the redactor (lines 5 and 16).
    Redacted {
        /// The step within the turn.
        step: usize,
        /// Its label.
        label: Names,
        /// Regions shown.
        kept: usize,
        /// Regions masked or left out.
        masked: usize,
    },
    /// The model answered (lines 6 and 17).
    Completed {
        /// The step within the turn.
        step: usize,
        /// Which provider.
        provider: String,
        /// What it cost.
        usage: Usage,
        /// Why it ended.
        stop: StopReason,
        /// Calls proposed.
        calls: usize,
    },
    /// A prompt at this label was too long: from now on a summary takes the place of the beginning of the
    /// conversation.
    Summarised {
        /// The step within the turn.
        step: usize,
        /// The label.
        label: Names,
        /// Bytes of the summary.
        bytes: usize,
    },
    /// A draft was dropped: its label violates policy and a lower one masks regions, or it needs tools' descriptions.
    DraftDropped {
        /// The step within the turn.
        step: usize,
    },
    /// The step was re-run without the text that blocked its draft.
    Checked {
        /// The step within the turn.
        step: usize,
        /// The label of the second prompt.
        label: Names,
        /// Whether it was taken there. Otherwise the draft is the step, under its own label.
        taken: bool,
    },
    /// A value of a call was requested separately.
    Filled {
        /// The step within the turn.
        step: usize,
        /// The tool.
        tool: Text,
        /// The argument, by its path.
        argument: Text,
        /// The label of everything that could be seen.
        label: Names,
        /// Whether it came about there, or came out the same. Otherwise it keeps the label that it had.
        taken: bool,
    },
    /// A re-run has proposed a call that an earlier step of the turn has made. The call counts as made under the label of
    /// the re-run's prompt: its result and all that was made from it have no more of the call's label.
    Refined {
        /// The step within the turn.
        step: usize,
        /// The earlier step.
        of: usize,
        /// The position of the call in that step.
        #[serde(default)]
        call: usize,
        /// The label of the re-run's prompt.
        label: Names,
        /// Whether its data arguments came out the same too. Otherwise they keep their label.
        whole: bool,
    },
    /// After a refusal, the step was made without the taints that had blocked the refused call.
    Withheld {
        /// The step within the turn.
        step: usize,
        /// The label of that prompt.
        label: Names,
        /// Whether it is the step. Otherwise it lacked something, and the step was taken from everything.
        taken: bool,
    },
    /// A step was dropped because it only repeats a read or a refused call; the model is asked for words.
    RepetitionDropped {
        /// The step within the turn.
        step: usize,
    },
    /// The monitor allowed a call (lines 8 to 11).
    Allowed {
        /// The step within the turn.
        step: usize,
        /// The call.
        flow: Flow,
        /// The permit's [`Basis`](ifc::Basis): `policy RULE`, `user` or `user, for the session`.
        by: String,
    },
    /// A call or an answer was put to the user.
    Asked {
        /// The step within the turn.
        step: usize,
        /// What it is about.
        flow: Flow,
        /// The rule.
        rule: String,
        /// The rule's limit.
        limit: Names,
        /// `read`, `write` or `irreversible`.
        effect: String,
        /// The taints beyond the limit.
        excess: Names,
        /// The regions that brought them.
        causes: Vec<Cause>,
        /// If an equal irreversible call was sent before: `answered` or `unknown`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran: Option<String>,
    },
    /// A call may not run, or an answer may not be shown.
    Denied {
        /// The step within the turn.
        step: usize,
        /// What it is about.
        flow: Flow,
        /// The rule that denies or asks, where it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Why.
        reason: Text,
    },
    /// A proposed call makes no sense, and was not decided on.
    Rejected {
        /// The step within the turn.
        step: usize,
        /// The tool's name, as the model wrote it.
        tool: Text,
        /// The arguments, as the model wrote them.
        arguments: Text,
        /// The label under which it was proposed.
        label: Names,
        /// Why.
        reason: Text,
    },
    /// What became of a question, before the monitor decides what the answer allows.
    Replied {
        /// The name of the answer, or [`UNANSWERED`]. An answer that was not offered is `no`.
        answer: String,
        /// Who gave it, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// From where: `terminal`, `approve`, `page`, `http` or `client`; `observe` is the yes to all that is only observed,
        /// `budget` the no to a question more than the tenant may ask.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// The user, or the approver in place of an absent user, answered.
    Answered {
        /// What it was about.
        flow: Flow,
        /// `once`, `session`, `always` or `no`; `trust`, if it was no answer to this question.
        answer: String,
        /// Whether it may flow.
        allowed: bool,
    },
    /// The user trusted the texts that blocked a call, which is decided on again.
    Trusted {
        /// The step within the turn.
        step: usize,
        /// The texts.
        texts: Vec<Cause>,
        /// The app whose tools may do what they ask for.
        app: String,
        /// The worst that these tools may do: `read`, `write` or `irreversible`.
        effect: String,
        /// For how long: `task` or `session`.
        until: String,
    },
    /// The user allowed a call, which endorses its control part.
    Endorsed {
        /// The step within the turn.
        step: usize,
        /// The call, with the labels that it has now.
        call: Call,
    },
    /// A call returned, and its result was labelled (lines 12 and 13).
    Returned {
        /// The call.
        call: Call,
        /// Bytes of the result.
        bytes: usize,
        /// Whether the app called it an error.
        is_error: bool,
        /// The label of the result as a whole, joined with the call's.
        label: Names,
        /// Labelled regions in the result.
        regions: usize,
        /// A file that the app could not write, or a service on loopback that it could not connect to, by the words of its
        /// error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Text>,
    },
    /// A message of an exchange between two apps, or the end of the exchange.
    Message {
        /// The exchange: 128 random bits.
        exchange: String,
        /// The version of the protocol.
        version: u32,
        /// Which message it is.
        message: MessageKind,
        /// The functionality.
        functionality: String,
        /// The app that asks for it.
        asks: String,
        /// The app that serves it.
        serves: String,
        /// The label of the message.
        label: Names,
        /// Who allowed it, or why it was dropped or denied.
        note: Text,
    },
    /// A conversation began in which an app answers another one's request.
    Serving {
        /// The app that asks.
        asks: String,
        /// The functionality that it asks for.
        functionality: String,
        /// The request.
        text: Text,
        /// Its label.
        label: Names,
    },
    /// A call was sent, and it is not known whether it ran.
    CallUnknown {
        /// The call.
        call: Call,
        /// Why no answer came.
        reason: Text,
    },
    /// A call did not return a result.
    CallFailed {
        /// The call.
        call: Call,
        /// Why.
        reason: Text,
    },
    /// An app that works on a call asks the user something, and the monitor lets it be shown.
    AppAsked {
        /// The call.
        call: Call,
        /// The question with its fields, in the app's words.
        text: Text,
        /// Its label.
        label: Names,
        /// Who allows that it is shown: the permit's basis, or `user` where that was asked as well.
        by: String,
    },
    /// The user answered an app's question, or did not. What was typed goes to the app.
    AppAnswered {
        /// The call.
        call: Call,
        /// `accept`, `decline` or `cancel`.
        answer: String,
        /// What the user typed, as a JSON object; empty unless the answer is `accept`.
        content: Text,
    },
    /// An app that works on a call asked for something that it does not get.
    AppRefused {
        /// The call.
        call: Call,
        /// `question` or `completion`.
        request: String,
        /// Why not.
        reason: Text,
    },
    /// An app asked for something that its spoke did not pass on. Recorded at the first, second, fourth, … time.
    Unheard {
        /// The app.
        app: String,
        /// `question`, `completion` or `request`.
        request: String,
        /// Why it was not passed on.
        reason: Text,
        /// How often that was so.
        times: u64,
    },
    /// The turn ended with an answer.
    Answer {
        /// The answer.
        text: Text,
        /// Its label.
        label: Names,
        /// Calls that were refused on the way.
        refused: usize,
        /// Requests to other apps to which no response of the agreed form came.
        #[serde(default, skip_serializing_if = "is_zero")]
        dropped: usize,
        /// Words of it that are shown inert, since they could be addresses.
        #[serde(default, skip_serializing_if = "is_zero")]
        inert: usize,
        /// The untrusted sources that it may depend on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sources: Vec<AnswerSource>,
    },
    /// The turn ended without an answer.
    Stopped {
        /// Why. The user is shown it as far as the answer's limit allows.
        reason: Text,
        /// The label of foreign words in it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        label: Names,
        /// Calls that were refused on the way.
        refused: usize,
        /// Calls of which it is not known whether they ran.
        #[serde(default)]
        unknown: usize,
        /// Requests to other apps to which no response of the agreed form came.
        #[serde(default, skip_serializing_if = "is_zero")]
        dropped: usize,
    },
    /// A kind of event that this build does not know: earlier builds of this version wrote some more.
    #[serde(other)]
    Unknown,
}

/// A message of an exchange, or how the exchange ended without one (SecGPT §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// The asking app may know that the functionality is served.
    Probe,
    /// It was given the formats.
    Formats,
    /// Its request went to the serving app.
    Request,
    /// The response went to the asking app.
    Response,
    /// There is no response, or none of the agreed form.
    Dropped,
    /// Policy or the user did not let a message pass.
    Denied,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
