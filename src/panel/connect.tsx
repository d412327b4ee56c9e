import { ServerConnection } from '@jupyterlab/services';

import { ConnectionApi } from './connectApi';
import { Connect } from './ConnectForm';
import { showContent } from './dialog';
import type { IPanelServices } from './panelServices';

/** Show the connected model, and a form to connect another one. */
export async function showConnect(
  services: IPanelServices,
  api = new ConnectionApi(ServerConnection.makeSettings())
): Promise<void> {
  const { chats, trans } = services;
  await showContent(
    trans.__('Connect a model'),
    () => <Connect api={api} trans={trans} onChange={() => void chats.refresh()} />,
    trans
  );
}
