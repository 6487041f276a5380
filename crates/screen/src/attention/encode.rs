//! A transcript as the tokens of a context window, and the tokens of every region.

use std::ops::Range;

use super::tokens::{Encode, Token, covering};
use super::{Placed, Role, Spoken, Transcript, Turn};

/// How much the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Tokens of the history and of the draft together.
    pub context: usize,
    /// Tokens of the draft. Each costs a backward pass, and the room for so many is kept free, so
    /// that what is seen of a history does not depend on the draft.
    pub output: usize,
}

impl Default for Window {
    /// The context of SmolLM2, and drafts up to a long email.
    fn default() -> Self {
        Self {
            context: 8192,
            output: 512,
        }
    }
}

/// What the model sees of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// These tokens of the input. Never empty; a token counts for every region that it overlaps.
    Tokens(Range<usize>),
    /// Not all of it: the history is longer than the window. Nothing can be said about it, so it
    /// must be taken for relevant.
    Cut,
    /// Nothing: it is the description or the parameters of a tool. They are left out, since a
    /// list of tools is longer than most conversations. They go along with the calls: a region of
    /// a tool that the draft calls is relevant, one of another tool is not. So a description that
    /// makes the model call another tool is masked when the step is taken.
    Description,
}

/// The tokens of an argument's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueTokens {
    /// [`Value::argument`](crate::attention::Value::argument).
    pub argument: usize,
    /// Its tokens in the output.
    pub tokens: Range<usize>,
}

/// A transcript and a draft, ready for the model.
#[derive(Clone, PartialEq, Eq)]
pub struct Encoded {
    /// What the model reads, up to where the assistant speaks.
    pub input: Vec<u32>,
    /// The tokens of the draft.
    pub output: Vec<u32>,
    /// What the model sees of each region of the transcript, in order.
    pub regions: Vec<Sight>,
    /// The values of the draft's arguments, in order; those without a token are left out.
    pub values: Vec<ValueTokens>,
    /// Where the tokens of the messages after the newest step of the assistant begin.
    pub newest: usize,
}

/// Why the model cannot read something. The screener then answers "everything".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The chat template needs a token that the vocabulary lacks.
    #[error("the model has no token `{0}`; use a model with the ChatML template")]
    NoControlToken(&'static str),
    /// The draft is longer than the window's room for it.
    #[error(
        "the draft has {tokens} tokens, more than the {limit} that the screener reads; ask for shorter \
         calls, or use the screener `combined`, which leaves long drafts to the judge"
    )]
    DraftTooLong {
        /// Its tokens.
        tokens: usize,
        /// [`Window::output`].
        limit: usize,
    },
    /// The draft has no text.
    #[error("the draft is empty; there is nothing to screen for")]
    EmptyDraft,
    /// Not even one message fits.
    #[error("a window of {0} tokens is too small; use a model with a longer context")]
    SmallWindow(usize),
}

/// ChatML's control tokens before and after each message.
const START: &str = "<|im_start|>";
const END: &str = "<|im_end|>";

/// A window with less room than this for the history is refused: next to nothing would be seen in it.
const LEAST_BUDGET: usize = 64;

/// Encodes a transcript and a draft: each message by itself, between the control tokens of the
/// chat template.
///
/// A history that does not fit loses its oldest messages, the results and the assistant's before
/// the user's and the developer's, and a message longer than half the window its beginning. When
/// something must go, a quarter of the window is made free at once, so that the next steps find
/// the beginning unchanged (and in the model's cache). Regions that are not seen completely are
/// [`Sight::Cut`].
///
/// # Errors
/// [`EncodeError`]; treat it as "everything is relevant".
pub fn encode(
    transcript: &Transcript,
    draft: &Spoken,
    tokenizer: &(impl Encode + ?Sized),
    window: Window,
) -> Result<Encoded, EncodeError> {
    let template = Template::of(tokenizer)?;
    // The draft first: where it is refused, nothing of the history need be read.
    let output = tokenizer.encode(&draft.text);
    if output.is_empty() {
        return Err(EncodeError::EmptyDraft);
    }
    if output.len() > window.output {
        return Err(EncodeError::DraftTooLong {
            tokens: output.len(),
            limit: window.output,
        });
    }
    // The room for the longest draft is kept free, so that the same history gives the same window for every draft, and
    // the model finds it in its cache.
    let header = template.header(Role::Assistant);
    let budget = window.context.saturating_sub(window.output + header.len());
    if budget < LEAST_BUDGET {
        return Err(EncodeError::SmallWindow(window.context));
    }
    let turns = transcript.turns().iter();
    let bodies: Vec<Vec<Token>> = turns.map(|turn| tokenizer.encode(&turn.text)).collect();
    let kept = fit(transcript.turns(), &bodies, &template, budget);

    let mut input = Vec::new();
    let mut windowed: Vec<Option<Windowed>> = vec![None; bodies.len()];
    for Kept { turn, skipped, .. } in kept {
        let (Some(said), Some(body)) = (transcript.turns().get(turn), bodies.get(turn)) else {
            continue;
        };
        input.extend(template.header(said.role));
        let first = input.len();
        if let Some(windowed) = windowed.get_mut(turn) {
            *windowed = Some(Windowed { first, skipped });
        }
        input.extend(body.iter().skip(skipped).map(|token| token.id));
        input.extend(&template.footer);
    }
    // "Newest" are the messages that the drafted step reacts to. Where none of them is in the window, nothing is
    // newer than the input's end.
    let spoke = |turn: &Turn| turn.role == Role::Assistant;
    let after = transcript.turns().iter().rposition(spoke);
    let after = after.map_or(0, |last| last + 1);
    let newest = windowed.iter().skip(after).flatten().next();
    let newest = newest.map_or(input.len(), |turn| turn.first);
    input.extend(header);

    let regions = transcript.regions().iter();
    let regions = regions
        .map(|placed| sight(placed, &bodies, &windowed))
        .collect();
    let values = draft.values.iter().filter_map(|value| {
        let tokens = covering(&output, &value.span)?;
        Some(ValueTokens {
            argument: value.argument,
            tokens,
        })
    });
    let values = values.collect();
    Ok(Encoded {
        input,
        output: output.iter().map(|token| token.id).collect(),
        regions,
        values,
        newest,
    })
}

/// Where a message's text begins in the input, and how many of its tokens are left out there.
#[derive(Clone)]
struct Windowed {
    first: usize,
    skipped: usize,
}

fn sight(placed: &Placed, bodies: &[Vec<Token>], windowed: &[Option<Windowed>]) -> Sight {
    let Some((turn, bytes)) = &placed.place else {
        return Sight::Description;
    };
    let (Some(body), Some(Some(turn))) = (bodies.get(*turn), windowed.get(*turn)) else {
        return Sight::Cut;
    };
    match covering(body, bytes) {
        Some(tokens) if tokens.start >= turn.skipped => {
            let place = |token| turn.first + token - turn.skipped;
            Sight::Tokens(place(tokens.start)..place(tokens.end))
        }
        // Its message has no tokens, or its beginning is cut.
        _ => Sight::Cut,
    }
}

struct Template {
    start: u32,
    system: Vec<u32>,
    user: Vec<u32>,
    assistant: Vec<u32>,
    footer: Vec<u32>,
}

impl Template {
    fn of(tokenizer: &(impl Encode + ?Sized)) -> Result<Self, EncodeError> {
        let control = |name| {
            let token = tokenizer.control(name);
            token.ok_or(EncodeError::NoControlToken(name))
        };
        let ids = |text: &str| -> Vec<u32> {
            let tokens = tokenizer.encode(text);
            tokens.into_iter().map(|token| token.id).collect()
        };
        let role = |role: Role| ids(&format!("{}\n", role.name()));
        let mut footer = vec![control(END)?];
        footer.extend(ids("\n"));
        Ok(Self {
            start: control(START)?,
            system: role(Role::System),
            user: role(Role::User),
            assistant: role(Role::Assistant),
            footer,
        })
    }

    fn header(&self, role: Role) -> Vec<u32> {
        let name = match role {
            Role::System => &self.system,
            Role::User => &self.user,
            Role::Assistant => &self.assistant,
        };
        std::iter::once(self.start)
            .chain(name.iter().copied())
            .collect()
    }

    fn overhead(&self, role: Role) -> usize {
        self.header(role).len() + self.footer.len()
    }
}

#[derive(Clone, Copy)]
struct Kept {
    turn: usize,
    /// Tokens of its text that are left out at its beginning.
    skipped: usize,
    tokens: usize,
}

/// The messages that are in the window after all of them have come, one by one. A function of
/// the messages alone, and in the same state after the same first messages.
fn fit(turns: &[Turn], bodies: &[Vec<Token>], template: &Template, budget: usize) -> Vec<Kept> {
    let mut kept: Vec<Kept> = Vec::new();
    let mut total = 0;
    for (turn, (said, body)) in turns.iter().zip(bodies).enumerate() {
        let overhead = template.overhead(said.role);
        let room = (budget / 2).saturating_sub(overhead);
        let skipped = body.len().saturating_sub(room);
        let tokens = overhead + body.len() - skipped;
        total += tokens;
        if total > budget {
            let is_pinned = |kept: &Kept| turns.get(kept.turn).is_some_and(|turn| turn.pinned);
            // A quarter at once: if each new message dropped just what it needs, every step would begin with other
            // text, and the model's cache would be of no use.
            drop_oldest(&mut kept, &mut total, budget - budget / 4, |kept| {
                !is_pinned(kept)
            });
        }
        if total > budget {
            // What the user and the developer said goes too where that alone is too much.
            drop_oldest(&mut kept, &mut total, budget, |_| true);
        }
        // After the dropping, so that the newest message is always in the window: it takes half the budget at most.
        kept.push(Kept {
            turn,
            skipped,
            tokens,
        });
    }
    kept
}

/// Drops the oldest messages that may be dropped until no more than `target` tokens are left.
fn drop_oldest(
    kept: &mut Vec<Kept>,
    total: &mut usize,
    target: usize,
    may_go: impl Fn(&Kept) -> bool,
) {
    kept.retain(|message| {
        // `retain` goes from the oldest on, and stops dropping as soon as the rest fits.
        let goes = *total > target && may_go(message);
        if goes {
            *total -= message.tokens;
        }
        !goes
    });
}
