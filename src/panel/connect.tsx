import { ServerConnection } from '@jupyterlab/services';

import { ConnectionApi } from './connectApi';
import { Connect } from './ConnectForm';
import { showContent } from './dialog';
import type { IPanelContext } from './services';

/** Show the connected model, and a form to connect another one. */
export async function showConnect(
  services: IPanelContext,
  api = new ConnectionApi(ServerConnection.makeSettings())
): Promise<void> {
  await showContent(services, services.trans.__('Connect a model'), () => <Connect api={api} />);
}
