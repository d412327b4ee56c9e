import './lab.css';
import './panel.css';
import './cards.css';
import './agentRequests.css';
import './composer.css';
import './notebook.css';
