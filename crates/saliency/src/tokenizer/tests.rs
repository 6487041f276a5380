//! Small vocabularies; `words.json` is what the Python package `tokenizers` says.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::gguf::build::Build;

fn lengths(value: &Value) -> Vec<usize> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|n| n.as_u64().unwrap() as usize).collect()
}

#[test]
fn words_are_those_of_the_reference() {
    let golden: Value = serde_json::from_str(include_str!("words.json")).unwrap();
    let splitter = Splitter::new().unwrap();
    for case in golden.as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let words = splitter.words(text).into_iter();
        let found: Vec<_> = words.map(|word| text[word].chars().count()).collect();
        assert_eq!(found, lengths(&case["smollm"]), "{text:?}");
    }
}

/// A byte-level vocabulary: the printable characters of ASCII and a space, these words, and a
/// merge for each way to read a word as two others. Token 0 is a control token, 1 user-defined.
fn byte_level(words: &[&str], merges: &[&str]) -> Build {
    let mut tokens = vec!["<|end|>".to_owned(), "<tool>".to_owned()];
    tokens.extend(('!'..='~').map(String::from));
    tokens.push("Ġ".to_owned());
    tokens.extend(words.iter().map(|word| (*word).to_owned()));
    let mut types = vec![1; tokens.len()];
    types[0] = 3;
    types[1] = 4;
    Build::default()
        .str("tokenizer.ggml.model", "gpt2")
        .str("tokenizer.ggml.pre", "smollm")
        .strings("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &types)
        .strings("tokenizer.ggml.merges", merges)
}

fn load(build: &Build) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_gguf(&Gguf::from_bytes(build.bytes()).unwrap())
}

/// The tokens of a text as the pieces of text that they stand for.
fn pieces<'a>(tokenizer: &Tokenizer, text: &'a str) -> Vec<&'a str> {
    let tokens = tokenizer.encode(text).into_iter();
    tokens.map(|token| &text[token.bytes]).collect()
}

#[test]
fn merges_go_by_rank_and_from_the_left() {
    let build = byte_level(&["ab", "bc", "abc", "aa"], &["b c", "a b", "a bc", "a a"]);
    let tokenizer = load(&build).unwrap();
    assert_eq!(pieces(&tokenizer, "abc"), ["abc"]);
    assert_eq!(pieces(&tokenizer, "ab"), ["ab"]);
    assert_eq!(pieces(&tokenizer, "aaaaa"), ["aa", "aa", "a"]);
    assert_eq!(pieces(&tokenizer, "aab aab"), ["a", "ab", " ", "a", "ab"]);
}

#[test]
fn no_text_becomes_a_control_token() {
    let names = "<|end|><tool> <|end|> <tool>";
    let tokenizer = load(&byte_level(&[], &[])).unwrap();
    assert_eq!(tokenizer.control("<|end|>"), Some(0));
    assert_eq!(tokenizer.control("<tool>"), Some(1));
    assert_eq!(tokenizer.control("a"), None);
    assert!(tokenizer.encode(names).iter().all(|token| token.id > 1));
    // Nor by a merge that a file lists.
    let tokens = ["<", "t", "?", "<t"];
    let build = Build::default()
        .str("tokenizer.ggml.model", "gpt2")
        .str("tokenizer.ggml.pre", "smollm")
        .strings("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &[1, 1, 1, 3])
        .strings("tokenizer.ggml.merges", &["< t"]);
    let error = load(&build).unwrap_err().to_string();
    assert!(error.contains("what is no normal token"), "{error}");
}

#[test]
fn a_byte_that_the_vocabulary_lacks_is_a_question_mark() {
    let tokenizer = load(&byte_level(&[], &[])).unwrap();
    let question = tokenizer.encode("?")[0].id;
    let tokens = tokenizer.encode("a\u{4}ß");
    let found: Vec<_> = tokens.iter().map(|token| token.bytes.clone()).collect();
    assert_eq!(found, [0..1, 1..2, 2..3, 3..4]);
    assert!(tokens[1..].iter().all(|token| token.id == question));
}

#[test]
fn what_cannot_be_used_is_named() {
    let check = |build: &Build, expected: &str| {
        let error = load(build).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    };
    let base = |model: &str, tokens: &[&str], types: &[i32]| {
        Build::default()
            .str("tokenizer.ggml.model", model)
            .str("tokenizer.ggml.pre", "smollm")
            .strings("tokenizer.ggml.tokens", tokens)
            .i32s("tokenizer.ggml.token_type", types)
    };
    let none: &[&str] = &[];
    check(&Build::default(), r#"no usable "tokenizer.ggml.tokens""#);
    check(
        &base("t5", &["?"], &[1]),
        r#"tokenizer "t5" is not supported"#,
    );
    check(
        &Build::default()
            .str("tokenizer.ggml.model", "gpt2")
            .str("tokenizer.ggml.pre", "dbrx")
            .strings("tokenizer.ggml.tokens", none)
            .i32s("tokenizer.ggml.token_type", &[]),
        r#"by "dbrx", which is not supported"#,
    );
    check(&base("gpt2", &["?"], &[1, 1]), "not one type per token");
    check(&base("gpt2", &["?", "?"], &[1, 1]), "a token occurs twice");
    check(
        &base("gpt2", &[&"x".repeat(600)], &[1]),
        "longer than 512 bytes",
    );
    check(
        &base("gpt2", &["?"], &[1]),
        r#"no usable "tokenizer.ggml.merges""#,
    );
    check(
        &byte_level(&[], &["ab"]),
        "not two tokens with a space between",
    );
    check(&byte_level(&[], &["a b"]), "what is no normal token");
    let no_question = base("gpt2", &["!"], &[1]).strings("tokenizer.ggml.merges", none);
    check(&no_question, "no question mark");
}

#[test]
fn hostile_texts_take_no_quadratic_time() {
    const SIZE: usize = 1 << 18;
    let vocabulary = byte_level(&["aa", "aaaa", "ĠĠ"], &["a a", "aa aa", "Ġ Ġ"]);
    let tokenizer = load(&vocabulary).unwrap();
    for piece in [
        "a", " ", "\u{301}", "\n", "\n ", " \r", "1", "'", "!\n", "aab", " a", "'S", "😀",
    ] {
        let text = piece.repeat(SIZE / piece.len());
        let start = Instant::now();
        let tokens = tokenizer.encode(&text);
        // At most half a second; quadratic time would be minutes.
        assert!(start.elapsed() < Duration::from_secs(15), "{piece:?}");
        assert_eq!(tokens.last().map(|token| token.bytes.end), Some(text.len()));
    }
}

#[test]
fn a_long_word_takes_little_memory_and_is_covered() {
    const SIZE: usize = 1 << 20;
    let tokenizer = load(&byte_level(&["aa", "aaaa"], &["a a", "aa aa"])).unwrap();
    // Of three bytes a character, so that no piece ends where 4 KiB do.
    for piece in ["a", "\u{6587}"] {
        let text = piece.repeat(SIZE / piece.len());
        let mut encoder = Encoder::new(&tokenizer, &text);
        for word in tokenizer.splitter.words(&text) {
            assert_eq!(word, 0..text.len());
            encoder.pieces(word);
        }
        assert!(encoder.scratch.capacity() < 32 << 10, "{piece:?}");
        let mut end = 0;
        for token in encoder.tokens {
            assert_eq!(token.bytes.start, end);
            end = token.bytes.end;
        }
        assert_eq!(end, text.len());
    }
}

proptest! {
    #[test]
    fn tokens_cover_the_text(
        text in r"(?s)([a-zA-Z' \n!?0-9▁]{0,6}|\PC{0,4}|.{0,4}){0,12}",
    ) {
        let tokenizer = load(&byte_level(&["ab", "ĠĠ"], &["a b", "Ġ Ġ"])).unwrap();
        let mut end = 0;
        for token in tokenizer.encode(&text) {
            prop_assert_eq!(token.bytes.start, end);
            prop_assert!(token.bytes.end > end);
            prop_assert!(token.id < tokenizer.vocabulary_size());
            end = token.bytes.end;
        }
        prop_assert_eq!(end, text.len());
    }
}
