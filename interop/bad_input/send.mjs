// Sends requests by openai-node without retries.
//
// One argument: the URL of the upstream, which is told each row before it is sent. Each line of
// standard input is a request as suite.py describes it; each line of standard output is what was
// raised, or {"class": null}.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

// The client is installed outside of the checkout, where an import would not look for it.
const require = createRequire(`${process.env.INTEROP_NODE_MODULES}/`);
const { OpenAI } = require('openai');

const CLIENT_TIMEOUT_MS = 60_000;
const [upstream] = process.argv.slice(2);

function sent(client, { method, path, body, headers }) {
  if (method === 'GET') return client.get(path, { headers });
  if (path !== '/chat/completions') return client.post(path, { body, headers });
  return client.chat.completions.create(body, { headers });
}

async function raised(request) {
  const client = new OpenAI({
    baseURL: request.base_url,
    apiKey: request.key ?? 'none',
    defaultHeaders: request.key === null ? { authorization: null } : {},
    maxRetries: 0,
    timeout: CLIENT_TIMEOUT_MS,
  });
  if (request.before) {
    await client.chat.completions.create(request.before, { headers: request.headers });
  }
  try {
    const answer = await sent(client, request);
    if (request.body?.stream === true) for await (const _ of answer);
  } catch (error) {
    return {
      class: error.constructor.name,
      status: error.status ?? null,
      type: error.type ?? null,
      code: error.code ?? null,
      param: error.param ?? null,
      request_id: error.requestID ?? null,
      request_id_of_body: error.error?.request_id ?? null,
      message: error.message,
    };
  }
  return { class: null };
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  await fetch(`${upstream}/row/${request.row}`, { method: 'PUT' });
  process.stdout.write(`${JSON.stringify(await raised(request))}\n`);
}
