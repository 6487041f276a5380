//! JSON of a schema, asked for in each of the three forms; and the name of the limit on tokens.

use std::sync::Arc;

use hub::{AnswerShape, Completion, StopReason};
use ifc::Label;
use llm::{
    Broker, Dialect, HttpConfig, HttpProvider, JsonForm, ProviderError, RequestOptions, TokenLimit,
};
use serde_json::{Value, json};

use crate::misbehaving::{Reply, Server};
use crate::{chunk, config, request, text_stream};

fn schema() -> Value {
    json!({"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"],
        "additionalProperties": false})
}

fn ends(text: &str, finish: &str) -> Reply {
    let stream = chunk(json!({"content": text}), Some(finish));
    Reply::stream(&format!("{stream}data: [DONE]\n\n"))
}

fn calls(tool: &str, arguments: &str, finish: &str) -> Reply {
    let function = json!({"name": tool, "arguments": arguments});
    let delta = json!({"tool_calls": [{"index": 0, "id": "x", "function": function}]});
    let stream = chunk(delta, Some(finish));
    Reply::stream(&format!("{stream}data: [DONE]\n\n"))
}

/// Asks for JSON of a schema in this form; the request's body comes along.
async fn asked(
    form: JsonForm,
    schema: &Value,
    reply: Reply,
) -> (Result<Completion, ProviderError>, Value) {
    let server = Server::start(vec![reply]);
    let mut config = config(&server.base_url);
    config.json = form;
    let broker = Broker::new(
        Arc::new(HttpProvider::new(config).unwrap()),
        Label::bottom(),
    );
    let request = request(AnswerShape::Json {
        schema: schema.to_string(),
    });
    let mut streamed = String::new();
    let answer = broker.complete(&request, &mut streamed).await;
    let answer = answer.map(|answer| answer.completion);
    if let Ok(completion) = &answer {
        assert_eq!(streamed, completion.text);
    }
    let body = server.request(0).json();
    (answer, body)
}

#[tokio::test]
async fn each_form_asks_in_its_own_way() {
    let fit = ends(r#"{"value":"ten"}"#, "stop");
    let names = |body: &Value| -> Vec<String> {
        let tools = body["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let words = |body: &Value| {
        let last = body["messages"].as_array().unwrap().last().unwrap();
        last["content"].as_str().unwrap().contains("JSON Schema:")
    };
    let (_, body) = asked(JsonForm::Schema, &schema(), fit.clone()).await;
    assert_eq!(body["response_format"]["json_schema"]["schema"], schema());
    assert_eq!(body["tool_choice"], "none");
    assert_eq!(
        (names(&body), words(&body)),
        (vec!["mail_send_1".to_owned()], false)
    );

    let (_, body) = asked(JsonForm::Call, &schema(), fit.clone()).await;
    let choice = json!({"type": "function", "function": {"name": "answer"}});
    assert_eq!(
        (&body["tool_choice"], &body["response_format"]),
        (&choice, &Value::Null)
    );
    assert_eq!(body["tools"][0]["function"]["parameters"], schema());
    assert_eq!(
        (names(&body), words(&body)),
        (vec!["answer".to_owned()], false)
    );

    // The parameters of a tool are an object, so another schema is asked for in words.
    for (form, schema) in [
        (JsonForm::Words, schema()),
        (JsonForm::Call, json!({"type": "string"})),
    ] {
        let (_, body) = asked(form, &schema, fit.clone()).await;
        assert_eq!(
            (&body["tool_choice"], &body["response_format"]),
            (&json!("none"), &Value::Null)
        );
        assert_eq!(
            (names(&body), words(&body)),
            (vec!["mail_send_1".to_owned()], true)
        );
    }
}

/// What is no JSON of the schema goes to the caller as it is, and is refused there.
#[tokio::test]
async fn the_answer_is_the_json_alone() {
    let value = r#"{"value":"ten"}"#;
    for (form, reply, expected) in [
        (JsonForm::Schema, ends(value, "stop"), value),
        (
            JsonForm::Words,
            ends("```json\n{\"value\":\"ten\"}\n```\n", "stop"),
            value,
        ),
        (JsonForm::Call, calls("answer", value, "tool_calls"), value),
        // Some servers know no choice of a tool, and their models answer all the same.
        (JsonForm::Call, ends(value, "stop"), value),
        (
            JsonForm::Schema,
            ends("Sure! At ten.", "stop"),
            "Sure! At ten.",
        ),
    ] {
        let answer = asked(form, &schema(), reply).await.0.unwrap();
        assert_eq!((answer.text.as_str(), answer.calls.len()), (expected, 0));
    }
    let other = asked(
        JsonForm::Call,
        &schema(),
        calls("send", value, "tool_calls"),
    )
    .await;
    let other = other.0.unwrap();
    assert_eq!((other.text.as_str(), other.calls.len()), ("", 1));
    // An empty object can be of the schema, so arguments that were cut off are not made up.
    let cut = asked(JsonForm::Call, &schema(), calls("answer", "", "length")).await;
    let cut = cut.0.unwrap();
    assert_eq!((cut.text.as_str(), cut.stop), ("", StopReason::Length));
}

#[tokio::test]
async fn a_refusal_names_the_setting_that_may_help() {
    let refuses = |message: &str| {
        let error = json!({"message": message, "type": "invalid_request_error"});
        Reply::json(400, "", &json!({ "error": error }))
    };
    for (message, expected) in [
        ("'response_format' is unsupported", "json = \"words\""),
        (
            "Use 'max_completion_tokens' instead of 'max_tokens'.",
            "token_limit = \"max_completion_tokens\"",
        ),
    ] {
        let (answer, _) = asked(JsonForm::Schema, &schema(), refuses(message)).await;
        let error = answer.unwrap_err().to_string();
        assert!(
            error.contains(message) && error.contains(expected),
            "{error}"
        );
    }
}

/// A provider that holds answers to the letter of a schema takes closed ones only.
#[tokio::test]
async fn an_open_schema_is_a_hint() {
    let of_value = |value: Value| {
        json!({"type": "object", "properties": {"value": value}, "required": ["value"],
            "additionalProperties": false})
    };
    let text = json!({"type": "string"});
    for (schema, strict) in [
        (of_value(text.clone()), true),
        (of_value(json!({"type": "array", "items": text})), true),
        (of_value(json!({"enum": ["a", "b"]})), true),
        (of_value(of_value(json!({"type": "integer"}))), true),
        (of_value(json!({})), false),
        (of_value(json!({"type": "array"})), false),
        (of_value(json!({"type": "object"})), false),
        (
            json!({"type": "object", "properties": {"value": text}, "additionalProperties": false}),
            false,
        ),
    ] {
        let (_, body) = asked(JsonForm::Schema, &schema, Reply::stream(&text_stream())).await;
        let format = &body["response_format"]["json_schema"];
        assert_eq!(
            (&format["schema"], &format["strict"]),
            (&schema, &json!(strict))
        );
    }
}

#[tokio::test]
async fn a_limit_has_the_configured_name() {
    let (old, new) = ("max_tokens", "max_completion_tokens");
    for (limit, is_new, expected) in [
        (TokenLimit::Request, false, Some((old, 7))),
        (TokenLimit::Request, true, Some((new, 7))),
        // The caller's own choice is sent as it is.
        (TokenLimit::MaxTokens(9), true, Some((old, 9))),
        (TokenLimit::MaxCompletionTokens(9), false, Some((new, 9))),
        (TokenLimit::Server, true, None),
    ] {
        let server = Server::start(vec![Reply::stream(&text_stream())]);
        let mut config = config(&server.base_url);
        config.max_completion_tokens = is_new;
        let broker = Broker::new(
            Arc::new(HttpProvider::new(config).unwrap()),
            Label::bottom(),
        );
        let options = RequestOptions {
            token_limit: limit,
            ..RequestOptions::default()
        };
        let request = request(AnswerShape::TextOrCalls);
        let mut sink = String::new();
        let answer = broker.complete_with(&request, &options, &mut sink);
        answer.await.unwrap();
        let body: Value = server.request(0).json();
        for name in [old, new] {
            let expected = expected.filter(|(sent, _)| *sent == name);
            assert_eq!(
                body.get(name),
                expected.map(|(_, limit)| json!(limit)).as_ref()
            );
        }
    }
    let of = |url| HttpConfig::new("x", url, "m").max_completion_tokens;
    assert!(of("https://api.openai.com/v1") && !of("http://127.0.0.1:8080/v1"));
}

/// The settings of chat completions that the other dialects have as well.
#[tokio::test]
async fn settings_are_translated_for_other_dialects() {
    let format = json!({"name": "a", "strict": true, "schema": schema()});
    let members = json!({"temperature": 1.5, "top_p": 0.5, "stop": "END", "seed": 7, "verbosity": "low",
        "reasoning_effort": "high", "parallel_tool_calls": false,
        "response_format": {"type": "json_schema", "json_schema": format}});
    let text = json!({"type": "json_schema", "name": "a", "strict": true, "schema": schema()});
    for (dialect, expected) in [
        (
            Dialect::Messages,
            json!({"temperature": 1, "stop_sequences": ["END"],
                "output_config": {"format": {"type": "json_schema", "schema": schema()}}}),
        ),
        (
            Dialect::Responses,
            json!({"temperature": 1.5, "top_p": 0.5, "parallel_tool_calls": false,
                "reasoning": {"effort": "high"}, "text": {"verbosity": "low", "format": text}}),
        ),
    ] {
        let server = Server::start(vec![Reply::json(400, "", &json!({}))]);
        let mut config = config(&server.base_url);
        config.dialect = dialect;
        let provider = HttpProvider::new(config).unwrap();
        let broker = Broker::new(Arc::new(provider), Label::bottom());
        let options = RequestOptions {
            members: serde_json::from_value(members.clone()).unwrap(),
            ..RequestOptions::default()
        };
        let (request, mut sink) = (request(AnswerShape::TextOrCalls), String::new());
        let answer = broker.complete_with(&request, &options, &mut sink).await;
        assert!(answer.is_err());
        let body: Value = server.request(0).json();
        let names = members.as_object().unwrap().keys().map(String::as_str);
        let own = ["stop_sequences", "output_config", "reasoning", "text"];
        for name in names.chain(own) {
            assert_eq!(body.get(name), expected.get(name), "{dialect:?} {name}");
        }
        let one = body["tool_choice"]["disable_parallel_tool_use"] == true;
        assert_eq!(one, dialect == Dialect::Messages);
    }
}
