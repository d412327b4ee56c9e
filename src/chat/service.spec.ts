import { ApiError, ChatApi, unreachable } from '../api/client';
import type {
  ChatEvent,
  ChatInfo,
  ModelsInfo,
  PermissionEvent,
  PermissionInfo
} from '../api/events';
import { DONE, MESSAGE, numbered, request } from '../testing/events';
import { FakeServer } from '../testing/server';
import { createStore } from '../state/app';
import { Chats } from './service';

/** A server of one chat with a turn that runs until the test ends it. */
class Server extends ChatApi {
  /** All events of the chat. */
  readonly log: ChatEvent[] = [];

  constructor() {
    super({} as never);
  }

  override chats(): Promise<ChatInfo[]> {
    return Promise.resolve([]);
  }

  override models(): Promise<ModelsInfo> {
    return Promise.reject(new ApiError(unreachable().problem));
  }

  override send(): ReturnType<ChatApi['send']> {
    return Promise.resolve({ chat: 'c', turn: 't' });
  }

  override chat(): ReturnType<ChatApi['chat']> {
    const chat = { id: 'c', title: '', notebook: null, created: 0, updated: 0, busy: false };
    return Promise.resolve({ chat, events: [...this.log] });
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
    chats = new Chats(server, wire.channel, createStore());
  });

  it('show all that happens in them in any window, and are released when closed', async () => {
    wire.answer = ({ number, after }) => {
      wire.deliver(number, { live: true });
      server.log.slice(Number(after)).forEach(event => {
        wire.deliver(number, { id: event.number, event });
      });
    };
    const opened: ReturnType<Chats['open']>[] = [];
    let turns = 0;
    const isBusy = (): boolean => server.log.at(-1)?.kind === 'message';
    const happens = (): void => {
      const turn = isBusy() ? `${turns}` : `${++turns}`;
      const event = numbered(isBusy() ? DONE : MESSAGE, server.log.length + 1, turn);
      server.log.push(event);
      wire.publish({ chat: 'c' }, event, event.number);
    };
    const deeds = [
      happens,
      happens,
      () => void opened.push(chats.open('c')),
      () => {
        const chat = opened.pop();
        if (chat !== undefined) {
          chats.close(chat);
        }
      },
      () => (wire.isOpen ? wire.cut() : wire.connect())
    ];
    for (let step = 0; step < 300; step++) {
      deeds[Math.floor(Math.random() * deeds.length)]?.();
      if (Math.random() < 0.7) {
        await settled();
      }
      if (step % 10 === 9) {
        wire.connect();
        await settled();
        expect(opened.map(chat => chat.state.last)).toEqual(opened.map(() => server.log.length));
        if (opened.length === 0 && !isBusy()) {
          expect(wire.open.size).toBe(0);
        }
      }
    }
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

  it('receive events and are kept while a turn runs, and no longer', async () => {
    wire.answer = ({ number }) => {
      wire.deliver(number, { live: true });
      const event = { number: 1, turn: 't', time: 0, kind: 'message', waits: 0 };
      wire.deliver(number, { id: 1, event });
    };
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

describe('the list of chats and the models', () => {
  it('are read each time that the connection opens', async () => {
    const server = new Server();
    const wire = new FakeServer();
    wire.cut();
    const store = createStore();
    const models = { models: ['opus', 'haiku'] } as unknown as ModelsInfo;
    let reads = 0;
    server.models = () => (++reads === 1 ? Promise.reject(unreachable()) : Promise.resolve(models));
    new Chats(server, wire.channel, store);
    for (const known of [null, models, models]) {
      wire.connect();
      await settled();
      expect(store.state.models).toBe(known);
      wire.cut();
    }
    expect(reads).toBe(3);
  });
});

describe('the pending approval requests', () => {
  let wire: FakeServer;
  let waits: PermissionInfo[];
  let refusal: ApiError | null;
  let chats: Chats;

  const publish = async (event: PermissionEvent): Promise<void> => {
    wire.publish({ permissions: true }, event);
    await settled();
  };
  const pending = (): string[] => chats.store.state.requests.map(({ id }) => id);

  beforeEach(async () => {
    wire = new FakeServer();
    wire.answer = ({ number }) => {
      wire.deliver(number, { reset: true });
      wire.deliver(number, { id: 1, event: { kind: 'waiting', permissions: waits } });
    };
    waits = [request('a')];
    refusal = null;
    const server = new Server();
    server.answer = () => (refusal === null ? Promise.resolve() : Promise.reject(refusal));
    chats = new Chats(server, wire.channel, createStore());
    chats.followRequests();
    await settled();
  });

  it('are those from their event to their end', async () => {
    await publish({ kind: 'asked', permission: request('b') });
    expect(pending()).toEqual(['a', 'b']);
    await publish({ kind: 'settled', id: 'a', outcome: 'expired' });
    expect(pending()).toEqual(['b']);
  });

  it('are no longer those that were answered here or elsewhere', async () => {
    expect(await chats.answer(request('a'), 'once')).toBeNull();
    expect(pending()).toEqual([]);
    await publish({ kind: 'asked', permission: request('b') });
    const gone = { code: 'not_found', message: '', hint: '', retryable: false };
    refusal = new ApiError(gone);
    expect(await chats.answer(request('b'), 'once')).toBeNull();
    expect(pending()).toEqual([]);
  });

  it('stay if the answer did not reach the server', async () => {
    refusal = unreachable();
    expect((await chats.answer(request('a'), 'once'))?.code).toBe('unreachable');
    expect(pending()).toEqual(['a']);
  });

  it('are read again after a reconnect', async () => {
    wire.cut();
    waits = [request('b'), request('c')];
    wire.connect();
    await settled();
    expect(pending()).toEqual(['b', 'c']);
  });
});
