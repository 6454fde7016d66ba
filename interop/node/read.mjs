// Reads answers with the official client of a surface at its default retries.
//
// Arguments: the surface and the base URL. Each line of standard input is
// {"job", "request", "streamed"}; for each, a line of standard output has {"job", "outcome"} in the
// form that ../python/clients.py describes.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

import { chat, responses } from './openai.mjs';
import { messages } from './anthropic.mjs';

// The clients are installed outside of the checkout, where an import would not look for them.
const require = createRequire(`${process.env.INTEROP_NODE}/package.json`);

const [surface, baseURL] = process.argv.slice(2);
const { name, read } = { chat, responses, messages }[surface](require, baseURL);

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

async function work({ job, request, streamed }) {
  try {
    say({ job, outcome: { error: null, ...(await read(request, streamed)) } });
  } catch (error) {
    const { name: thrown } = error.constructor;
    const shown = { class: thrown, status: error.status ?? null, message: error.message };
    say({ job, outcome: { choices: [], error: shown, id: null } });
  }
}

say({ name });
for await (const line of createInterface({ input: process.stdin })) {
  work(JSON.parse(line));
}
