import { addBelowIcon, copyIcon, redoIcon } from '@jupyterlab/ui-components';
import type { JSX } from 'react';

import { fenced, type IBlock } from '../chat/blocks';
import { copyText } from './clipboard';
import { useSelector, useServices } from './services';
import { Rendered } from './Rendered';
import { ToolButton } from './ToolButton';

/** A code block in an answer, with buttons to copy and insert it. */
export function CodeBlock({ text, language, closed }: IBlock): JSX.Element {
  const { notebook, trans } = useServices();
  // A diagram has the colours of the theme in which it was rendered.
  const theme = useSelector(state => (language === 'mermaid' ? state.theme : ''));
  return (
    <div className="tk-Code" role="group" aria-label={trans.__('Code')}>
      <div className="tk-Code-bar">
        <span className="tk-Code-language">{language}</span>
        <ToolButton icon={copyIcon} label={trans.__('Copy')} onClick={() => void copyText(text)} />
        <ToolButton
          icon={addBelowIcon}
          label={trans.__('Insert as a cell')}
          onClick={() => notebook.insertCell(text)}
        />
        <ToolButton
          icon={redoIcon}
          label={trans.__('Replace the active cell')}
          onClick={() => notebook.replaceCell(text)}
        />
      </div>
      {/* A diagram is rendered once it is complete. */}
      <Rendered
        key={theme}
        source={fenced(text, closed || language !== 'mermaid' ? language : '')}
      />
    </div>
  );
}
