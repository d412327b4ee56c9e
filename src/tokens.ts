import { Token } from '@lumino/coreutils';

/** What a chat is opened with. */
export interface IChatRequest {
  /** The path of the notebook that it is about. */
  notebook: string;
  /** What stands in the message box; empty or left out: what stood there. */
  message?: string;
  /** Ids of the cells that the message is about. */
  cells?: readonly string[];
  /** Whether the message is sent at once. */
  send?: boolean;
}

/** Opens the chat from elsewhere: from a cell, a toolbar, another extension. */
export interface IChatOpener {
  /** Shows the chat of a notebook, and puts a message there or sends it. */
  open(request: IChatRequest): Promise<void>;
}

/** The way to the chat, for plug-ins outside of the panel. */
export const IChatOpener = new Token<IChatOpener>(
  'tk-ai-extension:IChatOpener',
  'Opens the chat with Claude about a notebook and some of its cells, with a message.'
);
