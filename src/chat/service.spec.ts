import { ApiError, ChatApi, unreachable } from '../api/client';
import type { ChatInfo } from '../api/events';
import { FakeServer } from '../testing/server';
import { createStore } from '../state/app';
import { Chats } from './service';

/** A server of one chat, whose turn runs until the test ends it. */
class Server extends ChatApi {
  constructor() {
    super({} as never);
  }

  override chats(): Promise<ChatInfo[]> {
    return Promise.resolve([]);
  }

  override models(): Promise<never> {
    return Promise.reject(new ApiError(unreachable().problem));
  }

  override changes(): ReturnType<ChatApi['changes']> {
    return Promise.resolve({ changes: [], since: 0 });
  }

  override send(): ReturnType<ChatApi['send']> {
    return Promise.resolve({ chat: 'c', turn: 't' });
  }

  override chat(): ReturnType<ChatApi['chat']> {
    const chat = { id: 'c', title: '', notebook: null, created: 0, updated: 0, busy: false };
    return Promise.resolve({ chat, events: [] });
  }
}

/** Wait for all pending microtasks. */
async function settled(): Promise<void> {
  await new Promise(resolve => setTimeout(resolve));
}

describe('the chats that are open', () => {
  let server: Server;
  let wire: FakeServer;
  let chats: Chats;

  beforeEach(() => {
    server = new Server();
    wire = new FakeServer();
    wire.answer = ({ number }) => {
      wire.deliver(number, { live: true });
      const event = { number: 1, turn: 't', time: 0, kind: 'message', waits: 0 };
      wire.deliver(number, { id: 1, event });
    };
    chats = new Chats(server, wire.channel, createStore());
  });

  it('are shared, and kept until they are closed by all', async () => {
    const chat = chats.open('c');
    expect(chats.open('c')).toBe(chat);
    await settled();
    chats.close(chat);
    expect(chats.open('c')).toBe(chat);
    chats.close(chat);
    chats.close(chat);
    await settled();
    expect(chats.open('c')).not.toBe(chat);
  });

  it('are kept while something goes on, of which is received, and then no longer', async () => {
    const received: string[] = [];
    chats.happened.connect((_, { event }) => received.push(event.kind));
    const chat = chats.open(null);
    // It is on its way when the person goes elsewhere.
    const sending = chat.send({ message: 'Hello' });
    chats.close(chat);
    await sending;
    await settled();
    expect(chats.open('c')).toBe(chat);
    chats.close(chat);
    const event = { number: 2, turn: 't', time: 0, kind: 'done', end: 'done', text: '' };
    wire.publish({ chat: 'c' }, event, 2);
    await settled();
    expect(received).toEqual(['message', 'done']);
    expect(chats.open('c')).not.toBe(chat);
  });
});
