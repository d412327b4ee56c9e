import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Contents } from '@jupyterlab/services';

import { IChannel } from '../api/channel';
import { ChatApi } from '../api/client';
import { serverPath } from '../common/drives';
import { createStore } from '../state/app';
import { Chats, IChats } from './service';

/** The user's chats. */
const chats: JupyterFrontEndPlugin<IChats> = {
  id: 'tk-ai-extension:chats',
  description: "The user's chats with Claude and pending approvals, in sync with the server.",
  autoStart: true,
  provides: IChats,
  requires: [IChannel],
  activate: ({ restored, serviceManager }: JupyterFrontEnd, channel: IChannel): IChats => {
    const { contents, serverSettings } = serviceManager;
    const chats = new Chats(new ChatApi(serverSettings), channel, createStore());
    // After the start, when panels are restored and notifications are connected.
    void restored.then(() => chats.followRequests());
    const pathOf = (file: Partial<Contents.IModel> | null): string | null =>
      file?.path === undefined ? null : serverPath(contents, file.path);
    contents.fileChanged.connect((_, { oldValue, newValue }) => {
      const old = pathOf(oldValue);
      const path = pathOf(newValue);
      // Only files that were renamed or deleted have an old value.
      if (old !== null && old !== path) {
        void chats.moved(old, path);
      }
    });
    return chats;
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [chats];

export default plugins;
