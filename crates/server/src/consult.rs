//! Screening, as every driver does it: randomness, and a language model where the screener wants
//! one.

use std::sync::Arc;

use agent::{Agent, AnswerShape, CompletionRequest, Purpose, Screened};
use hub::trace::Event;
use ifc::{Consultation, History, Nonce, RegionId, Relevance, Screener, Screening};
use llm::{Broker, NoDeltas, RequestOptions};

/// Algorithm 4, line 4, and what it cost if a model was asked. Every error becomes "everything is
/// relevant" in the machine.
pub(crate) async fn screen(
    broker: &Broker,
    screener: &Arc<dyn Screener>,
    options: &RequestOptions,
    agent: &Agent,
) -> (Screened, Option<Event>) {
    let mut cost = None;
    let (relevance, scores) = match ask(screener, agent).await {
        Err(reason) => (Err(reason), Vec::new()),
        Ok((Screening::Decided(relevance), scores)) => (Ok(relevance), scores),
        Ok((Screening::Consult(consultation), scores)) => {
            let said = consult(broker, &**screener, options, consultation, &mut cost).await;
            (said, scores)
        }
    };
    let screener = screener.name().to_owned();
    let screened = Screened {
        screener,
        relevance,
        scores,
    };
    (screened, cost)
}

/// What the screener says by itself, and the scores of regions.
type Said = (Screening, Vec<(RegionId, f32)>);

/// A screener that computes for long does so on a thread of its own.
async fn ask(screener: &Arc<dyn Screener>, agent: &Agent) -> Result<Said, String> {
    let nonce = nonce()?;
    let draft = agent.draft();
    let said = move |screener: &dyn Screener, history: &History| {
        let screening = screener.screen(history, draft.as_ref(), &nonce);
        (screening, screener.scores(history, draft.as_ref()))
    };
    if !screener.computes() {
        return Ok(said(&**screener, agent.history()));
    }
    let (screener, history) = (Arc::clone(screener), agent.history().clone());
    tokio::task::spawn_blocking(move || said(&*screener, &history))
        .await
        .map_err(|error| format!("the screener failed: {error}"))
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
    Ok(screener.read(&consultation, &answer.completion.text))
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
