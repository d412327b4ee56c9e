import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { JSX } from 'react';

import { requestCards } from './Question';
import type { IPanelServices } from './panelServices';
import { DropTarget } from './dropTarget';
import { chatIcon } from '../common/icon';
import { keepKeyboard } from '../common/keyboard';
import { PanelController, SIDEBAR } from './controller';
import { Panel } from './Panel';
import { widen } from './width';

/** The panel as a widget, for the sidebar or the main area. */
export class ChatPanel extends ReactWidget {
  /**
   * @param chat - The chat's id; null for a new chat.
   * @param key - The panel's key in the store, which is the same after a reload.
   */
  constructor(
    private readonly _services: IPanelServices,
    chat: string | null,
    key = SIDEBAR
  ) {
    super();
    this.controller = new PanelController(_services, key, chat);
    this.addClass('tk-Panel');
    this.title.label = _services.trans.__('Claude');
    this.title.caption = _services.trans.__('Chat with Claude');
    this.title.icon = chatIcon;
    this.controller.wantsFocus.connect(() => this.focusBox());
    keepKeyboard(this.node, () => this._box);
    const dropped = new DropTarget(this.node, _services, found => this.controller.attach(found));
    this.disposed.connect(() => {
      dropped.dispose();
      this.controller.dispose();
    });
  }

  readonly controller: PanelController;

  /** Focus the message box. */
  focusBox(): void {
    this._focusing = requestAnimationFrame(() => this._box?.focus());
  }

  /** Focus the first approval request. */
  focusQuestion(): void {
    // Cancel the focus of the message box, which showing a panel requests.
    cancelAnimationFrame(this._focusing);
    this._focusing = requestAnimationFrame(() => requestCards(this.node)[0]?.focus());
  }

  private get _box(): HTMLElement | null {
    return this.node.querySelector<HTMLElement>('.tk-Box');
  }

  protected override render(): JSX.Element {
    return (
      <Panel store={this._services.store} services={this._services} controller={this.controller} />
    );
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._widen();
  }

  /**
   * Widen the panel for diffs, once: JupyterLab opens a sidebar with its minimum width. Later the
   * person's width is kept.
   */
  private _widen(): void {
    if (this._isWidened || this.controller.key !== SIDEBAR) {
      return;
    }
    this._isWidened = true;
    requestAnimationFrame(() => widen(this));
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    const focus = (): void => {
      // Keep the focus if it is in the panel already.
      if (!this.node.contains(document.activeElement)) {
        this._box?.focus();
      }
    };
    // At once, for the next key; a panel that was just opened is rendered by the next frame.
    focus();
    requestAnimationFrame(focus);
  }

  private _focusing = 0;
  private _isWidened = false;
}
