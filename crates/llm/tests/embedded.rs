//! The client of `sluice-model`, against a program that says what a test wrote for it.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hub::{AnswerShape, Completion, CompletionRequest, Purpose};
use ifc::{History, Label, Labeled, redact};
use llm::{Broker, Embedded, ErrorKind, ProviderError};
use model_files::protocol::{self, Answer, Event, Failure, Stop, Usage};

/// A program that sends `first`, waits for a request, sends `then` and ends.
fn program(folder: &Path, first: &[Event], then: &[Event]) -> PathBuf {
    let bytes = |events: &[Event]| -> Vec<u8> {
        let frames = events.iter().map(|event| protocol::encode(event).unwrap());
        frames.flatten().collect()
    };
    fs::write(folder.join("first"), bytes(first)).unwrap();
    fs::write(folder.join("then"), bytes(then)).unwrap();
    let path = folder.join("program");
    let here = folder.display();
    let script =
        format!("#!/bin/sh\ncat {here}/first >&0\nhead -c 1 >/dev/null\ncat {here}/then >&0\n");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn done(result: Result<&str, Failure>) -> Event {
    let answer = |text: &str| Answer {
        text: text.to_owned(),
        calls: Vec::new(),
        stop: Stop::End,
        usage: Usage::default(),
    };
    Event::Done {
        id: 0,
        result: result.map(answer),
    }
}

async fn ask(broker: &Broker, sink: &mut String) -> Result<Completion, ProviderError> {
    let mut history = History::new(Vec::new());
    history.push_user(Labeled::trusted_tcb("Hi"));
    let request = CompletionRequest {
        prompt: redact(&history, &Label::bottom()),
        purpose: Purpose::Step,
        shape: AnswerShape::Text,
        max_tokens: 8,
    };
    Ok(broker.complete(&request, sink).await?.completion)
}

async fn failure(first: &[Event], then: &[Event]) -> ProviderError {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), first, then);
    let broker = Broker::new(Arc::new(Embedded::new("m", program, "x")), Label::bottom());
    ask(&broker, &mut String::new()).await.unwrap_err()
}

#[tokio::test]
async fn a_program_that_ends_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let text = |text: &str| Event::Text {
        id: 0,
        text: text.to_owned(),
    };
    // What belongs to another completion is ignored.
    let other = Event::Text {
        id: 7,
        text: "no".to_owned(),
    };
    let then = [text("Hel"), other, text("lo"), done(Ok("Hello"))];
    let program = program(folder.path(), &[Event::Ready], &then);
    let broker = Broker::new(Arc::new(Embedded::new("m", program, "x")), Label::bottom());
    let mut answered = 0;
    // A request that meets the end of the first program fails; a later one is answered by the next program.
    while answered < 2 {
        let mut streamed = String::new();
        match ask(&broker, &mut streamed).await {
            Ok(answer) => {
                answered += 1;
                assert_eq!(
                    (streamed.as_str(), answer.text.as_str()),
                    ("Hello", "Hello")
                );
            }
            Err(error) => {
                assert!(error.to_string().contains("sluice-model ended"), "{error}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

#[tokio::test]
async fn failures_have_their_kind() {
    let too_long = [done(Err(Failure::TooLong("9 tokens".to_owned())))];
    let error = failure(&[Event::Ready], &too_long).await;
    assert!(matches!(error.kind, ErrorKind::ContextLength(_)), "{error}");
    for (first, expected) in [
        (
            vec![Event::Unusable("no such file".to_owned())],
            "no such file",
        ),
        (vec![Event::Ready], "sluice-model ended"),
    ] {
        let error = failure(&first, &[]).await.to_string();
        assert!(error.contains(expected), "{error}");
    }
    // A program that never says that it is ready.
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path(), &[], &[]);
    fs::write(&path, "#!/bin/sh\nexec sleep 600\n").unwrap();
    let slow = Embedded::new("m", path, "x").with_load_limit(Duration::from_millis(100));
    let broker = Broker::new(Arc::new(slow), Label::bottom());
    let error = ask(&broker, &mut String::new()).await.unwrap_err();
    assert!(
        error.to_string().contains("was not loaded within"),
        "{error}"
    );
    let missing = Embedded::new("m", "/no/such/program", "x");
    let broker = Broker::new(Arc::new(missing), Label::bottom());
    let error = ask(&broker, &mut String::new()).await.unwrap_err();
    assert!(error.to_string().contains("does not start"), "{error}");
}
