import { memo } from 'react';
import type { JSX } from 'react';

import { blocksOf, type IBlock } from '../chat/blocks';
import { CodeBlock } from './CodeBlock';
import { Rendered } from './Rendered';

/** A Markdown text in blocks: while it streams, only the last one is rendered again. */
export function Markdown({ text }: { text: string }): JSX.Element {
  return (
    <div className="tk-Markdown">
      {blocksOf(text).map((block, place) => (
        <Block key={place} {...block} />
      ))}
    </div>
  );
}

const Block = memo(function Block(block: IBlock): JSX.Element {
  return block.kind === 'code' ? <CodeBlock {...block} /> : <Rendered source={block.text} />;
});
