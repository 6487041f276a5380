"""`langgraph` over Chat Completions, Responses and Messages."""
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from plans import PARALLEL, PLAN, weather


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return weather(city)


models = [ChatOpenAI(model="worst-case", max_retries=0),
          ChatOpenAI(model="worst-case", max_retries=0, use_responses_api=True, store=False),
          ChatAnthropic(model="worst-case", max_retries=0, max_tokens=1000)]
for model in models:
    agent = create_react_agent(model, [get_weather])
    for plan, wanted in ((PLAN, "It is sunny."), (PARALLEL, "Rome is rainy.")):
        asked = {"messages": [("user", plan)]}
        answer = agent.invoke(asked)["messages"][-1]
        assert answer.text == wanted, (model, answer)
        said = "".join(part.text for part, _ in agent.stream(asked, stream_mode="messages") if part.type.startswith("AI"))
        assert said.endswith(wanted), (model, said)
