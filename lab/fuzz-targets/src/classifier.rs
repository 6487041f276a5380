//! The content of a file of weights, without its hash. It is refused, or it is a classifier that can be used, whose own
//! file is the same, and which gives every region a probability.

use ifc::RegionId;
use screen::attention::{Classifier, RegionFeatures};
use sha2::{Digest, Sha256};

pub(crate) fn classifier(content: &[u8]) -> bool {
    assert!(Classifier::from_bytes(content).is_err() || content.len() > 32);
    // The hash is made here: a mutated one would be wrong, and nothing behind its check would ever run.
    let mut file = content.to_vec();
    file.extend(Sha256::digest(content));
    let Ok(classifier) = Classifier::from_bytes(&file) else {
        return false;
    };
    classifier.check().expect("what is read can be used");
    assert_eq!(
        classifier.to_bytes().expect("what is read can be written"),
        file
    );
    let values = vec![0.5; classifier.columns.len()];
    let region = |number| RegionFeatures {
        region: RegionId(number),
        values: values.clone(),
    };
    // Weights near the largest number may overflow; then there are no scores at all.
    if let Ok(scores) = classifier.scores(&[region(0), region(1)]) {
        assert!(scores.len() == 2 && scores.iter().all(|score| (0.0..=1.0).contains(score)));
    }
    true
}
