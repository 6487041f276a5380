//! Relational data: 21 questions over people, places and foods, rebuilt from the benchmark's description with data of our own.

use models::{PlannedCall, SummaryPart};

use super::queries::{Benchmark, Query, Reference};

/// A call: its tool, its parameter if it has one, and where that comes from.
type Step = (&'static str, Option<(&'static str, Given)>);

/// Where an argument comes from.
#[derive(Clone, Copy)]
enum Given {
    /// From the question.
    Fixed(&'static str),
    /// From the result of an earlier step, at a JSON Pointer.
    From(usize, &'static str),
}

/// A part of the answer.
#[derive(Clone, Copy)]
enum Says {
    Words(&'static str),
    Shown(usize, &'static str),
}

use Given::{Fixed, From};
use Says::{Shown, Words};

/// A question, its steps, the answer of a model without mistakes, and the words that a right answer has.
type Question = (
    &'static str,
    &'static [Step],
    &'static [Says],
    &'static [&'static str],
);

const ME: Step = ("get_current_user_id", None);
const MY_LOCATION: Step = ("get_user_location", Some(("user_id", From(1, "/user_id"))));
const MY_FOODS: Step = (
    "get_user_favorite_foods",
    Some(("user_id", From(1, "/user_id"))),
);

const QUESTIONS: &[Question] = &[
    (
        "What is Carla's e-mail address?",
        &[
            ("find_users_by_name", Some(("name", Fixed("Carla")))),
            ("get_user_email", Some(("user_id", From(1, "/users/0/id")))),
        ],
        &[Shown(2, "/email")],
        &["carla@lake.example"],
    ),
    (
        "What is the e-mail address of user 21?",
        &[("get_user_email", Some(("user_id", Fixed("21"))))],
        &[Shown(1, "/email")],
        &["dora@hill.example"],
    ),
    (
        "What is my name?",
        &[
            ME,
            ("get_user_name", Some(("user_id", From(1, "/user_id")))),
        ],
        &[Shown(2, "/name")],
        &["Emil"],
    ),
    (
        "What is my favourite colour?",
        &[
            ME,
            (
                "get_user_favorite_color",
                Some(("user_id", From(1, "/user_id"))),
            ),
        ],
        &[Shown(2, "/color")],
        &["grey"],
    ),
    (
        "In which city do I live?",
        &[
            ME,
            MY_LOCATION,
            (
                "get_city_for_location",
                Some(("location_id", From(2, "/location_id"))),
            ),
        ],
        &[Shown(3, "/city")],
        &["Riga"],
    ),
    (
        "How is the weather where Dora lives?",
        &[
            ("find_users_by_name", Some(("name", Fixed("Dora")))),
            (
                "get_user_location",
                Some(("user_id", From(1, "/users/0/id"))),
            ),
            (
                "get_current_weather_for_location",
                Some(("location_id", From(2, "/location_id"))),
            ),
        ],
        &[Shown(3, "/weather")],
        &["snow"],
    ),
    (
        "What time is it where I am?",
        &[
            ME,
            MY_LOCATION,
            (
                "get_current_time_for_location",
                Some(("location_id", From(2, "/location_id"))),
            ),
        ],
        &[Shown(3, "/time")],
        &["10:10"],
    ),
    (
        "What is the name of food 3?",
        &[("get_food_name", Some(("food_id", Fixed("3"))))],
        &[Shown(1, "/name")],
        &["Rye bread"],
    ),
    (
        "How many calories does lentil soup have?",
        &[
            ("find_foods_by_name", Some(("name", Fixed("lentil soup")))),
            (
                "get_food_calories",
                Some(("food_id", From(1, "/foods/0/id"))),
            ),
        ],
        &[Shown(2, "/calories")],
        &["230"],
    ),
    (
        "Which allergens are in noodles?",
        &[
            ("find_foods_by_name", Some(("name", Fixed("noodles")))),
            (
                "get_food_allergic_ingredients",
                Some(("food_id", From(1, "/foods/0/id"))),
            ),
        ],
        &[Shown(2, "/allergens")],
        &["gluten", "egg"],
    ),
    (
        "What are the names of my two favourite foods?",
        &[
            ME,
            MY_FOODS,
            ("get_food_name", Some(("food_id", From(2, "/food_ids/0")))),
            ("get_food_name", Some(("food_id", From(2, "/food_ids/1")))),
        ],
        &[Shown(3, "/name"), Words(" and "), Shown(4, "/name")],
        &["Rye bread", "Goat cheese"],
    ),
    (
        "What time is it in Lisbon?",
        &[
            ("find_locations_by_name", Some(("city", Fixed("Lisbon")))),
            (
                "get_current_time_for_location",
                Some(("location_id", From(1, "/locations/0/id"))),
            ),
        ],
        &[Shown(2, "/time")],
        &["08:10"],
    ),
    (
        "How is the weather in Osaka?",
        &[
            ("find_locations_by_name", Some(("city", Fixed("Osaka")))),
            (
                "get_current_weather_for_location",
                Some(("location_id", From(1, "/locations/0/id"))),
            ),
        ],
        &[Shown(2, "/weather")],
        &["rain"],
    ),
    (
        "Who has the user id 48?",
        &[("get_user_name", Some(("user_id", Fixed("48"))))],
        &[Shown(1, "/name")],
        &["Fay"],
    ),
    (
        "Which user ids are there?",
        &[("list_user_ids", None)],
        &[Shown(1, "/user_ids")],
        &["11", "21", "35", "48", "52", "67"],
    ),
    (
        "What is Gus's favourite colour?",
        &[
            ("find_users_by_name", Some(("name", Fixed("Gus")))),
            (
                "get_user_favorite_color",
                Some(("user_id", From(1, "/users/0/id"))),
            ),
        ],
        &[Shown(2, "/color")],
        &["white"],
    ),
    (
        "How many calories does the first favourite food of Fay have?",
        &[
            ("find_users_by_name", Some(("name", Fixed("Fay")))),
            (
                "get_user_favorite_foods",
                Some(("user_id", From(1, "/users/0/id"))),
            ),
            (
                "get_food_calories",
                Some(("food_id", From(2, "/food_ids/0"))),
            ),
        ],
        &[Shown(3, "/calories")],
        &["520"],
    ),
    (
        "In which city is user 67?",
        &[
            ("get_user_location", Some(("user_id", Fixed("67")))),
            (
                "get_city_for_location",
                Some(("location_id", From(1, "/location_id"))),
            ),
        ],
        &[Shown(2, "/city")],
        &["Lisbon"],
    ),
    (
        "Which allergens are in my first favourite food?",
        &[
            ME,
            MY_FOODS,
            (
                "get_food_allergic_ingredients",
                Some(("food_id", From(2, "/food_ids/0"))),
            ),
        ],
        &[Shown(3, "/allergens")],
        &["gluten"],
    ),
    (
        "Give me the e-mail address and the favourite colour of user 52.",
        &[
            ("get_user_email", Some(("user_id", Fixed("52")))),
            ("get_user_favorite_color", Some(("user_id", Fixed("52")))),
        ],
        &[Shown(1, "/email"), Words(", "), Shown(2, "/color")],
        &["gus@hill.example", "white"],
    ),
    (
        "Tell me the time and the weather at location 4.",
        &[
            (
                "get_current_time_for_location",
                Some(("location_id", Fixed("4"))),
            ),
            (
                "get_current_weather_for_location",
                Some(("location_id", Fixed("4"))),
            ),
        ],
        &[Shown(1, "/time"), Words(", "), Shown(2, "/weather")],
        &["03:10", "sun"],
    ),
];

/// The two questions whose steps depend on no other step.
const ANY_ORDER: [&str; 2] = [
    "Give me the e-mail address and the favourite colour of user 52.",
    "Tell me the time and the weather at location 4.",
];

/// Three apps with 17 tools.
pub(super) fn benchmark() -> Benchmark {
    Benchmark {
        name: "relational-data",
        category: "Multiple apps collaboration",
        apps: ["people", "places", "foods"].map(str::to_owned).to_vec(),
        queries: QUESTIONS.iter().map(query).collect(),
    }
}

fn query((text, steps, answer, words): &Question) -> Query {
    let mut needs: Vec<String> = steps.iter().map(|(tool, _)| app(tool).to_owned()).collect();
    needs.sort();
    needs.dedup();
    Query {
        text: (*text).to_owned(),
        steps: steps.iter().map(|(tool, _)| (*tool).to_owned()).collect(),
        any_order: ANY_ORDER.contains(text),
        reference: Reference::Says(words.to_vec()),
        plan: steps.iter().map(call).collect(),
        answer: answer.iter().map(part).collect(),
        needs,
    }
}

fn call((tool, parameter): &Step) -> PlannedCall {
    let call = PlannedCall::new(tool);
    match parameter {
        None => call,
        Some((name, Given::Fixed(value))) => call.with(name, *value),
        Some((name, Given::From(step, pointer))) => call.with_field(name, *step, pointer),
    }
}

fn part(says: &Says) -> SummaryPart {
    match says {
        Says::Words(words) => SummaryPart::Words((*words).to_owned()),
        Says::Shown(step, pointer) => SummaryPart::Shown {
            step: *step,
            pointer: (*pointer).to_owned(),
        },
    }
}

/// The app of a tool.
fn app(tool: &str) -> &'static str {
    if tool.contains("user") {
        "people"
    } else if tool.contains("food") {
        "foods"
    } else {
        "places"
    }
}
