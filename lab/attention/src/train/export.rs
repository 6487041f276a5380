//! From a trained model to the file of weights that the screener reads.

use anyhow::{Result, ensure};
use screen::attention::{
    About, Classifier, Columns, Linear, LstmLayer, Network, Normalisation, Platt,
};

use super::model::Model;

impl Model {
    /// The screener's classifier with these numbers.
    ///
    /// # Errors
    /// When the screener knows a feature by no such name, a weight is missing, or it refuses the numbers.
    pub fn classifier(&self, target_recall: u8, about: About) -> Result<Classifier> {
        let linear = |weight: &str, bias: &str, inputs: usize| -> Result<Linear> {
            Ok(Linear {
                inputs,
                weights: self.weight(weight)?.to_vec(),
                bias: self.weight(bias)?.to_vec(),
            })
        };
        let mut width = self.shape.features;
        let projection = match self.shape.projection {
            Some(units) => {
                let linear = linear("projection.weight", "projection.bias", width)?;
                width = units;
                Some(linear)
            }
            None => None,
        };
        let mut layers = Vec::new();
        for layer in 0..self.shape.layers {
            let names = (
                format!("weight_ih_l{layer}"),
                format!("bias_ih_l{layer}"),
                format!("weight_hh_l{layer}"),
            );
            layers.push(LstmLayer {
                input: linear(&names.0, &names.1, width)?,
                recurrent: self.weight(&names.2)?.to_vec(),
            });
            width = self.shape.hidden;
        }
        let classifier = Classifier {
            about,
            columns: Columns::parse(self.columns.iter().map(String::as_str))?,
            normalisation: Normalisation {
                mean: self.normal.mean.clone(),
                spread: self.normal.spread.clone(),
            },
            network: Network {
                projection,
                layers,
                head: linear("output.weight", "output.bias", width)?,
            },
            platt: Platt {
                a: self.calibration.slope as f32,
                b: self.calibration.offset as f32,
            },
            thresholds: self.thresholds.clone(),
            target_recall,
        };
        classifier.check()?;
        let names: Vec<String> = classifier.columns.names().collect();
        ensure!(
            names == self.columns,
            "the screener names the features otherwise"
        );
        Ok(classifier)
    }
}
