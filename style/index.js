import './lab.css';
import './panel.css';
import './cards.css';
import './diffs.css';
import './agentRequests.css';
import './composer.css';
import './context.css';
import './notebook.css';
