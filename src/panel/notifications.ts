import { Notification } from '@jupyterlab/apputils';

import type { IHappened } from '../chat/service';
import { shortName } from '../common/shortName';
import type { IPreferences } from '../state/preferences';
import type { IPanelServices } from './panelServices';
import type { PanelManager } from './panelManager';

/** Seconds of an answer after which its end is notified. */
const LONG = 30;

/** Notify the person of pending approvals and long answers that are done, if they do not see the chat. */
export function notify(
  services: IPanelServices,
  manager: Pick<PanelManager, 'isSeen' | 'showVisible' | 'withChat'>
): void {
  const { chats, store, trans } = services;
  const preferences = (): IPreferences => store.state.preferences;
  const began = new Map<string, number>();
  /** The toasts and desktop notes of pending requests, by the requests' ids. */
  const pending = new Map<string, () => void>();
  /** Notify of something in a chat, or in all panels for null. Return what takes it back. */
  const notifyIfUnseen = (message: string, chat: string | null): (() => void) => {
    let close = (): void => undefined;
    if (preferences().notify && (!manager.isSeen(chat) || document.hidden)) {
      const show = (): unknown => (chat === null ? manager.showVisible() : manager.withChat(chat));
      const actions = [{ label: trans.__('Show'), callback: () => void show() }];
      // The API may be missing, which counts as denied.
      const own = window.Notification as typeof window.Notification | undefined;
      if (own?.permission === 'default') {
        // Browsers ask for the permission on a click only.
        actions.push({
          label: trans.__('Notify on the desktop'),
          callback: () => void own.requestPermission()
        });
      }
      // It stays while the page is hidden, or nobody would see it.
      const autoClose = document.hidden ? false : 10_000;
      const toast = Notification.info(message, { autoClose, actions });
      close = () => Notification.dismiss(toast);
      if (document.hidden && own?.permission === 'granted') {
        const note = new own(message);
        note.onclick = () => {
          window.focus();
          show();
          note.close();
        };
        close = () => {
          Notification.dismiss(toast);
          note.close();
        };
      }
    }
    return close;
  };
  let before = store.state.requests;
  store.subscribe(() => {
    const { requests } = store.state;
    if (requests === before) {
      return;
    }
    for (const { id } of before.filter(each => !requests.includes(each))) {
      pending.get(id)?.();
      pending.delete(id);
    }
    const asked = requests.filter(each => !before.includes(each));
    before = requests;
    for (const request of asked) {
      const name = shortName(request.caller ?? request.author);
      pending.set(request.id, notifyIfUnseen(trans.__('%1 needs your approval.', name), null));
    }
  });
  chats.happened.connect((_, { chat, event }: IHappened) => {
    if (event.kind === 'question') {
      pending.set(event.call, notifyIfUnseen(trans.__('The agent asks you a question.'), chat.id));
    } else if (event.kind === 'question_settled') {
      pending.get(event.call)?.();
      pending.delete(event.call);
    } else if (event.kind === 'began') {
      began.set(event.turn, event.time);
    } else if (event.kind === 'done') {
      const start = began.get(event.turn) ?? event.time;
      began.delete(event.turn);
      if (event.time - start > LONG) {
        notifyIfUnseen(
          event.end === 'failed'
            ? trans.__('Claude could not continue.')
            : trans.__('Claude is done.'),
          chat.id
        );
      }
    }
  });
}
