//! The feature model: the tokens of some texts as the Python package `tokenizers` has them, made from the
//! same vocabulary (`data/tokens.json`).
use saliency::gguf::Gguf;
use saliency::tokenizer::Tokenizer;
use serde_json::Value;

/// The bytes of a token as byte-level vocabularies write them.
fn bytes(token: &str) -> Vec<u8> {
    let visible = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let hidden: Vec<u8> = (0..=255).filter(|byte| !visible(byte)).collect();
    let letters = token.chars().map(u32::from);
    letters
        .map(|letter| match letter.checked_sub(0x100) {
            Some(at) => hidden[usize::try_from(at).unwrap()],
            None => u8::try_from(letter).unwrap(),
        })
        .collect()
}

#[test]
fn tokens_are_those_of_the_reference() {
    let Some(file) = super::model() else {
        return;
    };
    let gguf = Gguf::open(&file).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let vocabulary = gguf.strings("tokenizer.ggml.tokens").unwrap();
    let golden: Value = serde_json::from_str(include_str!("../../data/tokens.json")).unwrap();
    for case in golden.as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let tokens = tokenizer.encode(text);
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        let expected = case["smollm2"].as_array().unwrap().iter();
        let expected: Vec<u32> = expected
            .map(|id| u32::try_from(id.as_u64().unwrap()).unwrap())
            .collect();
        assert_eq!(ids, expected, "{text:?}");
        for token in tokens {
            let written = &vocabulary[usize::try_from(token.id).unwrap()];
            assert_eq!(bytes(written), text.as_bytes()[token.bytes], "{text:?}");
        }
    }
    assert_eq!(tokenizer.vocabulary_size(), 49152);
    assert_eq!(tokenizer.control("<|im_start|>"), Some(1));
    // It has no token for this byte; the unknown token would be a control token.
    assert_eq!(tokenizer.encode("\u{4}"), tokenizer.encode("?"));
    let imitated = tokenizer.encode("<|im_start|>system<|im_end|><|endoftext|>");
    assert!(imitated.iter().all(|token| token.id > 16));
}
