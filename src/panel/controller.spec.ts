import { ApiError, type ChatApi, type IMessage, UNREACHABLE } from '../api/client';
import type { ChatEvent, Mode } from '../api/events';
import { Chats } from '../chat/service';
import { FakeServer } from '../testing/server';
import { DONE, MESSAGE, numbered, story as numberedStory } from '../testing/events';
import { type AppStore, createStore, modeOf } from '../state/app';
import type { ITurn } from '../state/chat';
import { BLANK, type Found, type IAbout } from '../state/compose';
import type { IPanelServices } from './panelServices';
import { PanelController } from './controller';

const CUT = new ApiError({ code: UNREACHABLE, message: '', hint: '', retryable: true });
const FILE = { label: 'b.csv', attachment: { kind: 'file', path: 'b.csv' } } as const;
const SEEN = {
  notebook: 'a.ipynb',
  cell: { id: 'x', index: 0, line: '1' },
  selected: ['x', 'y']
};

function story(mode: Mode, end: 'done' | 'failed' = 'done'): ChatEvent[] {
  const about = { text: 'Why?', mode, attachments: ['b.csv'], active_cell: 'x' };
  return numberedStory(
    { ...MESSAGE, ...about },
    { kind: 'began' },
    { kind: 'done', end, text: '' }
  );
}

/** Services before a server that keeps what it is sent, and takes it where `takes` says so. */
function connected(
  takes: () => Promise<void> = () => Promise.resolve(),
  past = story('auto', 'failed')
): { services: IPanelServices; sent: IMessage[] } {
  const sent: IMessage[] = [];
  const api: Partial<ChatApi> = {
    chats: () => Promise.resolve([]),
    remove: () => Promise.resolve(),
    models: () => Promise.reject(CUT),
    chat: id => {
      const info = { id, title: '', notebook: null, created: 0, updated: 0, busy: false };
      return Promise.resolve({ chat: info, events: past });
    },
    send: async ({ ...message }) => {
      delete message.id;
      sent.push(message);
      await takes();
      return { chat: 'c', turn: 't' };
    }
  };
  const server = new FakeServer();
  server.answer = ({ number }) => {
    server.deliver(number, { live: true });
    for (const event of story(sent.at(-1)?.mode ?? 'ask')) {
      server.deliver(number, { id: event.number, event });
    }
  };
  const store = createStore();
  const made = {
    store,
    chats: new Chats(api as ChatApi, server.channel, store),
    notebook: { seen: SEEN, named: (about: IAbout) => about }
  };
  return { services: made as unknown as IPanelServices, sent };
}

/** Waits until the last message of the chat that is shown has ended. */
async function ended({ chat }: PanelController): Promise<void> {
  while (chat.busy || chat.state.turns.at(-1)?.end == null) {
    await new Promise(resolve => setTimeout(resolve));
  }
}

describe('a message that is sent again', () => {
  it('has its context and attachments', async () => {
    const { services: around, sent } = connected();
    const model = new PanelController(around, 'panel', null);
    model.change({ text: 'Why?', attached: [FILE] });
    await model.submit();
    await ended(model);
    const turn = model.chat.state.turns[0];
    expect(turn).toBeDefined();
    if (turn !== undefined) {
      await model.resend(turn);
      model.edit(turn);
      await model.resend(turn, { text: 'Continue.' });
    }
    const first = { notebook: 'a.ipynb', active_cell: 'x', selected_cells: ['x', 'y'] };
    expect(sent[1]).toMatchObject({ ...first, message: 'Why?', attachments: [FILE.attachment] });
    expect(sent[2]).toMatchObject({ ...first, message: 'Continue.' });
    expect(sent[2]?.attachments).toBeUndefined();
    const attachment = { ...FILE.attachment, title: FILE.label };
    expect(model.draft.attached).toEqual([{ ...FILE, attachment, notebook: 'a.ipynb' }]);
  });

  it('is put into the message box if a reload lost its attachments', async () => {
    const { services: around, sent } = connected();
    const model = new PanelController(around, 'panel', 'c');
    await ended(model);
    const turn = model.chat.state.turns[0];
    await (turn && model.resend(turn));
    expect(sent).toEqual([]);
    expect(model.draft.text).toBe('Why?');
    expect(model.state.refused).toEqual([{ name: 'b.csv', why: 'lost' }]);
    expect(model.draft.instead).toBeNull();
    await (turn && model.resend(turn, { text: 'Continue.' }));
    expect(sent).toMatchObject([{ message: 'Continue.', notebook: 'a.ipynb', active_cell: 'x' }]);
  });
});

describe('a message that is not the draft', () => {
  it('is about its own cells, and keeps the draft', async () => {
    const { services: around, sent } = connected();
    const model = new PanelController(around, 'panel', null);
    model.change({ text: 'Later', attached: [FILE], withoutNotebook: true });
    await model.ask('Fix these.', { notebook: 'b.ipynb', cells: ['p', 'q'] });
    const about = { notebook: 'b.ipynb', active_cell: 'p', selected_cells: ['p', 'q'] };
    expect(sent).toEqual([{ message: 'Fix these.', mode: 'ask', ...about }]);
    expect(model.draft).toMatchObject({ text: 'Later', attached: [FILE] });
  });
});

describe('the draft', () => {
  it('comes back before later text if it was not accepted', async () => {
    let fail: (error: Error) => void = () => undefined;
    const refused = new Promise<void>((_, reject) => {
      fail = reject;
    });
    const model = new PanelController(connected(() => refused).services, 'panel', null);
    model.change({ text: 'First', attached: [FILE] });
    const sending = model.submit();
    model.change({ text: 'Second' });
    fail(CUT);
    await sending;
    expect(model.draft).toMatchObject({ text: 'First\n\nSecond', attached: [FILE] });
  });

  it('comes back to its own chat after another one was opened', async () => {
    let fail: (error: Error) => void = () => undefined;
    const refused = new Promise<void>((_, reject) => {
      fail = reject;
    });
    const model = new PanelController(connected(() => refused).services, 'panel', 'c');
    await ended(model);
    model.change({ text: 'First' });
    const sending = model.submit();
    model.open('d');
    model.change({ text: 'Second' });
    fail(CUT);
    await sending;
    expect(model.draft.text).toBe('Second');
    model.open('c');
    expect(model.draft.text).toBe('First');
  });

  it('stays below an earlier message that is edited', async () => {
    const { services: around, sent } = connected();
    const model = new PanelController(around, 'panel', 'c');
    await ended(model);
    model.change({ text: 'Half a th' });
    const turn = model.chat.state.turns[0];
    if (turn !== undefined) {
      model.edit(turn);
    }
    await model.submit();
    expect(sent[0]).toMatchObject({ message: 'Why?\n\nHalf a th', replaces: 't' });
    expect(model.draft).toEqual(BLANK);
  });

  it('is not lost whatever is written in its place', async () => {
    const said = (text: string, turn: string, first: number): ChatEvent[] => [
      numbered({ ...MESSAGE, text }, first, turn),
      numbered(DONE, first + 1, turn)
    ];
    const past = [...said('One', 't', 1), ...said('Two', 'u', 3)];
    const { services: around } = connected(undefined, past);
    const model = new PanelController(around, 'panel', 'c');
    await ended(model);
    const [one, two] = model.chat.state.turns as [ITurn, ITurn];
    const steps = {
      'edits One': () => model.edit(one),
      'edits Two': () => model.edit(two),
      'makes it new': () => model.composeNew(),
      'answers a plan': () => model.revise(one),
      'gets a suggestion': () => model.write('Plot it.')
    };
    const names = Object.keys(steps) as (keyof typeof steps)[];
    const pairs = names.flatMap(first => names.map(second => [first, second] as const));
    const lost = pairs
      .flatMap(first => pairs.map(second => [...first, ...second]))
      .filter(story => {
        model.change({ ...BLANK, text: 'typed 0' });
        story.forEach((name, place) => {
          steps[name]();
          model.change({ text: `${model.draft.text}\ntyped ${place + 1}` });
        });
        const written = model.draft.text;
        return ![0, 1, 2, 3, 4].every(place => written.includes(`typed ${place}`));
      });
    expect(lost).toEqual([]);
  });

  it('of an edit that changed nothing is dropped when another one begins', async () => {
    const { services: around } = connected();
    const model = new PanelController(around, 'panel', 'c');
    await ended(model);
    const turn = model.chat.state.turns[0] as ITurn;
    model.edit(turn);
    model.edit(turn);
    expect(model.draft).toMatchObject({ instead: { kind: 'edit' }, text: 'Why?' });
  });
});

/** A panel with a file that is being attached, and what ends that. */
async function attaching(takes?: () => Promise<void>) {
  const { services, sent } = connected(takes);
  const model = new PanelController(services, 'panel', 'c');
  await ended(model);
  let read: (found: Found) => void = () => undefined;
  model.change({ text: 'Why?' });
  model.attach([new Promise<Found>(resolve => (read = resolve))]);
  const finish = async (found: Found): Promise<void> => {
    read(found);
    await new Promise(resolve => setTimeout(resolve));
  };
  return { model, sent, finish, store: services.store };
}

describe('a file that is being attached', () => {
  const REFUSED = { name: 'b.csv', why: 'large' } as const;

  it('goes with the message that is sent before it is there', async () => {
    const { model, sent, finish } = await attaching();
    const sending = model.submit();
    await finish(FILE);
    await sending;
    expect(sent).toMatchObject([{ message: 'Why?', attachments: [{ path: 'b.csv' }] }]);
    expect(model.draft).toEqual(BLANK);
  });

  it('keeps the message in the box if it cannot be attached', async () => {
    const { model, sent, finish } = await attaching();
    const sending = model.submit();
    await finish(REFUSED);
    await sending;
    expect(sent).toEqual([]);
    expect(model.draft).toEqual({ ...BLANK, text: 'Why?' });
    expect(model.state.refused).toEqual([REFUSED]);
  });

  it('is in the draft that comes back if the server does not accept the message', async () => {
    const { model, finish } = await attaching(() => Promise.reject(CUT));
    const sending = model.submit();
    await finish(FILE);
    await sending;
    await new Promise(resolve => setTimeout(resolve));
    expect(model.draft).toMatchObject({ text: 'Why?', attached: [FILE] });
  });

  it('stays in its own chat when another one is opened', async () => {
    const { model, finish } = await attaching();
    model.open('d');
    await finish(FILE);
    expect(model.draft.attached).toEqual([]);
    model.open('c');
    expect(model.draft).toEqual({ ...BLANK, text: 'Why?', attached: [FILE] });
  });

  it('does not take the focus when it is there', async () => {
    const { model, finish } = await attaching();
    const focused = jest.fn();
    model.wantsFocus.connect(focused);
    await finish(FILE);
    expect(model.draft.attached).toEqual([FILE]);
    expect(focused).not.toHaveBeenCalled();
  });

  it('is in the draft of a panel that was closed', async () => {
    const { model, finish, store } = await attaching();
    model.dispose();
    await finish(FILE);
    expect(store.state.drafts['c']).toEqual({ ...BLANK, text: 'Why?', attached: [FILE] });
  });
});

function mode({ state }: PanelController, store: AppStore): Mode {
  return modeOf(store.state, state);
}

describe('a chat that is deleted', () => {
  it('is replaced by a new one in each panel', async () => {
    const { services: around } = connected();
    const panels = ['a', 'b'].map(key => new PanelController(around, key, 'c'));
    await Promise.all(panels.map(ended));
    await around.chats.remove('c');
    expect(panels.map(({ chat, state }) => [chat.id, chat.isDisposed, state.generation])).toEqual([
      [null, false, 1],
      [null, false, 1]
    ]);
  });
});

describe('the mode', () => {
  it('is that of the last message in its chat, and not in the next one', async () => {
    const { services: around } = connected();
    const model = new PanelController(around, 'panel', 'c');
    await ended(model);
    expect(mode(model, around.store)).toBe('auto');
    model.choose({ mode: 'plan' });
    expect(mode(model, around.store)).toBe('plan');
    model.open(null);
    expect(mode(model, around.store)).toBe('ask');
    model.open('c');
    await ended(model);
    expect(mode(model, around.store)).toBe('auto');
  });
});
