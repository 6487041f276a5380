//! The limit on generated tokens, which models call by two names.

use std::sync::Arc;

use hub::AnswerShape;
use ifc::Label;
use llm::{ApiKey, Broker, OpenAi, ProviderError, RequestOptions, TokenLimit};
use serde_json::{Value, json};

use crate::misbehaving::{Reply, Server};
use crate::{config, request, text_stream};

/// What OpenAI's newer models say to `max_tokens`.
fn refuses() -> Reply {
    fails(
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "unsupported_parameter",
    )
}

fn fails(message: &str, code: &str) -> Reply {
    let error = json!({"message": message, "type": "invalid_request_error", "code": code});
    Reply::json(400, "", &json!({"error": error}))
}

fn answers() -> Reply {
    Reply::stream(&text_stream())
}

/// The limits of the requests so far, by name.
fn limits(server: &Server) -> Vec<Value> {
    let limit = |at: usize| {
        let body: Value = serde_json::from_slice(&server.request(at).body).unwrap();
        let names = ["max_tokens", "max_completion_tokens"];
        let named = names.map(|name| body.get(name).map(|limit| (name.to_owned(), limit.clone())));
        Value::from_iter(named.into_iter().flatten())
    };
    (0..server.count()).map(limit).collect()
}

/// Asks two times, and says what came and which limits were sent.
async fn asked_twice(
    limit: TokenLimit,
    replies: Vec<Reply>,
) -> (Vec<Result<String, ProviderError>>, Vec<Value>) {
    let server = Server::start(replies).await;
    let provider = OpenAi::new(config(&server.base_url)).unwrap();
    let broker = Broker::new(Arc::new(provider), Label::bottom());
    let options = RequestOptions {
        token_limit: limit,
        ..RequestOptions::default()
    };
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut streamed = String::new();
        let request = request(AnswerShape::TextOrCalls);
        let answer = broker
            .complete_with(&request, &options, &mut streamed)
            .await;
        answers.push(answer.map(|answer| answer.completion.text));
    }
    (answers, limits(&server))
}

#[tokio::test]
async fn a_limit_has_the_name_that_the_model_takes() {
    let (old, new) = (
        json!({"max_tokens": 7}),
        json!({"max_completion_tokens": 7}),
    );
    for (replies, expected) in [
        // Found out once.
        (
            vec![refuses(), answers(), answers()],
            vec![&old, &new, &new],
        ),
        // The usual name first: many servers pass over the other one, and would generate without a limit.
        (vec![answers(), answers()], vec![&old, &old]),
    ] {
        let (answers, limits) = asked_twice(TokenLimit::Request, replies).await;
        assert_eq!(answers, [Ok("Héllo".to_owned()), Ok("Héllo".to_owned())]);
        assert_eq!(limits.iter().collect::<Vec<_>>(), expected);
    }
}

/// By the server's own words: in those of an error they are cut, and what is equal to the key is taken out.
#[tokio::test]
async fn the_name_of_a_limit_is_found_whatever_the_key_and_however_late() {
    let late = format!("{}Use 'max_completion_tokens'.", "No, sorry. ".repeat(50));
    for (key, message) in [
        ("token", "Use 'max_completion_tokens'."),
        ("sk-1", late.as_str()),
    ] {
        let server = Server::start(vec![fails(message, "x"), answers()]).await;
        let mut config = config(&server.base_url);
        config.api_key = Some(ApiKey::new(key));
        let broker = Broker::new(Arc::new(OpenAi::new(config).unwrap()), Label::bottom());
        let request = request(AnswerShape::TextOrCalls);
        let answer = broker.complete(&request, &mut String::new()).await;
        assert_eq!(answer.unwrap().completion.text, "Héllo");
        let names = [
            json!({"max_tokens": 7}),
            json!({"max_completion_tokens": 7}),
        ];
        assert_eq!(limits(&server), names);
    }
}

#[tokio::test]
async fn a_limit_that_is_refused_by_any_name_is_no_question_of_its_name() {
    let (old, new) = (
        json!({"max_tokens": 7}),
        json!({"max_completion_tokens": 7}),
    );
    let too_large = |name: &str| fails(&format!("{name} is too large"), "invalid_value");
    // Nothing is remembered of it.
    let first = "'max_tokens' or 'max_completion_tokens'";
    let replies = vec![
        too_large(first),
        too_large("'max_completion_tokens'"),
        answers(),
    ];
    let (answers, limits) = asked_twice(TokenLimit::Request, replies).await;
    let said = answers[0].as_ref().unwrap_err().to_string();
    assert!(said.contains(&format!("{first} is too large")), "{said}");
    assert_eq!(answers[1], Ok("Héllo".to_owned()));
    assert_eq!(limits, [old.clone(), new, old.clone()]);

    let replies = vec![too_large("max_tokens"), self::answers()];
    let (answers, limits) = asked_twice(TokenLimit::Request, replies).await;
    assert!(answers[0].is_err());
    assert_eq!(limits, [old.clone(), old]);
}

/// Whoever wrote the program that asks has chosen the name, and hears what the server says to it.
#[tokio::test]
async fn a_limit_of_the_callers_is_sent_as_it_is() {
    let replies = vec![refuses(), answers()];
    let (answers, limits) = asked_twice(TokenLimit::MaxTokens(9), replies).await;
    let said = answers[0].as_ref().unwrap_err().to_string();
    assert!(said.contains("Use 'max_completion_tokens'"), "{said}");
    assert_eq!(answers[1], Ok("Héllo".to_owned()));
    assert_eq!(limits, [json!({"max_tokens": 9}), json!({"max_tokens": 9})]);
}

/// JSON is asked for in several ways, of which a refusal for another reason counts as none.
#[tokio::test]
async fn a_limit_by_the_other_name_is_not_taken_for_json_that_a_model_does_not_know() {
    let value = r#"{"value":"ten"}"#;
    let fit = || {
        let stream = crate::chunk(json!({"content": value}), Some("stop"));
        Reply::stream(&format!("{stream}data: [DONE]\n\n"))
    };
    let server = Server::start(vec![refuses(), fit(), fit()]).await;
    let provider = OpenAi::new(config(&server.base_url)).unwrap();
    let broker = Broker::new(Arc::new(provider), Label::bottom());
    let schema = json!({"type": "object", "properties": {"value": {"type": "string"}},
        "required": ["value"], "additionalProperties": false});
    let request = request(AnswerShape::Json {
        schema: schema.to_string(),
    });
    for _ in 0..2 {
        let answer = broker.complete(&request, &mut String::new()).await;
        assert_eq!(answer.unwrap().completion.text, value);
    }
    assert_eq!(server.count(), 3);
    for at in 0..3 {
        let body: Value = serde_json::from_slice(&server.request(at).body).unwrap();
        assert!(body.get("response_format").is_some(), "{body}");
    }
}
