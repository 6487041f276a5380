//! The classifier's network: a projection, LSTM layers over the regions in order, one logit for each
//! region (RTBAS §7.2). It is small enough for plain loops.

/// A linear layer: `weights · x + bias`.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    /// Numbers that it takes.
    pub inputs: usize,
    /// Row after row, one row of `inputs` numbers for each number that it gives.
    pub weights: Vec<f32>,
    /// One for each number that it gives.
    pub bias: Vec<f32>,
}

/// A layer of an LSTM (Hochreiter and Schmidhuber) with one bias.
#[derive(Debug, Clone, PartialEq)]
pub struct LstmLayer {
    /// From the layer's input to its gates: input, forget, cell and output gate, each with a row
    /// for every unit. The bias is here.
    pub input: Linear,
    /// From the layer's state before to the same gates, row after row.
    pub recurrent: Vec<f32>,
}

/// The network.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// What the features go through first, with `tanh` after it.
    pub projection: Option<Linear>,
    /// One after the other; two in the paper.
    pub layers: Vec<LstmLayer>,
    /// From the last layer to the logit.
    pub head: Linear,
}

const GATES: usize = 4;

impl Linear {
    /// Whether the sizes fit, for so many inputs and outputs.
    fn fits(&self, inputs: usize, outputs: usize) -> bool {
        let weights = inputs.checked_mul(outputs);
        self.inputs == inputs && self.bias.len() == outputs && Some(self.weights.len()) == weights
    }

    fn apply(&self, input: &[f32]) -> Vec<f32> {
        let rows = rows(&self.weights, self.inputs).zip(&self.bias);
        rows.map(|(row, bias)| bias + dot(row, input)).collect()
    }
}

impl LstmLayer {
    /// Its units.
    pub fn units(&self) -> usize {
        self.input.bias.len() / GATES
    }

    fn fits(&self, inputs: usize) -> bool {
        let units = self.units();
        // The weights are in memory, so the products do not overflow.
        units > 0
            && self.input.fits(inputs, units * GATES)
            && self.recurrent.len() == units * units * GATES
    }

    /// The state after each of the inputs.
    fn run(&self, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let units = self.units();
        let mut cell = vec![0.0; units];
        let mut state = vec![0.0; units];
        let mut states = Vec::with_capacity(inputs.len());
        for input in inputs {
            // W·x + b, then U·h of the state before. Then c = σ(f)·c + σ(i)·tanh(g) and h =
            // σ(o)·tanh(c).
            let mut gates = self.input.apply(input);
            for (gate, row) in gates.iter_mut().zip(rows(&self.recurrent, units)) {
                *gate += dot(row, &state);
            }
            // The order of PyTorch's gates, whose weights these are.
            let (input, rest) = gates.split_at(units);
            let (forget, rest) = rest.split_at(units);
            let (candidate, output) = rest.split_at(units);
            let open = input.iter().zip(forget).zip(candidate.iter().zip(output));
            for ((cell, state), ((input, forget), (candidate, output))) in
                cell.iter_mut().zip(&mut state).zip(open)
            {
                *cell = sigmoid(*forget) * *cell + sigmoid(*input) * candidate.tanh();
                *state = sigmoid(*output) * cell.tanh();
            }
            states.push(state.clone());
        }
        states
    }
}

impl Network {
    /// A network of weights with the names of PyTorch's layers: `projection.weight`,
    /// `projection.bias`, `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0` (there is no other bias) and so
    /// on, `output.weight`, `output.bias`. `None` if one is missing or has a size that does not fit.
    pub fn from_weights(
        features: usize,
        has_projection: bool,
        layers: usize,
        find: impl Fn(&str) -> Option<Vec<f32>>,
    ) -> Option<Self> {
        let mut width = features;
        let linear = |weight: &str, bias: &str, inputs| {
            Some(Linear {
                inputs,
                weights: find(weight)?,
                bias: find(bias)?,
            })
        };
        let projection = match has_projection {
            true => Some(linear("projection.weight", "projection.bias", width)?),
            false => None,
        };
        width = projection.as_ref().map_or(width, |it| it.bias.len());
        let mut stack = Vec::new();
        for layer in 0..layers {
            let layer = LstmLayer {
                input: linear(
                    &format!("weight_ih_l{layer}"),
                    &format!("bias_ih_l{layer}"),
                    width,
                )?,
                recurrent: find(&format!("weight_hh_l{layer}"))?,
            };
            width = layer.units();
            stack.push(layer);
        }
        let network = Self {
            projection,
            layers: stack,
            head: linear("output.weight", "output.bias", width)?,
        };
        network.fits(features).then_some(network)
    }

    /// Whether all sizes fit each other, for regions of so many features.
    pub fn fits(&self, features: usize) -> bool {
        let mut width = features;
        if let Some(projection) = &self.projection {
            let units = projection.bias.len();
            if units == 0 || !projection.fits(width, units) {
                return false;
            }
            width = units;
        }
        for layer in &self.layers {
            if !layer.fits(width) {
                return false;
            }
            width = layer.units();
        }
        self.head.fits(width, 1)
    }

    /// One logit for each region. All zero if the sizes do not fit.
    pub fn logits(&self, regions: &[Vec<f32>]) -> Vec<f32> {
        let mut states = regions.to_vec();
        if let Some(projection) = &self.projection {
            for state in &mut states {
                let projected = projection.apply(state).into_iter();
                *state = projected.map(f32::tanh).collect();
            }
        }
        for layer in &self.layers {
            states = layer.run(&states);
        }
        let logit = |state: &Vec<f32>| self.head.apply(state).first().copied();
        states
            .iter()
            .map(|state| logit(state).unwrap_or_default())
            .collect()
    }
}

pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// A matrix without columns has no distinguishable rows.
fn rows(matrix: &[f32], columns: usize) -> impl Iterator<Item = &[f32]> {
    matrix.chunks_exact(columns.max(1))
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
