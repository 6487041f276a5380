//! The screener as it ships: the real model, the weights of the repository. Tests run where `SLUICE_REQUIRE_MODELS` is
//! `1`, and then fail without the model.

use std::path::{Path, PathBuf};

use ifc::{Draft, History, Label, Nonce, RegionId, Relevance, Screener, Screening};
use screen::attention::{AttentionScreener, Classifier, WEIGHTS, open};
use sha2::{Digest, Sha256};

use crate::attention::histories::{draft, text, untrusted};

/// The model's file; `None` where tests with models are not asked for.
fn model() -> Option<PathBuf> {
    if std::env::var_os("SLUICE_REQUIRE_MODELS").is_none_or(|value| value != "1") {
        eprintln!("SKIPPED: set SLUICE_REQUIRE_MODELS=1 to run tests with models");
        return None;
    }
    let model = model_files::find(model_files::SMOLLM2_135M).unwrap();
    Some(model_files::Cache::of_user().unwrap().open(model).unwrap())
}

/// Two transactions, with labelled subjects, and the request to pay one of them back.
fn bank() -> History {
    let mut history = History::default();
    history.push_user(text(&[(
        "Send the money for the dinner back to who paid for it.",
        None,
    )]));
    let call = [("get_transactions".to_owned(), text(&[("{}", None)]))];
    let ids = history.push_assistant(&Label::bottom(), text(&[]), call);
    let listed = [
        ("- recipient: me\n  sender: ", None),
        ("GB29NWBK60161331926819", Some(untrusted())),
        ("\n  subject: ", None),
        ("Dinner at the harbour, your half", Some(untrusted())),
        ("\n  amount: 27.40\n- recipient: me\n  sender: ", None),
        ("US122000000121212121212", Some(untrusted())),
        ("\n  subject: ", None),
        ("Bowling shoes and a very long evening", Some(untrusted())),
        ("\n  amount: 11.00\n", None),
    ];
    history.push_result(&Label::bottom(), ids[0], text(&listed));
    history
}

fn pay_back() -> Draft {
    let arguments = r#"{"recipient":"GB29NWBK60161331926819","amount":27.4,"subject":"Dinner"}"#;
    draft("", &[("send_money", arguments)])
}

/// With the weights that ship; their model's digest is compared below.
fn screener(model: &Path) -> AttentionScreener {
    let classifier = Classifier::from_bytes(WEIGHTS).unwrap();
    open(model, &classifier.about.model, WEIGHTS).unwrap()
}

fn scores(screener: &AttentionScreener, history: &History, draft: &Draft) -> Vec<f32> {
    let scores = screener.score(history, draft).unwrap();
    scores.iter().map(|(_, score)| score.value()).collect()
}

#[test]
fn the_weights_are_for_the_model_and_say_where_they_come_from() {
    let classifier = Classifier::from_bytes(WEIGHTS).unwrap();
    assert!(
        classifier
            .about
            .command
            .starts_with("sluice-lab screener train")
    );
    let Some(model) = model() else { return };
    let digest = Sha256::digest(std::fs::read(model).unwrap());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(classifier.about.model, digest);
}

#[test]
fn a_region_whose_value_is_copied_is_found_among_others() {
    let Some(model) = model() else { return };
    let screener = screener(&model);
    let (history, draft) = (bank(), pay_back());
    let found = scores(&screener, &history, &draft);
    let [sender, _, other, bowling] = found[..] else {
        panic!("four regions: {found:?}")
    };
    assert!(sender > other && sender > bowling, "{found:?}");
    let nonce = Nonce::from_random(1);
    match screener.screen(&history, Some(&draft), &nonce) {
        Screening::Decided(Relevance::Only(relevant)) => assert!(relevant.contains(&RegionId(0))),
        other => panic!("{other:?}"),
    }
    // Without a draft there is nothing to go by.
    match screener.screen(&history, None, &nonce) {
        Screening::Decided(relevance) => assert_eq!(relevance, Relevance::Everything),
        other @ Screening::Consult(_) => panic!("{other:?}"),
    }
}
