//! Relational data: people, places and foods that refer to each other by id (after LangChain's benchmark; all data invented).

use serde_json::{Value, json};

use crate::app::{App, CaseTool, text};
use crate::state::{Arguments, State};

/// Who asks.
const CURRENT_USER: &str = "35";

struct User {
    id: &'static str,
    name: &'static str,
    email: &'static str,
    location: &'static str,
    color: &'static str,
    foods: &'static [&'static str],
}

struct Location {
    id: &'static str,
    city: &'static str,
    time: &'static str,
    weather: &'static str,
}

struct Food {
    id: &'static str,
    name: &'static str,
    calories: u32,
    allergens: &'static [&'static str],
}

const USERS: [User; 6] = [
    User {
        id: "11",
        name: "Carla",
        email: "carla@lake.example",
        location: "1",
        color: "green",
        foods: &["1", "4"],
    },
    User {
        id: "21",
        name: "Dora",
        email: "dora@hill.example",
        location: "2",
        color: "violet",
        foods: &["2"],
    },
    User {
        id: "35",
        name: "Emil",
        email: "emil@lake.example",
        location: "3",
        color: "grey",
        foods: &["3", "5"],
    },
    User {
        id: "48",
        name: "Fay",
        email: "fay@dune.example",
        location: "4",
        color: "orange",
        foods: &["6", "1"],
    },
    User {
        id: "52",
        name: "Gus",
        email: "gus@hill.example",
        location: "5",
        color: "white",
        foods: &["7"],
    },
    User {
        id: "67",
        name: "Hana",
        email: "hana@reef.example",
        location: "1",
        color: "blue",
        foods: &["2", "3"],
    },
];

const LOCATIONS: [Location; 5] = [
    Location {
        id: "1",
        city: "Lisbon",
        time: "2026-11-22 08:10",
        weather: "windy, 17 degrees",
    },
    Location {
        id: "2",
        city: "Oslo",
        time: "2026-11-22 09:10",
        weather: "snow, -2 degrees",
    },
    Location {
        id: "3",
        city: "Riga",
        time: "2026-11-22 10:10",
        weather: "fog, 3 degrees",
    },
    Location {
        id: "4",
        city: "Quito",
        time: "2026-11-22 03:10",
        weather: "sun, 19 degrees",
    },
    Location {
        id: "5",
        city: "Osaka",
        time: "2026-11-22 17:10",
        weather: "rain, 12 degrees",
    },
];

const FOODS: [Food; 7] = [
    Food {
        id: "1",
        name: "Lentil soup",
        calories: 230,
        allergens: &["celery"],
    },
    Food {
        id: "2",
        name: "Noodles",
        calories: 410,
        allergens: &["gluten", "egg"],
    },
    Food {
        id: "3",
        name: "Rye bread",
        calories: 250,
        allergens: &["gluten"],
    },
    Food {
        id: "4",
        name: "Fig",
        calories: 74,
        allergens: &[],
    },
    Food {
        id: "5",
        name: "Goat cheese",
        calories: 364,
        allergens: &["milk"],
    },
    Food {
        id: "6",
        name: "Peanut stew",
        calories: 520,
        allergens: &["peanut"],
    },
    Food {
        id: "7",
        name: "Pear",
        calories: 57,
        allergens: &[],
    },
];

const USER_ID: &[(&str, &str)] = &[("user_id", "The user's id.")];
const LOCATION_ID: &[(&str, &str)] = &[("location_id", "The location's id.")];
const FOOD_ID: &[(&str, &str)] = &[("food_id", "The food's id.")];

pub(crate) fn apps() -> Vec<App> {
    vec![people(), places(), foods()]
}

fn tool(
    name: &'static str,
    description: &str,
    parameters: &'static [(&str, &str)],
    run: crate::Run,
) -> CaseTool {
    CaseTool {
        name,
        description: description.to_owned(),
        parameters,
        run,
    }
}

fn people() -> App {
    App {
        name: "people".to_owned(),
        description: "Knows the users: their names, e-mail addresses, locations, favourite colours and foods.".to_owned(),
        tools: vec![
            tool("get_current_user_id", "The id of the user who asks.", &[], |_, _| Ok(json!({"user_id": CURRENT_USER}))),
            tool("list_user_ids", "The ids of all users.", &[], |_, _| Ok(json!({"user_ids": USERS.map(|user| user.id)}))),
            tool("find_users_by_name", "Find users by their name.", &[("name", "The name, or a part of it.")], |_, arguments| {
                let found = matching(&USERS, arguments, "name", |user| user.name)?;
                let users: Vec<Value> = found.into_iter().map(|user| json!({"id": user.id, "name": user.name})).collect();
                Ok(json!({ "users": users }))
            }),
            tool("get_user_name", "The name of a user.", USER_ID, |_, arguments| Ok(json!({"name": user(arguments)?.name}))),
            tool("get_user_email", "The e-mail address of a user.", USER_ID, |_, arguments| Ok(json!({"email": user(arguments)?.email}))),
            tool("get_user_location", "The id of the location where a user is.", USER_ID, |_, arguments| Ok(json!({"location_id": user(arguments)?.location}))),
            tool("get_user_favorite_color", "The favourite colour of a user.", USER_ID, |_, arguments| Ok(json!({"color": user(arguments)?.color}))),
            tool("get_user_favorite_foods", "The ids of a user's favourite foods.", USER_ID, |_, arguments| Ok(json!({"food_ids": user(arguments)?.foods}))),
        ],
        rules: include_str!("../manifests/people.toml").to_owned(),
    }
}

fn places() -> App {
    App {
        name: "places".to_owned(),
        description: "Knows locations: their cities, times and weather.".to_owned(),
        tools: vec![
            tool(
                "find_locations_by_name",
                "Find locations by the name of their city.",
                &[("city", "The name, or a part of it.")],
                |_, arguments| {
                    let found = matching(&LOCATIONS, arguments, "city", |location| location.city)?;
                    let locations: Vec<Value> = found
                        .into_iter()
                        .map(|at| json!({"id": at.id, "city": at.city}))
                        .collect();
                    Ok(json!({ "locations": locations }))
                },
            ),
            tool(
                "get_city_for_location",
                "The city of a location.",
                LOCATION_ID,
                |_, arguments| Ok(json!({"city": location(arguments)?.city})),
            ),
            tool(
                "get_current_time_for_location",
                "The current time at a location.",
                LOCATION_ID,
                |_, arguments| Ok(json!({"time": location(arguments)?.time})),
            ),
            tool(
                "get_current_weather_for_location",
                "The current weather at a location.",
                LOCATION_ID,
                weather,
            ),
            tool(
                "get_weather_at_location",
                "The weather at a location.",
                LOCATION_ID,
                weather,
            ),
        ],
        rules: include_str!("../manifests/places.toml").to_owned(),
    }
}

fn foods() -> App {
    App {
        name: "foods".to_owned(),
        description: "Knows foods: their names, calories and allergens.".to_owned(),
        tools: vec![
            tool(
                "find_foods_by_name",
                "Find foods by their name.",
                &[("name", "The name, or a part of it.")],
                |_, arguments| {
                    let found = matching(&FOODS, arguments, "name", |food| food.name)?;
                    let foods: Vec<Value> = found
                        .into_iter()
                        .map(|food| json!({"id": food.id, "name": food.name}))
                        .collect();
                    Ok(json!({ "foods": foods }))
                },
            ),
            tool(
                "get_food_name",
                "The name of a food.",
                FOOD_ID,
                |_, arguments| Ok(json!({"name": food(arguments)?.name})),
            ),
            tool(
                "get_food_calories",
                "The calories of a portion of a food.",
                FOOD_ID,
                |_, arguments| Ok(json!({"calories": food(arguments)?.calories})),
            ),
            tool(
                "get_food_allergic_ingredients",
                "The allergens in a food.",
                FOOD_ID,
                |_, arguments| Ok(json!({"allergens": food(arguments)?.allergens})),
            ),
        ],
        rules: include_str!("../manifests/foods.toml").to_owned(),
    }
}

fn weather(_: &State, arguments: &Arguments) -> Result<Value, String> {
    Ok(json!({"weather": location(arguments)?.weather}))
}

fn user(arguments: &Arguments) -> Result<&'static User, String> {
    let id = text(arguments, "user_id")?;
    let found = USERS.iter().find(|user| user.id == id);
    found.ok_or_else(|| "there is no user with this id".to_owned())
}

fn location(arguments: &Arguments) -> Result<&'static Location, String> {
    let id = text(arguments, "location_id")?;
    let found = LOCATIONS.iter().find(|location| location.id == id);
    found.ok_or_else(|| "there is no location with this id".to_owned())
}

fn food(arguments: &Arguments) -> Result<&'static Food, String> {
    let id = text(arguments, "food_id")?;
    let found = FOODS.iter().find(|food| food.id == id);
    found.ok_or_else(|| "there is no food with this id".to_owned())
}

/// Those whose name has the words of the argument in it.
fn matching<T>(
    all: &'static [T],
    arguments: &Arguments,
    parameter: &str,
    name: fn(&T) -> &str,
) -> Result<Vec<&'static T>, String> {
    let words = text(arguments, parameter)?.to_lowercase();
    let found = all
        .iter()
        .filter(|one| name(one).to_lowercase().contains(&words));
    Ok(found.collect())
}
