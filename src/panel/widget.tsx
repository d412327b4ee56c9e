import { ReactWidget } from '@jupyterlab/ui-components';
import { UUID } from '@lumino/coreutils';
import type { Message } from '@lumino/messaging';
import type { JSX } from 'react';

import { isInRightSidebar } from '../lab/sidebar';
import type { IPanelServices } from './services';
import { DropTarget } from './dropTarget';
import { chatIcon } from '../parts/icon';
import { PanelController } from './controller';
import { Panel } from './Panel';
import { widen } from './width';

/** The panel as a widget, for the sidebar or the main area. */
export class ChatPanel extends ReactWidget {
  constructor(
    private readonly _services: IPanelServices,
    chat: string | null
  ) {
    super();
    this.controller = new PanelController(_services, `panel ${UUID.uuid4()}`, chat);
    this.addClass('tk-Panel');
    this.title.label = _services.trans.__('Claude');
    this.title.caption = _services.trans.__('Chat with Claude');
    this.title.icon = chatIcon;
    this.controller.wantsFocus.connect(() => this.focusBox());
    const dropped = new DropTarget(this.node, _services, found => this.controller.attach(found));
    this.disposed.connect(() => {
      dropped.dispose();
      this.controller.dispose();
    });
  }

  readonly controller: PanelController;

  /** Lets the person write. */
  focusBox(): void {
    this._focusing = requestAnimationFrame(() => this.node.querySelector('textarea')?.focus());
  }

  /** Whether a question is shown. */
  get hasQuestion(): boolean {
    return this.node.querySelector('.tk-Question') !== null;
  }

  /** Moves to the question that waits for an approval, once it is shown. */
  focusQuestion(): void {
    this._seeking.disconnect();
    // The box was to have the focus, where its chat was opened just now.
    cancelAnimationFrame(this._focusing);
    if (!this._toQuestion()) {
      // Its chat was opened just now: it is rendered within the next frames.
      this._seeking.observe(this.node, { childList: true, subtree: true });
    }
  }

  override dispose(): void {
    this._seeking.disconnect();
    super.dispose();
  }

  private _toQuestion(): boolean {
    const question = this.node.querySelector('.tk-Question');
    if (question instanceof HTMLElement) {
      question.focus();
    }
    return question !== null;
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
   * Give the panel the width that a diff needs, once: JupyterLab shows a sidebar first as narrow as it
   * can be. From then on the width is the person's.
   */
  private _widen(): void {
    if (this._isWidened || !isInRightSidebar(this)) {
      return;
    }
    this._isWidened = true;
    requestAnimationFrame(() => widen(this));
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    requestAnimationFrame(() => {
      // Who is in it already, at a question, stays there.
      if (!this.node.contains(document.activeElement)) {
        this.node.querySelector('textarea')?.focus();
      }
    });
  }

  private _focusing = 0;
  private _isWidened = false;
  private readonly _seeking = new MutationObserver((_, observer) => {
    if (this._toQuestion()) {
      observer.disconnect();
    }
  });
}
