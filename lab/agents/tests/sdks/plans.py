"""What the scripts ask of the scripted model (lab/agents/src/orders.rs), and the tool of all of them."""
PLAN = '%%get_weather {"city": "Paris"}%%\n%%answer It is ${0/is }.%%'
PARALLEL = '%%get_weather {"city": "Paris"}%%\n%%+get_weather {"city": "Rome"}%%\n%%answer Rome is ${1/is }.%%'
SEEN = "%%answer Seen.%%"
# The model's server answers it with status 429 and `retry-after: 7`.
REFUSED = "BUSY"
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def weather(city):
    return {"Paris": "It is sunny", "Rome": "It is rainy"}[city]
