import { Token } from '@lumino/coreutils';

/** Options of opening a chat. */
export interface IOpenChatOptions {
  /** The path of the notebook that the chat is about. */
  notebook: string;
  /** The text of the message box. Default: the present text. */
  message?: string;
  /** Ids of the cells that the message is about, as their models have them. */
  cells?: readonly string[];
  /** Whether the message is sent immediately. */
  send?: boolean;
}

/** Opens the chat from outside of the panel: from a cell, a toolbar, another extension. */
export interface IChatOpener {
  /** Show the chat about a notebook, and write or send a message. */
  open(options: IOpenChatOptions): Promise<void>;
}

/** Opens the chat, for plug-ins outside of the panel. */
export const IChatOpener = new Token<IChatOpener>(
  'tk-ai-extension:IChatOpener',
  'Opens the chat with Claude about a notebook and some of its cells, with a message.'
);
