//! Relational data: people, places and foods that refer to each other by id (after LangChain's benchmark; all data invented).

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::app::{App, CaseTool, text};
use crate::state::Arguments;

/// The rows of each table.
static DATA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("relational.json")).unwrap_or_default());

const CURRENT_USER: &str = "35";

type Parameters = &'static [(&'static str, &'static str)];
/// A tool: its name, its description, its parameters and what it does.
type Row = (&'static str, &'static str, Parameters, crate::Run);
const USER_ID: Parameters = &[("user_id", "The user's id.")];
const LOCATION_ID: Parameters = &[("location_id", "The location's id.")];
const FOOD_ID: Parameters = &[("food_id", "The food's id.")];
const NAME: Parameters = &[("name", "The name, or a part of it.")];
const CITY: Parameters = &[("city", "The name, or a part of it.")];

pub(crate) fn apps() -> Vec<App> {
    vec![people(), places(), foods()]
}

fn people() -> App {
    let tools: [Row; 8] = [
        (
            "get_current_user_id",
            "The id of the user who asks.",
            &[],
            |_, _| Ok(json!({ "user_id": CURRENT_USER })),
        ),
        ("list_user_ids", "The ids of all users.", &[], |_, _| {
            let ids: Vec<&Value> = rows("users").filter_map(|row| row.get("id")).collect();
            Ok(json!({ "user_ids": ids }))
        }),
        (
            "find_users_by_name",
            "Find users by their name.",
            NAME,
            |_, it| found("users", it, "name"),
        ),
        ("get_user_name", "The name of a user.", USER_ID, |_, it| {
            field("users", it, "name")
        }),
        (
            "get_user_email",
            "The e-mail address of a user.",
            USER_ID,
            |_, it| field("users", it, "email"),
        ),
        (
            "get_user_location",
            "The id of the location where a user is.",
            USER_ID,
            |_, it| field("users", it, "location_id"),
        ),
        (
            "get_user_favorite_color",
            "The favourite colour of a user.",
            USER_ID,
            |_, it| field("users", it, "color"),
        ),
        (
            "get_user_favorite_foods",
            "The ids of a user's favourite foods.",
            USER_ID,
            |_, it| field("users", it, "food_ids"),
        ),
    ];
    app(
        "people",
        "Knows the users: their names, e-mail addresses, locations, favourite colours and foods.",
        tools,
        include_str!("../manifests/people.toml"),
    )
}

fn places() -> App {
    let tools: [Row; 5] = [
        (
            "find_locations_by_name",
            "Find locations by the name of their city.",
            CITY,
            |_, it| found("locations", it, "city"),
        ),
        (
            "get_city_for_location",
            "The city of a location.",
            LOCATION_ID,
            |_, it| field("locations", it, "city"),
        ),
        (
            "get_current_time_for_location",
            "The current time at a location.",
            LOCATION_ID,
            |_, it| field("locations", it, "time"),
        ),
        (
            "get_current_weather_for_location",
            "The current weather at a location.",
            LOCATION_ID,
            |_, it| field("locations", it, "weather"),
        ),
        (
            "get_weather_at_location",
            "The weather at a location.",
            LOCATION_ID,
            |_, it| field("locations", it, "weather"),
        ),
    ];
    app(
        "places",
        "Knows locations: their cities, times and weather.",
        tools,
        include_str!("../manifests/places.toml"),
    )
}

fn foods() -> App {
    let tools: [Row; 4] = [
        (
            "find_foods_by_name",
            "Find foods by their name.",
            NAME,
            |_, it| found("foods", it, "name"),
        ),
        ("get_food_name", "The name of a food.", FOOD_ID, |_, it| {
            field("foods", it, "name")
        }),
        (
            "get_food_calories",
            "The calories of a portion of a food.",
            FOOD_ID,
            |_, it| field("foods", it, "calories"),
        ),
        (
            "get_food_allergic_ingredients",
            "The allergens in a food.",
            FOOD_ID,
            |_, it| field("foods", it, "allergens"),
        ),
    ];
    app(
        "foods",
        "Knows foods: their names, calories and allergens.",
        tools,
        include_str!("../manifests/foods.toml"),
    )
}

fn app<const N: usize>(name: &str, description: &str, tools: [Row; N], rules: &str) -> App {
    let tool = |(name, description, parameters, run): Row| CaseTool {
        name,
        description: description.to_owned(),
        parameters,
        run,
    };
    App {
        name: name.to_owned(),
        description: description.to_owned(),
        tools: tools.into_iter().map(tool).collect(),
        rules: rules.to_owned(),
    }
}

fn rows(table: &str) -> impl Iterator<Item = &'static Value> {
    DATA.get(table)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// A field of the row whose id is the one argument.
fn field(table: &str, arguments: &Arguments, name: &str) -> Result<Value, String> {
    let id = arguments.values().next();
    let row = rows(table).find(|row| row.get("id") == id);
    let row = row.ok_or_else(|| format!("{table}: there is none with this id"))?;
    Ok(json!({ name: row.get(name) }))
}

/// The id and this field of each row whose field has the words of the argument of the same name in it.
fn found(table: &str, arguments: &Arguments, name: &str) -> Result<Value, String> {
    let words = text(arguments, name)?.to_lowercase();
    let has = |row: &&Value| {
        let value = row.get(name).and_then(Value::as_str).unwrap_or_default();
        value.to_lowercase().contains(&words)
    };
    let found = rows(table).filter(has);
    let found: Vec<Value> = found
        .map(|row| json!({ "id": row.get("id"), name: row.get(name) }))
        .collect();
    Ok(json!({ table: found }))
}
