"""An agent written with the protocol's own Python SDK; its first argument says what it does."""

import asyncio
import json
import os
import sys
from pathlib import Path

from acp import (
    PROTOCOL_VERSION,
    Agent,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    run_agent,
    start_tool_call,
    update_agent_message_text,
)
from acp.schema import Cost, PermissionOption, ToolCallUpdate, Usage, UsageUpdate

SCENARIO, PLACE = sys.argv[1], Path(sys.argv[2])
ANSWER = json.dumps({"version": 1, "status": "ok", "summary": "spoken"})


class Scripted(Agent):
    """Plays one scenario."""

    def on_connect(self, connection):
        self.client = connection
        self.stopped = asyncio.Event()
        self.prompts = 0

    async def initialize(self, protocol_version, **_):
        return InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, cwd, **_):
        if SCENARIO == "stray":
            os.write(1, b'this is no JSON\n{"nor": "this"\n')
        return NewSessionResponse(session_id="s-1")

    async def prompt(self, session_id, prompt, **_):
        self.prompts += 1
        await self.say(session_id, "Let me see. ")
        if SCENARIO == "permission":
            await self.ask(session_id)
        if SCENARIO == "unreachable":
            await self.say(session_id, "Error: fetch failed")
            return PromptResponse(stop_reason="end_turn")
        if SCENARIO == "prose, throttled" and self.prompts == 2:
            raise RequestError(429, "scripted failure")
        if SCENARIO in ("cancel", "costly"):
            if SCENARIO == "costly":
                await self.tell_cost(session_id)
            (PLACE / "waiting").touch()
            await self.stopped.wait()
            return PromptResponse(stop_reason="cancelled")
        await self.client.session_update(session_id, start_tool_call("t1", "look"))
        prose = SCENARIO.startswith("prose") and self.prompts == 1
        await self.say(session_id, "Done, I think." if prose else ANSWER)
        await self.tell_cost(session_id)
        used = Usage(input_tokens=60, cached_read_tokens=40, output_tokens=10, total_tokens=110)
        # By its models it tells of one more call.
        by_model = {"inputTokens": 70, "cachedInputTokens": 40, "outputTokens": 12}
        told = {"model": "gpt-5", "token_count": by_model | {"totalTokens": 122}}
        meta = {"quota": {"model_usage": [told]}}
        return PromptResponse(stop_reason="end_turn", usage=used, field_meta=meta)

    async def tell_cost(self, session_id):
        cost = Cost(amount=0.01 * self.prompts, currency="USD")
        update = UsageUpdate(session_update="usage_update", used=1, size=2, cost=cost)
        await self.client.session_update(session_id, update)

    async def ask(self, session_id):
        call = ToolCallUpdate(
            tool_call_id="t0",
            title="write a file",
            kind="edit",
            locations=[{"path": str(PLACE / "elsewhere" / "x")}],
        )
        options = [
            PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        answer = await self.client.request_permission(session_id, call, options)
        (PLACE / "answer").write_text(answer.outcome.option_id)

    async def say(self, session_id, text):
        await self.client.session_update(session_id, update_agent_message_text(text))

    async def cancel(self, session_id, **_):
        (PLACE / "cancelled").touch()
        self.stopped.set()


asyncio.run(run_agent(Scripted()))
