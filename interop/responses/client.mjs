// What openai-node reads of responses that are kept: the same steps as client.py.
import { createRequire } from 'node:module';
import { isDeepStrictEqual } from 'node:util';

const require = createRequire(`${process.env.INTEROP_NODE_MODULES}/`);
const { OpenAI } = require('openai');

const OVER = ['completed', 'incomplete', 'failed', 'cancelled'];
const WEATHER = {
  type: 'function',
  name: 'get_weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
  strict: false,
};
const ENDED_WITHIN_MS = 20_000;
const POLL_MS = 20;

const { base_url: baseURL, key: apiKey } = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const got = {};

const all = async (stream) => {
  const events = [];
  for await (const event of await stream) events.push(event);
  return events;
};
const refused = async (what) => {
  try {
    await what();
  } catch (error) {
    return [error.constructor.name, error.status, error.code, error.param];
  }
  return ['answered'];
};
const ended = async (response) => {
  const until = Date.now() + ENDED_WITHIN_MS;
  while (!OVER.includes(response.status) && Date.now() < until) {
    await new Promise((done) => setTimeout(done, POLL_MS));
    response = await client.responses.retrieve(response.id);
  }
  return response;
};
const plain = (value) => JSON.parse(JSON.stringify(value));

const one = await client.responses.create({ model: 'any', input: '6 * 7?' });
const two = await client.responses.create({ model: 'any', input: 'again?', previous_response_id: one.id });
got.continued = [two.output_text, two.previous_response_id === one.id];
got.retrieved = isDeepStrictEqual(plain(await client.responses.retrieve(two.id)), plain(two));

const asked = await client.responses.create({ model: 'any', input: 'weather?', tools: [WEATHER] });
const [call] = asked.output.filter((item) => item.type === 'function_call');
const output = { type: 'function_call_output', call_id: call.call_id, output: 'sunny' };
const told = await client.responses.create({
  model: 'any',
  input: [output],
  tools: [WEATHER],
  previous_response_id: asked.id,
});
got.told = told.output_text;

const live = await all(client.responses.create({ model: 'any', input: '6 * 7?', stream: true }));
const name = live[0].response.id;
got.numbers = live.every((event, place) => event.sequence_number === place);
got.resumed = [];
for (let seen = 0; seen < live.length; seen += 1) {
  const rest = await all(client.responses.retrieve(name, { stream: true, starting_after: seen }));
  if (!isDeepStrictEqual(plain(rest), plain(live.slice(seen + 1)))) got.resumed.push(seen);
}
got.lost = await refused(() => all(client.responses.retrieve(name, { stream: true, starting_after: live.length })));

const begun = await client.responses.create({ model: 'any', input: '6 * 7?', background: true });
got.begun = [['queued', 'in_progress'].includes(begun.status), begun.background];
const end = await ended(begun);
got.background = [end.status, end.output_text];
const slow = await client.responses.create({ model: 'any', input: 'slowly', background: true });
got.cancelled = [(await client.responses.cancel(slow.id)).status, (await client.responses.cancel(slow.id)).status];
const kinds = (await all(client.responses.create({ model: 'any', input: '6 * 7?', background: true, stream: true }))).map(
  (event) => event.type,
);
got.streamed = [kinds.slice(0, 3), kinds.at(-1)];

let asking = await client.responses.create({ model: 'any', input: 'pay it' });
const [question] = asking.output.filter((item) => item.type === 'mcp_approval_request');
const answer = (id, approve, more = {}) =>
  client.responses.create({
    model: 'any',
    input: [{ type: 'mcp_approval_response', approval_request_id: id, approve, ...more }],
    previous_response_id: asking.id,
  });
const paid = await answer(question.id, true);
const [paying] = paid.output.filter((item) => item.type === 'mcp_call');
got.approved = [
  question.server_label,
  question.name,
  question.arguments,
  paying.output,
  paying.approval_request_id === question.id,
  paid.output_text,
];
got.twice = await refused(() => answer(question.id, false));
got['not asked'] = await refused(() => answer(`${question.id.slice(0, -8)}00000000`, true));
const asked2 = await all(client.responses.create({ model: 'any', input: 'pay it', stream: true }));
const questions = asked2.filter((event) => event.item?.type === 'mcp_approval_request');
asking = asked2.at(-1).response;
const unpaid = await answer(questions[0].item.id, false, { reason: 'no' });
const [denied] = unpaid.output.filter((item) => item.type === 'mcp_call');
got.denied = [questions.map((event) => event.type), denied.error, unpaid.output_text];

got.items = [];
for await (const item of client.responses.inputItems.list(two.id, { order: 'asc', limit: 1 })) {
  got.items.push(item.content[0].text);
}
await client.responses.delete(two.id);
got.gone = await refused(() => client.responses.retrieve(two.id));
got.unknown = await refused(() => client.responses.create({ model: 'any', input: 'x', previous_response_id: two.id }));
// A conversation with items: made, answered in, listed, changed, and taken apart.
const { conversations } = client;
const mine = await conversations.create({
  metadata: { topic: 'sums' },
  items: [{ type: 'message', role: 'user', content: 'I am Ann.' }],
});
got.made = [mine.id.startsWith('conv_'), mine.object, mine.metadata];
const first = await client.responses.create({ model: 'any', input: '6 * 7?', conversation: mine.id });
got.of_conversation = [first.output_text, first.conversation.id === mine.id];
const added = await conversations.items.create(mine.id, {
  items: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Mind this.' }] }],
});
const [note] = added.data;
got.added = [note.type, note.role, note.status, note.content[0].text];
const into = await all(
  client.responses.create({ model: 'any', input: 'again?', conversation: { id: mine.id }, stream: true }),
);
got.streamed_into = into.at(-1).type;
got.kinds = [];
for await (const item of conversations.items.list(mine.id, { order: 'asc', limit: 2 })) got.kinds.push(item.type);
const newest = (await conversations.items.list(mine.id, { limit: 1 })).data[0];
const again = await conversations.items.retrieve(newest.id, { conversation_id: mine.id });
got.newest = [isDeepStrictEqual(plain(again), plain(newest)), again.content[0].text];
const left = await conversations.items.delete(note.id, { conversation_id: mine.id });
got.left = [left.id === mine.id, (await conversations.items.list(mine.id)).data.length];
const changed = await conversations.update(mine.id, { metadata: { topic: 'products' } });
got.changed = [changed.metadata, (await conversations.retrieve(mine.id)).metadata];
const slowly = await client.responses.create({
  model: 'any',
  input: 'slowly',
  conversation: mine.id,
  background: true,
});
got.locked = await refused(() => client.responses.create({ model: 'any', input: 'x', conversation: mine.id }));
const gone = await conversations.delete(mine.id);
got.deleted = [gone.id === mine.id, gone.deleted, gone.object];
got.stopped = await refused(() => client.responses.retrieve(slowly.id));
got.no_conversation = await refused(() => conversations.items.list(mine.id));
got.not_in = await refused(() => client.responses.create({ model: 'any', input: 'x', conversation: mine.id }));
console.log(JSON.stringify(got));
