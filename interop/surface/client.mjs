// Does one thing with openai-node, and prints what came of it as client.py tells it.
import { createRequire } from 'node:module';

// The client is installed outside of the checkout, where an import would not look for it.
const require = createRequire(`${process.env.INTEROP_NODE_MODULES}/`);
const { OpenAI } = require('openai');

const { base_url: baseURL, key: apiKey, retries, what, conversation } = JSON.parse(process.argv[2]);
const statuses = [];
const client = new OpenAI({
  baseURL,
  apiKey,
  ...(retries === null ? {} : { maxRetries: retries }),
  fetch: async (url, init) => {
    const answer = await fetch(url, init);
    statuses.push(answer.status);
    // Who started this may act on it.
    console.error(answer.status);
    return answer;
  },
});
const asked = { model: 'any', messages: [{ role: 'user', content: 'Please.' }] };

const DO = {
  ask: async () => {
    const { data, response } = await client.chat.completions.create(asked).withResponse();
    return { said: data.choices[0].message.content, headers: Object.fromEntries(response.headers) };
  },
  retrieve: async () => ({ said: await client.conversations.retrieve(conversation) }),
  delete: async () => ({ said: await client.conversations.delete(conversation) }),
};

const began = performance.now();
let got;
try {
  got = { class: null, ...(await DO[what]()) };
} catch (error) {
  if (!(error instanceof OpenAI.APIError)) throw error;
  got = {
    class: error.constructor.name,
    status: error.status ?? null,
    type: error.type ?? null,
    code: error.code ?? null,
    request_id: error.requestID ?? null,
    headers: Object.fromEntries(error.headers ?? []),
  };
}
const took_s = (performance.now() - began) / 1000;
console.log(JSON.stringify({ ...got, statuses, took_s }));
