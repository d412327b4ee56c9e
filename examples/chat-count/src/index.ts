import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IChats } from 'tk-ai-extension';

/** A command that returns how many chats are busy, and how many there are. */
const plugin: JupyterFrontEndPlugin<void> = {
  id: 'chat-count:plugin',
  description: 'Counts the chats.',
  autoStart: true,
  requires: [IChats],
  activate: ({ commands }: JupyterFrontEnd, chats: IChats) => {
    commands.addCommand('chat-count:count', {
      label: 'Count the Chats',
      execute: async () => {
        const all = await chats.api.chats();
        return { busy: all.filter(chat => chat.busy).length, all: all.length };
      }
    });
  }
};

export default plugin;
