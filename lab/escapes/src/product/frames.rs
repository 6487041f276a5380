//! A spoke process that was taken over, by frames with the product's hub, beside another spoke of the same hub.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hub::CallOutcome;
use sandbox::Spec;
use server::{Domains, Resolve, SystemResolver};

use super::stage::{Person, Rules, Stage, hostile, setup};
use crate::Error;
use crate::attempt::{Observed, Seen, escaped, held};
use crate::frames::{FORGED, FrameAttempt, SOUND, VARIABLE, attempts};
use crate::job::Job;

/// How long a spoke may take to start, and for a call. The hub waits two seconds longer before it ends a spoke.
type Times = (Duration, Duration);
const SHORT: Times = (Duration::from_secs(1), Duration::from_secs(1));
/// For the spoke that does as it should, on a machine under load.
const LONG: Times = (Duration::from_secs(20), Duration::from_secs(20));
/// How long one attempt may take with all that the hub waits for.
const DEADLINE: Duration = Duration::from_secs(300);
/// How long a spoke that must be ended may live on.
const END: Duration = Duration::from_secs(6);
/// Memory that the hub may take for one hostile spoke: the longest frame and what is read from it, some times over.
const MEMORY: u64 = 128 << 20;
/// The argument of each call: more than a socket holds, so that a spoke that does not read is noticed.
const ARGUMENT: usize = 512 << 10;

pub(super) fn run(job: &Job) -> Result<Vec<Seen>, Error> {
    let hostile = hostile()?;
    let attempts = attempts();
    let wanted = attempts
        .iter()
        .filter(|it| job.only.is_empty() || job.only.iter().any(|name| name == it.name));
    let runtime = tokio::runtime::Runtime::new()?;
    let mut seen = Vec::new();
    for attempt in wanted {
        seen.push(Seen {
            name: attempt.name.to_owned(),
            observed: runtime.block_on(with_product(&hostile, attempt))?,
        });
    }
    Ok(seen)
}

/// What came of the exchange with one hostile spoke.
#[derive(Default)]
struct Heard {
    /// Names of its tools, texts that counted as results, and questions that the user would have been asked.
    counted: Vec<String>,
    /// Why it did not start, or why its calls have no result.
    refusals: Vec<String>,
}

impl Heard {
    /// A forged text that the hub believed.
    fn gained(&self) -> Option<String> {
        let forged = self.counted.iter().find(|it| it.contains(FORGED));
        forged.map(|it| format!("believed: {}", it.chars().take(80).collect::<String>()))
    }
}

async fn open(hostile: &Path, script: &str, times: Times) -> Result<Stage, Error> {
    let rules = Rules { connections: None };
    let resolver: Arc<dyn Resolve> = Arc::new(SystemResolver);
    let spec = Spec {
        env: vec![(VARIABLE.to_owned(), script.to_owned())],
        ..Spec::default()
    };
    let domains = Domains::default();
    let setup = setup(hostile.to_owned(), &["/nothing"], spec, domains, times);
    Stage::open(rules, resolver, setup).await
}

async fn with_product(hostile: &Path, attempt: &FrameAttempt) -> Result<Observed, Error> {
    let begun = Instant::now();
    // Before both spokes: what is taken for either counts, even if it was given back.
    let before = (peak_from_now()?, descriptors()?);
    let bystander = open(hostile, SOUND, LONG).await?;
    // At the same time, so that a hub that is held up by one spoke keeps the other waiting.
    let (heard, beside) = tokio::join!(exchange(hostile, attempt), call(&bystander));
    let (heard, gone) = heard?;
    // Once more, when all is over.
    let after = call(&bystander).await?;
    drop(bystander);
    let sound = |outcome: &CallOutcome| matches!(outcome, CallOutcome::Returned { text, .. } if text == SOUND);
    if let Some(gained) = heard.gained() {
        return Ok(escaped(gained));
    }
    for outcome in [beside?, after] {
        if !sound(&outcome) {
            return Ok(escaped(format!("another spoke was disturbed: {outcome:?}")));
        }
    }
    if attempt.ends && !gone {
        return Ok(escaped("the spoke goes on as if nothing was"));
    }
    if begun.elapsed() > DEADLINE {
        return Ok(escaped(format!(
            "the hub was held up for {:?}",
            begun.elapsed()
        )));
    }
    let taken = peak()?.saturating_sub(before.0);
    if taken > MEMORY {
        return Ok(escaped(format!("the hub took {} MiB", taken >> 20)));
    }
    let open = kept(before.1).await?;
    if open > 0 {
        return Ok(escaped(format!("the hub holds {open} descriptors more")));
    }
    Ok(held(
        heard
            .refusals
            .first()
            .map_or("answered as it should", String::as_str),
    ))
}

/// Starts the hostile spoke and calls it twice; what counted, and whether it was gone in the end.
async fn exchange(hostile: &Path, attempt: &FrameAttempt) -> Result<(Heard, bool), Error> {
    let mut heard = Heard::default();
    let stage = match open(hostile, attempt.name, SHORT).await {
        Ok(stage) => stage,
        Err(error) => {
            // Refused at the start: there is no spoke any more, and nothing to ask of it.
            heard.refusals.push(error.to_string());
            return Ok((heard, true));
        }
    };
    let mut person = Person::default();
    // Twice: some attempts are about the next call.
    for _ in 0..2 {
        let argument = "x".repeat(ARGUMENT);
        if stage.spoke.is_gone() {
            break;
        }
        match stage.call(SOUND, ("text", &argument), &mut person).await? {
            CallOutcome::Returned { text, .. } => heard.counted.push(text),
            CallOutcome::Failed(why) | CallOutcome::Unknown(why) | CallOutcome::Lost(why) => {
                heard.refusals.push(why);
            }
        }
    }
    heard.counted.extend(person.asked);
    let tools = stage.spoke.tools().iter();
    heard.counted.extend(tools.map(|tool| tool.name.clone()));
    let gone = tokio::time::timeout(END, stage.spoke.ended()).await.is_ok();
    Ok((heard, gone))
}

/// A call of a spoke that does as it should.
async fn call(bystander: &Stage) -> Result<CallOutcome, Error> {
    let mut person = Person::default();
    bystander.call(SOUND, ("text", ""), &mut person).await
}

/// The most memory that this process has held since [`peak_from_now`], in bytes.
fn peak() -> Result<u64, Error> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib = kib.ok_or("the kernel does not say how much memory this process has held")?;
    Ok(kib.parse::<u64>()? * 1024)
}

/// Begins to count the peak anew, from what is held now.
fn peak_from_now() -> Result<u64, Error> {
    // 5 is for the peak of the resident set (proc(5)).
    std::fs::write("/proc/self/clear_refs", "5")
        .map_err(|error| format!("the peak of memory cannot be counted anew: {error}"))?;
    peak()
}

/// How many descriptors more are open, when what was ended has had its time to close.
async fn kept(before: usize) -> Result<usize, Error> {
    let begun = Instant::now();
    loop {
        let more = descriptors()?.saturating_sub(before);
        if more == 0 || begun.elapsed() > END {
            return Ok(more);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn descriptors() -> Result<usize, Error> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}
