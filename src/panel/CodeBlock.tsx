import { addBelowIcon, copyIcon, redoIcon } from '@jupyterlab/ui-components';
import type { JSX } from 'react';

import { copyText } from './clipboard';
import { useDesk } from './desk';
import { Rendered } from './Markdown';
import { ToolButton } from './ToolButton';

/** Code in an answer, and what can be done with it. */
export function CodeBlock({ text, language }: { text: string; language: string }): JSX.Element {
  const { surroundings, trans } = useDesk();
  return (
    <div className="tk-Code" role="group" aria-label={trans.__('Code')}>
      <div className="tk-Code-bar">
        <span className="tk-Code-language">{language}</span>
        <ToolButton icon={copyIcon} label={trans.__('Copy')} onClick={() => void copyText(text)} />
        <ToolButton
          icon={addBelowIcon}
          label={trans.__('Insert as a cell')}
          onClick={() => surroundings.insertCell(text)}
        />
        <ToolButton
          icon={redoIcon}
          label={trans.__('Replace the active cell')}
          onClick={() => surroundings.replaceCell(text)}
        />
      </div>
      <Rendered source={fenced(text, language)} />
    </div>
  );
}

/** A Markdown block of some code, whatever fences the code has itself. */
export function fenced(text: string, language: string): string {
  const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map(mark => mark.length));
  const mark = '`'.repeat(longest + 1);
  return `${mark}${language}\n${text}\n${mark}`;
}
