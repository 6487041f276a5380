//! Requests as clients write them, and what the upstream gets of each.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::apis::{APIS, Api};
use crate::stage::{serve, setup};
use test_support::{Upstream, says};

#[tokio::test]
async fn requests_of_clients_reach_the_upstream_as_ever() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for api in APIS {
        let folder = folder.join(match api {
            Api::Chat => "chat_completions",
            Api::Messages => "messages",
            Api::Responses => "responses",
        });
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let fixture = fs::read_to_string(&path).unwrap();
            let fixture: Value = serde_json::from_str(&fixture).unwrap();
            let upstream = Upstream::start(|_| says("Done."));
            let stage = serve(setup(&upstream)).await;
            let (status, answer) = api.raw(&stage, &fixture["request"]).await;
            assert_eq!(status, 200, "{}: {answer}", path.display());
            let sent = upstream.last().1;
            assert_eq!(sent, fixture["sent"], "{}: {sent}", path.display());
            count += 1;
        }
        assert!(count >= 3);
    }
}
