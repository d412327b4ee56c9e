import { ApiError, type ChatApi, type IMessage, UNREACHABLE } from '../api/client';
import { Reviews } from '../changes/reviews';
import { Chats } from '../chat/service';
import { BrowserStorage } from '../common/storage';
import { createStore } from '../state/app';
import { writtenIn } from '../state/compose';
import { FakeServer } from '../testing/server';
import { PanelController } from './controller';
import { PanelStorage } from './panelStorage';
import type { IPanelServices } from './services';

const CUT = new ApiError({ code: UNREACHABLE, message: '', hint: '', retryable: true });
const SIDE = '';

const settled = (): Promise<void> => new Promise(resolve => setTimeout(resolve));
const browser = (): BrowserStorage => new BrowserStorage('http://server/');

function random(count: number): number {
  return Math.floor(Math.random() * count);
}

function words(text: string): string[] {
  return text.match(/\bw\d+\b/g) ?? [];
}

/** Ends a request: whether the server takes the message. */
type End = (taken: boolean) => void;

/** The chats of a server. */
class Chatting {
  private _begun = 0;
  readonly ids: string[] = [];
  readonly taken: string[] = [];
  readonly sending = new Set<End>();
  /** The messages that are on their way, or wait for those before. */
  readonly submitted = new Set<string[]>();

  readonly api = {
    chats: () => Promise.resolve([]),
    models: () => Promise.reject(CUT),
    chat: () => Promise.resolve({ events: [] }),
    send: ({ chat = `new ${this._begun++}`, message: text }: IMessage) =>
      new Promise((resolve, reject) => {
        const end = (taken: boolean): void => {
          this.sending.delete(end);
          if (!taken) {
            reject(CUT);
            return;
          }
          this.taken.push(text);
          this.ids.push(...(this.ids.includes(chat) ? [] : [chat]));
          resolve({ chat, turn: `t${this.taken.length}` });
        };
        this.sending.add(end);
      })
  };

  /** Send what is written in a panel. Returns its words. */
  submit(panel: PanelController): string[] {
    const sent = words(panel.draft.text);
    this.submitted.add(sent);
    void panel.submit().then(() => this.submitted.delete(sent));
    return sent;
  }

  /** Answer one message, or all. */
  async answer(all = false): Promise<void> {
    do {
      [...this.sending][random(this.sending.size)]?.(all || Math.random() < 0.6);
      await settled();
    } while (all && this.sending.size > 0);
  }
}

/** A window of the browser, whose storage outlives its pages. */
class Page {
  readonly panels = new Map<string, PanelController>();
  readonly memory: PanelStorage;
  private readonly _services: IPanelServices;

  constructor(readonly server: Chatting) {
    const store = createStore();
    const { channel } = new FakeServer();
    this.memory = new PanelStorage(browser());
    this._services = {
      store,
      chats: new Chats(server.api as unknown as ChatApi, channel, store),
      memory: this.memory,
      notebook: { seen: null },
      reviews: new Reviews(browser(), store)
    } as unknown as IPanelServices;
  }

  add(place: string, chat: string | null): PanelController {
    const panel = new PanelController(this._services, `panel ${place}`, chat, place);
    this.panels.set(place, panel);
    return panel;
  }

  close(place: string): void {
    this.panels.get(place)?.dispose();
    this.panels.delete(place);
  }

  any(): PanelController {
    const panels = [...this.panels.values()];
    return panels[random(panels.length)] as PanelController;
  }

  /** All that is written and not sent. */
  get written(): string[] {
    const names = [...this.server.ids, SIDE, 'tab 1', 'tab 2'];
    return names.flatMap(name => words(writtenIn(this.memory.draft(name))));
  }

  /** The page after a reload, when no message is on its way. */
  async reloaded(): Promise<Page> {
    this.memory.flush();
    await settled();
    const page = new Page(this.server);
    this.panels.forEach(({ chat }, place) => page.add(place, chat.id));
    await settled();
    return page;
  }
}

async function step(page: Page, word: string): Promise<Page> {
  const { server } = page;
  const panel = page.any();
  const tab = `tab ${1 + random(2)}`;
  switch (random(9)) {
    case 0:
      panel.open(server.ids[random(server.ids.length + 1)] ?? null);
      break;
    case 1:
      if (!page.panels.has(tab)) {
        const opened = page.add(tab, panel.chat.id);
        await settled();
        if (panel.chat.id === null) {
          opened.takeOver(panel);
        }
      }
      break;
    case 2:
      page.close(tab);
      break;
    case 3:
    case 4:
      server.submit(panel);
      break;
    case 5:
      await server.answer();
      break;
    case 6:
      await server.answer(true);
      return page.reloaded();
    default:
      panel.change({ text: `${panel.draft.text} ${word}` });
  }
  await settled();
  return page;
}

describe('what is written in several panels', () => {
  beforeEach(() => localStorage.clear());

  it('is in each panel of its chat, and sent or kept, each word once', async () => {
    for (let round = 0; round < 25; round++) {
      localStorage.clear();
      let page = new Page(new Chatting());
      page.add(SIDE, null);
      await settled();
      const typed = new Set<string>();
      for (let number = 0; number < 30; number++) {
        page = await step(page, `w${number}`);
        const { server, written } = page;
        const all = [...server.taken.flatMap(words), ...[...server.submitted].flat(), ...written];
        if (all.includes(`w${number}`)) {
          typed.add(`w${number}`);
        }
        expect(all.sort()).toEqual([...typed].sort());
        for (const { chat, state } of page.panels.values()) {
          if (chat.id !== null) {
            expect(state.compose).toBe(page.memory.draft(chat.id));
          }
        }
      }
      // The page is gone, with its timer.
      await page.reloaded();
    }
  });
});
