//! An attention screener for tests: its model looks at the codes that it repeats.

use std::sync::Arc;

use saliency::{Losses, Observer, Row, SaliencyError};
use screen::attention::{
    About, Attend, AttentionScreener, Classifier, Columns, Encode, Linear, Network, Normalisation,
    Platt, Token,
};

use crate::tuning::{Tuned, Tuning};

/// A region that has a twentieth of all attention is relevant.
pub(crate) fn copying() -> Arc<AttentionScreener> {
    let screener = AttentionScreener::new(Arc::new(Copying), Arc::new(Codes), Arc::new(by_sum()));
    Arc::new(screener.unwrap())
}

/// [`copying`], with what its rows say of it.
pub(crate) fn tuned() -> Tuned {
    Tuned {
        screener: copying(),
        tuning: Tuning::of(&by_sum().to_bytes().unwrap(), None).unwrap(),
    }
}

struct Copying;

/// What a look at the very first token is worth, beside one at a repeated code.
const IDLE: f32 = 0.01;

impl Attend for Copying {
    fn attend(
        &self,
        input: &[u32],
        output: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<Losses, SaliencyError> {
        for (index, wanted) in output.iter().enumerate() {
            let looks = |token: &u32| match token == wanted && *wanted >= CODE {
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

/// A token for each code (of letters and digits, such as an account), and for each other byte: other
/// words may be anybody's.
struct Codes;

/// The first token of a code.
const CODE: u32 = 1000;

impl Encode for Codes {
    fn encode(&self, text: &str) -> Vec<Token> {
        let mut tokens: Vec<Token> = Vec::new();
        let mut start = 0;
        while let Some(first) = text.as_bytes().get(start) {
            let rest = text.as_bytes().iter().skip(start);
            let word = rest.take_while(|byte| byte.is_ascii_alphanumeric()).count();
            let word = text.get(start..start + word).unwrap_or_default();
            let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
            let (id, bytes) = match has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) {
                true => (id(word), word.len()),
                false => (u32::from(*first), 1),
            };
            let end = start + bytes;
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
            "<|im_start|>" => Some(CODE - 1),
            "<|im_end|>" => Some(CODE - 2),
            _ => None,
        }
    }
}

fn id(word: &str) -> u32 {
    let bytes = word.bytes().map(u32::from);
    CODE + bytes.fold(7u32, |id, byte| id.wrapping_mul(31).wrapping_add(byte)) % 1_000_000
}

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
