"""`pydantic-ai` over Chat Completions, Responses and Messages."""
import asyncio

from plans import PARALLEL, PLAN, weather
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel


async def main():
    settings = {"openai_store": False}
    models = [OpenAIChatModel("worst-case"), OpenAIResponsesModel("worst-case", settings=settings), AnthropicModel("worst-case")]
    for model in models:
        agent = Agent(model)

        @agent.tool_plain
        def get_weather(city: str) -> str:
            """The weather of a city."""
            return weather(city)

        for plan, wanted in ((PLAN, "It is sunny."), (PARALLEL, "Rome is rainy.")):
            assert (await agent.run(plan)).output == wanted, model
            async with agent.run_stream(plan) as streamed:
                assert await streamed.get_output() == wanted, model


asyncio.run(main())
