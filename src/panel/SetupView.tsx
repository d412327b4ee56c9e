import { type JSX, type ReactNode, useCallback, useEffect, useId, useRef, useState } from 'react';

import type {
  ChatSetupInfo,
  ErrorInfo,
  PromptInfo,
  McpServerList,
  McpServerInfo,
  StandingApprovalInfo
} from '../api/events';
import { Button } from './controls';
import { Failure, problemOf } from './Problem';
import { useSelector, useServices } from './services';

interface IProps {
  /** Closes the dialog. */
  close: () => void;
}

/** What chats are set up with: instructions, prompts, MCP servers and standing approvals. */
export function SetupView({ close }: IProps): JSX.Element {
  const { chats, trans } = useServices();
  const { api } = chats;
  const [setup, setSetup] = useState<ChatSetupInfo | null>(null);
  const [approvals, setApprovals] = useState<readonly StandingApprovalInfo[]>([]);
  const [problem, setProblem] = useState<ErrorInfo | null>(null);
  const queue = useRef(Promise.resolve());
  /** Run work after what is queued, so that the last answer is the newest one. */
  const attempt = useCallback((work: () => Promise<void>): void => {
    queue.current = queue.current
      .then(work)
      .catch((error: unknown) => setProblem(problemOf(error)));
  }, []);
  const act = (work: () => Promise<void>): void => {
    // Here: an error is not cleared by the success of what is queued after it.
    setProblem(null);
    attempt(work);
  };
  useEffect(() => {
    attempt(async () => {
      const [found, given] = await Promise.all([api.setup(), api.approvals()]);
      setSetup(found);
      setApprovals(given);
    });
  }, [api, attempt]);
  return (
    <div className="tk-Form">
      {problem !== null && <Failure problem={problem} />}
      {setup === null ? (
        problem === null && trans.__('Loading…')
      ) : (
        <>
          <Section title={trans.__('Instructions')}>
            <Instructions path={setup.instructions} close={close} />
          </Section>
          <Section title={trans.__('Prompts')}>
            <Prompts prompts={setup.prompts} />
          </Section>
          <Section title={trans.__('MCP servers')}>
            <Servers servers={setup.servers} />
          </Section>
          <Section title={trans.__('Standing approvals')}>
            <Approvals
              approvals={approvals}
              onRemove={id => act(async () => setApprovals(await api.removeApproval(id)))}
            />
          </Section>
        </>
      )}
    </div>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }): JSX.Element {
  const id = useId();
  return (
    <section aria-labelledby={id} tabIndex={-1}>
      <h3 id={id}>{title}</h3>
      {children}
    </section>
  );
}

interface IInstructionsProps {
  path: string | null;
  close: () => void;
}

function Instructions({ path, close }: IInstructionsProps): JSX.Element {
  const { commands, trans } = useServices();
  if (path === null) {
    return (
      <div className="tk-Form-note">
        {trans.__('No AGENTS.md or CLAUDE.md in the root folder.')}
      </div>
    );
  }
  return (
    <>
      <button
        type="button"
        className="tk-Link"
        aria-label={trans.__('Open %1', path)}
        onClick={() => {
          close();
          void commands.execute('docmanager:open', { path });
        }}
      >
        {path}
      </button>
      <div className="tk-Form-note">
        {trans.__('Chats read this file when their agent starts.')}
      </div>
    </>
  );
}

function Prompts({ prompts }: { prompts: readonly PromptInfo[] }): JSX.Element {
  const { trans } = useServices();
  if (prompts.length === 0) {
    const text = trans.__(
      'None. Put a Markdown file into .claude/commands, in the root folder or in your home folder.'
    );
    return <div className="tk-Form-note">{text}</div>;
  }
  return (
    <ul>
      {prompts.map(({ name, hint, description, origin, path }) => (
        <li key={name} className="tk-Form-row">
          <span className="tk-Form-grow">
            <code>
              /{name} {hint}
            </code>{' '}
            {description}
          </span>
          {origin === 'user' ? (
            <span className="tk-Form-note">{trans.__('Yours')}</span>
          ) : (
            <span className="tk-Form-note" title={path}>
              {trans.__('Project')}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

function Servers({ servers }: { servers: McpServerList }): JSX.Element {
  const { trans } = useServices();
  const { allowed, file, problem } = servers;
  if (!allowed) {
    const text = trans.__('You cannot use your own MCP servers here. Ask your administrator.');
    return <div className="tk-Form-note">{text}</div>;
  }
  return (
    <>
      <ul>
        {servers.servers.map(server => (
          <Server key={server.name} server={server} />
        ))}
      </ul>
      {problem !== '' && (
        <div className="tk-Form-error" role="alert">
          {trans.__('%1 cannot be used: %2.', file, problem)}
        </div>
      )}
      <div className="tk-Form-note">
        {trans.__('Servers are configured in %1, in the format of other MCP clients.', file)}
      </div>
    </>
  );
}

function Server({ server }: { server: McpServerInfo }): JSX.Element {
  const { trans } = useServices();
  const { name, place, enabled, problem } = server;
  return (
    <li>
      <div className="tk-Form-row">
        <span className="tk-Form-grow">
          {name} <span className="tk-Form-note">{place}</span>
        </span>
        <span className="tk-Form-note">{enabled ? trans.__('On') : trans.__('Off')}</span>
      </div>
      {problem !== '' && <div className="tk-Form-error">{problem}</div>}
    </li>
  );
}

interface IApprovalsProps {
  approvals: readonly StandingApprovalInfo[];
  onRemove: (id: string) => void;
}

function Approvals({ approvals, onRemove }: IApprovalsProps): JSX.Element {
  const { trans } = useServices();
  if (approvals.length === 0) {
    return <div className="tk-Form-note">{trans.__('None.')}</div>;
  }
  return (
    <ul>
      {approvals.map(approval => (
        <Approval key={approval.id} approval={approval} onRemove={onRemove} />
      ))}
    </ul>
  );
}

interface IApprovalProps {
  approval: StandingApprovalInfo;
  onRemove: (id: string) => void;
}

function Approval({ approval, onRemove }: IApprovalProps): JSX.Element {
  const { trans } = useServices();
  const { author, caller, effect, notebook, tool } = approval;
  const title = useSelector(({ chats }) => chats.find(({ id }) => id === caller)?.title);
  const what =
    tool !== null ? tool : effect === 'EXECUTE' ? trans.__('Run code') : trans.__('Edit notebooks');
  const where =
    notebook !== null
      ? trans.__('in %1, by all your chats and agents', notebook)
      : title !== undefined
        ? trans.__('in the chat “%1”', title)
        : trans.__('by %1', author);
  return (
    <li className="tk-Form-row">
      <span className="tk-Form-grow">
        {what} <span className="tk-Form-note">{where}</span>
      </span>
      <Button
        aria-label={trans.__('Remove: %1, %2', what, where)}
        onClick={() => onRemove(approval.id)}
      >
        {trans.__('Remove')}
      </Button>
    </li>
  );
}
