//! A model file from anywhere. The reader must not panic, must not hold much more than the file has, and what it accepts
//! can be used: every tensor, and the vocabulary on a text, which its tokens must cover.

use saliency::gguf::Gguf;
use saliency::tokenizer::Tokenizer;

const TEXT: &str = "It's  1234\r\n<|im_start|> ß\u{4}😀\n\n\t end ";

pub(crate) fn gguf(bytes: &[u8]) -> bool {
    let Ok(gguf) = Gguf::from_bytes(bytes.to_vec()) else {
        return false;
    };
    for (name, tensor) in gguf.tensors() {
        let values = gguf
            .dequantize(name)
            .expect("the tensor lies inside the file");
        assert_eq!(values.len(), tensor.elements());
        // Q4_1 has the most values to a byte: 32 in 20.
        assert!(values.len() <= bytes.len().saturating_mul(2));
    }
    let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) else {
        return false;
    };
    let mut end = 0;
    for token in tokenizer.encode(TEXT) {
        assert_eq!(token.bytes.start, end);
        assert!(token.id < tokenizer.vocabulary_size());
        end = token.bytes.end;
    }
    assert_eq!(end, TEXT.len());
    true
}
