import type { ServerConnection } from '@jupyterlab/services';

import { answerOf, listen, request } from './client';
import type { Answer, PermissionEvent } from './events';

/** The routes of the requests for permission. */
export class PermissionsApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** Answers a request; a denial may have a message for whoever asked. */
  async answer(id: string, answer: Answer, message?: string): Promise<void> {
    const path = `permissions/${encodeURIComponent(id)}`;
    await request(this._settings, 'POST', path, answerOf(answer, message));
  }

  /**
   * What becomes of the user's requests, until the line is cut or `signal` aborts.
   *
   * @throws ApiError - the server cannot be reached, or does not tell.
   */
  async *follow(signal: AbortSignal): AsyncGenerator<PermissionEvent, void, undefined> {
    for await (const event of listen(this._settings, 'permissions', signal)) {
      if (event !== null) {
        yield event.value as PermissionEvent;
      }
    }
  }
}
