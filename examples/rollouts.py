"""Log the rollouts of a language model: prompt, completion and the parts of the reward.

A toy model learns to answer sums with a policy gradient. With TRL you need none of this:
`report_to="epochal"` and `log_completions=True` log the same table.

    python examples/rollouts.py

Then open the page. Its section Samples sorts and compares the rollouts:

    epochal serve
"""

import numpy as np

import epochal

PROMPTS = [(1, 2), (3, 4), (2, 2), (4, 5)]
rng = np.random.default_rng(0)
scores = np.zeros((len(PROMPTS), 10))  # of each possible answer to each prompt

with epochal.init("examples", "rollouts") as run:
    for step in range(40):
        rows = []
        for number, (a, b) in enumerate(PROMPTS):
            chances = np.exp(scores[number]) / np.exp(scores[number]).sum()
            answers = rng.choice(10, size=4, p=chances)
            correct = (answers == a + b).astype(float)
            close = 1 - np.abs(answers - (a + b)) / 10
            reward = correct + 0.5 * close
            for i, answer in enumerate(answers):
                advantage = reward[i] - reward.mean()
                scores[number] -= advantage * chances
                scores[number, answer] += advantage
                rows.append(
                    {
                        "prompt": f"What is {a} + {b}?",
                        "completion": f"The answer is {answer}.",
                        "reward": reward[i],
                        "reward/correct": correct[i],
                        "reward/close": close[i],
                        "advantage": advantage,
                    }
                )
        run.log({"reward": float(np.mean([row["reward"] for row in rows]))}, step=step)
        if step % 10 == 0 or step == 39:
            run.log({"rollouts": rows}, step=step)  # a table for each of these steps is kept
