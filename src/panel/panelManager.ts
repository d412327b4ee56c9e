import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import { UUID } from '@lumino/coreutils';

import type { IPanelServices } from './panelServices';
import { ChatPanel } from './widget';

/** A panel in the main area. */
type Tab = MainAreaWidget<ChatPanel>;

/** Manages the panels: one in the sidebar, others in tabs of the main area. */
export class PanelManager {
  /**
   * @param chat - The chat that the sidebar showed before a reload; null for a new one.
   * @param _hasTabs - Whether the main area can have panels. In Notebook 7 it has one notebook only.
   */
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _services: IPanelServices,
    private readonly _hasTabs: boolean,
    chat: string | null = null
  ) {
    this.side = this._made(chat);
    this._used = this.side;
    this.side.id = 'tk-ai-chat';
  }

  /** The panel in the sidebar. */
  readonly side: ChatPanel;

  /** The panels in the main area. */
  readonly tabs = new WidgetTracker<Tab>({ namespace: 'tk-ai-chat' });

  /** Show the panel in the sidebar. */
  show(): ChatPanel {
    return this._reveal(this.side);
  }

  /** Return the panel with the focus, or that had it last. */
  current(): ChatPanel {
    const panels = this._panels;
    const focused = panels.find(panel => panel.node.contains(document.activeElement));
    return focused ?? (panels.includes(this._used) ? this._used : this.side);
  }

  /** Show the current panel. */
  shown(): ChatPanel {
    return this._reveal(this.current());
  }

  /** Show the current panel if it is visible, else the one in the sidebar. */
  showVisible(): ChatPanel {
    const panel = this.current();
    // Activating it moves the focus to its message box.
    return panel.isVisible ? this._reveal(panel) : this.show();
  }

  /** Show a panel with the chat of this id. */
  withChat(id: string | null): ChatPanel {
    const having = this._panels.filter(panel => panel.controller.chat.id === id);
    const panel = having.find(each => each.isVisible) ?? having[0] ?? this.side;
    this._reveal(panel);
    if (panel.controller.chat.id !== id) {
      panel.controller.open(id);
    } else if (panel.controller.showsHistory) {
      panel.controller.closeHistory();
    }
    return panel;
  }

  /** Show a panel with the pending requests, which all panels have; null if there are none. */
  withQuestion(): ChatPanel | null {
    return this._services.store.state.requests.length === 0 ? null : this.showVisible();
  }

  /** Return whether the chat of this id is visible. Null is for requests, which all panels show. */
  isSeen(chat: string | null): boolean {
    return this._panels.some(
      ({ isVisible, controller }) =>
        isVisible && (chat === null || (controller.chat.id === chat && !controller.showsHistory))
    );
  }

  /**
   * Open a panel in the main area.
   *
   * @param chat - The chat's id; null for a new chat.
   * @param name - The id of the tab before a reload. Default: a new id.
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
    const widget = new MainAreaWidget({ content: this._made(chat, name) });
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

  private _made(chat: string | null, key?: string): ChatPanel {
    const panel = new ChatPanel(this._services, chat, key);
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

  private _used: ChatPanel;
}
