import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { UUID } from '@lumino/coreutils';

import type { ChatModel } from '../chat/model';
import { waitingQuestion } from '../state/chat';
import type { IPanelServices } from './services';
import { ChatPanel } from './widget';

/** A panel in the main area. */
type Tab = MainAreaWidget<ChatPanel>;

/** Where the panels are: one in the sidebar, others in the main area. */
export class Places {
  /**
   * @param _hasTabs - whether there is room for a panel in the main area: Notebook 7 has one notebook
   *   to a page, and takes nothing beside it.
   */
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _services: IPanelServices,
    private readonly _hasTabs: boolean
  ) {
    this.side = this._made(null);
    this._used = this.side;
    this.side.id = 'tk-ai-chat';
    _services.chats.happened.connect((_, { chat, event }) => {
      if (event.kind === 'permission') {
        this._asking.add(chat);
      }
    });
  }

  /** The panel in the sidebar. */
  readonly side: ChatPanel;

  /** Those in the main area. */
  readonly tabs = new WidgetTracker<Tab>({ namespace: 'tk-ai-chat' });

  /** The panel in the sidebar, shown. */
  show(): ChatPanel {
    return this._reveal(this.side);
  }

  /** The panel that the person is in, or was in last. */
  current(): ChatPanel {
    const panels = this._panels;
    const focused = panels.find(panel => panel.node.contains(document.activeElement));
    return focused ?? (panels.includes(this._used) ? this._used : this.side);
  }

  /** The panel that the person is in or was in last, shown. */
  shown(): ChatPanel {
    return this._reveal(this.current());
  }

  /** The one they were in last where it is in sight; else the one in the sidebar, shown. */
  beside(): ChatPanel {
    const panel = this.current();
    // Who asks from a cell goes on in the box.
    return panel.isVisible ? this._reveal(panel) : this.show();
  }

  /** A panel with this chat, shown. */
  withChat(chat: ChatModel): ChatPanel {
    const having = this._panels.filter(panel => panel.controller.chat === chat);
    const panel = having.find(each => each.isVisible) ?? having[0] ?? this.side;
    this._reveal(panel);
    if (panel.controller.chat !== chat) {
      panel.controller.open(chat.id);
    } else if (panel.controller.showsHistory) {
      panel.controller.closeHistory();
    }
    return panel;
  }

  /** A panel with a question that waits, shown; null where nothing waits. */
  withQuestion(): ChatPanel | null {
    const current = this.current();
    if (current.isVisible && current.hasQuestion) {
      return current;
    }
    const chats = [...this._panels.map(panel => panel.controller.chat), ...this._asking];
    const asking = chats.find(chat => this._asks(chat));
    if (asking !== undefined) {
      return this.withChat(asking);
    }
    return this._services.store.state.requests.length > 0 ? this.beside() : null;
  }

  /** Whether somebody can see what happens in a chat; what agents ask for null, which all panels show. */
  isSeen(chat: ChatModel | null): boolean {
    return this._panels.some(
      ({ isVisible, controller }) =>
        isVisible && (chat === null || (controller.chat === chat && !controller.showsHistory))
    );
  }

  /**
   * Opens a panel in the main area.
   *
   * @param chat - The chat's id; null for a new chat.
   * @param name - What the tab was called before a reload; a new name without.
   */
  openTab(chat: string | null, name = `tk-ai-chat-${UUID.uuid4()}`): ChatPanel {
    if (!this._hasTabs) {
      const panel = this.show();
      if (chat !== null && chat !== panel.controller.chat.id) {
        panel.controller.open(chat);
      }
      return panel;
    }
    const { shell } = this._app;
    const widget = new MainAreaWidget({ content: this._made(chat) });
    widget.id = name;
    widget.title.closable = true;
    shell.add(widget, 'main');
    void this.tabs.add(widget);
    widget.content.controller.shown.connect(() => void this.tabs.save(widget));
    shell.activateById(widget.id);
    return widget.content;
  }

  private get _panels(): ChatPanel[] {
    const tabs: ChatPanel[] = [];
    this.tabs.forEach(tab => tabs.push(tab.content));
    return [this.side, ...tabs];
  }

  private _made(chat: string | null): ChatPanel {
    const panel = new ChatPanel(this._services, chat);
    panel.node.addEventListener('focusin', () => {
      this._used = panel;
    });
    return panel;
  }

  private _reveal(panel: ChatPanel): ChatPanel {
    const { parent } = panel;
    this._app.shell.activateById(parent instanceof MainAreaWidget ? parent.id : panel.id);
    return panel;
  }

  private _asks(chat: ChatModel): boolean {
    const waits = waitingQuestion(chat.state) !== null;
    if (!waits) {
      this._asking.delete(chat);
    }
    // One that was deleted waits for nothing.
    return waits && this._services.store.state.chats.some(each => each.id === chat.id);
  }

  /** Chats that asked for an approval while this page was there, whether they still wait or not. */
  private readonly _asking = new Set<ChatModel>();
  private _used: ChatPanel;
}
