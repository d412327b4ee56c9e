import { Suspense, useEffect, useRef, useState } from 'react';
import type { JSX } from 'react';

import type { PermissionInfo } from '../api/events';
import type { IEnded } from '../questions/model';
import { isBusy, waitingQuestion } from '../state/chat';
import { shortName } from '../common/visible';
import { isInTranscript } from '../state/requests';
import { AgentRequest } from './later';
import { useChat, useSelector, useServices } from './services';

/** Maximum number of requests that are shown, from the oldest. */
const SHOWN = 3;

/**
 * Approval requests of other agents and of chats that are not open, above the message box in all views
 * of the panel.
 *
 * Requests of the chat itself and the end of an answer are announced here, too, since the log is busy
 * while an answer streams.
 */
export function AgentRequests({ chat }: { chat: string }): JSX.Element {
  const { trans } = useServices();
  const requests = useSelector(state => state.requests);
  const open = useSelector(state => state.open);
  const waiting = requests.filter(each => !isInTranscript(each, open));
  const announcement = useAnnouncement(chat);
  return (
    <>
      <div className="tk-Announced" role="status">
        {/* A new element, so that the same text is announced again. */}
        <span key={announcement.count}>{announcement.text}</span>
      </div>
      {waiting.length > 0 && (
        <section className="tk-Asked" aria-label={trans.__('Approvals for other agents')}>
          {waiting.length > 1 && (
            <div className="tk-Asked-count">
              {trans._n('%1 approval pending', '%1 approvals pending', waiting.length)}
            </div>
          )}
          <Suspense fallback={null}>
            {waiting.slice(0, SHOWN).map(request => (
              <AgentRequest key={request.id} request={request} />
            ))}
          </Suspense>
        </section>
      )}
    </>
  );
}

/** Return the announcement of new requests, of those that ended without an answer here, and of answers. */
function useAnnouncement(chat: string): { text: string; count: number } {
  const { questions, trans } = useServices();
  const own = useChat(chat, state => waitingQuestion(state)?.question.id ?? null);
  const phase = useChat(chat, state =>
    isBusy(state) ? 'busy' : state.turns.findLast(turn => !turn.replaced)?.end
  );
  const before = useRef({ chat, phase });
  const [announcement, setAnnouncement] = useState({ text: '', count: 0 });
  useEffect(() => {
    const announce = (text: string): void =>
      setAnnouncement(({ count }) => ({ text, count: count + 1 }));
    const asked = (_: unknown, { author, caller }: PermissionInfo): void => {
      announce(trans.__('%1 needs your approval.', shortName(caller ?? author)));
    };
    const ended = (_: unknown, { request, outcome, here }: IEnded): void => {
      const name = shortName(request.caller ?? request.author);
      if (outcome === 'expired') {
        announce(trans.__('The request of %1 has expired.', name));
      } else if (!here) {
        announce(trans.__('The request of %1 is no longer pending.', name));
      }
    };
    questions.asked.connect(asked);
    questions.ended.connect(ended);
    return () => {
      questions.asked.disconnect(asked);
      questions.ended.disconnect(ended);
    };
  }, [questions, trans]);
  useEffect(() => {
    const wasBusy = before.current.chat === chat && before.current.phase === 'busy';
    before.current = { chat, phase };
    const text =
      own !== null
        ? trans.__('Claude needs your approval.')
        : wasBusy && phase === 'done'
          ? trans.__('The answer is complete.')
          : '';
    if (text !== '') {
      // The announcement is an event, which cannot be derived from the state.
      setAnnouncement(({ count }) => ({ text, count: count + 1 }));
    }
  }, [chat, own, phase, trans]);
  return announcement;
}
