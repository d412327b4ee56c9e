import type { ChatApi } from '../api/client';
import type { ChatInfo } from '../api/events';
import { Chats } from '../chat/service';
import { createStore } from '../state/app';
import { FakeServer } from '../testing/server';

/** A state that is read: number `n` from the `n`th read on. Answers come when the test gives them. */
class Reads<T> {
  readonly pending: (() => void)[] = [];
  private _count = 0;

  constructor(private readonly _state: (number: number) => T) {}

  readonly read = (): Promise<T> => {
    const state = this._state(++this._count);
    return new Promise(resolve => this.pending.push(() => resolve(state)));
  };
}

interface ISubject {
  pending: (() => void)[];
  begin: () => unknown;
  /** The number of the state that is shown. */
  shown: () => number | undefined;
}

const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

function list(): ISubject {
  const reads = new Reads<ChatInfo[]>(updated => [{ updated } as ChatInfo]);
  const api = { chats: reads.read, models: () => Promise.resolve(null) } as unknown as ChatApi;
  const store = createStore();
  const chats = new Chats(api, new FakeServer().channel, store);
  return {
    pending: reads.pending,
    begin: () => chats.refresh(),
    shown: () => store.state.chats[0]?.updated
  };
}

describe('overlapping reads', () => {
  it('show the newest state in any order of answers', async () => {
    for (let round = 0; round < 12; round++) {
      const subject = list();
      const begin = async (): Promise<void> => {
        void subject.begin();
        await settled();
      };
      let newest = 0;
      for (let step = 0; step < 8 || subject.pending.length > 0; step++) {
        if (step < 8 && Math.random() < 0.6) {
          await begin();
        } else {
          const place = Math.floor(Math.random() * subject.pending.length);
          subject.pending.splice(place, 1)[0]?.();
          await settled();
          const shown = subject.shown() ?? 0;
          expect(shown).toBeGreaterThanOrEqual(newest);
          newest = shown;
        }
      }
      await begin();
      subject.pending.pop()?.();
      await settled();
      expect(subject.shown()).toBeGreaterThan(newest);
    }
  });
});
