// What LangChain in JavaScript reads: the same steps as history.py.
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { RunnableWithMessageHistory } from '@langchain/core/runnables';
import { tool } from '@langchain/core/tools';
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ToolNode } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { z } from 'zod';
import { TurnwrightChatMessageHistory } from './turnwright-history.mjs';

const IMAGE = 'data:image/png;base64,iVBORw0KGgo=';
const { url: baseUrl, key: apiKey, prefix } = JSON.parse(process.argv[2]);
const history = (name, user) =>
  new TurnwrightChatMessageHistory({ baseUrl, apiKey, conversation: `${prefix}/${name}`, user });

/** A message without its id. */
const told = (message) => {
  const kind = message.getType();
  if (kind === 'tool') {
    return ['tool', message.content, message.tool_call_id, message.name, message.status];
  }
  if (kind === 'ai' && message.tool_calls.length > 0) {
    return ['ai', message.content, message.tool_calls.map(({ id, name, args }) => [id, name, args])];
  }
  return [kind, message.content];
};
const call = (name, id, args) => ({ id, name, args, type: 'tool_call' });
const types = async (of) => (await of.getMessages()).map((message) => message.getType());
const refused = async (what) => {
  try {
    await what();
  } catch (error) {
    return [error.status, error.code, error.param];
  }
  return ['added'];
};

const weather = tool(({ city }) => `sunny in ${city}`, {
  name: 'weather',
  description: 'Says the weather.',
  schema: z.object({ city: z.string() }),
});
const fails = tool(
  () => {
    throw new Error('it rains');
  },
  { name: 'fails', description: 'Fails.', schema: z.object({}) },
);

/** The results that LangGraph's node gives to the calls of the last message. */
const runCalls = async (messages) => {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('tools', new ToolNode([weather, fails], { handleToolErrors: true }))
    .addEdge(START, 'tools')
    .compile();
  const made = await graph.invoke({ messages });
  return made.messages.slice(messages.length);
};

const got = {};
const ofTurns = new TurnwrightChatMessageHistory({ baseUrl, apiKey, conversation: 'turns', user: 'ann' });
let open = [];
got['of turns'] = (await ofTurns.getMessages()).map((message) => {
  if (message.getType() === 'tool') {
    return ['tool', message.name, message.status, message.tool_call_id === open.shift()];
  }
  const row = told(message);
  if (row.length === 3) {
    open = row[2].map(([id]) => id);
    row[2] = row[2].map(([, name, args]) => [name, args]);
  }
  return row;
});

const several = history('several');
got.empty = await several.getMessages();
await several.addMessages([
  new HumanMessage('What 🧺 do I have?'),
  new AIMessage({
    content: 'I look.',
    tool_calls: [call('products', 'call_1', { n: 1.5, of: ['a'] }), call('orders', 'call_2', {})],
  }),
  new ToolMessage({ content: '{"products": []}', tool_call_id: 'call_1', name: 'products' }),
  new ToolMessage({ content: 'no such shop', tool_call_id: 'call_2', name: 'orders', status: 'error' }),
  new AIMessage('Nothing.'),
]);
got.again = (await several.getMessages()).map(told);

const odd = history('odd');
const parts = [
  { type: 'text', text: 'What is it?' },
  { type: 'image_url', image_url: { url: IMAGE } },
];
const broken = { id: 'call_3', name: 'orders', args: '{"n": ', type: 'invalid_tool_call' };
await odd.addMessages([
  new HumanMessage({ content: parts }),
  new AIMessage({ content: '', invalid_tool_calls: [broken] }),
]);
await odd.addMessages([new ToolMessage({ content: 'not JSON', tool_call_id: 'call_3', status: 'error' })]);
const [image, asksBadly, itsResult] = await odd.getMessages();
got.image = [image.getType(), image.content.map((part) => part.type)];
const invalid = asksBadly.invalid_tool_calls.map(({ id, name, args }) => [id, name, args]);
got.invalid = [asksBadly.getType(), invalid, itsResult.getType(), itsResult.tool_call_id];

const runs = history('runs');
const calls = [call('weather', 'call_4', { city: 'Rome' }), call('fails', 'call_5', {})];
await runs.addMessages([new HumanMessage('Well?'), new AIMessage({ content: '', tool_calls: calls })]);
got.early = await refused(() => runs.addMessages([new HumanMessage('Hello?')]));
const results = await runCalls(await runs.getMessages());
await runs.addMessages(results);
got.run = (await runs.getMessages()).slice(2).map(told);
got.run[1][1] = got.run[1][1].includes('it rains');
got.twice = await refused(() => runs.addMessages(results.slice(0, 1)));
await runs.addMessage(new AIMessage('Sunny.'));
got['after run'] = await types(runs);

got.system = await runs.addMessages([new SystemMessage('Be kind.')]).then(
  () => false,
  () => true,
);

const many = history('many');
await many.addMessages(Array.from({ length: 251 }, (_, n) => new HumanMessage(`m${n}`)));
const readAgain = await many.getMessages();
got.many = [readAgain.length, readAgain[0].content, readAgain.at(-1).content];

await many.clear();
got.cleared = [await many.getMessages()];
await many.addMessages([new HumanMessage('anew')]);
got.cleared.push(await types(many));

await history('anns', 'ann').addMessages([new HumanMessage('Mine.')]);
got['of others'] = await history('anns', 'bob').getMessages();

const model = new ChatOpenAI({
  model: 'm',
  apiKey,
  maxRetries: 0,
  configuration: { baseURL: `${baseUrl}/v1` },
});
const chain = new RunnableWithMessageHistory({
  runnable: model,
  getMessageHistory: (session) => history(session),
});
const session = { configurable: { sessionId: 'chain' } };
await chain.invoke([new HumanMessage('How much?')], session);
got.told = (await chain.invoke([new HumanMessage('Once again')], session)).content;
got.chain = await types(history('chain'));
console.log(JSON.stringify(got));
