//! Entries are in the store before what follows from them is done.

use std::time::Duration;

use server::audit::{Audit, AuditSetup, Entry, Head, Note};
use store::{ChainId, Time};
use test_support::Postgres;

use crate::{Place, decision, keys};

async fn entries(place: &Place) -> Vec<Entry> {
    let log = place.log().await;
    let mut after = (Time::from_millis(0), ChainId::from_bytes([0; 16]), 0);
    let mut all = Vec::new();
    loop {
        let page = log.read(after).await.unwrap();
        let Some((chain, last)) = page.last() else {
            return all;
        };
        after = (last.at, *chain, last.number);
        let page = page
            .iter()
            .map(|it| serde_json::from_str::<Entry>(&it.1.text));
        all.extend(page.map(Result::unwrap));
    }
}

async fn writes_together(place: Place) {
    let audit = place.audit().await;
    let writers = (0..16).map(|writer| {
        let audit = audit.clone();
        tokio::spawn(async move {
            for number in 0..100 {
                audit.note(decision(writer * 100 + number));
                audit.written().await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    audit.close(Note::new("stop", "done")).await.unwrap();
    assert!(audit.written().await.is_err(), "the chain is closed");
    // A chain begins with the ends of those before it.
    place.chain(2).await;
    let entries = entries(&place).await;
    assert_eq!(entries.len(), 1603);
    let second = entries
        .iter()
        .find(|entry| !entry.after.is_empty())
        .unwrap();
    assert_eq!((second.number, second.after[0].number), (1, 1601));
    let report = place.verify().await;
    assert_eq!(report.faults, []);
    assert_eq!(
        (report.chains, report.entries, report.open.len()),
        (2, 1603, 0)
    );
    assert!(report.witnessed >= 4, "{}", report.witnessed);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_conversations_share_commits() {
    writes_together(Place::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_conversations_share_commits_of_postgresql() {
    let Some(server) = Postgres::fast() else {
        return;
    };
    writes_together(Place::postgres(&server)).await;
}

#[test]
fn a_crash_leaves_what_was_acknowledged_and_no_closing_head() {
    let place = Place::sqlite();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let audit = runtime.block_on(async {
        let audit = place.audit().await;
        for number in 0..5 {
            audit.note(decision(number));
            audit.written().await.unwrap();
        }
        for number in 5..500 {
            audit.note(decision(number));
        }
        audit
    });
    // The writer ends wherever it is.
    runtime.shutdown_background();
    drop(audit);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let report = place.verify().await;
        assert_eq!(report.faults, []);
        let number = report.open[0].0.number;
        assert_eq!(report.open.len(), 1);
        assert!(number >= 5 && number == report.entries, "{report:?}");
        // The next start names where it ended.
        place.chain(1).await;
        let entries = entries(&place).await;
        assert_eq!(entries.last().unwrap().after[0].number, number);
    });
}

#[tokio::test]
async fn nothing_is_written_while_the_database_is_gone_and_all_of_it_after() {
    let Some(server) = Postgres::fast() else {
        return;
    };
    let place = Place::postgres(&server);
    let audit = place.audit().await;
    audit.note(decision(1));
    audit.written().await.unwrap();
    server.stop();
    audit.note(decision(2));
    let error = audit.written().await.unwrap_err();
    assert!(error.contains("the audit log"), "{error}");
    audit.note(decision(3));
    audit.written().await.unwrap_err();
    server.start_again();
    let mut attempts = 0;
    while audit.written().await.is_err() {
        attempts += 1;
        assert!(attempts < 100);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let report = place.verify().await;
    assert_eq!((report.entries, report.faults), (3, vec![]));
}

#[tokio::test]
async fn a_head_that_cannot_be_written_outside_the_store_is_a_failure() {
    let place = Place::sqlite();
    let audit = place.audit().await;
    std::fs::create_dir(place.heads()).unwrap();
    audit.note(decision(1));
    let error = audit.written().await.unwrap_err();
    assert!(error.contains("audit.heads"), "{error}");
    std::fs::remove_dir(place.heads()).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    audit.written().await.unwrap();
    assert_eq!(place.witnessed().len(), 1);
}

async fn removes_the_old(place: Place) {
    place.chain(3).await;
    let setup = AuditSetup {
        heads: Some(place.heads()),
        // Each entry has a chain of its own.
        chain_time: Duration::ZERO,
    };
    let audit = Audit::open(place.log().await, keys().into(), setup);
    for number in 0..3 {
        audit.note(decision(number));
        audit.written().await.unwrap();
    }
    let report = place.verify().await;
    assert_eq!(report.faults, []);
    assert!(report.chains >= 3, "{report:?}");
    let ends = entries(&place).await;
    let last = ends.last().unwrap();
    let removed = audit.remove_before(last.at).await.unwrap();
    assert!(removed >= 3, "{removed}");
    audit.note(decision(4));
    audit.written().await.unwrap();
    let report = place.verify().await;
    assert_eq!(report.faults, []);
    assert!(report.removed >= 1, "{report:?}");
    let left = entries(&place).await;
    assert!(
        left.iter().all(|entry| entry.note.kind != "stop"),
        "{left:?}"
    );
    assert_eq!(audit.remove_before(last.at).await.unwrap(), 0);
}

#[tokio::test]
async fn old_chains_are_removed_and_their_heads_stay() {
    removes_the_old(Place::sqlite()).await;
    if let Some(server) = Postgres::fast() {
        removes_the_old(Place::postgres(&server)).await;
    }
}

#[test]
fn keys_follow_from_the_secret_alone() {
    assert_eq!(keys().public(), keys().public());
    assert_ne!(keys().digest("a"), keys().digest("b"));
    let others = server::audit::AuditKeys::new(b"another secret of one").unwrap();
    assert_ne!(keys().public(), others.public());
    assert_ne!(keys().digest("a"), others.digest("a"));
    assert!(server::audit::AuditKeys::new(b"short").is_err());
    assert_eq!(Head::read("{}"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_clean_end_closes_its_chain() {
    let place = Place::sqlite();
    for _ in 0..50 {
        place.chain(1).await;
    }
    let report = place.verify().await;
    assert_eq!((report.chains, report.open.len()), (50, 0));
}
