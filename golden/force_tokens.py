"""A vLLM logits processor that scripts what the engine samples. It runs inside vLLM, not in renderd.

A request opts in through `vllm_xargs`:

    force_token_ids   the token ids of the output, the same for every choice
    force_choices     JSON text of a list of such lists, one per choice
    force_seed        with force_choices: the request's own `seed`. vLLM samples choice i with seed + i, which
                      is all that tells the choices apart here

At each step all other tokens' logits are masked, so any weights give exactly these tokens. Log probabilities
are taken before that and stay the model's own. Past the script's end sampling is free again.
"""

# mypy: ignore-errors

import json

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.interface import MoveDirectionality


class ForceTokens(LogitsProcessor):
    """Keeps, for each row of the batch, its script and a live view of what was sampled so far."""

    def __init__(self, vllm_config, device, is_pin_memory):
        self._rows = {}

    def is_argmax_invariant(self):
        return False

    def update_state(self, batch_update):
        if batch_update is None:
            return
        for row in batch_update.removed:
            self._rows.pop(row, None)
        for row, params, _prompt, output in batch_update.added:
            self._put(row, _script(params) and (_script(params), output))
        for source, target, direction in batch_update.moved:
            moved, displaced = self._rows.pop(source, None), self._rows.pop(target, None)
            self._put(target, moved)
            if direction == MoveDirectionality.SWAP:
                self._put(source, displaced)

    def apply(self, logits):
        steps = [
            (row, script[len(output)])
            for row, (script, output) in self._rows.items()
            if len(output) < len(script)
        ]
        if steps:
            rows, tokens = (torch.tensor(column, device=logits.device) for column in zip(*steps, strict=True))
            logits[rows] = float("-inf")
            logits[rows, tokens] = 0.0
        return logits

    def _put(self, row, entry):
        if entry:
            self._rows[row] = entry
        else:
            self._rows.pop(row, None)


def _script(params):
    extra = params.extra_args or {}
    if "force_choices" in extra:
        return json.loads(extra["force_choices"])[params.seed - int(extra["force_seed"])]
    return [int(token_id) for token_id in extra.get("force_token_ids", ())]
