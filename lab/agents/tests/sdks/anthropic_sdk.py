"""The official `anthropic`: a tool round trip, streamed and not, parallel calls, an image, an error."""
import anthropic
from plans import IMAGE, PARALLEL, PLAN, REFUSED, SEEN, weather

client = anthropic.Anthropic(max_retries=0)
TOOLS = [{"name": "get_weather", "description": "The weather of a city.",
          "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]


def ask(messages, stream):
    arguments = dict(model="worst-case", max_tokens=1000, tools=TOOLS, messages=messages)
    if not stream:
        return client.messages.create(**arguments)
    with client.messages.stream(**arguments) as events:
        return events.get_final_message()


def answer(text, stream, calls):
    messages = [{"role": "user", "content": text}]
    while True:
        message = ask(messages, stream)
        uses = [block for block in message.content if block.type == "tool_use"]
        if not uses:
            assert message.stop_reason == "end_turn", message
            return "".join(block.text for block in message.content)
        assert len(uses) == calls and message.stop_reason == "tool_use", message
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": weather(**use.input)} for use in uses]
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]


for stream in (False, True):
    assert answer(PLAN, stream, 1) == "It is sunny.", stream
    assert answer(PARALLEL, stream, 2) == "Rome is rainy.", stream
image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}
message = ask([{"role": "user", "content": [image, {"type": "text", "text": SEEN}]}], False)
assert message.content[0].text == "Seen.", message
for stream in (False, True):
    try:
        ask([{"role": "user", "content": REFUSED}], stream)
        raise SystemExit("no error")
    except anthropic.RateLimitError as error:
        assert error.response.headers["retry-after"] == "7", error.response.headers
        assert error.body["error"]["type"] == "rate_limit_error", error.body
