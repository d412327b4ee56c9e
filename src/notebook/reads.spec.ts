import { Signal } from '@lumino/signaling';

import type { ChatApi } from '../api/client';
import type { ChangeInfo, ChatChanges, ChatInfo } from '../api/events';
import { ChatModel, type Routes } from '../chat/model';
import { Chats } from '../chat/service';
import { createStore } from '../state/app';
import { CALL, CHANGE, DONE, MESSAGE, RESULT, story } from '../testing/events';
import { FakeServer } from '../testing/server';
import { NotebookActivity } from './activity';

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

async function journal(): Promise<ISubject> {
  const reads = new Reads<ChatChanges>(since => ({ changes: [], since }));
  const events = story(MESSAGE, { kind: 'began' }, CALL, CHANGE, RESULT, DONE);
  const info = { id: 'c', title: '', notebook: null, created: 0, updated: 0, busy: false };
  const routes = { changes: reads.read, chat: () => Promise.resolve({ chat: info, events }) };
  const { channel } = new FakeServer();
  const chat = new ChatModel(routes as unknown as Routes, channel, createStore(), 'chat 1', 'c');
  void chat.load();
  await settled();
  return {
    pending: reads.pending,
    begin: () => chat.readJournal(),
    shown: () => chat.state.journal?.since
  };
}

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

function marks(): ISubject {
  const done = { cell: 'x', action: 'replace', diff: '', truncated: false, before: null } as const;
  const by = { author: 'Claude', tool: '', turn: null, yours: true, summary: '' };
  const changes = (entry: number): ChangeInfo[] => [{ entry, time: entry, ...by, cells: [done] }];
  const reads = new Reads(changes);
  const api = {
    changesIn: reads.read,
    keep: () => Promise.resolve(),
    undo: () => Promise.resolve([])
  };
  const reviews = { api, decided: new Signal<never, void>({} as never) };
  const activity = new NotebookActivity(reviews, new FakeServer().channel, 'a.ipynb');
  return {
    pending: reads.pending,
    begin: () => activity.undo([]),
    shown: () => activity.marks.get('x')?.time
  };
}

describe('overlapping reads', () => {
  it.each([journal, list, marks])('show the newest state in any order of answers', async make => {
    for (let round = 0; round < 12; round++) {
      const subject = await make();
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
