/* Written by scripts/typescript.py, from the models of the server's routes. */

import type { ModelsInfo } from './models';

/** State of the connection to a model. */
export interface ConnectionInfo {
  /** Whether this user may connect a model here. */
  allowed: boolean;
  /** Whom to ask where it is not allowed; may be empty. */
  contact: string;
  /** The connection that was entered in the panel, if any. */
  stored: StoredConnection | null;
  /** What chats use now. */
  models: ModelsInfo;
}
/** Connection that a user has entered in the panel, without its secret. */
export interface StoredConnection {
  /** anthropic, oauth, compatible, bedrock or vertex. */
  provider: string;
  /** The only address that the secret is sent to; None for a cloud's own. */
  base_url: string | null;
  /** The default model; empty for the provider's. */
  model: string;
  /** A cloud's region; None for the others. */
  region: string | null;
  /** The Google Cloud project; None for the others. */
  project: string | null;
  /** At most the last four characters of the secret; None without one, or if it is short. */
  ending: string | null;
  /** Whether chats use this connection; else another source takes precedence. */
  in_force: boolean;
}
