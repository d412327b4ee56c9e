import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Token, UUID } from '@lumino/coreutils';

import { Channel, IChannel } from './channel';
import { Connection } from './connection';

export const IPageConnection = new Token<Connection>(
  'tk-ai-extension:IPageConnection',
  'The WebSocket of this page to the server.'
);

const connection: JupyterFrontEndPlugin<Connection> = {
  id: 'tk-ai-extension:connection',
  description: 'Keeps the WebSocket of this page to the server open.',
  autoStart: true,
  provides: IPageConnection,
  activate: ({ serviceManager }: JupyterFrontEnd): Connection => {
    const made = new Connection(serviceManager.serverSettings, UUID.uuid4());
    made.open();
    return made;
  }
};

const channel: JupyterFrontEndPlugin<IChannel> = {
  id: 'tk-ai-extension:channel',
  description: "Brings the events of chats, approvals and notebooks over the page's WebSocket.",
  autoStart: true,
  provides: IChannel,
  requires: [IPageConnection],
  activate: (_: JupyterFrontEnd, made: Connection): IChannel => {
    const found = new Channel(made);
    made.opened.connect(() => found.opened());
    made.lost.connect(() => found.lost());
    made.received.connect((_, message) => void found.receive(message));
    return found;
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [connection, channel];

export default plugins;
