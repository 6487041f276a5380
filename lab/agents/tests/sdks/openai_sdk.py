"""The official `openai`, in both of its APIs: a tool round trip, streamed and not, parallel calls, an image, an error."""
import json

import openai
from plans import IMAGE, PARALLEL, PLAN, REFUSED, SEEN, weather

client = openai.OpenAI(max_retries=0)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
FUNCTION = {"name": "get_weather", "description": "The weather of a city.", "parameters": SCHEMA}
URL = "data:image/png;base64," + IMAGE


def chat(messages, stream):
    arguments = dict(model="worst-case", messages=messages, tools=[{"type": "function", "function": FUNCTION}])
    if not stream:
        return client.chat.completions.create(**arguments).choices[0].message
    with client.chat.completions.stream(**arguments) as events:
        for _ in events:
            pass
        return events.get_final_completion().choices[0].message


def chat_answer(content, stream, calls):
    messages = [{"role": "user", "content": content}]
    while True:
        message = chat(messages, stream)
        if not message.tool_calls:
            return message.content
        assert len(message.tool_calls) == calls, message
        messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for call in message.tool_calls:
            result = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def respond(items, stream):
    arguments = dict(model="worst-case", input=items, tools=[{"type": "function", "strict": True, **FUNCTION}], store=False)
    if not stream:
        return client.responses.create(**arguments)
    with client.responses.stream(**arguments) as events:
        return events.get_final_response()


def responses_answer(content, stream, calls):
    items = [{"role": "user", "content": content}]
    while True:
        response = respond(items, stream)
        made = [item for item in response.output if item.type == "function_call"]
        if not made:
            return response.output_text
        assert len(made) == calls, response
        items += response.output
        for call in made:
            result = weather(**json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})


for answer in (chat_answer, responses_answer):
    for stream in (False, True):
        assert answer(PLAN, stream, 1) == "It is sunny.", (answer, stream)
        assert answer(PARALLEL, stream, 2) == "Rome is rainy.", (answer, stream)
        try:
            answer(REFUSED, stream, 0)
            raise SystemExit("no error")
        except openai.RateLimitError as error:
            assert error.response.headers["retry-after"] == "7", error.response.headers
            assert error.type == "rate_limit_error", error.body
assert chat_answer([{"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": SEEN}], False, 0) == "Seen."
assert responses_answer([{"type": "input_image", "image_url": URL}, {"type": "input_text", "text": SEEN}], False, 0) == "Seen."
