/** Approval requests: in a chunk that loads with the first of them. */

import { memo, useEffect, useState } from 'react';
import type { JSX } from 'react';

import type { Answer, ErrorInfo, PermissionInfo } from '../api/events';
import { shortName } from '../common/visible';
import { type Labels, QuestionCard, useCommonLabels, useTitle } from './Question';
import { useSelector, useServices } from './services';

export { Question } from './Question';
export { Queued } from './Queued';

export interface IAgentRequest {
  request: PermissionInfo;
}

/** An approval request of another agent, or of a chat that is not open. */
export const AgentRequest = memo(function AgentRequest({ request }: IAgentRequest): JSX.Element {
  const { questions, trans } = useServices();
  const [problem, setProblem] = useState<ErrorInfo | null>(null);
  const runs = request.effect === 'EXECUTE';
  const labels: Labels = {
    once: [
      trans.__('Approve'),
      request.within_call
        ? trans.__('Approve this call (Enter)')
        : trans.__('Approve this call for the agent’s next attempt (Enter)')
    ],
    chat: isOfTurn(request)
      ? [
          trans.__('Approve in that chat'),
          runs
            ? trans.__('Let that chat run code without asking')
            : trans.__('Let that chat edit notebooks without asking')
        ]
      : [
          trans.__('Approve this agent'),
          runs
            ? trans.__('Let this agent run code in any notebook without asking')
            : trans.__('Let this agent edit any notebook without asking')
        ],
    ...useCommonLabels(request)
  };
  const give = async (answer: Answer, message?: string): Promise<void> => {
    setProblem(await questions.answer(request, answer, message));
  };
  return (
    <QuestionCard
      question={request}
      tool={request.tool}
      who={useRequester(request)}
      chat={request.chat}
      title={useTitle(request)}
      labels={labels}
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
