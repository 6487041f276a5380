//! Verdicts, with a model that pays attention to the words that it repeats.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ifc::{Draft, History, Label, RegionId, Relevance, Report, Screener, Screening};
use saliency::{Observer, SaliencyError};
use screen::attention::testing::{Copying, by_sum};
use screen::attention::{Attend, AttentionScreener, Band, Classifier, Combined, Encode, Window};

use crate::attention::histories::{WORDS, draft, text, tool, untrusted};
use crate::common::nonce;

/// Attends to the words that are repeated, counts its runs, and may fail.
#[derive(Default)]
struct Model {
    runs: AtomicUsize,
    fails: bool,
}

impl Attend for Model {
    fn attend(
        &self,
        input: &[u32],
        output: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<(), SaliencyError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        match self.fails {
            true => Err(SaliencyError::NoHistory),
            false => Copying.attend(input, output, observer),
        }
    }
}

fn screener(model: &Arc<Model>) -> AttentionScreener {
    let model: Arc<dyn Attend> = Arc::<Model>::clone(model);
    AttentionScreener::new(model, Arc::new(WORDS), Arc::new(by_sum())).unwrap()
}

/// Regions: 0 and 1 of `send`, 2 and 3 of `delete`, 4 a mail about lunch, 5 one about trains.
fn mails() -> History {
    let tools = ["send", "delete"].map(|name| tool(name, Some(untrusted())));
    let mut history = History::new(tools.to_vec());
    history.push_user(text(&[("Pass it on.", None)]));
    let read = ("read".to_owned(), text(&[("{}", None)]));
    let ids = history.push_assistant(&Label::bottom(), text(&[]), [read]);
    let mail = text(&[
        ("lunch noon sharp cantina", Some(untrusted())),
        ("; ", None),
        ("trains leave seldom", Some(untrusted())),
    ]);
    history.push_result(&Label::bottom(), ids[0], mail);
    history
}

fn lunch() -> Draft {
    draft("", &[("send", r#"{"body":"lunch noon sharp cantina"}"#)])
}

fn only(regions: &[u32]) -> Relevance {
    Relevance::Only(regions.iter().map(|region| RegionId(*region)).collect())
}

fn decided(screening: Screening) -> Relevance {
    match screening {
        Screening::Decided(relevance) => relevance,
        Screening::Consult(_) => panic!("nobody was to be asked"),
    }
}

#[test]
fn what_a_draft_repeats_is_relevant_and_so_is_the_tool_that_it_calls() {
    let screener = screener(&Arc::default());
    let verdict = |draft: &Draft| decided(screener.screen(&mails(), Some(draft), &nonce()));
    assert_eq!(verdict(&lunch()), only(&[0, 1, 4]));
    let trains = draft("", &[("delete", r#"{"what":"trains leave seldom"}"#)]);
    assert_eq!(verdict(&trains), only(&[2, 3, 5]));
    // The classifier knows nothing of answers: all that was read is relevant, no tool is.
    assert_eq!(verdict(&draft("I pass it on.", &[])), only(&[4, 5]));
    assert!(screener.computes());
}

#[test]
fn a_lower_threshold_never_takes_a_region_away() {
    let falling: Vec<f32> = (0..50).map(|it| 0.98 - it as f32 * 0.019).collect();
    let made = Arc::new(Classifier {
        thresholds: falling,
        ..by_sum()
    });
    let mut before = BTreeSet::new();
    for recall in [50, 70, 90, 99, 100] {
        let model: Arc<dyn Attend> = Arc::new(Model::default());
        let screener = AttentionScreener::new(model, Arc::new(WORDS), Arc::clone(&made)).unwrap();
        let screener = screener.with_recall(recall);
        let Relevance::Only(found) = decided(screener.screen(&mails(), Some(&lunch()), &nonce()))
        else {
            panic!("there are scores");
        };
        assert!(found.is_superset(&before), "{recall}");
        before = found;
    }
    // Beyond what there are thresholds for, everything that the model saw.
    assert!(before.contains(&RegionId(5)));
}

#[test]
fn whatever_cannot_be_told_is_relevant_and_the_reason_is_told() {
    let everything = |screener: AttentionScreener, draft: Option<&Draft>, why: &str| {
        let verdict = decided(screener.screen(&mails(), draft, &nonce()));
        assert_eq!(verdict, Relevance::Everything);
        let report = screener.report(&mails(), draft);
        assert!(report.scores.is_empty());
        let failure = report.failure.unwrap();
        assert!(failure.contains(why), "{failure}");
    };
    let works = || screener(&Arc::default());
    everything(works(), None, "no step was drafted");
    everything(works(), Some(&draft("", &[])), "the draft is empty");
    let long = draft(&"long ".repeat(300), &[("send", "{}")]);
    everything(
        works(),
        Some(&long),
        "more than the 512 that the screener reads",
    );
    let narrow = works().with_window(Window {
        context: 20,
        output: 15,
    });
    let short = draft("", &[("send", "{}")]);
    everything(narrow, Some(&short), "a window of 20 tokens is too small");
    let fails = Arc::new(Model {
        fails: true,
        ..Model::default()
    });
    everything(
        screener(&fails),
        Some(&lunch()),
        "the history has no tokens",
    );
    // Found out once, although it was asked for twice.
    assert_eq!(fails.runs.load(Ordering::Relaxed), 1);
}

#[test]
fn a_final_answer_is_not_read_however_long_it_is() {
    struct Unread;
    impl Encode for Unread {
        fn encode(&self, _: &str) -> Vec<screen::attention::Token> {
            panic!("nobody has to read this");
        }
        fn control(&self, _: &str) -> Option<u32> {
            None
        }
    }
    let model: Arc<dyn Attend> = Arc::new(Model::default());
    let screener = AttentionScreener::new(model, Arc::new(Unread), Arc::new(by_sum())).unwrap();
    let long = draft(&"long ".repeat(3000), &[]);
    let verdict = decided(screener.screen(&mails(), Some(&long), &nonce()));
    assert_eq!(verdict, only(&[4, 5]));
    let scores = screener.report(&mails(), Some(&long)).scores;
    let scores: Vec<f32> = scores.iter().map(|it| it.1).collect();
    assert_eq!(scores, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
}

#[test]
fn a_region_that_was_not_seen_is_relevant() {
    let mut history = mails();
    for _ in 0..2 {
        let read = ("read".to_owned(), text(&[("{}", None)]));
        let ids = history.push_assistant(&Label::bottom(), text(&[]), [read]);
        let news = text(&[(&"new ".repeat(100), Some(untrusted()))]);
        history.push_result(&Label::bottom(), ids[0], news);
    }
    let screener = screener(&Arc::default()).with_window(Window {
        context: 520,
        output: 60,
    });
    let verdict = decided(screener.screen(&history, Some(&lunch()), &nonce()));
    // All is cut but the newest, which has nothing to do with lunch.
    assert_eq!(verdict, only(&[0, 1, 4, 5, 6]));
    let scores = screener.report(&history, Some(&lunch())).scores;
    let scores: Vec<f32> = scores.iter().map(|it| it.1).collect();
    assert_eq!(scores[..7], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    assert!(scores[7] < 0.4);
}

#[test]
fn a_history_without_regions_costs_nothing() {
    let model = Arc::default();
    let mut history = History::default();
    history.push_user(text(&[("Hello.", None)]));
    let verdict = decided(screener(&model).screen(&history, None, &nonce()));
    assert_eq!(verdict, only(&[]));
    assert_eq!(model.runs.load(Ordering::Relaxed), 0);
    // Nothing has failed either.
    assert_eq!(screener(&model).report(&history, None), Report::default());
}

#[test]
fn the_same_step_is_computed_once_and_no_other_is_taken_for_it() {
    let model = Arc::default();
    let screener = screener(&model);
    let asked = || model.runs.load(Ordering::Relaxed);
    let verdict = decided(screener.screen(&mails(), Some(&lunch()), &nonce()));
    let again = decided(screener.screen(&mails(), Some(&lunch()), &nonce()));
    let report = screener.report(&mails(), Some(&lunch()));
    assert_eq!((verdict, report.scores.len(), asked()), (again, 6, 1));
    assert_eq!(report.failure, None);
    // Another draft, and another history.
    screener.screen(&mails(), Some(&draft("", &[("delete", "{}")])), &nonce());
    let mut history = mails();
    history.push_user(text(&[("And then?", Some(untrusted()))]));
    screener.screen(&history, Some(&lunch()), &nonce());
    assert_eq!(asked(), 3);
    // What is kept has a bound: the first step is forgotten some time.
    for step in 0..40 {
        let arguments = format!(r#"{{"step":{step}}}"#);
        let step = draft("", &[("delete", arguments.as_str())]);
        screener.screen(&mails(), Some(&step), &nonce());
    }
    screener.screen(&mails(), Some(&lunch()), &nonce());
    assert_eq!(asked(), 44);
}

#[test]
fn words_of_the_user_are_not_taken_for_a_result_with_the_same_words() {
    let model = Arc::default();
    let screener = screener(&model);
    let with = |result: bool| {
        let mut history = mails();
        let read = ("read".to_owned(), text(&[("{}", None)]));
        let ids = history.push_assistant(&Label::bottom(), text(&[]), [read]);
        match result {
            true => history.push_result(&Label::bottom(), ids[0], text(&[("news", None)])),
            false => history.push_user(text(&[("The tool read returned:\nnews", None)])),
        }
        history
    };
    screener.score(&with(true), &lunch()).unwrap();
    screener.score(&with(false), &lunch()).unwrap();
    assert_eq!(model.runs.load(Ordering::Relaxed), 2);
}

fn combined(model: &Arc<Model>, low: f32, high: f32) -> Combined {
    Combined::new(Arc::new(screener(model)), Band { low, high })
}

#[test]
fn the_judge_has_a_say_on_what_is_unsure_only() {
    // Nothing is sure but descriptions: 4 and 5 are left to the judge.
    let unsure = combined(&Arc::default(), 0.0, 1.1);
    let Screening::Consult(consultation) = unsure.screen(&mails(), Some(&lunch()), &nonce()) else {
        panic!("the judge was to be asked");
    };
    // Markers 1 and 2 are the tools, 3 and 4 the mails.
    let read = |answer: &str| unsure.read(&consultation, answer);
    assert_eq!(read(r#"{"relevant": [3]}"#), only(&[0, 1, 4]));
    assert_eq!(read(r#"{"relevant": [2, 4]}"#), only(&[0, 1, 5]));
    assert_eq!(read(r#"{"relevant": []}"#), only(&[0, 1]));
    assert_eq!(read("I do not know."), Relevance::Everything);
    assert_eq!(unsure.form(&consultation).schema, screen::LmJudge::SCHEMA);
}

#[test]
fn where_attention_is_sure_nobody_is_asked() {
    let sure = combined(&Arc::default(), 0.5, 0.5);
    assert_eq!(
        decided(sure.screen(&mails(), Some(&lunch()), &nonce())),
        only(&[0, 1, 4])
    );
}

#[test]
fn the_judge_decides_alone_where_there_are_no_scores() {
    let fails = Arc::new(Model {
        fails: true,
        ..Model::default()
    });
    for (screener, draft) in [
        (combined(&fails, 0.5, 0.5), Some(lunch())),
        (combined(&Arc::default(), 0.5, 0.5), None),
    ] {
        let Screening::Consult(consultation) = screener.screen(&mails(), draft.as_ref(), &nonce())
        else {
            panic!("the judge was to be asked");
        };
        let verdict = screener.read(&consultation, r#"{"relevant": [2, 4]}"#);
        assert_eq!(verdict, only(&[2, 3, 5]));
        // Whoever reads the trace is told why.
        assert!(screener.report(&mails(), draft.as_ref()).failure.is_some());
    }
}
