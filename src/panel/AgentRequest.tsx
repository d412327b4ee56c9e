/** Approval requests: in a chunk that loads with the first of them. */

import { useState } from 'react';
import type { JSX } from 'react';

import type { Answer, ErrorInfo, PermissionInfo } from '../api/events';
import { sayProblem } from '../api/sentences';
import { shortName } from '../common/visible';
import { type Labels, QuestionCard, useCommonLabels, useTitle } from './Question';
import { useServices } from './services';

export { Question } from './Question';

/** An approval request of another agent. */
export function AgentRequest({ request }: { request: PermissionInfo }): JSX.Element {
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
    chat: [
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
      title={useTitle(request)}
      labels={labels}
      onAnswer={give}
    >
      {problem === null ? null : (
        <div className="tk-Question-problem" role="alert">
          {sayProblem(problem, trans)[0]}
        </div>
      )}
    </QuestionCard>
  );
}

/** Return the name of the agent and of its interface. */
function useRequester({ author, caller, interface: kind }: PermissionInfo): string {
  const { trans } = useServices();
  const ways: Partial<Record<string, string>> = {
    mcp: 'MCP',
    rest: 'REST',
    nb: trans.__('command line'),
    chat: trans.__('code in a kernel')
  };
  return `${shortName(caller ?? author)} · ${ways[kind] ?? kind}`;
}
