/** What the composer loads when it is first needed, in one chunk. */

import '../../style/context.css';

export { complete } from './completion';
export { Completions } from './Completions';
export { ContextMeter } from './ContextMeter';
export { VariablePreview } from './VariablePreview';
