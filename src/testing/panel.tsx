/** A panel with a fake server, for component tests. */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { Contents } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import { act, render } from '@testing-library/react';

import {
  ApiError,
  type ChatApi,
  type ICellsByEntry,
  type IMessage,
  unreachable
} from '../api/client';
import type {
  Answer,
  ChatEvent,
  ChatInfo,
  CombinedChange,
  PermissionEvent,
  PermissionInfo
} from '../api/events';
import { Chats } from '../chat/service';
import { PanelController } from '../panel/controller';
import type { NotebookContext } from '../panel/notebook';
import { Panel } from '../panel/Panel';
import type { IPanelServices } from '../panel/panelServices';
import { keepKeyboard } from '../common/keyboard';
import { createStore, type IAppState } from '../state/app';
import type { ICellName } from '../state/compose';
import { COLLECT } from '../state/store';
import { MESSAGE, numbered, type Payload, request } from './events';
import { FakeServer } from './server';

/** An answer to a request. */
type Given = [string, Answer, string | undefined];

const CELLS: ICellName[] = [
  { id: 'x', index: 0, line: 'import pandas' },
  { id: 'y', index: 1, line: 'df.plot()' }
];

/** A rendered panel, which records its requests. */
export class Stage {
  /**
   * @param some - The initial state.
   * @param chat - The chat that is shown; null for a new one.
   * @param failed - A cell with an error as its last output.
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
    chats.followRequests();
    this.services = {
      store: this.store,
      chats,
      commands: this.commands,
      languages: null,
      notebook: Object.assign(this.notebook, { seen: this.store.state.seen }) as NotebookContext,
      rendermime: { createRenderer } as unknown as IRenderMimeRegistry,
      trans: nullTranslator.load('tk-ai-extension')
    };
    this.controller = new PanelController(this.services, 'panel', chat);
    const box = (): HTMLElement | null => this.node.querySelector('.tk-Box');
    this.controller.wantsFocus.connect(() => box()?.focus());
    this.node = render(
      <Panel store={this.store} services={this.services} controller={this.controller} />
    ).container;
    keepKeyboard(this.node, box);
  }

  readonly server = new FakeServer();
  /** The routes of the server, which a test may replace. */
  readonly api = this._api();
  /** The notebook context, which a test may replace. */
  readonly notebook: Partial<NotebookContext>;
  readonly store: ReturnType<typeof createStore>;
  readonly services: IPanelServices;
  readonly commands = new CommandRegistry();
  readonly controller: PanelController;
  readonly node: HTMLElement;

  /** The recorded requests; messages without their random ids. */
  readonly sent: IMessage[] = [];
  readonly given: Given[] = [];
  readonly kept: ICellsByEntry[] = [];
  readonly undone: ICellsByEntry[] = [];
  readonly stopped: (string | undefined)[] = [];
  readonly renamed: [string, string][] = [];
  readonly removed: string[] = [];
  readonly revealed: string[] = [];
  readonly plans: unknown[] = [];
  readonly answered: unknown[] = [];

  readonly restored: string[] = [];

  /** What each turn has changed. */
  net: readonly CombinedChange[] = [];
  /** The changed cells that were not run. */
  unrun: string[] = [];
  /** The chats of the server, and the events of each. */
  chats: ChatInfo[] = [];
  past: ChatEvent[] = [];
  /** Rejects if the server does not accept a request. */
  taking: () => Promise<void> = () => Promise.resolve();

  /** Run pending microtasks and coalesced updates. */
  async settle(): Promise<void> {
    await act(async () => {
      for (let step = 0; step < 40; step++) {
        await Promise.resolve();
      }
      await new Promise(resolve => setTimeout(resolve, COLLECT));
    });
  }

  /** Publish events of the current turn. */
  async happens(...payloads: Payload[]): Promise<void> {
    for (const payload of payloads) {
      const event = numbered(payload, ++this._count, this._turn);
      this.past = [...this.past, event];
      this.server.publish({ chat: 'c' }, event, event.number);
      if (event.kind === 'permission') {
        const permission = request(event.id, {
          ...{ author: 'Claude', chat: 'c', interface: 'chat', within_call: true },
          ...{ tool: event.tool, effect: event.effect, notebook: event.notebook },
          ...{ proposal: event.proposal, answers: event.answers }
        });
        this.server.publish({ permissions: true }, { kind: 'asked', permission });
      } else if (event.kind === 'permission_settled') {
        this.server.publish({ permissions: true }, { kind: 'settled', id: event.id });
      }
    }
    await this.settle();
  }

  /** Send a message and begin its turn. */
  async say(text: string, turn = 't'): Promise<void> {
    await this.queue(text, turn);
    await this.happens({ kind: 'began' });
  }

  /** Send a message that is queued behind `waits` turns. */
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

  /** Set the current turn. */
  turn(turn: string): void {
    this._turn = turn;
  }

  /** Publish an event of the permission requests. */
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
      setup: () => Promise.reject(unreachable()),
      variables: () => Promise.reject(unreachable()),
      send: async ({ ...message }) => {
        delete message.id;
        // As the server receives it.
        this.sent.push(JSON.parse(JSON.stringify(message)) as IMessage);
        await this.taking();
        return { chat: 'c', turn: this._turn };
      },
      answerPlan: async (_, plan, answer) => {
        this.plans.push([plan, answer]);
        await this.taking();
        return { chat: 'c', turn: this._turn };
      },
      answerQuestions: async (_, call, answers) => {
        this.answered.push([call, answers]);
        await this.taking();
        return {};
      },
      answer: async (id, given, message) => {
        this.given.push([id, given, message]);
        await this.taking();
      },
      restore: async (_, turn) => {
        this.restored.push(turn);
        await this.taking();
        return [];
      },
      combinedChanges: () => Promise.resolve(this.net),
      stop: (_, turn) => Promise.resolve(void this.stopped.push(turn)),
      keep: (_, entries) => {
        this.kept.push(entries);
        this.net = this.net.map(each => ({
          ...each,
          entries: each.entries.filter(entry => entries[entry]?.includes(each.cell) !== true)
        }));
        return Promise.resolve();
      },
      undo: (notebook, entries) => {
        this.undone.push(entries);
        const cells = [...new Set(Object.values(entries).flat())];
        return Promise.resolve([{ notebook, cells, left: [], stayed: [] }]);
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
      promptSubjects: { failed: this._failed, table: 'sales' },
      cells: CELLS,
      documents: null,
      attached: ({ id, index }) => ({
        label: `Cell ${index + 1}`,
        notebook: 'a.ipynb',
        attachment: { kind: 'cell', cell: id }
      }),
      keyed: [],
      front: null,
      activeEditor: null,
      contents: {
        serverSettings: { baseUrl: 'http://server/' },
        get: () => Promise.resolve({ type: 'directory', content: [] })
      } as unknown as Contents.IManager,
      sourceOf: () => 'print(1)',
      unrun: () => this.unrun,
      attachableOf: () => [],
      named: about => about,
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
