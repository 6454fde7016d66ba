"""Asks by Python clients: jobs as lines on standard input, what came of each on standard output.

A job is {"job", "client", "model", "messages", "tools", "user", "leaves"}; {"abort": job} makes that
client leave, after the first text of a stream. What is written is {"job", "outcome"}:
  answers   of each answer what the client's own object says:
            {"id", "text", "finish", "usage": [prompt, completion], "calls": [[id, name, arguments]]}
  ran       the calls that were answered here: [name, arguments]
  seen      the pieces of text, as a stream gave them
  error     {"class", "status", "code", "message", "request_id"}, or null
"""

import asyncio
import json
import os
import sys

import agents_sdk_clients
import anthropic_clients
import langchain_clients
import openai_clients
import responses_clients
from job import Job

CLIENTS = {
    **openai_clients.CLIENTS,
    **responses_clients.CLIENTS,
    **anthropic_clients.CLIENTS,
    **langchain_clients.CLIENTS,
    **agents_sdk_clients.CLIENTS,
}


async def do(job, sent):
    work = asyncio.ensure_future(CLIENTS[sent["client"]](job))
    job.task = work
    try:
        await work
    except asyncio.CancelledError:
        job.outcome["error"] = {"class": "aborted"}
    except Exception as error:  # Whatever it raises is what the suite is about.
        job.failed(error)
    print(json.dumps({"job": job.number, "outcome": job.outcome}), flush=True)


async def main():
    url, key = sys.argv[1], os.environ["OPENAI_API_KEY"]
    print(json.dumps({"clients": list(CLIENTS)}), flush=True)
    jobs, tasks = {}, set()

    def start(work):
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    while line := await asyncio.to_thread(sys.stdin.readline):
        sent = json.loads(line)
        if "abort" in sent:
            start(jobs[sent["abort"]].abort())
        else:
            job = jobs[sent["job"]] = Job(sent, url, key)
            start(do(job, sent))
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main())
