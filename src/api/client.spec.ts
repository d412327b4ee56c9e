/** @jest-environment node */

import { ServerConnection } from '@jupyterlab/services';

import { ApiError, ChatApi, UNREACHABLE } from './client';

/** The routes of a server that truncates its answers after some words, or ends them there. */
function cut(words: string, ends = false): ChatApi {
  const answer = (): Response => {
    const pieces = [new TextEncoder().encode(words)];
    const pull = (controller: ReadableStreamDefaultController): void => {
      const piece = pieces.shift();
      if (piece === undefined && ends) {
        controller.close();
      } else if (piece === undefined) {
        controller.error(new TypeError('network error'));
      } else {
        controller.enqueue(piece);
      }
    };
    return new Response(new ReadableStream({ pull }));
  };
  const settings = ServerConnection.makeSettings({ baseUrl: 'http://localhost/' });
  return new ChatApi({ ...settings, fetch: () => Promise.resolve(answer()) });
}

/** What went wrong. */
async function problemOf(asked: Promise<unknown>): Promise<string> {
  try {
    await asked;
    return 'none';
  } catch (error) {
    return error instanceof ApiError ? error.problem.code : String(error);
  }
}

describe('an error', () => {
  it.each([
    ['no_model', 409, false, true],
    ['kernel_busy', 409, true, false],
    ['chat_not_found', 404, false, true],
    ['agent_unavailable', 501, false, true],
    ['path_refused', 403, false, true],
    ['forbidden', 403, false, false],
    ['http_401', 401, false, false],
    ['http_429', 429, false, false],
    ['disk_full', 507, false, false],
    [UNREACHABLE, 0, true, false]
  ])('%s with the status %i is permanent or passes', (code, status, retryable, permanent) => {
    const error = new ApiError({ code, message: '', hint: '', retryable }, status);
    expect(error.isPermanent).toBe(permanent);
  });
});

describe('a truncated answer', () => {
  it('counts as an unreachable server', async () => {
    const api = cut('{"chats": [');
    const asked = [
      api.chats(),
      api.artifact('a'),
      api.send({ message: 'Hello' }),
      api.answerPlan('c', 'p', { answer: 'approve', mode: 'ask' })
    ];
    expect(await Promise.all(asked.map(problemOf))).toEqual(asked.map(() => UNREACHABLE));
  });
});

describe('an undo', () => {
  it('leaves the cells that were edited since', async () => {
    const undone = { notebook: 'a.ipynb', cells: ['x'], left: [], stayed: [] };
    const api = cut(JSON.stringify({ undone: [undone], missing: [3] }), true);
    const left = await api.undo('a.ipynb', { 2: ['x'], 3: ['y', 'z'] });
    expect(left.flatMap(each => each.left)).toEqual(['y', 'z']);
  });
});
