import { memo, useEffect, useMemo, useRef, useState } from 'react';
import type { JSX } from 'react';

import type { Answer, ErrorInfo, PermissionInfo } from '../api/events';
import { isBusy, waitingQuestion } from '../state/chat';
import { shortName } from '../common/visible';
import { isInTranscript } from '../state/requests';
import { type ForChat, QuestionCard } from './Question';
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
  const waiting = useMemo(
    () => requests.filter(each => !isInTranscript(each, open)),
    [requests, open]
  );
  const announcement = useAnnouncement(chat, requests, waiting);
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
          {waiting.slice(0, SHOWN).map(request => (
            <AgentRequest key={request.id} request={request} />
          ))}
        </section>
      )}
    </>
  );
}

/**
 * Return the announcement of new requests, of those that ended, and of answers.
 *
 * @param requests - All pending requests.
 * @param waiting - Those that are shown here.
 */
function useAnnouncement(
  chat: string,
  requests: readonly PermissionInfo[],
  waiting: readonly PermissionInfo[]
): { text: string; count: number } {
  const { trans } = useServices();
  const own = useChat(chat, state => waitingQuestion(state)?.question.id ?? null);
  const phase = useChat(chat, state =>
    isBusy(state) ? 'busy' : state.turns.findLast(turn => !turn.replaced)?.end
  );
  const before = useRef({ chat, phase });
  const [announcement, setAnnouncement] = useState({ text: '', count: 0 });
  const shown = useRef<readonly PermissionInfo[]>([]);
  useEffect(() => {
    const asked = waiting.find(each => !shown.current.includes(each));
    const ended = shown.current.find(each => !requests.includes(each));
    shown.current = waiting;
    const request = asked ?? ended;
    if (request !== undefined) {
      const name = shortName(request.caller ?? request.author);
      const text =
        request === asked
          ? trans.__('%1 needs your approval.', name)
          : trans.__('The request of %1 is no longer pending.', name);
      setAnnouncement(({ count }) => ({ text, count: count + 1 }));
    }
  }, [requests, waiting, trans]);
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

interface IAgentRequest {
  request: PermissionInfo;
}

/** An approval request of another agent, or of a chat that is not open. */
const AgentRequest = memo(function AgentRequest({ request }: IAgentRequest): JSX.Element {
  const { questions, trans } = useServices();
  const [problem, setProblem] = useState<ErrorInfo | null>(null);
  const runs = request.effect === 'EXECUTE';
  const forChat: ForChat = isOfTurn(request)
    ? [
        trans.__('Always allow in that chat'),
        runs
          ? trans.__('Let that chat run code without asking')
          : trans.__('Let that chat edit notebooks without asking')
      ]
    : [
        trans.__('Always allow this agent'),
        runs
          ? trans.__('Let this agent run code in any notebook without asking')
          : trans.__('Let this agent edit any notebook without asking')
      ];
  const give = async (answer: Answer, message?: string): Promise<void> => {
    setProblem(await questions.answer(request, answer, message));
  };
  return (
    <QuestionCard
      question={request}
      tool={request.tool}
      who={useRequester(request)}
      chat={request.chat}
      once={
        request.within_call
          ? trans.__('Approve this call (Enter)')
          : trans.__('Approve this call for the agent’s next attempt (Enter)')
      }
      forChat={forChat}
      onAnswer={give}
    >
      {problem === null ? null : (
        <div className="tk-Question-problem" role="alert">
          {problem.message}
        </div>
      )}
    </QuestionCard>
  );
});

/** Return whether a turn of a chat has called, and not code in a kernel. */
function isOfTurn({ chat, within_call }: PermissionInfo): boolean {
  return within_call && chat !== null;
}

/** Return the name of the agent, and of its chat or interface. */
function useRequester(request: PermissionInfo): string {
  const { author, caller, chat, interface: kind } = request;
  const { chats, trans } = useServices();
  const title = useSelector(state => state.chats.find(({ id }) => id === chat)?.title);
  const isUnknown = isOfTurn(request) && title === undefined;
  useEffect(() => {
    if (isUnknown) {
      // Another window, a cell or a terminal began it.
      void chats.refresh();
    }
  }, [chats, isUnknown]);
  const ways: Partial<Record<string, string>> = {
    mcp: 'MCP',
    rest: 'REST',
    nb: trans.__('command line'),
    chat: isOfTurn(request)
      ? shortName(title ?? trans.__('another chat'))
      : trans.__('code in a kernel')
  };
  return `${shortName(caller ?? author)} · ${ways[kind] ?? kind}`;
}
