import type { JSX, ReactNode } from 'react';

import type { ErrorInfo } from '../api/events';
import { ApiError, UNREACHABLE } from '../api/client';
import { Button } from './controls';
import { useServices } from './services';

interface IProps {
  problem: ErrorInfo;
  onRetry?: (() => void) | undefined;
  /** Asks Claude to continue. */
  onContinue?: (() => void) | undefined;
  onDismiss?: () => void;
}

const MODELS = new Set(['no_model', 'model_unauthorized']);

/** An error with its hint, and buttons for the next step. */
export function Problem({ problem, onRetry, onContinue, onDismiss }: IProps): JSX.Element {
  const { commands, trans } = useServices();
  return (
    <Failure problem={problem}>
      <div className="tk-Problem-actions">
        {MODELS.has(problem.code) && (
          <Button onClick={() => void commands.execute('tk-ai:connect')}>
            {trans.__('Connect a model')}
          </Button>
        )}
        {onRetry !== undefined && (
          <Button onClick={onRetry}>
            {problem.code === UNREACHABLE ? trans.__('Reconnect') : trans.__('Retry')}
          </Button>
        )}
        {onContinue !== undefined && <Button onClick={onContinue}>{trans.__('Continue')}</Button>}
        {onDismiss !== undefined && <Button onClick={onDismiss}>{trans.__('Dismiss')}</Button>}
      </div>
    </Failure>
  );
}

interface IFailureProps {
  id?: string;
  problem: ErrorInfo;
  children?: ReactNode;
}

/** An error with its hint. */
export function Failure({ id, problem, children }: IFailureProps): JSX.Element {
  const { message, hint } = problem;
  return (
    <div id={id} className="tk-Problem" role="alert">
      <div className="tk-Problem-message">{message}</div>
      {hint !== '' && <div className="tk-Problem-hint">{hint}</div>}
      {children}
    </div>
  );
}

/** Return an error as it is shown. */
export function problemOf(error: unknown): ErrorInfo {
  return error instanceof ApiError
    ? error.problem
    : { code: 'failed', message: String(error), hint: '', retryable: true };
}
