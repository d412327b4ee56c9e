import type { JSX } from 'react';

import { Fold } from './Fold';

interface IProps {
  name?: string;
  value: unknown;
  open?: boolean;
}

/** Maximum number of entries of an array or object that are rendered. */
const SHOWN = 200;

/** A JSON value as a collapsible tree. */
export function JsonTree({ name, value, open }: IProps): JSX.Element {
  const label = name === undefined ? null : <span className="tk-Json-key">{name}: </span>;
  if (typeof value !== 'object' || value === null) {
    return (
      <div className="tk-Json-leaf">
        {label}
        {JSON.stringify(value)}
      </div>
    );
  }
  const entries = Object.entries(value as Record<string, unknown>);
  const [before, after] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  return (
    <Fold
      className="tk-Json"
      open={open === true}
      summary={
        <>
          {label}
          {`${before}${entries.length}${after}`}
        </>
      }
    >
      {() => (
        <>
          {entries.slice(0, SHOWN).map(([key, each]) => (
            <JsonTree key={key} name={key} value={each} />
          ))}
          {entries.length > SHOWN && (
            <div className="tk-Json-leaf">{`… ${entries.length - SHOWN}`}</div>
          )}
        </>
      )}
    </Fold>
  );
}
