// One request with the official client at its default retries; prints how it ended.
import { createRequire } from 'node:module';
import path from 'node:path';

const [modules, baseURL, apiKey, stream, text] = process.argv.slice(2);
const { OpenAI } = createRequire(path.join(modules, 'here.js'))('openai');

let requests = 0;
const client = new OpenAI({
  baseURL,
  apiKey,
  fetch: (url, init) => {
    requests += 1;
    return fetch(url, init);
  },
});
const ended = { status: 0, text: '', shouldRetry: null, requests: 0 };
try {
  const answer = await client.chat.completions.create({
    model: 'any',
    messages: [{ role: 'user', content: text }],
    stream: stream === 'true',
  });
  if (stream === 'true') {
    for await (const chunk of answer) ended.text += chunk.choices[0]?.delta.content ?? '';
  } else {
    ended.text = answer.choices[0].message.content;
  }
  ended.status = 200;
} catch (error) {
  if (!(error instanceof OpenAI.APIError)) throw error;
  ended.status = error.status ?? 0;
  ended.shouldRetry = error.headers?.get('x-should-retry') ?? null;
}
ended.requests = requests;
console.log(JSON.stringify(ended));
