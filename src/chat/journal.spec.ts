import { unreachable } from '../api/client';
import type { ChatEvent, ChatInfo } from '../api/events';
import { createStore } from '../state/app';
import { CALL, CHANGE, DONE, MESSAGE, RESULT, story } from '../testing/events';
import { FakeServer } from '../testing/server';
import { ChatModel, type Routes } from './model';

async function waited(): Promise<void> {
  for (let step = 0; step < 30; step++) {
    await Promise.resolve();
  }
}

describe('the journal of a chat', () => {
  const changed = story(MESSAGE, { kind: 'began' }, CALL, CHANGE, RESULT, DONE);
  const entry = { entry: 7, turn: 't', notebook: 'a.ipynb', cells: ['z'], kept: [], time: 1 };
  let server: FakeServer;
  /** Whether requests fail, and how often the journal was read. */
  let isDown = false;
  let reads = 0;

  beforeEach(() => {
    server = new FakeServer();
    isDown = false;
    reads = 0;
  });

  function open(past: ChatEvent[]): ChatModel {
    const answer = <T>(value: T): Promise<T> =>
      isDown ? Promise.reject(unreachable()) : Promise.resolve(value);
    const routes: Partial<Routes> = {
      chat: () => answer({ chat: {} as ChatInfo, events: past }),
      changes: () => {
        reads++;
        return answer({ changes: [entry], since: 0 });
      }
    };
    return new ChatModel(routes as Routes, server.channel, createStore(), 'chat 1', 'c');
  }

  it.each([
    ['once', changed, 1],
    ['not at all without changes', story(MESSAGE, DONE), 0]
  ])('is read %s when it is opened', async (_, past, count) => {
    const chat = open(past);
    await chat.load();
    await waited();
    expect([reads, chat.state.journal?.changes.length ?? 0]).toEqual([count, count]);
    chat.dispose();
  });

  it('is read once the server is back, after it could not be read at first', async () => {
    server.cut();
    isDown = true;
    const chat = open(changed);
    await chat.load();
    expect(chat.state.loaded).toBe(false);
    isDown = false;
    server.connect();
    await waited();
    expect(chat.state).toMatchObject({ loaded: true, lost: false, problem: null });
    expect([reads, chat.state.journal?.changes]).toEqual([1, [entry]]);
    chat.dispose();
  });

  it('is read at the next connection after a read that failed, with all turns that ended', async () => {
    const chat = open(changed.slice(0, -1));
    await chat.load();
    await waited();
    isDown = true;
    server.publish({ chat: 'c' }, changed.at(-1), changed.length);
    await waited();
    expect(chat.state.turns[0]?.end).toBe('done');
    expect(chat.state.journal?.ended.size).toBe(0);
    isDown = false;
    server.cut();
    server.connect();
    await waited();
    expect([...(chat.state.journal?.ended ?? [])]).toEqual(['t']);
    expect(reads).toBe(3);
    chat.dispose();
  });

  it('is read again with the events that the server does not know any more', async () => {
    const chat = open(changed);
    await chat.load();
    await waited();
    const [number = 0] = server.open.keys();
    jest.useFakeTimers();
    server.deliver(number, { reset: true });
    server.deliver(number, { over: true });
    await jest.advanceTimersByTimeAsync(1000);
    jest.useRealTimers();
    expect([reads, chat.state.loaded, chat.state.turns.length]).toEqual([2, true, 1]);
    chat.dispose();
  });
});
