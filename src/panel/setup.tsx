import { ServerConnection } from '@jupyterlab/services';

import { showContent } from './dialog';
import type { IPanelServices } from './panelServices';
import { SetupApi } from './setupApi';
import { SetupView } from './SetupView';

/** Show what chats are set up with. */
export async function showSetup(
  services: IPanelServices,
  api = new SetupApi(ServerConnection.makeSettings())
): Promise<void> {
  const { commands, store, trans } = services;
  await showContent(
    trans.__('Chat Setup'),
    close => (
      <SetupView
        api={api}
        titleOf={id => store.state.chats.find(chat => chat.id === id)?.title}
        onOpen={path => {
          close();
          void commands.execute('docmanager:open', { path });
        }}
        trans={trans}
      />
    ),
    trans
  );
}
