//! Conversations that become too long, with a memory.

use hub::{Completion, CompletionRequest, Purpose};
use ifc::Label;
use llm::{Scripted, text_answer};
use store::{Content, Memory};

use crate::memory::{Archive, MailIsUntrusted, said};
use crate::stage::Stage;

fn talks(request: &CompletionRequest) -> Completion {
    match request.purpose {
        Purpose::Summary => text_answer("the user counts deliveries"),
        _ => text_answer("so it is; ".repeat(20)),
    }
}

/// A session whose prompts hold a few messages.
fn session(archive: &Archive) -> Stage {
    let policy = MailIsUntrusted {
        memory: Some(Label::top()),
    };
    let model = Scripted::new("scripted", talks);
    let memory = archive.memory();
    Stage::with_apps_and(&[("mail", "ok"), ("web", "ok")], policy, model, |setup| {
        setup.memory = Some(memory);
        setup.parts.settings.limits.prompt_bytes = 600;
    })
}

#[tokio::test]
async fn a_summary_is_remembered_with_what_it_was_made_from() {
    let archive = Archive::new();
    let mut stage = session(&archive);
    for number in 0..6 {
        said(&mut stage, &["mail"], &format!("delivery {number}")).await;
    }
    let entries = archive.entries();
    let summary = |entry: &&store::Entry| matches!(entry.content, Content::Summary { .. });
    let oldest = entries.iter().rfind(summary).unwrap();
    assert!(matches!(&oldest.content, Content::Summary { text } if text.contains("counts")));
    assert!(oldest.label.is_bottom());
    // Whoever forgets the first words forgets the summary of them.
    let first = entries.last().unwrap();
    let gone = archive.memory().forget(&[first.id]).unwrap();
    assert!(
        gone.family
            .entries
            .iter()
            .any(|entry| entry.id == oldest.id)
    );
}
