import { Dialog, ReactWidget } from '@jupyterlab/apputils';
import type { Message } from '@lumino/messaging';
import type { JSX } from 'react';

import { keepKeyboard } from '../common/keyboard';
import { type IPanelContext, ServicesProvider } from './services';

/** The content of the dialog. */
class Body extends ReactWidget {
  constructor(private readonly _element: JSX.Element) {
    super();
  }

  protected render(): JSX.Element {
    return this._element;
  }

  protected override onUpdateRequest(msg: Message): void {
    super.onUpdateRequest(msg);
    // A dialog waits for it before it takes the focus: until the page is idle, Escape would go to what is
    // behind the dialog, and the focus would then leave what the person has begun to fill in.
    delete this.renderPromise;
  }
}

/** Where Tab stops. */
const STOPS = 'button, input, select, textarea, a[href], [tabindex="0"]';

/** A dialog that leaves Enter to its content, to submit a form or press a button. */
class ContentDialog extends Dialog<unknown> {
  constructor(
    options: Partial<Dialog.IOptions<unknown>>,
    private readonly _content: Node
  ) {
    super(options);
    keepKeyboard(this.node, () => this._last);
  }

  override handleEvent(event: Event): void {
    const { key, shiftKey } = event as KeyboardEvent;
    const pressed = event.type === 'keydown' ? key : '';
    if (pressed === 'Tab' && !shiftKey && event.target === this._last) {
      // JupyterLab goes to what was the first element when the content was loading.
      event.preventDefault();
      event.stopPropagation();
      this.node.querySelector<HTMLElement>(STOPS)?.focus();
    } else if (pressed !== 'Enter' || !this._content.contains(event.target as Node)) {
      super.handleEvent(event);
    }
  }

  private get _last(): HTMLElement | null {
    return [...this.node.querySelectorAll('button')].at(-1) ?? null;
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    // JupyterLab's 500 pixels cut the content in two.
    (this.node.firstElementChild as HTMLElement).style.maxHeight = '90vh';
    this._content.addEventListener('keydown', stop);
  }

  protected override onAfterDetach(msg: Message): void {
    this._content.removeEventListener('keydown', stop);
    super.onAfterDetach(msg);
  }
}

/** Keep Enter from JupyterLab's shortcuts. */
function stop(event: Event): void {
  if ((event as KeyboardEvent).key === 'Enter') {
    event.stopPropagation();
  }
}

/**
 * Show content with its own buttons in a dialog.
 *
 * @param render - Returns the content; takes a function that closes the dialog.
 */
export async function showContent(
  services: IPanelContext,
  title: string,
  render: (close: () => void) => JSX.Element
): Promise<void> {
  const content = render(() => dialog.dispose());
  const body = new Body(<ServicesProvider value={services}>{content}</ServicesProvider>);
  const dialog: Dialog<unknown> = new ContentDialog(
    { title, body, buttons: [Dialog.cancelButton({ label: services.trans.__('Close') })] },
    body.node
  );
  await dialog.launch();
}
