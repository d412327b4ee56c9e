import type { ServerConnection } from '@jupyterlab/services';

import { answerOf, request } from './client';
import type { Answer } from './events';

/** The routes of permission requests. */
export class PermissionsApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** Answer a request. A denial may have a message for the agent. */
  async answer(id: string, answer: Answer, message?: string): Promise<void> {
    const path = `permissions/${encodeURIComponent(id)}`;
    await request(this._settings, 'POST', path, answerOf(answer, message));
  }
}
