// Asks by Node clients; jobs and outcomes are those that drive.py describes.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

import { clients as aiClients } from './ai_clients.mjs';
import { clients as anthropicClients } from './anthropic_clients.mjs';
import { Job } from './job.mjs';
import { clients as langchainClients } from './langchain_clients.mjs';
import { clients as openaiClients } from './openai_clients.mjs';
import { clients as responsesClients } from './responses_clients.mjs';

// The clients are installed outside of the checkout, where an import would not look for them.
const require = createRequire(`${process.env.INTEROP_NODE}/package.json`);

const CLIENTS = {
  ...openaiClients(require('openai')),
  ...responsesClients(require('openai')),
  ...anthropicClients(require('@anthropic-ai/sdk')),
  ...langchainClients({
    ...require('@langchain/openai'),
    ...require('@langchain/anthropic'),
    ...require('langchain'),
    messages: require('@langchain/core/messages'),
  }),
  ...aiClients({
    ai: require('ai'),
    ...require('@ai-sdk/openai'),
    ...require('@ai-sdk/anthropic'),
    ...require('@ai-sdk/openai-compatible'),
  }),
};

// The AI SDK warns of what it does not send to a server that keeps nothing.
globalThis.AI_SDK_LOG_WARNINGS = false;

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

async function work(job) {
  try {
    await CLIENTS[job.client](job);
  } catch (error) {
    job.failed(error);
  }
  say({ job: job.job, outcome: job.outcome });
}

say({ clients: Object.keys(CLIENTS) });
const jobs = new Map();
for await (const line of createInterface({ input: process.stdin })) {
  const sent = JSON.parse(line);
  if ('abort' in sent) {
    jobs.get(sent.abort).abort();
  } else {
    const job = new Job(sent, process.argv[2]);
    jobs.set(sent.job, job);
    work(job);
  }
}
