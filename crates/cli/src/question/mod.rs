//! A question to the user: what it shows, and what the answer means.
//!
//! Everything foreign is escaped, wrapped to the terminal's real width and set in behind a prefix, so
//! that it can neither steer the terminal nor look like Sluice's own words. What a person has to know is
//! first and short; what is left out is counted, and the word `show` brings it.

mod arguments;
mod causes;
mod lasting;
mod layout;
mod scripts;
mod trusted;

use hub::trace::{escape, escape_lines};
use ifc::{Answer, Ran, Stage};
use server::{Assessment, ConnectionView, MessageView, QuestionView};

use self::arguments::{Argument, arguments};
use self::layout::KEY_COLUMNS;
pub(crate) use self::layout::{Lines, columns, shortened};
use crate::keep_for::KeepFor;
use crate::words::{self, Reading};

/// Lines of one argument. The address of a mail and a sentence fit in fewer.
const ARGUMENT_LINES: usize = 3;

/// Lines of all arguments together: with the rest the question fits into a small terminal.
const ARGUMENTS_LINES: usize = 12;

/// Lines of an answer that is asked about.
const ANSWER_LINES: usize = 8;

/// How often everything is shown on demand; whoever holds a key down ends the question.
const MOST_SHOWN: usize = 5;

/// The word that shows what was left out.
const SHOW: &str = "show";

/// A question and the lines that are typed to it, without the terminal.
pub(crate) struct Dialogue<'a> {
    question: &'a QuestionView,
    columns: usize,
    /// How long "always" lasts.
    keep_for: KeepFor,
    /// Characters that the first view leaves out.
    left_out: usize,
    unclear: usize,
    shown: usize,
}

/// What follows a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The answer.
    Done(Answer),
    /// Say this, the prompt included, and read another line.
    Say(String),
}

impl<'a> Dialogue<'a> {
    /// A question on a terminal of so many columns.
    pub(crate) fn new(question: &'a QuestionView, columns: usize, keep_for: KeepFor) -> Self {
        Self {
            left_out: view(question, columns, keep_for, false).left_out,
            question,
            columns,
            keep_for,
            unclear: 0,
            shown: 0,
        }
    }

    /// The question, without the prompt.
    pub(crate) fn text(&self) -> String {
        view(self.question, self.columns, self.keep_for, false).text
    }

    /// The line that asks for the answer.
    pub(crate) fn prompt(&self) -> String {
        let endorsing = endorsing(self.question);
        let word = |answer: Answer| match answer {
            Answer::Once => format!("{}{endorsing}", answer.name()),
            _ => answer.name().to_owned(),
        };
        let words = self.choices().chain([Answer::No]).map(word);
        let words = words.collect::<Vec<_>>().join(", ");
        let more = match self.left_out {
            0 => String::new(),
            left_out => format!(", {SHOW} ({left_out} characters more)"),
        };
        format!("Type {words}{more} and Enter [no]: ")
    }

    /// What follows a line; `None` is the end of input, which is a no. So is a third line that is none
    /// of the words: nobody knows what it meant, but it was no yes.
    pub(crate) fn hear(&mut self, line: Option<&str>) -> Next {
        let words = self.words();
        let Some(line) = line else {
            return Next::Done(Answer::No);
        };
        match words::read(line, &words) {
            Reading::No => Next::Done(Answer::No),
            Reading::Chosen(at) => match self.choices().nth(at) {
                Some(choice) => Next::Done(choice),
                // One past the answers is the word that shows the rest (`words`).
                None => self.show(),
            },
            Reading::Unclear => {
                self.unclear += 1;
                match self.unclear < words::ATTEMPTS {
                    true => Next::Say(words::again(&words) + &self.prompt()),
                    false => Next::Done(Answer::No),
                }
            }
        }
    }

    fn show(&mut self) -> Next {
        self.shown += 1;
        match self.shown <= MOST_SHOWN {
            true => {
                let all = view(self.question, self.columns, self.keep_for, true).text;
                Next::Say(format!("\n{all}{}", self.prompt()))
            }
            false => Next::Done(Answer::No),
        }
    }

    /// The answers other than no.
    fn choices(&self) -> impl Iterator<Item = Answer> + use<'a> {
        let choices = self.question.choices.iter().copied();
        choices.filter(|choice| *choice != Answer::No)
    }

    fn words(&self) -> Vec<&'static str> {
        let words = self.choices().map(Answer::name);
        words.chain((self.left_out > 0).then_some(SHOW)).collect()
    }
}

/// A question as lines, and how many characters are not in them.
struct View {
    text: String,
    left_out: usize,
}

fn view(question: &QuestionView, columns: usize, keep_for: KeepFor, whole: bool) -> View {
    let mut lines = Lines::new(columns, whole);
    let stage = question.message.as_ref().and_then(|message| message.stage);
    // What is asked, then why, what is known of it and what further answers would mean; and where the eye ends, beside
    // the prompt, once more what a yes does.
    let last = match (stage, &question.connection) {
        (Some(stage), _) => message(&mut lines, question, stage, whole),
        (None, Some(to)) => connection(&mut lines, question, to),
        (None, None) if question.is_answer => answer(&mut lines, question),
        (None, None) => call(&mut lines, question, whole),
    };
    why(&mut lines, question, whole);
    assessment(&mut lines, question);
    trusted::trust(&mut lines, question, whole);
    if question.choices.contains(&Answer::Always) {
        lines.own(&lasting::always(question, keep_for));
    }
    lines.own(&last);
    View {
        left_out: lines.left_out,
        text: lines.finish(),
    }
}

/// An answer that is asked about; the last line.
fn answer(lines: &mut Lines, question: &QuestionView) -> String {
    let about = match question.app.is_empty() {
        true => String::new(),
        false => format!(" about {}", escape(&question.app)),
    };
    lines.own(&format!(
        "The answer{about} holds more than your policy shows by itself:"
    ));
    text(lines, &question.arguments);
    "Show this answer?".to_owned()
}

/// A connection that is asked about; the last line.
fn connection(lines: &mut Lines, question: &QuestionView, to: &ConnectionView) -> String {
    let app = escape(&question.app);
    let host = escape(&to.host);
    lines.own(&format!(
        "{app} wants to connect to {host}, port {}:",
        to.port
    ));
    let given = match to.given.is_empty() {
        true => "nothing untrusted or secret".to_owned(),
        false => escape(&to.given.join(", ")),
    };
    lines.own(&format!("It was given {given}, and may send all of it."));
    format!("Let {app} connect to {}?", escape(&to.domain))
}

/// A message of one app to another; the last line.
fn message(lines: &mut Lines, question: &QuestionView, stage: Stage, whole: bool) -> String {
    let Some(message) = &question.message else {
        return String::new();
    };
    let (from, to) = (escape(&message.from), escape(&message.to));
    let functionality = escape(&message.functionality);
    waiting(lines, message);
    match stage {
        Stage::Probe => {
            lines.own(&format!("{from} wants to ask {to} for {functionality}."));
            return format!("Let {from} ask {to}?");
        }
        Stage::Request => lines.own(&format!("{from} asks {to} for {functionality}:")),
        Stage::Response => lines.own(&format!("{from} answers {to}, about {functionality}:")),
    }
    match arguments(&question.arguments) {
        Some(mut arguments) => {
            arguments.sort_by_key(rank);
            list(lines, &arguments, &[], whole);
        }
        None => text(lines, &question.arguments),
    }
    format!("Deliver this to {to}?")
}

/// For whom the asking app asks, if others wait for it.
fn waiting(lines: &mut Lines, message: &MessageView) {
    // Of a response it is the app that gets it.
    let asks = match message.stage {
        Some(Stage::Response) => &message.to,
        _ => &message.from,
    };
    let apps = message.waiting.iter().chain([asks]).rev();
    let apps: Vec<String> = apps.map(|app| escape(app)).collect();
    if let [first, rest @ ..] = apps.as_slice()
        && !rest.is_empty()
    {
        let rest = rest.join(", which was asked by ");
        lines.own(&format!("{first} was asked by {rest}."));
    }
}

/// Lines of a text, as many as an answer may have.
fn text(lines: &mut Lines, text: &str) {
    let text = escape_lines(text).replace('\t', "    ");
    let mut room = ANSWER_LINES;
    let mut paragraphs = text.split('\n').peekable();
    while let Some(paragraph) = paragraphs.next() {
        room = room.saturating_sub(lines.quoted(paragraph, room));
        // Paragraphs that are not shown at all count as left out too.
        if room == 0 && lines.is_short() {
            let rest: usize = paragraphs.map(|rest| rest.chars().count() + 1).sum();
            lines.left_out += rest;
            break;
        }
    }
}

/// A call that is asked about; the last line, which names it again with its key arguments.
fn call(lines: &mut Lines, question: &QuestionView, whole: bool) -> String {
    let (app, tool) = (escape(&question.app), escape(&question.tool));
    let effect = question.effect;
    let who = match &question.message {
        Some(message) => {
            let (from, functionality) = (escape(&message.from), escape(&message.functionality));
            waiting(lines, message);
            match message.conversed {
                true => {
                    format!(
                        "{app}, asked by {from} for {functionality}, asks for {tool} ({effect})"
                    )
                }
                false => format!("{from} asks {app} for {functionality}: {tool} ({effect})"),
            }
        }
        None => format!("{app} asks for {tool} ({effect})"),
    };
    lines.own(&format!(
        "{who}, which your policy does not allow by itself:"
    ));
    let Some(mut arguments) = arguments(&question.arguments) else {
        lines.quoted(&escape(&question.arguments), ARGUMENTS_LINES);
        return tool;
    };
    // A stable sort: within a rank they stay in the order of the call.
    arguments.sort_by_key(rank);
    let read = question.endorses.as_deref().unwrap_or_default();
    list(lines, &arguments, read, whole);
    let keys = arguments.iter().map(shown);
    let keys: Vec<String> = keys.filter(|key| columns(key) <= KEY_COLUMNS).collect();
    let pieces = std::iter::once(tool.as_str()).chain(keys.iter().map(String::as_str));
    let (line, unseen) = lines.one_line(pieces);
    match unseen + (arguments.len() - keys.len()) {
        0 => line,
        more => format!("{line}  (+{more} more)"),
    }
}

/// The arguments in their order, as many as there is room for. Those of `read` are whole in any case.
fn list(lines: &mut Lines, arguments: &[Argument], read: &[String], whole: bool) {
    let mut room = ARGUMENTS_LINES;
    let mut missing = 0;
    for argument in arguments {
        let line = shown(argument);
        // A yes makes these the user's own words, so there is room for all of them.
        if read.contains(&argument.name) {
            room = room.saturating_sub(lines.quoted(&line, usize::MAX));
            marks(lines, argument);
            continue;
        }
        if room == 0 && !whole {
            missing += 1;
            lines.left_out += line.chars().count();
            continue;
        }
        let most = ARGUMENT_LINES.min(room);
        room = room.saturating_sub(lines.quoted(&line, most));
        marks(lines, argument);
    }
    if missing > 0 {
        lines.own(&format!("[{missing} more arguments are not shown here]"));
    }
}

fn shown(argument: &Argument) -> String {
    escape(&format!("{}: {}", argument.name, argument.value))
}

/// What a person must see first has the lowest rank: where something goes, then what is short.
fn rank(argument: &Argument) -> u8 {
    let value = argument.value.as_str();
    let spaced = value.trim_matches(['"', '[', ']']).contains(' ');
    // A mail address, or a host or path: a dot or slash, and no space within.
    let address = value.contains('@') || (value.contains(['.', '/']) && !spaced);
    match () {
        // What may be something else than it looks like comes before what is short.
        () if !scripts::mixed(value).is_empty() => 0,
        () if address && value.chars().count() <= 4 * KEY_COLUMNS => 0,
        () if value.chars().count() <= KEY_COLUMNS => 1,
        () => 2,
    }
}

/// What is suspicious about an argument, in our own words below it.
fn marks(lines: &mut Lines, argument: &Argument) {
    let name = shortened(&escape(&argument.name), KEY_COLUMNS);
    for word in scripts::mixed(&argument.value) {
        let word = shortened(&word, 4 * KEY_COLUMNS);
        lines.own(&format!(
            "! {name} mixes letters of several scripts: {word}"
        ));
    }
}

/// Which rule asks, and what the call depends on.
fn why(lines: &mut Lines, question: &QuestionView, whole: bool) {
    let stage = question.message.as_ref().and_then(|message| message.stage);
    let what = match (stage, question.is_answer) {
        (Some(_), _) => "message",
        (None, true) => "answer",
        (None, false) if question.connection.is_some() => "connection",
        (None, false) => "call",
    };
    let rule = escape(&question.rule);
    if let Some(ran) = question.ran {
        let before = match ran {
            Ran::Answered => "already ran in this session",
            Ran::Unknown => "was already sent in this session, and nobody knows whether it ran",
        };
        lines.own(&format!("! This very call {before}."));
        if question.excess.is_empty() {
            return;
        }
    }
    if question.excess.is_empty() {
        lines.own(&format!("The rule {rule} asks about every such {what}."));
        return;
    }
    let limit = match question.limit.is_empty() {
        true => "trusted and public text only".to_owned(),
        false => escape(&question.limit.join(", ")),
    };
    let part = match &question.argument {
        Some(name) => format!("What this {what} carries as {}", escape(name)),
        None => format!("This {what}"),
    };
    let head = format!("The rule {rule} allows {limit}. {part} may also depend on");
    causes::depends(lines, question, &head, whole);
}

/// What a yes means for the steps that follow: nothing, or that the call is the user's own word.
fn endorsing(question: &QuestionView) -> String {
    let Some(read) = &question.endorses else {
        return String::new();
    };
    let carried = arguments(&question.arguments).unwrap_or_default();
    let carried = carried.iter().map(|argument| &argument.name);
    let carried: Vec<String> = carried
        .filter(|name| !read.contains(name))
        .map(|name| shortened(&escape(name), KEY_COLUMNS))
        .collect();
    let but = match carried.as_slice() {
        [] => String::new(),
        names => format!("but for {} ", names.join(" and ")),
    };
    format!(" ({but}it counts as your own word)")
}

/// What the hub itself knows of a call, in one line or two.
fn assessment(lines: &mut Lines, question: &QuestionView) {
    let Assessment {
        unplanned,
        before,
        same,
    } = &question.assessment;
    if *unplanned {
        let app = escape(&question.app);
        lines.own(&format!(
            "! The planner did not find that your request needs {app}."
        ));
    }
    let (Some(last), count) = (before.last(), before.len()) else {
        return;
    };
    let times = match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    let said = match same {
        Some(same) => format!("to this very call you said {}", same.name()),
        None => format!("the last answer was {}", last.name()),
    };
    let tool = escape(&question.tool);
    lines.own(&format!(
        "Asked {times} before in this session about {tool}; {said}."
    ));
}

#[cfg(test)]
mod tests;
