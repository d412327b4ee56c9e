import { Notification } from '@jupyterlab/apputils';

import type { IHappened } from '../chat/service';
import { shortName } from '../parts/visible';
import type { IDesk } from './desk';

/**
 * Tells of what waits for the person, or took long and has ended, while no panel is in sight.
 *
 * @param isSeen - whether a panel shows.
 */
export function notify(desk: IDesk, isSeen: () => boolean): void {
  const { chats, commands, preferences, questions, trans } = desk;
  const began = new Map<string, number>();
  const tell = (message: string): void => {
    if (preferences.now.notify && (!isSeen() || document.hidden)) {
      Notification.info(message, {
        autoClose: 10_000,
        actions: [
          {
            label: trans.__('Show'),
            callback: () => void commands.execute('tk-ai:show-panel')
          }
        ]
      });
    }
  };
  questions.asked.connect((_, { author, caller }) => {
    tell(trans.__('%1 waits for your leave.', shortName(caller ?? author)));
  });
  chats.happened.connect((_, { event }: IHappened) => {
    if (event.kind === 'began') {
      began.set(event.turn, event.time);
    } else if (event.kind === 'permission') {
      tell(trans.__('Claude waits for your leave.'));
    } else if (event.kind === 'done') {
      const start = began.get(event.turn) ?? event.time;
      began.delete(event.turn);
      if (event.time - start > preferences.now.notifyAfter) {
        tell(
          event.end === 'failed' ? trans.__('Claude could not go on.') : trans.__('Claude is done.')
        );
      }
    }
  });
}
