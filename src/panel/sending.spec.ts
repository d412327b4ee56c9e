import { ApiError, type ChatApi, type IMessage, UNREACHABLE } from '../api/client';
import type { MessageSentEvent } from '../api/events';
import { Chats } from '../chat/service';
import { createStore } from '../state/app';
import { MESSAGE, numbered, type Payload } from '../testing/events';
import { FakeServer } from '../testing/server';
import { PanelController } from './controller';
import type { IPanelServices } from './panelServices';

const CUT = new ApiError({ code: UNREACHABLE, message: '', hint: '', retryable: true });
const FILE = { label: 'b.csv', attachment: { kind: 'file', path: 'b.csv' } } as const;

const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));

/** A turn of the server. */
interface IBegun {
  id: string;
  text: string;
  message: string | null;
  stopped: boolean;
}

/** A message on its way to the server, which it reaches or not, as its response reaches the page or not. */
interface IOnItsWay {
  message: IMessage;
  end: (reaches: boolean, answers: boolean) => Promise<void>;
}

/** The server of one chat, and a panel with the chat. */
class Stage {
  readonly turns: IBegun[] = [];
  readonly posts: IOnItsWay[] = [];
  readonly seen = { notebook: 'a.ipynb', cell: { id: 'x', index: 0, line: '' }, selected: [] };
  readonly panel: PanelController;
  private readonly _server = new FakeServer();
  private readonly _events: object[] = [];
  private _published = 0;

  constructor(id: string | null = 'c') {
    localStorage.clear();
    const store = createStore();
    const api = {
      chats: () => Promise.resolve([]),
      models: () => Promise.reject(CUT),
      changes: () => Promise.resolve({ changes: [], since: 0 }),
      chat: () => Promise.resolve({ events: [] }),
      send: (message: IMessage) => this._receive(message),
      stop: (_: string, turn?: string) => {
        this.turns
          .filter(each => turn === undefined || each.id === turn)
          .forEach(each => (each.stopped = true));
        return Promise.resolve();
      }
    };
    const services = {
      store,
      chats: new Chats(api as unknown as ChatApi, this._server.channel, store),
      notebook: { seen: this.seen }
    };
    this.panel = new PanelController(services as unknown as IPanelServices, 'panel', id);
  }

  get texts(): string[] {
    return this.turns.map(({ text }) => text);
  }

  get written(): string {
    return this.panel.draft.text;
  }

  /** Write a text, and send it. */
  submit(text: string): Promise<void> {
    this.panel.change({ text });
    return this.panel.submit();
  }

  /** Settle the first message on its way. */
  async answer(reaches = true, answers = reaches): Promise<void> {
    await settled();
    await this.posts.shift()?.end(reaches, answers);
    await settled();
  }

  /** Publish the events of the server. */
  async publish(): Promise<void> {
    for (const event of this._events.slice(this._published)) {
      this._server.publish({ chat: 'c' }, event, ++this._published);
    }
    await settled();
    await settled();
  }

  private _receive(message: IMessage): Promise<{ chat: string; turn: string }> {
    return new Promise((resolve, reject) => {
      const end = (reaches: boolean, answers: boolean): Promise<void> => {
        const turn = reaches ? this.begin(message, message.id ?? null) : null;
        if (turn !== null && answers) {
          resolve({ chat: 'c', turn: turn.id });
        } else {
          reject(CUT);
        }
        return settled();
      };
      this.posts.push({ message, end });
    });
  }

  /** Begin the turn of a message, or return the one that it has begun. */
  begin({ message: text }: IMessage, id: string | null): IBegun {
    const known = this.turns.find(({ message }) => message === id);
    const turn = known ?? { id: `t${this.turns.length}`, text, message: id, stopped: false };
    if (known === undefined) {
      this.turns.push(turn);
      const event: Payload<MessageSentEvent> = { ...MESSAGE, text, message: id };
      this._events.push(numbered(event, this._events.length + 1, turn.id));
    }
    return turn;
  }
}

describe('a message without a response', () => {
  it('is not swallowed when it is written again after it has arrived', async () => {
    const stage = new Stage();
    await settled();
    void stage.submit('Run it again.');
    await stage.answer(true, false);
    expect([stage.written, stage.panel.chat.state.problem?.code]).toEqual([
      'Run it again.',
      UNREACHABLE
    ]);
    await stage.publish();
    expect([stage.written, stage.panel.chat.state.problem]).toEqual(['', null]);
    void stage.submit('Run it again.');
    await stage.answer();
    expect(stage.texts).toEqual(['Run it again.', 'Run it again.']);
  });

  it('is accepted if it arrives before the connection is known to be lost', async () => {
    const stage = new Stage();
    await settled();
    let isOver = false;
    void stage.submit('Run it.').then(() => (isOver = true));
    await settled();
    const [post] = stage.posts;
    void post?.end(true, false);
    // In the same moment.
    await stage.publish();
    expect([isOver, stage.written, stage.panel.chat.state.problem]).toEqual([true, '', null]);
  });

  it.each([null, 'c'])(
    'begins one turn if it is sent again, be the cursor elsewhere (%s)',
    async id => {
      const stage = new Stage(id);
      await settled();
      stage.panel.attach([FILE]);
      void stage.submit('Run it.');
      await stage.answer(true, false);
      expect([stage.written, stage.panel.draft.attached]).toEqual(['Run it.', [FILE]]);
      stage.seen.cell = { id: 'y', index: 1, line: '' };
      void stage.panel.submit();
      await stage.answer();
      expect([stage.texts, stage.written]).toEqual([['Run it.'], '']);
    }
  );

  it('begins another turn if it is changed', async () => {
    const stage = new Stage();
    await settled();
    void stage.submit('Run it.');
    await stage.answer(true, false);
    void stage.submit('Run it. Then plot it.');
    await stage.answer();
    expect(stage.texts).toEqual(['Run it.', 'Run it. Then plot it.']);
    await stage.publish();
    expect(stage.written).toBe('');
  });

  it('stays in the box with what was written after it', async () => {
    const stage = new Stage();
    await settled();
    void stage.submit('Run it.');
    await settled();
    stage.panel.change({ text: 'Then plot it.' });
    await stage.answer(true, false);
    await stage.publish();
    expect(stage.written).toBe('Run it.\n\nThen plot it.');
  });
});

describe('Stop', () => {
  it('stops the turn of a message that was posted, and withdraws those behind it', async () => {
    const stage = new Stage();
    await settled();
    void stage.submit('One.');
    await settled();
    void stage.submit('Two.');
    await settled();
    await stage.panel.chat.stop();
    await stage.answer();
    await stage.answer();
    expect(stage.turns).toMatchObject([{ text: 'One.', stopped: true }]);
    expect(stage.written).toBe('Two.');
  });

  it('stops none that is sent afterwards', async () => {
    const stage = new Stage();
    await settled();
    await stage.panel.chat.stop();
    void stage.submit('One.');
    await stage.answer();
    await stage.answer();
    stage.begin({ message: 'From elsewhere.' }, null);
    await stage.publish();
    expect(stage.turns).toMatchObject([{ stopped: false }, { stopped: false }]);
  });
});
