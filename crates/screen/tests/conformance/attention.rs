//! A model whose attention says the truth, for the screeners that read drafts.

use std::sync::Arc;

use saliency::{Losses, Observer, Row, SaliencyError};
use screen::{
    ByDraft,
    attention::{
        About, Attend, AttentionScreener, Band, Classifier, Columns, Combined, Encode, Linear,
        Network, Normalisation, Platt, Token,
    },
};

/// What a draft can only have from a result. Every other word may be anybody's.
const TOLD: [&str; 8] = [
    "lunch", "noon", "eve", "such", "folder", "1234", "hello", "4111",
];

/// `attention`, and `combined`, which believes attention where it finds something and asks the
/// judge about all else.
pub(crate) fn by_draft() -> [ByDraft; 2] {
    let screener = Arc::new(screener());
    let band = Band {
        low: 0.0,
        high: 0.5,
    };
    let combined = Combined::new(Arc::clone(&screener), band);
    [
        ByDraft::attention(screener),
        ByDraft::combined(Arc::new(combined)),
    ]
}

fn screener() -> AttentionScreener {
    AttentionScreener::new(Arc::new(Truth), Arc::new(Words), Arc::new(by_sum())).unwrap()
}

/// Looks at [`TOLD`] words that it repeats; with nothing to repeat, at the very first token.
struct Truth;

/// What that look is worth beside a repeated word.
const IDLE: f32 = 0.01;

impl Attend for Truth {
    fn attend(
        &self,
        input: &[u32],
        output: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<Losses, SaliencyError> {
        let told = TOLD.map(id);
        for (index, wanted) in output.iter().enumerate() {
            let looks = |token: &u32| match token == wanted && told.contains(wanted) {
                true => 1.0,
                false => 0.0,
            };
            let before = output.iter().take(index);
            let mut attention: Vec<f32> = input.iter().chain(before).map(looks).collect();
            attention.iter_mut().take(1).for_each(|it| *it = IDLE);
            let gradient = vec![-1.0; attention.len()];
            observer.row(Row {
                output: index,
                layer: 0,
                head: 0,
                attention: &attention,
                gradient: &gradient,
            });
        }
        Ok(vec![0.5; output.len()])
    }
}

/// A token for each word, in small letters, and for each other byte.
struct Words;

impl Encode for Words {
    fn encode(&self, text: &str) -> Vec<Token> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric();
        let mut tokens: Vec<Token> = Vec::new();
        let mut start = 0;
        while let Some(first) = text.as_bytes().get(start) {
            let rest = text.as_bytes().iter().skip(start);
            let word = rest.take_while(|byte| is_word(**byte)).count();
            let end = start + word.max(1);
            let id = match word {
                0 => u32::from(*first),
                _ => id(text.get(start..end).unwrap_or_default()),
            };
            tokens.push(Token {
                id,
                bytes: start..end,
            });
            start = end;
        }
        tokens
    }

    fn control(&self, name: &str) -> Option<u32> {
        match name {
            "<|im_start|>" => Some(u32::MAX),
            "<|im_end|>" => Some(u32::MAX - 1),
            _ => None,
        }
    }
}

/// Above those of bytes.
fn id(word: &str) -> u32 {
    let bytes = word
        .bytes()
        .map(|byte| u32::from(byte.to_ascii_lowercase()));
    256 + bytes.fold(7u32, |id, byte| id.wrapping_mul(31).wrapping_add(byte)) % 1_000_000
}

/// By the region's part of all attention alone: a half at a twentieth.
fn by_sum() -> Classifier {
    let columns = Columns::paper();
    let features = columns.len();
    let mut weights = vec![0.0; features];
    *weights.first_mut().unwrap() = 100.0;
    Classifier {
        about: About {
            name: "by sum".to_owned(),
            model: "none".to_owned(),
            data: "none".to_owned(),
            command: "by hand".to_owned(),
        },
        columns,
        normalisation: Normalisation {
            mean: vec![0.0; features],
            std_dev: vec![1.0; features],
        },
        network: Network {
            projection: None,
            layers: Vec::new(),
            head: Linear {
                inputs: features,
                weights,
                bias: vec![-5.0],
            },
        },
        platt: Platt::default(),
        thresholds: vec![0.5; 50],
        target_recall: 95,
    }
}
