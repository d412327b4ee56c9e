import { Dialog, ReactWidget } from '@jupyterlab/apputils';
import { ServerConnection } from '@jupyterlab/services';
import type { Message } from '@lumino/messaging';
import type { JSX } from 'react';

import { ConnectionApi } from './connectApi';
import { Connect } from './ConnectForm';
import type { IPanelServices } from './services';

/** The content of the dialog. */
class ConnectBody extends ReactWidget {
  constructor(private readonly _element: JSX.Element) {
    super();
  }

  protected render(): JSX.Element {
    return this._element;
  }
}

/** A dialog whose content handles Enter itself: it submits the form, or presses its buttons. */
class ConnectDialog extends Dialog<unknown> {
  constructor(
    options: Partial<Dialog.IOptions<unknown>>,
    private readonly _content: Node
  ) {
    super(options);
  }

  override handleEvent(event: Event): void {
    const isEnter = event.type === 'keydown' && (event as KeyboardEvent).key === 'Enter';
    if (!isEnter || !this._content.contains(event.target as Node)) {
      super.handleEvent(event);
    }
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    // JupyterLab's 500 pixels cut the form in two.
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

/** Show the connected model, and a form to connect another one. */
export async function showConnect(
  services: IPanelServices,
  api = new ConnectionApi(ServerConnection.makeSettings())
): Promise<void> {
  const { chats, trans } = services;
  const body = new ConnectBody(
    <Connect api={api} trans={trans} onChange={() => void chats.refresh()} />
  );
  const dialog = new ConnectDialog(
    {
      title: trans.__('Connect a model'),
      body,
      buttons: [Dialog.cancelButton({ label: trans.__('Close') })]
    },
    body.node
  );
  await dialog.launch();
}
