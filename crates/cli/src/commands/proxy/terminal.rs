//! Questions at the terminal, while the approval endpoint offers the same ones; or a line about each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use hub::trace::escape;
use ifc::Answer;
use rustix::termios::{QueueSelector, tcflush};
use server::QuestionView;
use server::proxy::{ApprovalDesk, Approver};
use tokio::sync::{Mutex, mpsc};

use crate::keep_for::KeepFor;
use crate::question::{Dialogue, Next};
use crate::terminal::{columns, message, say};

/// Asks at the desk alone, and says so on one line.
pub(crate) struct Announced(pub(crate) Arc<ApprovalDesk>);

#[async_trait]
impl Approver for Announced {
    async fn approve(&self, conversation: &str, question: &QuestionView) -> Answer {
        let (of, title) = (escape(conversation), question.title().join(" "));
        message(&format!(
            "conversation {of}: {title} list and answer it at the address of `questions:` above"
        ));
        self.0.approve(conversation, question).await
    }
}

/// Asks at the terminal and at the desk; the first answer counts.
pub(crate) struct Asked {
    desk: Arc<ApprovalDesk>,
    /// The typed lines, for one question at a time.
    lines: Mutex<mpsc::UnboundedReceiver<String>>,
}

impl Asked {
    /// Starts the one thread that reads the terminal: a reader per question would take the answer to the
    /// next one.
    pub(crate) fn new(desk: Arc<ApprovalDesk>) -> Self {
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
        Self { desk, lines }
    }

    /// Asks at the terminal. `is_shown` becomes true once the user sees the question.
    async fn typed(
        &self,
        conversation: &str,
        question: &QuestionView,
        is_shown: &AtomicBool,
    ) -> Answer {
        // The other questions wait here, and are open at the desk meanwhile.
        let mut lines = self.lines.lock().await;
        // Input from before the question must not answer it.
        if tcflush(std::io::stdin(), QueueSelector::IFlush).is_err() {
            // Then only the desk can answer.
            return std::future::pending().await;
        }
        while lines.try_recv().is_ok() {}
        let mut dialogue = Dialogue::new(question, columns(), KeepFor::default());
        say(&format!(
            "\nConversation {}:\n{}{}",
            escape(conversation),
            dialogue.text(),
            dialogue.prompt()
        ));
        is_shown.store(true, Ordering::Relaxed);
        loop {
            let Some(line) = lines.recv().await else {
                // The terminal is closed; the desk can still answer.
                return std::future::pending().await;
            };
            match dialogue.hear(Some(&line)) {
                Next::Done(answer) => return answer,
                Next::Say(again) => say(&again),
            }
        }
    }
}

#[async_trait]
impl Approver for Asked {
    async fn approve(&self, conversation: &str, question: &QuestionView) -> Answer {
        let is_shown = AtomicBool::new(false);
        tokio::select! {
            answer = self.typed(conversation, question, &is_shown) => answer,
            // The desk has the timeout.
            answer = self.desk.approve(conversation, question) => {
                if is_shown.load(Ordering::Relaxed) {
                    let what = answer.name();
                    say(&format!("\n(answered elsewhere, or timed out: {what})\n"));
                }
                answer
            }
        }
    }
}
