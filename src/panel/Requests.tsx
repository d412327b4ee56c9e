import { useEffect, useRef, useState } from 'react';
import type { JSX } from 'react';

import type { PermissionInfo } from '../api/events';
import { shortName } from '../common/shortName';
import { isBusy, pendingQuestions } from '../state/chat';
import { Question } from './Question';
import { useChat, useSelector, useServices } from './services';

/** Maximum number of requests that are shown. */
const SHOWN = 3;

/**
 * All pending approval requests, above the message box: those of the chat that is shown, then those
 * of other chats and agents, from the oldest.
 *
 * They and the end of an answer are announced here, since the log is busy while an answer streams.
 */
export function Requests({ chat }: { chat: string }): JSX.Element {
  const { trans } = useServices();
  const requests = useSelector(state => state.requests);
  const id = useChat(chat, ({ id }) => id);
  // Code in a kernel is no turn of a chat, although it may have the chat's id.
  const isOwn = (each: PermissionInfo): boolean =>
    each.within_call && id !== null && each.chat === id;
  const sorted = [...requests.filter(isOwn), ...requests.filter(each => !isOwn(each))];
  const announcement = useAnnouncement(chat, requests);
  return (
    <>
      <div className="tk-Announced" role="status">
        {/* A new element, so that the same text is announced again. */}
        <span key={announcement.count}>{announcement.text}</span>
      </div>
      {sorted.length > 0 && (
        <section className="tk-Asked" aria-label={trans.__('Approvals')}>
          {sorted.length > 1 && (
            <div className="tk-Asked-count">
              {trans._n('%1 approval pending', '%1 approvals pending', sorted.length)}
            </div>
          )}
          {sorted.slice(0, SHOWN).map(request => (
            <Question key={request.id} request={request} own={isOwn(request)} />
          ))}
        </section>
      )}
    </>
  );
}

/** Return the announcement of requests that begin or end, and of answers that end. */
function useAnnouncement(
  chat: string,
  requests: readonly PermissionInfo[]
): { text: string; count: number } {
  const { trans } = useServices();
  const phase = useChat(chat, state =>
    isBusy(state) ? 'busy' : state.turns.findLast(turn => !turn.replaced)?.end
  );
  const question = useChat(chat, ({ turns }) => turns.flatMap(pendingQuestions).at(-1)?.id);
  const before = useRef({ chat, phase, question, requests: [] as readonly PermissionInfo[] });
  const [announcement, setAnnouncement] = useState({ text: '', count: 0 });
  useEffect(() => {
    const was = before.current;
    before.current = { chat, phase, question, requests };
    const asked = requests.find(each => !was.requests.includes(each));
    const ended = was.requests.find(each => !requests.includes(each));
    const nameOf = ({ author, caller }: PermissionInfo): string => shortName(caller ?? author);
    const isDone = was.chat === chat && was.phase === 'busy' && phase === 'done';
    const text =
      asked !== undefined
        ? trans.__('%1 needs your approval.', nameOf(asked))
        : ended !== undefined
          ? trans.__('The request of %1 is no longer pending.', nameOf(ended))
          : question !== undefined && question !== was.question
            ? trans.__('The agent asks you a question.')
            : isDone
              ? trans.__('The answer is complete.')
              : '';
    if (text !== '') {
      // The announcement is an event, which cannot be derived from the state.
      setAnnouncement(({ count }) => ({ text, count: count + 1 }));
    }
  }, [chat, phase, question, requests, trans]);
  return announcement;
}
