//! The program as `sluice` starts it, and its client.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;

use llm::Embedded;
use llm::conformance::conformance;
use model_files::protocol::{self, Event};
use model_files::{Cache, SMOLLM2_135M, find};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sluice-model");

#[tokio::test(flavor = "multi_thread")]
async fn the_client_passes_the_suite() {
    if std::env::var_os("SLUICE_REQUIRE_MODELS").is_none_or(|value| value != "1") {
        eprintln!("SKIPPED: set SLUICE_REQUIRE_MODELS=1 to run tests with models");
        return;
    }
    let model = find(SMOLLM2_135M).unwrap();
    let file = Cache::of_user().unwrap().open(model).unwrap();
    let client = Embedded::new("embedded", PROGRAM, file);
    assert_eq!(conformance(Arc::new(client)).await, []);
}

#[test]
fn it_ends_when_the_socket_closes() {
    let (socket, other) = UnixStream::pair().unwrap();
    let mut child = Command::new(PROGRAM)
        .arg("/no/such/model.gguf")
        .stdin(Stdio::from(OwnedFd::from(other)))
        .spawn()
        .unwrap();
    match protocol::read(&socket).unwrap() {
        Event::Unusable(reason) => assert!(reason.contains("there is no such file"), "{reason}"),
        other => panic!("{other:?}"),
    }
    drop(socket);
    assert!(child.wait().unwrap().success());
}
