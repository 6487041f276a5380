//! Questions at the terminal, while the desk offers the same ones; or a line about each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use hub::trace::escape;
use rustix::termios::{QueueSelector, tcflush};
use server::QuestionView;
use server::desk::{Answered, Approver, Desk, Other, QuestionOrigin};
use tokio::sync::{Mutex, mpsc};

use crate::answered;
use crate::keep_for::KeepFor;
use crate::question::{Dialogue, Next};
use crate::terminal::{Replaced, heard, message, say, size};

/// Asks at the desk alone, and says so on one line.
pub(crate) struct Announced(pub(crate) Arc<Desk>);

impl Announced {
    fn announce(&self, origin: &QuestionOrigin, question: &QuestionView) {
        let (of, title) = (escape(&origin.conversation), question.title().join(" "));
        message(&format!(
            "conversation {of}: {title} answer it with `sluice approve` or `sluice desk`"
        ));
    }
}

#[async_trait]
impl Approver for Announced {
    async fn ask(&self, origin: &QuestionOrigin, question: &QuestionView) -> Answered {
        self.announce(origin, question);
        self.0.ask(origin, question).await
    }

    async fn ask_beside(
        &self,
        origin: &QuestionOrigin,
        question: &QuestionView,
        other: Other<'_>,
    ) -> Answered {
        self.announce(origin, question);
        self.0.ask_beside(origin, question, other).await
    }
}

/// Asks at the terminal and at the desk; the first answer counts.
pub(crate) struct Asked {
    desk: Arc<Desk>,
    /// The typed lines, for one question at a time.
    lines: Mutex<mpsc::UnboundedReceiver<String>>,
    replaced: Replaced,
}

/// A question that is asked. If its caller goes away while it is shown, the user is told.
struct Open<'a> {
    asked: &'a Asked,
    is_shown: AtomicBool,
}

impl Open<'_> {
    /// Ends a question that no typed line has answered. Whether it was shown.
    fn replace(&self) -> bool {
        let is_shown = self.is_shown.swap(false, Ordering::Relaxed);
        if is_shown {
            self.asked.replaced.set();
        }
        is_shown
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.replace() {
            say("\n(taken back: the client no longer waits for an answer)\n");
        }
    }
}

impl Asked {
    /// Starts the one thread that reads the terminal: a reader per question would take the answer to the
    /// next one.
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while std::io::stdin()
                .read_line(&mut line)
                .is_ok_and(|read| read > 0)
            {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        let lines = Mutex::new(lines);
        let replaced = Replaced::default();
        Self {
            desk,
            lines,
            replaced,
        }
    }

    /// Asks at the terminal. `is_shown` becomes true once the user sees the question.
    async fn typed(
        &self,
        conversation: &str,
        question: &QuestionView,
        is_shown: &AtomicBool,
    ) -> Answered {
        // The other questions wait here, and are open at the desk meanwhile.
        let mut lines = self.lines.lock().await;
        // Input from before the question must not answer it.
        if tcflush(std::io::stdin(), QueueSelector::IFlush).is_err() {
            // Then only the desk can answer.
            return std::future::pending().await;
        }
        while lines.try_recv().is_ok() {}
        let mut dialogue = Dialogue::new(question, size(2), KeepFor::default());
        say(&format!(
            "\nConversation {}:\n{}{}",
            escape(conversation),
            dialogue.text(),
            dialogue.prompt()
        ));
        is_shown.store(true, Ordering::Relaxed);
        let (shown, replaced) = (Instant::now(), self.replaced.take());
        loop {
            let Some(line) = lines.recv().await else {
                // The terminal is closed; the desk can still answer.
                return std::future::pending().await;
            };
            heard();
            if Replaced::is_early(replaced, shown, Instant::now()) {
                say(&format!("{}{}", Replaced::EARLY, dialogue.prompt()));
                continue;
            }
            match dialogue.hear(Some(&line)) {
                Next::Done(answer) => return answered::typed(answer),
                Next::Say(again) => say(&again),
            }
        }
    }
}

#[async_trait]
impl Approver for Asked {
    async fn ask_beside(
        &self,
        origin: &QuestionOrigin,
        question: &QuestionView,
        other: Other<'_>,
    ) -> Answered {
        let open = Open {
            asked: self,
            is_shown: AtomicBool::new(false),
        };
        let first = async {
            tokio::select! {
                answered = self.typed(&origin.conversation, question, &open.is_shown) => answered,
                answered = other => answered,
            }
        };
        // The desk has the timeout.
        let answered = self.desk.beside(origin, question, first).await;
        if answered::is_typed(&answered) {
            open.is_shown.store(false, Ordering::Relaxed);
        } else if open.replace() {
            say(&answered::line(&answered));
        }
        answered
    }
}
