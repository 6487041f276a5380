// What the scripts ask of the scripted model (lab/agents/src/orders.rs), and the tool of all of them.
export const PLAN = '%%get_weather {"city": "Paris"}%%\n%%answer It is ${0/is }.%%';
export const PARALLEL =
  '%%get_weather {"city": "Paris"}%%\n%%+get_weather {"city": "Rome"}%%\n%%answer Rome is ${1/is }.%%';
export const SEEN = "%%answer Seen.%%";
// The model's server answers it with status 429 and `retry-after: 7`.
export const REFUSED = "BUSY";
export const IMAGE =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
export const weather = (city) => ({ Paris: "It is sunny", Rome: "It is rainy" })[city];
