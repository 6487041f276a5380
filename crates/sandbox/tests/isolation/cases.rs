//! The cases.
use crate::Outcome;
use crate::hub::Spoke;
use crate::spoke::Attempt;
use libtest_mimic::Trial;
use sandbox::Spec;

pub(crate) fn all() -> Vec<Trial> {
    vec![Trial::test("starts", || Ok(starts()?))]
}

fn starts() -> Outcome {
    let mut spoke = Spoke::start(&Spec::default())?;
    eprintln!("{:#?}", spoke.sandboxed.enforced());
    for a in [
        Attempt::Identity,
        Attempt::Environment,
        Attempt::Descriptors,
        Attempt::Processes,
        Attempt::Read("/".into()),
        Attempt::Read("/etc".into()),
    ] {
        eprintln!("{a:?}: {:?}", spoke.attempt(&a)?);
    }
    Ok(())
}
