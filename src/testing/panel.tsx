/** A panel before a server that plays what it is told to, for tests of components. */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { act, render } from '@testing-library/react';

import { ApiError, type ChatApi, type IMessage, type IUndo } from '../api/client';
import type {
  Answer,
  ChatChanges,
  ChatEvent,
  ChatInfo,
  PermissionEvent,
  PermissionInfo
} from '../api/events';
import { Reviews } from '../changes/reviews';
import { Chats } from '../chat/service';
import { PanelController } from '../panel/controller';
import { Memory } from '../panel/memory';
import type { NotebookContext } from '../panel/notebook';
import { Panel } from '../panel/Panel';
import type { IPanelServices } from '../panel/services';
import { BrowserStorage } from '../parts/storage';
import { Questions } from '../questions/model';
import { createStore, type IAppState } from '../state/app';
import type { ICellName } from '../state/draft';
import { MESSAGE, numbered, type Payload } from './events';
import { FakeServer } from './server';

/** What a person answered to a request. */
type Given = [string, Answer, string | undefined];

const CELLS: ICellName[] = [
  { id: 'x', index: 0, line: 'import pandas' },
  { id: 'y', index: 1, line: 'df.plot()' }
];

/** A panel, and all that it does. */
export class Stage {
  /**
   * @param some - What the page's state is at the start.
   * @param chat - The chat that is shown; null for a new one.
   * @param failed - A cell whose outputs end with an error.
   */
  constructor(
    some: Partial<IAppState> = {},
    chat: string | null = null,
    private readonly _failed: ICellName | null = null
  ) {
    localStorage.clear();
    this.store = createStore({
      seen: { notebook: 'a.ipynb', cell: CELLS[0] as ICellName, selected: [] },
      ...some
    });
    this.notebook = this._notebook();
    const chats = new Chats(this.api as ChatApi, this.server.channel, this.store);
    const reviews = new Reviews(new BrowserStorage('http://server/'), this.store);
    const answer = async (id: string, given: Answer, message?: string): Promise<void> => {
      this.given.push([id, given, message]);
      await this.taking();
    };
    const questions = new Questions(this.server.channel, { answer }, this.store);
    questions.follow();
    this.services = {
      store: this.store,
      chats,
      commands: this.commands,
      languages: null,
      memory: new Memory(new BrowserStorage('http://server/')),
      notebook: Object.assign(this.notebook, { seen: this.store.state.seen }) as NotebookContext,
      questions,
      reviews,
      rendermime: { createRenderer } as unknown as IRenderMimeRegistry,
      trans: nullTranslator.load('tk-ai-extension')
    };
    this.controller = new PanelController(this.services, 'panel', chat);
    this.controller.wantsFocus.connect(() => this.node.querySelector('textarea')?.focus());
    this.node = render(
      <Panel store={this.store} services={this.services} controller={this.controller} />
    ).container;
  }

  readonly server = new FakeServer();
  /** The routes of the server: a test replaces those that it is about. */
  readonly api = this._api();
  /** The notebook beside the panel: a test replaces what it is about. */
  readonly notebook: Partial<NotebookContext>;
  readonly store: ReturnType<typeof createStore>;
  readonly services: IPanelServices;
  readonly commands = new CommandRegistry();
  readonly controller: PanelController;
  readonly node: HTMLElement;

  /** What was done. */
  readonly sent: IMessage[] = [];
  readonly given: Given[] = [];
  readonly undone: IUndo[] = [];
  readonly stopped: (string | undefined)[] = [];
  readonly renamed: [string, string][] = [];
  readonly removed: string[] = [];
  readonly revealed: string[] = [];
  readonly plans: unknown[] = [];

  /** The chats that the server has, and what happened in each. */
  chats: ChatInfo[] = [];
  past: ChatEvent[] = [];
  /** Which changes of a chat stand. */
  journal: ChatChanges = { changes: [], since: 0 };
  /** Whether the server takes what is sent: rejects where it does not. */
  taking: () => Promise<void> = () => Promise.resolve();

  /** Lets everything happen that needs no time. */
  async settle(): Promise<void> {
    await act(async () => {
      for (let step = 0; step < 40; step++) {
        await Promise.resolve();
      }
      // What streams in is rendered with the next frame.
      await new Promise(resolve => requestAnimationFrame(resolve));
    });
  }

  /** Something happens in the turn of the last message. */
  async happens(...payloads: Payload[]): Promise<void> {
    for (const payload of payloads) {
      const event = numbered(payload, ++this._count, this._turn);
      this.server.publish({ chat: 'c' }, event, event.number);
    }
    await this.settle();
  }

  /** Sends a message, which begins a turn. */
  async say(text: string, turn = 't'): Promise<void> {
    await this.queue(text, turn);
    await this.happens({ kind: 'began' });
  }

  /** Sends a message whose turn has not begun: so many come first. */
  async queue(text: string, turn: string, waits = 0): Promise<void> {
    this._turn = turn;
    await act(async () => {
      this.controller.change({ text });
      await this.controller.submit();
    });
    await this.settle();
    const replaces = this.sent.at(-1)?.replaces ?? null;
    await this.happens({ ...MESSAGE, text, waits, replaces });
  }

  /** What happens now happens in another turn. */
  turn(turn: string): void {
    this._turn = turn;
  }

  /** Agents ask for something, or what they asked for has ended. */
  async requests(event: PermissionEvent): Promise<void> {
    this.server.publish({ permissions: true }, event);
    await this.settle();
  }

  async waiting(...permissions: PermissionInfo[]): Promise<void> {
    await this.requests({ kind: 'waiting', permissions });
  }

  private _api(): Partial<ChatApi> {
    const refused = (): never => {
      throw new ApiError({ code: 'none', message: 'None.', hint: '', retryable: false });
    };
    return {
      chats: () => Promise.resolve(this.chats),
      models: () =>
        Promise.reject(new ApiError({ code: '', message: '', hint: '', retryable: true })),
      chat: () => Promise.resolve({ chat: this.chats[0] as ChatInfo, events: this.past }),
      changes: () => Promise.resolve(this.journal),
      send: async message => {
        this.sent.push(message);
        await this.taking();
        return { chat: 'c', turn: this._turn };
      },
      answerPlan: async (_, plan, answer) => {
        this.plans.push([plan, answer]);
        await this.taking();
        return { chat: 'c', turn: this._turn };
      },
      answer: async (id, given, message) => {
        this.given.push([id, given, message]);
        await this.taking();
      },
      stop: (_, turn) => Promise.resolve(void this.stopped.push(turn)),
      undo: (_, entries, cells) => {
        this.undone.push({ entries, cells });
        return Promise.resolve([]);
      },
      rename: (id, title) => {
        this.renamed.push([id, title]);
        return Promise.resolve(this.chats[0] ?? refused());
      },
      remove: id => {
        this.removed.push(id);
        this.chats = this.chats.filter(each => each.id !== id);
        return Promise.resolve();
      }
    };
  }

  private _notebook(): Partial<NotebookContext> {
    return {
      seen: this.store.state.seen,
      beginnings: { failed: this._failed, table: 'sales' },
      cells: CELLS,
      documents: null,
      attached: ({ id, index }) => ({
        label: `Cell ${index + 1}`,
        notebook: 'a.ipynb',
        attachment: { kind: 'cell', cell: id }
      }),
      files: () => Promise.resolve([]),
      sourceOf: () => 'print(1)',
      mimeOf: () => null,
      reveal: (_, cell) => Promise.resolve(void this.revealed.push(cell))
    };
  }

  private _count = 0;
  private _turn = 't';
}

/** A renderer that shows the text as it is. */
function createRenderer(): unknown {
  const widget = new Widget();
  const renderModel = (model: { data: Record<string, unknown> }): Promise<void> => {
    widget.node.textContent = String(model.data['text/markdown']);
    return Promise.resolve();
  };
  return Object.assign(widget, { renderModel });
}
