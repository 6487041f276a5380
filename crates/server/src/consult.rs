//! Screening, as every driver does it: randomness, and a language model where the screener wants
//! one.

use std::sync::Arc;

use hub::trace::Event;
use hub::{AnswerShape, CompletionRequest, Purpose, Screened, TurnMachine};
use ifc::{Consultation, Draft, History, Nonce, Relevance, Report, Screener, Screening};
use llm::{Broker, NoDeltas, RequestOptions};
use tokio::sync::Semaphore;

use crate::parts::Parts;

/// Algorithm 4, line 4, and what it cost if a model was asked. Every error becomes "everything is
/// relevant" in the machine.
pub(crate) async fn screen(
    parts: &Parts,
    options: &RequestOptions,
    agent: &TurnMachine,
) -> (Screened, Option<Event>) {
    let screener = &parts.screener;
    let mut cost = None;
    let asked = ask(&parts.screenings, screener, agent.history(), agent.draft());
    let (relevance, report) = match asked.await {
        Err(reason) => (Err(reason), Report::default()),
        Ok((Screening::Decided(relevance), report)) => (Ok(relevance), report),
        Ok((Screening::Consult(consultation), report)) => {
            let said = consult(&parts.broker, &**screener, options, consultation, &mut cost).await;
            (said, report)
        }
    };
    let Report { scores, failure } = report;
    let relevance = match (relevance, &failure) {
        (Err(reason), Some(first)) => Err(format!("{first}; then {reason}")),
        (relevance, _) => relevance,
    };
    let screened = Screened {
        screener: screener.name().to_owned(),
        relevance,
        failure,
        scores,
    };
    (screened, cost)
}

/// Asks the screener itself. One that computes for long does so on a thread of its own, a few at a time.
async fn ask(
    screenings: &Arc<Semaphore>,
    screener: &Arc<dyn Screener>,
    history: &History,
    draft: Option<Draft>,
) -> Result<(Screening, Report), String> {
    let nonce = nonce()?;
    let said = move |screener: &dyn Screener, history: &History| {
        let screening = screener.screen(history, draft.as_ref(), &nonce);
        (screening, screener.report(history, draft.as_ref()))
    };
    if !screener.computes() {
        return Ok(said(&**screener, history));
    }
    // A thread cannot be stopped, so the permit is held until it is done.
    let permit = Arc::clone(screenings).acquire_owned().await;
    let permit = permit.map_err(failed)?;
    let (screener, history) = (Arc::clone(screener), history.clone());
    let work = move || {
        // The thread owns the permit: a caller that goes away frees no memory.
        let _permit = permit;
        said(&*screener, &history)
    };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("the screener failed: {error}")
}

async fn consult(
    broker: &Broker,
    screener: &dyn Screener,
    options: &RequestOptions,
    consultation: Consultation,
    cost: &mut Option<Event>,
) -> Result<Relevance, String> {
    let form = screener.form(&consultation);
    let request = CompletionRequest {
        prompt: consultation.prompt.clone(),
        purpose: Purpose::Judge,
        shape: AnswerShape::Json {
            schema: form.schema.to_owned(),
        },
        max_tokens: form.max_tokens,
    };
    let answer = broker
        .complete_with(&request, options, &mut NoDeltas)
        .await
        .map_err(|error| error.to_string())?;
    *cost = Some(Event::Consulted {
        purpose: "judge".to_owned(),
        provider: answer.provider,
        usage: answer.completion.usage.into(),
    });
    match screener.read(&consultation, &answer.completion.text) {
        Relevance::Everything => Err("the judge's answer is not of its form".to_owned()),
        only @ Relevance::Only(_) => Ok(only),
    }
}

/// Fresh randomness from the kernel.
fn nonce() -> Result<Nonce, String> {
    random::<8>().map(|bytes| Nonce::from_random(u64::from_ne_bytes(bytes)))
}

/// Fresh randomness from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        // The kernel gives up to 256 bytes at once.
        Ok(count) if count == N => Ok(bytes),
        _ => Err("the system has no randomness".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use ifc::{Label, Labeled, RegionId};
    use llm::{Scripted, text_answer};
    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    /// Computes until it is told to stop, and counts how often.
    struct Slow {
        stop: Mutex<Receiver<()>>,
        begun: AtomicUsize,
    }

    impl Slow {
        /// With a way to let so many computations end.
        fn new() -> (Arc<dyn Screener>, Arc<Self>, Sender<()>) {
            let (stop, stopped) = channel();
            let slow = Arc::new(Self {
                stop: Mutex::new(stopped),
                begun: AtomicUsize::default(),
            });
            (Arc::<Self>::clone(&slow), slow, stop)
        }

        fn begun(&self) -> usize {
            self.begun.load(Ordering::SeqCst)
        }
    }

    impl Screener for Slow {
        fn name(&self) -> &str {
            "slow"
        }

        fn computes(&self) -> bool {
            true
        }

        fn screen(&self, _: &History, _: Option<&Draft>, _: &Nonce) -> Screening {
            self.begun.fetch_add(1, Ordering::SeqCst);
            self.stop.lock().unwrap().recv().unwrap();
            Screening::Decided(Relevance::Everything)
        }

        fn report(&self, _: &History, _: Option<&Draft>) -> Report {
            Report {
                failure: Some("too slow".to_owned()),
                ..Report::default()
            }
        }
    }

    /// The trace tells which it was: the judge's choice, or no choice at all.
    #[tokio::test]
    async fn an_answer_that_is_not_of_its_form_is_a_failure_and_one_that_names_all_is_none() {
        let mut history = History::default();
        history.push_user(Labeled::label_tcb("x", Label::top()));
        let everything = RegionId(0);
        for (said, expected) in [
            (
                r#"{"relevant":[1]}"#,
                Some(Relevance::Only([everything].into())),
            ),
            (r#"{"relevant":[]}"#, Some(Relevance::Only([].into()))),
            (r#"{"relevant":[2]}"#, None),
            (r#"{"relevant":[1"#, None),
            (r#"{"regions":[1]}"#, None),
            ("everything", None),
        ] {
            let judge = Scripted::new("judge", move |_| text_answer(said));
            let broker = Broker::new(Arc::new(judge), Label::top());
            let Screening::Consult(consultation) =
                screen::LmJudge.screen(&history, None, &nonce().unwrap())
            else {
                panic!("there is a region to ask about");
            };
            let (options, mut cost) = (RequestOptions::default(), None);
            let asked = consult(&broker, &screen::LmJudge, &options, consultation, &mut cost);
            let failure = "the judge's answer is not of its form".to_owned();
            assert_eq!(asked.await, expected.ok_or(failure), "{said}");
            assert!(cost.is_some());
        }
    }

    #[tokio::test]
    async fn whoever_is_cancelled_waits_no_longer_and_frees_the_turn_only_when_it_is_done() {
        let (screener, slow, stop) = Slow::new();
        let (screenings, history) = (Arc::new(Semaphore::new(1)), History::default());
        let ask = |screener| ask(&screenings, screener, &history, None);
        // Computes on after its caller has gone, ...
        assert!(timeout(SHORT, ask(&screener)).await.is_err());
        while slow.begun() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // ... so that these wait, and go without having computed.
        for _ in 0..3 {
            assert!(timeout(SHORT, ask(&screener)).await.is_err());
        }
        assert_eq!(slow.begun(), 1);
        // Who does not compute does not wait.
        let naive: Arc<dyn Screener> = Arc::new(screen::NaiveTainting);
        assert!(timeout(SHORT, ask(&naive)).await.is_ok());
        (0..2).for_each(|_| stop.send(()).unwrap());
        assert!(ask(&screener).await.is_ok());
        assert_eq!(slow.begun(), 2);
    }
}
