//! A hostile app that may reach a name, below the product's spoke, and the product's hub around it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hub::CallOutcome;
use names::Pattern;
use policy::{AppPolicy, Destinations, DomainRule};
use sandbox::{Access, Mount, Spec};
use server::{Domains, Egress};

use super::stage::{APP, Person, Rules, Stage, hostile, setup};
use super::world::Names;
use crate::Error;
use crate::attempt::{Ground, Seen, Setting};
use crate::by_name::{ANY, HTTP, HTTPS, OTHER, PERMITTED, PUBLIC, REBOUND};
use crate::hub::{APP as APP_IN_SPOKE, PATIENCE};
use crate::job::Job;
use crate::weaker_hub::Lacking;
use crate::world::{LIMITS, World};

const PORTS: [u16; 3] = [HTTPS, HTTP, ANY];
const START: Duration = Duration::from_secs(20);

pub(super) fn run(job: &Job) -> Result<Vec<Seen>, Error> {
    let lacking = Lacking::of(job.weaker.as_deref())?;
    let mut world = World::new()?;
    let mut mounts = world.mounts(false);
    mounts.push(Mount {
        source: hostile()?.canonicalize()?,
        target: APP_IN_SPOKE.into(),
        access: Access::ReadOnly,
        executable: true,
    });
    let mut ground = world.ground(false);
    let spec = Spec {
        mounts,
        // A service of the host that the configuration names, beside those that it does not.
        listen: vec![ground.relayed],
        names: PORTS.to_vec(),
        limits: LIMITS,
        ..Spec::default()
    };
    ground.setting = Setting::Name;
    ground.only.clone_from(&job.only);
    let names = Arc::new(Names::new()?);
    let mut seen = by_product(job, spec, &ground, names, lacking)?;
    seen.extend(world.look());
    Ok(seen)
}

fn by_product(
    job: &Job,
    spec: Spec,
    ground: &Ground,
    names: Arc<Names>,
    lacking: Option<Lacking>,
) -> Result<Vec<Seen>, Error> {
    let permitted = Pattern::new(PERMITTED).map_err(|error| error.to_string())?;
    // The name that is not permitted has an address as well, so that nothing but the rules keeps
    // the app from it.
    let other = Pattern::new(OTHER).map_err(|error| error.to_string())?;
    let mut addresses = vec![PUBLIC.parse()?];
    if lacking == Some(Lacking::PublicAddresses) {
        let rebound = REBOUND
            .iter()
            .flat_map(|(_, _, answers)| *answers)
            .copied()
            .flatten();
        addresses = rebound.map(|it| it.parse()).collect::<Result<_, _>>()?;
    }
    let domains = Domains {
        addresses: vec![
            (permitted.clone(), addresses),
            (other, vec![PUBLIC.parse()?]),
        ],
        ..Domains::default()
    };
    let rules = Rules {
        connections: (lacking != Some(Lacking::Rules)).then(|| rules(permitted, ground.relayed)),
    };
    let mut setup = setup(
        job.spoke.clone(),
        &[APP_IN_SPOKE, "app"],
        spec,
        domains,
        (START, PATIENCE),
    );
    setup.egress.push(Egress {
        listen: ground.relayed,
        host: PUBLIC.to_owned(),
        port: ground.relayed,
        addresses: Vec::new(),
    });
    let ground = serde_json::to_string(ground)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(async {
        let stage = Stage::open(rules, names, setup).await?;
        let mut person = Person::default();
        stage
            .call("attempt", ("ground", &ground), &mut person)
            .await
    })?;
    match outcome {
        CallOutcome::Returned { text, .. } => Ok(serde_json::from_str(&text)?),
        other => Err(format!("no result: {other:?}").into()),
    }
}

/// One name, with all below it, and one service of the host, whatever the app was given.
fn rules(permitted: Pattern, service: u16) -> AppPolicy {
    let destinations = Destinations {
        relays: vec![(PUBLIC.to_owned(), service)],
        domains: vec![DomainRule {
            pattern: permitted,
            ports: PORTS.to_vec(),
            limit: ifc::Label::top(),
        }],
        ..Destinations::default()
    };
    AppPolicy::new(BTreeMap::new())
        .with_destinations(BTreeMap::from([(APP.to_owned(), destinations)]))
}
