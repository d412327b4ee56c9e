"""What the tour says, and the cells that it writes."""

from __future__ import annotations

from typing import Final

LABEL: Final = "**[The tour: a script, not a model]**"
"""At the beginning of each turn's answer."""

INTRO: Final = """\
No model is connected to this server yet, so this is the built-in tour that answers. It understands \
next to nothing; but the notebook, the kernel, the tools and the approvals are real."""

MENU: Final = """\
Write `start`, and I work in your notebook: I read it, run a few cells, draw a plot, break a cell \
and fix it, and ask for your approval where the permission mode says so. Write `connect`, and I say \
how to connect a model. I cannot answer anything else."""

PLAN: Final = """\
In the mode `plan` I only read. This is what I would do: add a heading at the end of the notebook; \
add a cell that makes a few numbers, and run it; add a cell that draws them; add a cell with a \
mistake, and fix it. Approve it, and I do it; or choose the mode `ask` or `auto` and write `start`."""

CONNECT: Final = """\
Put one of these into the environment of the server, or as lines of `NAME=value` into a file \
`.secrets.env` in its root folder, and begin a new chat; with the file, nothing has to be restarted:

- `ANTHROPIC_API_KEY`: a key of Anthropic's API.
- `CLAUDE_CODE_OAUTH_TOKEN`: the token of a subscription, as `claude setup-token` prints it.
- `ANTHROPIC_BASE_URL` and `ANTHROPIC_MODEL`: any server that speaks the Messages API, such as \
Ollama (`http://localhost:11434`) or LiteLLM; with `ANTHROPIC_AUTH_TOKEN` where it wants a key.
- `CLAUDE_CODE_USE_BEDROCK=1` and `AWS_REGION`: Amazon Bedrock, with the credentials of AWS.
- `CLAUDE_CODE_USE_VERTEX=1`, `CLOUD_ML_REGION` and `ANTHROPIC_VERTEX_PROJECT_ID`: Google Vertex AI.

Keys go to Claude's own process alone: no kernel, notebook or log gets them. \
`/api/tk-ai/health` says what was found and what is missing."""

OPEN: Final = "You have no notebook open, so I make one, `tour.ipynb`, with a kernel of its own."
READ: Final = "First I read the notebook, as a model would. Reading needs no approval."
TITLE: Final = (
    "Now I add a heading at its end. Where the mode is `ask`, you are asked now, and see the text."
)
DATA: Final = "Next a cell with a few numbers. It runs in the same kernel that you use."
PLOT: Final = "The numbers are in the kernel, so I can draw them."
REDRAW: Final = (
    "That did not work here: it takes matplotlib and a Python kernel. A drawing without it, then: I "
    "overwrite the cell."
)
FAIL: Final = (
    "Now a mistake, on purpose: I misspell a name. The cell fails, and I get to read the traceback."
)
FIX: Final = (
    "The traceback names the line. I overwrite the cell; had you changed it meanwhile, I would be "
    "told, and nothing of yours would be lost."
)
RERUN: Final = "And run it again."

END: Final = """\
That was the tour. All of it is in your notebook, as if you had written it, and you can take it \
back, the whole turn or single cells. A model does the same with your data and your questions: \
write `connect`, and I say how to connect one."""

REFUSED: Final = """\
That call was refused, so nothing was changed by it, and the tour ends here. That is how it is with \
a model, too: what you do not allow does not happen. Write `start` to begin again, or `connect`."""

BROKEN: Final = """\
That did not work, and what the tool answered above says why. A model would read it and try another \
way; a script cannot. (The tour's cells are Python: in a kernel of another language they fail.) \
Write `start` to try again, or `connect` to connect a model."""

TITLE_CELL: Final = """\
## A cup of coffee cools

This part was written by the tour of the notebook tools."""

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
