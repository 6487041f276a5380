//! JSON of a schema from servers that know some ways to ask for it, and not others.

use std::sync::Arc;

use hub::{AnswerShape, Completion, StopReason};
use ifc::{History, Label, Labeled, redact};
use llm::{Broker, OpenAi, ProviderError};
use serde_json::{Value, json};

use crate::misbehaving::{Reply, Server};
use crate::{chunk, config, request};

const PROSE: &str = "Sure! I would write \"See you at ten\".";

fn schema() -> Value {
    json!({"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"],
        "additionalProperties": false})
}

/// An answer in words.
fn says(text: &str) -> Reply {
    ends(text, "stop")
}

fn ends(text: &str, finish: &str) -> Reply {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2}});
    let stream = chunk(json!({"content": text}), Some(finish));
    Reply::stream(&format!("{stream}data: {usage}\n\ndata: [DONE]\n\n"))
}

fn calls(tool: &str, arguments: &Value) -> Reply {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let delta = json!({"tool_calls": [{"index": 0, "id": "x", "function": function}]});
    let stream = chunk(delta, Some("tool_calls"));
    Reply::stream(&format!("{stream}data: [DONE]\n\n"))
}

fn fit() -> Reply {
    says(r#"{"value":"ten"}"#)
}

fn call() -> Reply {
    calls("answer", &json!({"value": "ten"}))
}

fn refuses(status: u16) -> Reply {
    let error =
        json!({"error": {"message": "this is not available", "type": "invalid_request_error"}});
    Reply::json(status, "", &error)
}

/// The way in which a request asks for JSON: it is one, and holds to what it is.
fn form(body: &[u8]) -> &'static str {
    let body: Value = serde_json::from_slice(body).unwrap();
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let in_words = last["content"]
        .as_str()
        .unwrap()
        .contains(&schema().to_string());
    let names = body["tools"].as_array().unwrap().iter();
    let names: Vec<&str> = names
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    match (&body["response_format"], in_words, names.as_slice()) {
        (Value::Object(format), false, ["mail_send_1"]) => {
            assert_eq!(body["tool_choice"], "none");
            assert_eq!(format["json_schema"]["schema"], schema());
            "format"
        }
        (Value::Null, false, ["answer"]) => {
            let choice = json!({"type": "function", "function": {"name": "answer"}});
            assert_eq!(body["tool_choice"], choice);
            assert_eq!(body["tools"][0]["function"]["parameters"], schema());
            "call"
        }
        (Value::Null, true, ["mail_send_1"]) => {
            assert_eq!(
                (&body["tool_choice"], &last["role"]),
                (&json!("none"), &json!("user"))
            );
            "words"
        }
        other => panic!("{other:?}"),
    }
}

/// Asks twice, and says what came and in which ways it was asked for.
async fn asked(replies: Vec<Reply>) -> (Vec<Result<Completion, ProviderError>>, Vec<&'static str>) {
    let server = Server::start(replies).await;
    let broker = broker(&server);
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut streamed = String::new();
        let answer = broker
            .complete(&wanted(&Label::bottom()), &mut streamed)
            .await;
        let answer = answer.map(|answer| answer.completion);
        if let Ok(completion) = &answer {
            assert_eq!(
                streamed, completion.text,
                "what was streamed is not the answer"
            );
        }
        answers.push(answer);
    }
    (answers, forms(&server))
}

fn broker(server: &Server) -> Broker {
    let provider = OpenAi::new(config(&server.base_url)).unwrap();
    Broker::new(Arc::new(provider), Label::top())
}

fn forms(server: &Server) -> Vec<&'static str> {
    (0..server.count())
        .map(|at| form(&server.request(at).body))
        .collect()
}

/// A request for JSON whose prompt has this label.
fn wanted(label: &Label) -> hub::CompletionRequest {
    let schema = schema().to_string();
    let mut wanted = request(AnswerShape::Json { schema });
    let mut history = History::new(vec![ifc::Tool {
        label: Label::bottom(),
        name: "mail.send".to_owned(),
        description: Labeled::trusted_tcb("Sends."),
        parameters: Labeled::trusted_tcb(r#"{"type":"object"}"#),
    }]);
    history.push_user(Labeled::trusted_tcb("When?"));
    wanted.prompt = redact(&history, label);
    wanted
}

/// Both answers are the value, and these were the ways to them.
async fn check(name: &str, replies: Vec<Reply>, expected: &[&str]) {
    let (answers, forms) = asked(replies).await;
    for answer in answers {
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        let value: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(
            (value, answer.calls.len()),
            (json!({"value": "ten"}), 0),
            "{name}"
        );
    }
    assert_eq!(forms, expected, "{name}");
}

#[tokio::test]
async fn a_server_that_holds_to_a_schema_is_asked_once() {
    check("format", vec![fit(), fit()], &["format", "format"]).await;
    let fenced = || says("```json\n{\"value\": \"ten\"}\n```");
    check("fenced", vec![fenced(), fenced()], &["format", "format"]).await;
}

/// Each way of not knowing `response_format`: it is asked for by a call then, and from the start the next time.
#[tokio::test]
async fn a_server_that_does_not_know_schemas_is_asked_for_a_call() {
    let ways = ["format", "call", "call"];
    for status in [400, 404, 422] {
        check("refused", vec![refuses(status), call(), call()], &ways).await;
    }
    let reported = Reply::json(
        200,
        "",
        &json!({"error": {"message": "unknown: response_format"}}),
    );
    check("reported", vec![reported, call(), call()], &ways).await;
    check("passed over", vec![says(PROSE), call(), call()], &ways).await;
    let cut = ends("I think that the value", "length");
    check("passed over and cut", vec![cut, call(), call()], &ways).await;
    let other = says(r#"{"answer":"ten"}"#);
    check("any JSON object", vec![other, call(), call()], &ways).await;
    let list = says(r#"{"value":["ten"]}"#);
    check("another type", vec![list, call(), call()], &ways).await;
    let another = calls("mail_send_1", &json!({"value": "ten"}));
    check(
        "a call of another tool",
        vec![another, call(), call()],
        &ways,
    )
    .await;
}

#[tokio::test]
async fn a_server_that_knows_no_forced_calls_is_asked_in_words() {
    let ways = ["format", "call", "words", "words"];
    let refused = vec![refuses(400), refuses(400), fit(), fit()];
    check("refused", refused, &ways).await;
    let passed_over = vec![refuses(400), says(PROSE), fit(), fit()];
    check("passed over", passed_over, &ways).await;
    let misfit = calls("answer", &json!({"value": 10}));
    check(
        "another type",
        vec![refuses(400), misfit, fit(), fit()],
        &ways,
    )
    .await;
    // Whoever writes the JSON where a call was asked for has written it.
    check(
        "text",
        vec![refuses(400), fit(), fit()],
        &["format", "call", "call"],
    )
    .await;
}

/// What is of no schema goes to whoever asked as it is, and is refused there.
#[tokio::test]
async fn what_no_way_brings_is_not_made_up() {
    let replies = vec![refuses(400), says(PROSE), says(PROSE), says(PROSE)];
    let (answers, forms) = asked(replies).await;
    for answer in answers {
        assert_eq!(answer.unwrap().text, PROSE);
    }
    assert_eq!(forms, ["format", "call", "words", "words"]);
    // JSON before or after words is none.
    let around = "The value is {\"value\":\"ten\"}";
    let (answers, _) = asked(vec![refuses(400), refuses(400), says(around), says(around)]).await;
    assert_eq!(answers[0].as_ref().unwrap().text, around);
}

/// A refusal that has another reason is the answer, and says nothing of the ways to ask.
#[tokio::test]
async fn a_refusal_in_every_way_is_about_something_else() {
    let replies = vec![refuses(400), refuses(400), refuses(400), fit()];
    let (answers, forms) = asked(replies).await;
    let error = answers[0].as_ref().unwrap_err().to_string();
    assert!(
        error.contains("status 400: this is not available"),
        "{error}"
    );
    assert!(answers[1].is_ok());
    assert_eq!(forms, ["format", "call", "words", "format"]);
    // What is none of the schema's business is not asked for in another way.
    let (answers, forms) = asked(vec![refuses(401), fit()]).await;
    assert!(answers[0].is_err());
    assert_eq!(forms, ["format", "format"]);
}

/// What passes says nothing of what the server knows, though it comes with status 200.
#[tokio::test]
async fn an_outage_is_not_taken_for_a_way_that_is_not_known() {
    let error = json!({"error": {"message": "behind", "code": 502}});
    let down = Reply::json(200, "", &error);
    let ways = ["format"; 3];
    check("passing", vec![down.clone(), fit(), fit()], &ways).await;
    let replies = vec![down.clone(), down.clone(), down, fit()];
    let (answers, forms) = asked(replies).await;
    assert!(answers[0].as_ref().unwrap_err().is_outage());
    assert!(answers[1].is_ok());
    assert_eq!(forms, ["format"; 4]);
    // Whoever had begun to answer knew the way in which it was asked, whatever error came then.
    for error in [
        json!({"message": "it broke"}),
        json!({"message": "it broke", "code": 400}),
    ] {
        let begun = chunk(json!({"content": "{"}), None);
        let error = json!({ "error": error });
        let broke = Reply::stream(&format!("{begun}data: {error}\n\n"));
        let (answers, forms) = asked(vec![broke, fit()]).await;
        assert!(answers[0].is_err() && answers[1].is_ok());
        assert_eq!(forms, ["format"; 2]);
    }
}

/// One answer of another form is no reason to give up the strictest way, unless another way does better.
#[tokio::test]
async fn a_slip_is_not_remembered() {
    let misfit = says(r#"{"value":10}"#);
    let wrong = calls("answer", &json!({"value": 10}));
    let (answers, forms) = asked(vec![misfit.clone(), wrong, misfit.clone(), fit()]).await;
    assert_eq!(answers[0].as_ref().unwrap().text, r#"{"value":10}"#);
    assert_eq!(forms, ["format", "call", "words", "format"]);
}

#[tokio::test]
async fn a_model_that_will_not_answer_is_not_asked_again() {
    let no = chunk(json!({"refusal": "I cannot help with that."}), Some("stop"));
    let declined = Reply::stream(&format!("{no}data: [DONE]\n\n"));
    let (answers, forms) = asked(vec![declined, fit()]).await;
    assert_eq!(
        answers[0].as_ref().unwrap().text,
        "I cannot help with that."
    );
    assert_eq!(forms, ["format", "format"]);
    let filtered = ends("I", "content_filter");
    assert_eq!(asked(vec![filtered, fit()]).await.1, ["format", "format"]);
    let cut = ends(r#"{"value":"te"#, "length");
    let (answers, forms) = asked(vec![cut, fit()]).await;
    assert_eq!(answers[0].as_ref().unwrap().stop, StopReason::Length);
    assert_eq!(forms, ["format", "format"]);
}

/// All that was asked for is paid for.
#[tokio::test]
async fn every_way_that_was_tried_counts() {
    let (answers, _) = asked(vec![says(PROSE), says(PROSE), fit(), fit()]).await;
    let spent = |at: usize| {
        let usage = answers[at].as_ref().unwrap().usage;
        (usage.prompt_tokens, usage.completion_tokens)
    };
    assert_eq!((spent(0), spent(1)), ((30, 6), (10, 2)));
    let usage = answers[0].as_ref().unwrap().usage;
    assert!(usage.time_to_first_token.unwrap() <= usage.total_time);
}

/// What a model answers to a stranger's words does not change how it is asked where there are none.
#[tokio::test]
async fn a_prompt_is_asked_as_the_prompts_below_it_have_shown() {
    let replies = vec![says(PROSE), call(), fit(), refuses(400), call(), call()];
    let server = Server::start(replies).await;
    let broker = broker(&server);
    let lattice = ifc::Lattice::four_point();
    let mail = lattice.label("untrusted").unwrap();
    let bottom = Label::bottom();
    for label in [&mail, &bottom, &bottom, &Label::top()] {
        let answer = broker.complete(&wanted(label), &mut String::new()).await;
        assert!(answer.unwrap().completion.text.contains("ten"));
    }
    let expected = ["format", "call", "format", "format", "call", "call"];
    assert_eq!(forms(&server), expected);
}

/// The call that asks for JSON is read by the schema, which an empty object can be of.
#[tokio::test]
async fn json_that_was_cut_off_before_it_came_is_none() {
    let open = json!({"type": "object", "properties": {"value": {"type": "string"}}});
    let function = json!({"name": "answer", "arguments": ""});
    let delta = json!({"tool_calls": [{"index": 0, "id": "x", "function": function}]});
    for (reason, expected) in [("tool_calls", "{}"), ("length", "")] {
        let stream = chunk(delta.clone(), Some(reason));
        let cut = Reply::stream(&format!("{stream}data: [DONE]\n\n"));
        let server = Server::start(vec![refuses(400), cut]).await;
        let request = request(AnswerShape::Json {
            schema: open.to_string(),
        });
        let answer = broker(&server).complete(&request, &mut String::new()).await;
        assert_eq!(answer.unwrap().completion.text, expected, "{reason}");
    }
}
