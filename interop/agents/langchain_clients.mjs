// @langchain/openai, by either of its formats, and @langchain/anthropic: a model with bound tools in a loop of one's
// own, and LangChain's agent.

import { DESCRIPTION, PARAMETERS } from './job.mjs';

const OUTPUT_TOKENS_MAX = 1000;

export function clients({ ChatAnthropic, ChatOpenAI, createAgent, tool, messages: classes }) {
  const { AIMessage, ToolMessage, coerceMessageLikeToMessage } = classes;

  function openai(job, more) {
    return new ChatOpenAI({
      configuration: { baseURL: job.url },
      apiKey: job.key,
      model: job.model,
      maxRetries: 0,
      streamUsage: true,
      ...(job.user && { modelKwargs: { user: job.user } }),
      ...more,
    });
  }

  const models = {
    '@langchain/openai': (job) => openai(job),
    '@langchain/openai responses': (job) => openai(job, { useResponsesApi: true }),
    '@langchain/anthropic': (job) =>
      new ChatAnthropic({
        anthropicApiUrl: job.url.replace(/\/v1$/, ''),
        apiKey: job.key,
        model: job.model,
        maxTokens: OUTPUT_TOKENS_MAX,
        maxRetries: 0,
        ...(job.user && { invocationKwargs: { metadata: { user_id: job.user } } }),
      }),
  };

  function modelOf(job) {
    const [, model] = /^(\S+(?: responses)?) /.exec(job.client);
    return models[model](job);
  }

  // The client's own tool as LangChain has tools, the server's by their names.
  function toolsOf(job) {
    const own = tool((args) => job.pickColor(args), {
      name: 'pick_color',
      description: DESCRIPTION,
      schema: PARAMETERS,
    });
    return (job.declared() ?? []).map((entry) => {
      if (entry.function.name === 'pick_color') {
        return own;
      }
      // In the other formats it sends no tool without a schema.
      const withSchema = { ...entry.function, parameters: { type: 'object' } };
      const needsSchema = /^@langchain\/(anthropic|openai responses)/.test(job.client);
      return needsSchema ? { ...entry, function: withSchema } : entry;
    });
  }

  // Where the formats' ends are kept.
  function finishOf({ response_metadata: kept, additional_kwargs: more }) {
    return kept.finish_reason ?? kept.status ?? kept.stop_reason ?? more.stop_reason ?? null;
  }

  function answered(job, message) {
    const usage = message.usage_metadata;
    job.answered(
      message.id,
      message.text,
      finishOf(message),
      [usage?.input_tokens, usage?.output_tokens],
      message.tool_calls.map(({ id, name, args }) => [id, name, JSON.stringify(args)]),
    );
  }

  async function loop(job, ask) {
    const tools = toolsOf(job);
    const bound = tools.length ? modelOf(job).bindTools(tools) : modelOf(job);
    const messages = job.messages.map(coerceMessageLikeToMessage);
    for (;;) {
      const message = await ask(bound, messages);
      answered(job, message);
      messages.push(message);
      if (!message.tool_calls.length) {
        return;
      }
      for (const { id, args } of message.tool_calls) {
        messages.push(new ToolMessage({ content: job.pickColor(args), tool_call_id: id }));
      }
    }
  }

  async function invoke(job) {
    await loop(job, (model, messages) => model.invoke(messages, { signal: job.signal }));
  }

  async function stream(job) {
    await loop(job, async (model, messages) => {
      let whole;
      for await (const chunk of await model.stream(messages, { signal: job.signal })) {
        job.saw(chunk.text);
        whole = whole ? whole.concat(chunk) : chunk;
      }
      return whole;
    });
  }

  async function agentInvoke(job) {
    const agent = createAgent({ model: modelOf(job), tools: toolsOf(job) });
    const state = await agent.invoke({ messages: job.messages }, { signal: job.signal });
    state.messages
      .slice(job.messages.length)
      .filter((message) => AIMessage.isInstance(message))
      .forEach((message) => answered(job, message));
  }

  async function agentStream(job) {
    const agent = createAgent({ model: modelOf(job), tools: toolsOf(job) });
    const shown = await agent.stream(
      { messages: job.messages },
      { signal: job.signal, streamMode: ['messages', 'updates'] },
    );
    for await (const [mode, value] of shown) {
      if (mode === 'messages') {
        if (AIMessage.isInstance(value[0])) {
          job.saw(value[0].text);
        }
        continue;
      }
      Object.values(value)
        .flatMap((update) => update.messages ?? [])
        .filter((message) => AIMessage.isInstance(message))
        .forEach((message) => answered(job, message));
    }
  }

  const ways = {
    invoke,
    stream,
    'agent invoke': agentInvoke,
    'agent stream': agentStream,
  };
  const entries = Object.keys(models).flatMap((model) =>
    Object.entries(ways).map(([way, ask]) => [`${model} ${way}`, ask]),
  );
  return Object.fromEntries(entries);
}
