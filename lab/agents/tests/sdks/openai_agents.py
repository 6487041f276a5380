"""`openai-agents` over both APIs of OpenAI."""
import asyncio

import agents
import openai
from plans import PARALLEL, PLAN, weather

agents.set_tracing_disabled(True)
client = openai.AsyncOpenAI(max_retries=0)


@agents.function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return weather(city)


async def main():
    for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
        agent = agents.Agent(name="a", tools=[get_weather], model=kind(model="worst-case", openai_client=client),
                             model_settings=agents.ModelSettings(store=False))
        for plan, wanted in ((PLAN, "It is sunny."), (PARALLEL, "Rome is rainy.")):
            result = await agents.Runner.run(agent, plan)
            assert result.final_output == wanted, (kind, result.final_output)
            streamed = agents.Runner.run_streamed(agent, plan)
            async for _ in streamed.stream_events():
                pass
            assert streamed.final_output == wanted, (kind, streamed.final_output)


asyncio.run(main())
