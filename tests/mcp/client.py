"""The official Python client of MCP against `git dibs mcp` and `/mcp`, in both generations of the protocol.

Usage: client.py GIT_DIBS URL ANA_TOKEN BO_TOKEN, in a repository with a server. Ends with 0 if all is as it should be."""

import asyncio
import sys

import anyio
import httpx2
import jsonschema
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

PROGRAM, URL, ANA, BO = sys.argv[1:]
# How a client begins, and the version that both sides then speak: a handshake; discovery; neither of them.
MODES = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}


def stdio(token):
    return stdio_client(StdioServerParameters(command=PROGRAM, args=["mcp"], env={"DIBS_TOKEN": token}))


def http(token):
    client = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=httpx2.Timeout(30, read=300))
    return streamable_http_client(f"{URL}/mcp", http_client=client)


async def use(client, tool, **arguments):
    """The structured content of a result. The client has compared it with the tool's output schema."""
    result = await client.call_tool(tool, arguments)
    assert result.content[0].text.startswith(result.structured_content["summary"]), result
    assert result.is_error == (result.structured_content["status"] == "error"), result
    return result.structured_content


async def check(transport, mode):
    async with Client(transport(ANA), mode=mode) as ana, Client(transport(BO), mode=mode) as bo:
        assert ana.protocol_version == MODES[mode], ana.protocol_version
        if mode in ("legacy", "auto"):
            assert ana.server_info.name == "git-dibs", ana.server_info
            assert "reserve" in ana.instructions
        tools = {tool.name: tool for tool in (await ana.list_tools()).tools}
        assert {"reserve", "release", "check", "status", "wait", "request_unlock", "answer_unlock"} <= tools.keys()
        assert {"acquire_lock", "release_lock", "check_locks"} <= tools.keys()
        for tool in tools.values():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        held = await use(ana, "reserve", paths=["src/a.rs", "docs/**"], reason="parser")
        assert held["status"] == "reserved" and held["session"] == "ana", held
        refused = await use(bo, "reserve", path="src/a.rs")
        assert refused["status"] == "conflict" and refused["conflicts"][0]["holder"] == "ana", refused
        assert refused["conflicts"][0]["reason_quoted"] == "parser", refused
        asked = await use(bo, "request_unlock", path="src/a.rs", reason="hot fix")
        told = await use(ana, "status")
        assert told["notices"][0]["request_id"] == asked["request"]["request_id"], told
        wrong = await use(bo, "reserve", path="../x")
        assert wrong["status"] == "error", wrong
        await cancel(bo, ana)
        granted = asyncio.create_task(use(bo, "wait", path="src/a.rs", seconds=60))
        await until_waiting(ana)
        await use(ana, "answer_unlock", request_id=asked["request"]["request_id"], approve=True)
        assert (await granted)["status"] == "reserved"
        locked = (await ana.call_tool("acquire_lock", {"file_path": "src/a.rs"})).structured_content
        assert locked["success"] is False and locked["locked_by"] == "bo", locked
        for client in (ana, bo):
            await use(client, "release", all=True)
        assert (await use(ana, "status")).get("reservations") is None


async def cancel(bo, ana):
    """A cancelled wait leaves the queue."""
    with anyio.move_on_after(30) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: use(bo, "wait", path="src/a.rs", seconds=300))
            await until_waiting(ana)
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    await until_waiting(ana, waits=False)


async def until_waiting(ana, waits=True):
    """Until a request of bo waits, or none does. A session that is no holder is ahead of a third one in the queue."""
    for _ in range(600):
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {ANA}"}) as client:
            stats = (await client.get(f"{URL}/api/stats")).json()
        if (stats["waiters"] > 0) == waits:
            return
        await anyio.sleep(0.05)
    raise AssertionError("waited in vain for the queue")


async def main():
    for transport in (stdio, http):
        for mode in MODES:
            await check(transport, mode)
            print(f"{transport.__name__} {mode}: as it should be")


asyncio.run(main())
