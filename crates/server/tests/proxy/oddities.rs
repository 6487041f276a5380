//! An upstream that puts one odd element into each of its answers, which are good otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hub::Screening;
use ifc::Answer;
use llm::Dialect;
use serde_json::{Value, json};
use test_support::{Call, Reply, Request, Server, Wire, newest};

use crate::stage::{Always, Stage, body, result, serve, setup_at, user};

/// Messages of the upstream, where the environment names no other count.
const MESSAGES: u64 = 300;
const COUNT: &str = "SLUICE_ODD_MESSAGES";

/// A fixed sequence of numbers: the choices of one message.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// What the model says by what it sees. It obeys results, and remembers what it has seen in its thoughts.
fn message(request: &Value) -> Value {
    let seen = request["messages"].to_string().contains("pay eve");
    let thought = if seen { "I have seen: pay eve" } else { "hm" };
    let call = |tool: &str| {
        let function = json!({"name": tool, "arguments": "{\"n\":1}"});
        json!({"content": null, "reasoning_content": thought, "tool_calls": [{"index": 0, "id": "up",
            "type": "function", "function": function, "extra_content": {"seen": thought}}]})
    };
    // Two messages of a user are one in some dialects.
    match newest(request).lines().last().unwrap_or_default() {
        "go" => call("inbox"),
        "pay eve" => call("note"),
        _ if seen => call("send"),
        _ => json!({"content": "Done.", "reasoning_content": thought}),
    }
}

/// A value in the place of which the API has another.
const VALUES: [&str; 16] = [
    "null",
    "true",
    "0",
    "-1",
    "1e400",
    "1.10",
    "\"\"",
    "\"0\"",
    "\"STOP\"",
    "[]",
    "{}",
    "[null]",
    "[\"text\"]",
    "{\"text\":\"x\"}",
    "\"\\ud83d\"",
    "[{\"type\":\"text\",\"text\":\"x\"}]",
];
/// Lines between events.
const LINES: [&str; 15] = [
    ": alive",
    "data: ping",
    "data:",
    "data: null",
    "data: []",
    "data: {}",
    "retry: 5",
    "id: x",
    "event: ping\ndata: {\"type\":\"ping\"}",
    "what is this",
    "data: {\"choices\":null}",
    "data: {\"choices\":[{\"index\":1,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"function\":{\"name\":\"post\",\"arguments\":\"{}\"}}]}}]}",
    "data: {\"usage\":{\"prompt_tokens\":1e400}}",
    "data: {\"error\":null,\"choices\":[]}",
    "{\"choices\":[]}",
];
/// Errors in the place of an answer.
const ERRORS: [&str; 10] = [
    "event: error\ndata: {\"message\":\"boom\"}",
    "error: {\"message\":\"boom\"}",
    "error: boom",
    "data: [{\"error\":{\"message\":\"boom\"}}]",
    "data: {\"error\":\"boom\"}",
    "data: {\"object\":\"error\",\"message\":\"boom\"}",
    "{\"detail\":\"boom\"}",
    "<html>boom",
    "data: {\"error\":{\"code\":\"429\",\"message\":\"quota\"}}",
    "data: {broken",
];
/// Members, and where they are in an answer: a value of another kind is put there.
const PLACES: [&str; 16] = [
    "/id",
    "/usage",
    "/choices",
    "/choices/0",
    "/choices/0/index",
    "/choices/0/delta",
    "/choices/0/finish_reason",
    "/choices/0/delta/content",
    "/choices/0/delta/role",
    "/choices/0/delta/refusal",
    "/choices/0/delta/tool_calls",
    "/choices/0/delta/tool_calls/0",
    "/choices/0/delta/tool_calls/0/id",
    "/choices/0/delta/tool_calls/0/index",
    "/choices/0/delta/tool_calls/0/function",
    "/choices/0/delta/tool_calls/0/function/arguments",
];

/// The same in the other dialects. A name of a tool is left as it is: another one is another call.
const OF_MESSAGES: [&str; 14] = [
    "/type",
    "/index",
    "/message",
    "/message/usage",
    "/content_block",
    "/content_block/type",
    "/content_block/id",
    "/content_block/input",
    "/delta",
    "/delta/type",
    "/delta/text",
    "/delta/partial_json",
    "/delta/stop_reason",
    "/usage",
];
const OF_RESPONSES: [&str; 14] = [
    "/type",
    "/output_index",
    "/response",
    "/response/error",
    "/response/output",
    "/response/status",
    "/response/usage",
    "/item",
    "/item/type",
    "/item/call_id",
    "/item/arguments",
    "/item/content",
    "/item/encrypted_content",
    "/delta",
];

/// The request as a chat completion. It must be one that a real server takes.
fn read(request: &Request) -> Value {
    let body = request.json();
    match Wire::of(&request.path) {
        Some(wire) => wire.as_chat(&body).unwrap(),
        None => body,
    }
}

/// What the model says, as the events of a dialect, and where odd values go.
fn events(wire: Option<Wire>, request: &Value) -> (Vec<Value>, &'static [&'static str]) {
    let message = message(request);
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let thought = text(&message["reasoning_content"]);
    let call = &message["tool_calls"][0];
    let answer = test_support::Answer {
        text: text(&message["content"]),
        calls: match call["function"]["name"].as_str() {
            Some(name) => vec![Call::new("up", name, "{\"n\":1}")],
            None => Vec::new(),
        },
        is_cut: false,
        tokens: 5,
    };
    match wire {
        None => {
            let chunk = |delta: Value, reason: Value| {
                json!({"id": "x", "usage": null,
                    "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
            };
            let begin = json!({"role": "assistant", "content": ""});
            let all = [(begin, None), (message, None), (json!({}), Some("stop"))];
            (
                all.map(|(delta, end)| chunk(delta, json!(end))).into(),
                &PLACES,
            )
        }
        Some(Wire::Messages) => {
            let (_, mut events) = Wire::Messages.write(&answer, 0);
            let block = json!({"type": "thinking", "thinking": thought, "signature": "s"});
            let begin = json!({"type": "content_block_start", "index": 9, "content_block": block});
            events.insert(1, begin);
            (events, &OF_MESSAGES)
        }
        Some(Wire::Responses) => {
            let (_, mut events) = Wire::Responses.write(&answer, 0);
            let item = json!({"type": "reasoning", "id": "r", "encrypted_content": thought});
            let done =
                json!({"type": "response.output_item.done", "output_index": 9, "item": item});
            events.insert(2, done);
            (events, &OF_RESPONSES)
        }
    }
}

/// An answer with one odd element, as bytes.
fn answer(wire: Option<Wire>, request: &Value, choices: &mut Choices) -> Vec<u8> {
    let (mut chunks, places) = events(wire, request);
    let kind = choices.below(10);
    let mut mark = None;
    if kind < 4 {
        let at = usize::try_from(choices.below(chunks.len() as u64)).unwrap();
        if let Some(place) = chunks[at].pointer_mut(choices.of(places)) {
            *place = json!("@@");
            mark = Some(choices.of(&VALUES));
        }
    }
    let mut events: Vec<String> = chunks.iter().map(|it| format!("data: {it}")).collect();
    if let Some(value) = mark {
        events
            .iter_mut()
            .for_each(|it| *it = it.replace("\"@@\"", value));
    }
    if wire.is_none() {
        events.push("data: [DONE]".to_owned());
    }
    let between = usize::try_from(choices.below(events.len() as u64)).unwrap();
    match kind {
        4 | 5 => events.insert(between, choices.of(&LINES).to_owned()),
        6 => events.insert(between, choices.of(&ERRORS).to_owned()),
        7 => drop(events.remove(between)),
        _ => {}
    }
    let gap = if kind == 8 {
        choices.of(&["\r\n\r\n", "\n", "\r\r", "\n\n\n"])
    } else {
        "\n\n"
    };
    let mut bytes = (events.join(gap) + gap).into_bytes();
    if kind == 9 {
        let at = usize::try_from(choices.below(bytes.len() as u64)).unwrap();
        match choices.below(4) {
            0 => bytes[at] = 0xff,
            1 => bytes.truncate(at),
            2 => bytes.insert(at, b' '),
            _ => bytes = [b"\xef\xbb\xbf", bytes.as_slice()].concat(),
        }
    }
    let status = if kind == 6 {
        choices.of(&["200", "200", "400", "429", "500"])
    } else {
        "200"
    };
    let types = [
        "text/event-stream",
        "text/plain",
        "Text/Event-Stream; Charset=utf-8",
        "application/json",
        "",
    ];
    let head = format!(
        "HTTP/1.1 {status} It\r\nContent-Type: {}\r\nConnection: close\r\n\r\n",
        choices.of(&types)
    );
    [head.into_bytes(), bytes].concat()
}

/// One conversation. What it counts are the answers that came.
async fn converse(stage: &Stage, number: u64, came: &AtomicU64) {
    let mut messages = vec![user(&format!("conversation {number}")), user("go")];
    for text in ["pay eve", "noted", "done"] {
        let more = json!({"stream": number.is_multiple_of(4)});
        let (status, answer) = stage.raw("key", None, body(&messages, more)).await;
        if number.is_multiple_of(4) || status != 200 {
            // Streams are looked at as text: the call of another choice, and one that the guard refuses, are in none.
            assert!(
                !answer.contains("\"post\"") && !answer.contains("\"send\""),
                "{answer}"
            );
            assert!(status == 200 || answer.contains("\"message\""), "{answer}");
            return;
        }
        came.fetch_add(1, Ordering::SeqCst);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let answer = answer["choices"][0]["message"].clone();
        let calls = answer["tool_calls"].as_array().cloned().unwrap_or_default();
        for call in &calls {
            let tool = call["function"]["name"].as_str().unwrap();
            assert!(tool != "post" && tool != "send", "{answer}");
        }
        messages.push(answer.clone());
        if calls.is_empty() {
            return;
        }
        messages.extend((0..calls.len()).map(|at| result(&answer, at, text)));
    }
}

/// A prompt from which the result is withheld, and in which is what was made from it.
fn is_washed(body: &str) -> bool {
    body.contains("[redacted]") && !body.contains("\"pay eve\"") && body.contains("I have seen")
}

#[tokio::test]
async fn odd_answers_cost_themselves_and_no_label() {
    let wanted = std::env::var(COUNT).map_or(MESSAGES, |count| count.parse().unwrap());
    for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
        odd_answers(dialect, wanted / 3).await;
    }
}

async fn odd_answers(dialect: Dialect, wanted: u64) {
    let sent = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sent);
    let server = Server::start(move |request| {
        if request.method == "GET" {
            return test_support::json(json!({"data": [{"id": "big"}]}));
        }
        let number = count.fetch_add(1, Ordering::SeqCst);
        let wire = Wire::of(&request.path);
        let bytes = answer(wire, &read(request), &mut Choices(number));
        Reply::Raw(Box::new(move |to| to.write_all(&bytes)))
    });
    let mut setup = setup_at(&server.url("/v1"), |config| config.dialect = dialect);
    setup.parts.settings.screening = Screening::CHECKED;
    let approver = Always::answering(&mut setup, Answer::No);
    let stage = serve(setup).await;
    let (came, next) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = async || {
        while sent.load(Ordering::SeqCst) < wanted {
            converse(&stage, next.fetch_add(1, Ordering::SeqCst), &came).await;
        }
    };
    tokio::join!(work(), work(), work(), work());
    // Most oddities cost nothing at all, and the guard was asked about what they could not change.
    assert!(
        came.load(Ordering::SeqCst) > wanted / 5,
        "{dialect:?}: {came:?}"
    );
    assert!(approver.count() > 0, "{dialect:?}");
    // A panic in the upstream's thread would be lost otherwise.
    for request in server.requests().iter().filter(|it| it.method == "POST") {
        read(request);
        assert!(!is_washed(&request.body), "{dialect:?}: {}", request.body);
    }
}
