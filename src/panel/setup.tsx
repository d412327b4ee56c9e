import { ServerConnection } from '@jupyterlab/services';

import { showContent } from './dialog';
import type { IPanelContext } from './services';
import { SetupApi } from './setupApi';
import { SetupView } from './SetupView';

/** Show what chats are set up with. */
export async function showSetup(
  services: IPanelContext,
  api = new SetupApi(ServerConnection.makeSettings())
): Promise<void> {
  await showContent(services, services.trans.__('Chat Setup'), close => (
    <SetupView api={api} close={close} />
  ));
}
