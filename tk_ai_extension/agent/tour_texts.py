"""Texts and cells of the tour."""

from __future__ import annotations

from typing import Final

LABEL: Final = "**[The tour: a script, not a model]**"
"""Prefix of each response."""

INTRO: Final = """\
No model is connected to this server yet, so a built-in tour answers. It follows a script, but the \
notebook, the kernel, the tools and the approvals are real."""

MENU: Final = """\
Type `start`, and I work in your notebook: I read it, run a few cells, draw a plot, break a cell and \
fix it, and ask for your approval where the permission mode requires it. Type `connect` to see how to \
connect a model. I cannot answer anything else."""

PLAN: Final = """\
In the mode `plan` I only read. My plan: add a heading at the end of the notebook; add a cell that \
computes a few numbers, and run it; add a cell that plots them; add a cell with a mistake, and fix it. \
Approve the plan to continue, or choose the mode `ask` or `auto` and type `start`."""

CONNECT: Final = """\
Set one of these in the server's environment, or as lines of `NAME=value` in a file `.secrets.env` in \
its root folder. Then start a new chat; with the file, no restart is needed:

- `ANTHROPIC_API_KEY`: an Anthropic API key.
- `CLAUDE_CODE_OAUTH_TOKEN`: the token of a subscription, as `claude setup-token` prints it.
- `ANTHROPIC_BASE_URL` and `ANTHROPIC_MODEL`: any server with the Messages API, such as Ollama \
(`http://localhost:11434`) or LiteLLM; with `ANTHROPIC_AUTH_TOKEN` if it requires a key.
- `CLAUDE_CODE_USE_BEDROCK=1` and `AWS_REGION`: Amazon Bedrock, with AWS credentials.
- `CLAUDE_CODE_USE_VERTEX=1`, `CLOUD_ML_REGION` and `ANTHROPIC_VERTEX_PROJECT_ID`: Google Vertex AI.

Keys are sent to the provider only: no kernel, notebook or log sees them. `/api/tk-ai/health` says \
what was found and what is missing."""

OPEN: Final = "You have no notebook open, so I create `tour.ipynb` with its own kernel."
READ: Final = "First I read the notebook, as a model would. Reading needs no approval."
TITLE: Final = (
    "Now I add a heading at the end. In the mode `ask`, you see the text and approve it first."
)
DATA: Final = "Next, a cell with a few numbers. It runs in the kernel that you use."
PLOT: Final = "The numbers are in the kernel, so I can plot them."
REDRAW: Final = (
    "That did not work here: it requires matplotlib and a Python kernel. I overwrite the cell with a "
    "drawing that does not."
)
FAIL: Final = (
    "Now a mistake, on purpose: I misspell a name. The cell fails, and I receive the traceback."
)
FIX: Final = (
    "The traceback names the line. I overwrite the cell. If you had edited it, I would get an error and "
    "your edit would be kept."
)
RERUN: Final = "Now I run it again."

END: Final = """\
That was the tour. Everything is in your notebook, and you can undo it: the whole turn or single \
cells. A model does the same with your data and your questions: type `connect` to see how to connect \
one."""

REFUSED: Final = """\
That call was denied, so it changed nothing, and the tour ends here. It is the same with a model: \
what you deny does not happen. Type `start` to begin again, or `connect`."""

BROKEN: Final = """\
That did not work; the tool's result above says why. A model would read it and try another way; a \
script cannot. (The tour's cells are Python: they fail in a kernel of another language.) Type `start` \
to try again, or `connect` to connect a model."""

TITLE_CELL: Final = """\
## A cup of coffee cools

The tour of the notebook tools wrote this part."""

DATA_CELL: Final = """\
tour_minutes = list(range(0, 31, 3))
tour_celsius = [round(21 + 63 * 2 ** (-minute / 17), 1) for minute in tour_minutes]
for minute, celsius in zip(tour_minutes, tour_celsius):
    print(f"{minute:2d} min {celsius:5.1f} °C")"""

PLOT_CELL: Final = """\
import matplotlib.pyplot as plt

tour_figure, tour_axes = plt.subplots(figsize=(6, 3))
tour_axes.plot(tour_minutes, tour_celsius, "o-")
tour_axes.set(xlabel="minutes", ylabel="°C", title="A cup of coffee cools")
plt.show()"""

DRAWING_CELL: Final = """\
from IPython.display import SVG

tour_points = " ".join(f"{20 + 18 * m},{220 - 2 * c}" for m, c in zip(tour_minutes, tour_celsius))
SVG(
    '<svg xmlns="http://www.w3.org/2000/svg" width="600" height="220">'
    f'<polyline points="{tour_points}" fill="none" stroke="steelblue" stroke-width="3"/></svg>'
)"""

FAILING_CELL: Final = """\
tour_lost = tour_celsius[0] - tour_celcius[-1]
print(f"{tour_lost:.1f} °C in {tour_minutes[-1]} minutes")"""

FIXED_CELL: Final = FAILING_CELL.replace("tour_celcius", "tour_celsius")

COMPLETION: Final = "The tour wrote this, not a model: Tab accepts it."
"""What a completion says where no model is connected."""

EDITED: Final = "The tour, a script, wrote this line. A connected model would do: {prompt}"
"""The line that the tour adds to a cell."""
