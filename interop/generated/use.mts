// Makes a tool and reads a turn with openapi-fetch and the types that openapi-typescript generated.
import createClient from 'openapi-fetch';
import type { components, paths } from './api.js';

const [baseUrl, key, wanted, id] = process.argv.slice(2) as [string, string, string, string];
const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } });
const body: components['schemas']['ToolDefinition'] = JSON.parse(wanted);
const path = { slug: 'default' };
const made = await client.POST('/api/{slug}/tools', { params: { path }, body });
const again = await client.POST('/api/{slug}/tools', { params: { path }, body });
const turn = await client.GET('/v1/turns/{id}', { params: { path: { id } } });
const status: 'running' | 'completed' | 'failed' | 'cancelled' | undefined = turn.data?.status;
// @ts-expect-error A turn has no such field, and the types know it.
const nothing = turn.data?.colour;
console.log(
  JSON.stringify({
    tool: made.data?.name,
    version: made.data?.version,
    refused: again.error?.error.code,
    status,
    said: turn.data?.rounds[0]?.messages[0]?.blocks[0]?.['text'],
    nothing,
  }),
);
